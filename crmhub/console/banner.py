"""What is the matter, above every page: refused credentials, old queues, failed actions."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import flask

from crmhub.api.http.authentication import hub
from crmhub.console.template_filters import counted
from crmhub.errors import Unavailable
from crmhub.hub import Hub
from crmhub.journal.attention import Attention
from crmhub.operations import alerts
from crmhub.operations.alerts import (
    KINDS,
    Alert,
    Kind,
)

# Looking takes a tenth of the time at most, however many pages are opened.
_KEPT_S = 3.0
_PAUSES = 9
_NAMED = 3
_STATES: dict[Kind, str] = {"queue": "queued,running", "dead": "dead,parked"}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the banner: the tone, what is the matter, with whom, and where to look."""

    bad: bool
    said: str
    accounts: Sequence[tuple[str, str]]
    others: int
    address: str


class Banner:
    """What is the matter, as this process has seen it a few seconds ago at most."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: list[Alert] = []
        self._look_at = 0.0

    def alerts(self, of: Hub) -> list[Alert]:
        """Return what is the matter; nothing while the database is away."""
        if time.monotonic() < self._look_at or not self._lock.acquire(blocking=False):
            # Another page looks already; nobody waits for it.
            return self._seen
        try:
            began = time.monotonic()
            with of.database.reading() as db:
                self._seen = alerts.now(db, old_ms=of.settings.alert_queue_age)
            ended = time.monotonic()
            self._look_at = ended + max(_KEPT_S, _PAUSES * (ended - began))
        except Unavailable:
            # The page itself says so.
            self._seen = []
        finally:
            self._lock.release()
        return self._seen

    def forget(self) -> None:
        """Look anew when next asked: something was done about it."""
        self._look_at = 0.0


def register(app: flask.Flask) -> None:
    """Let pages of `app` show what is the matter."""
    app.extensions["crmhub.console.banner"] = Banner()


def banner() -> list[Line]:
    """Return a line for each kind of trouble."""
    return _lines(_banner().alerts(hub()))


def forget() -> None:
    """Let the next page look anew."""
    _banner().forget()


def _banner() -> Banner:
    found: Banner = flask.current_app.extensions["crmhub.console.banner"]
    return found


def _lines(found: Sequence[Alert]) -> list[Line]:
    by_kind = {kind: [one for one in found if one.kind == kind] for kind in KINDS}
    return [_line(kind, some) for kind, some in by_kind.items() if some]


def _line(kind: Kind, some: Sequence[Alert]) -> Line:
    names = list(dict.fromkeys(one.client_id for one in some))
    count, blocked = sum(one.count for one in some), sum(one.blocked for one in some)
    said = {
        "credentials": f"The credentials of {counted(len(some), 'CRM')} are refused:",
        "queue": f"{counted(count, 'action')} in queues that have grown old:",
        "dead": f"Actions that need attention: {Attention(count, blocked)}:",
    }
    state = _STATES.get(kind, "")
    accounts = [
        (
            name,
            flask.url_for("console.activity", account=name, state=state)
            if state
            else flask.url_for("console.account", client_id=name),
        )
        for name in names[:_NAMED]
    ]
    address = flask.url_for("console.activity", state=state) if state else ""
    return Line(kind != "queue", said[kind], accounts, len(names) - len(accounts), address)
