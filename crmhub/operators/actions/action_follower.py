"""Follow the journal: report new actions and each change of an action's state."""

from __future__ import annotations

from crmhub.database.connection import Database
from crmhub.operators.actions import action_queries
from crmhub.operators.actions.action_queries import MOST, Summary, Wanted


class ActionFollower:
    """Compares the newest 500 selected actions with those of the previous call of `changes`."""

    def __init__(self, database: Database, wanted: Wanted) -> None:
        self._database = database
        self._wanted = wanted
        self._seen: dict[str, tuple[str, int, str]] | None = None
        # Actions with smaller ids are older than those of the previous call.
        self._oldest = ""

    def changes(self, *, first: int = 0) -> list[Summary]:
        """Return the changed actions, oldest first; on the first call the newest `first`."""
        newest = action_queries.listed(self._database, self._wanted, limit=MOST)
        seen = {action.id: (action.state, action.attempts, action.reason) for action in newest}
        if self._seen is None:
            changed = newest[:first]
        else:
            changed = [action for action in newest if self._has_changed(action.id, seen[action.id])]
        self._seen = seen
        self._oldest = newest[-1].id if len(newest) == MOST else ""
        return changed[::-1]

    def _has_changed(self, action_id: str, now: tuple[str, int, str]) -> bool:
        assert self._seen is not None
        before = self._seen.get(action_id)
        return action_id > self._oldest if before is None else before != now
