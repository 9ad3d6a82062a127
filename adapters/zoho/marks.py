"""Find the record that an earlier, unanswered create has made, by its mark or by its values."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from adapters.zoho.api import STALE_S, Api
from adapters.zoho.fields import existed
from adapters.zoho.writing import CREATE, Writing
from crmhub.adapter import Context, Linked, Saved, Written
from crmhub.adapter.answers import parse_time
from crmhub.adapter.defined import Candidate, find_created
from crmhub.adapter.remembered import HOUR

# Zoho's times are whole seconds.
_TOLERANCE_S = 2.0


class Marks:
    """Finds records that earlier, unanswered creates have made in a Zoho account."""

    def __init__(self, api: Api, writing: Writing, context: Context) -> None:
        self._api = api
        self._writing = writing
        self._mark = context.settings["mark_field"]

    def is_unique(self, kind: Written) -> bool:
        """Return whether Zoho refuses a second record with the mark of a write still under way."""
        field = self._api.fields[kind].get().get(self._mark)
        # A write that may still land was sent within the last hour.
        return field is not None and field.is_unique and existed(field, time.time() - HOUR)

    def find(self, kind: Written, mark: str, since: float) -> tuple[Saved | None, bool]:
        """Return the record with this mark, and whether its absence is certain.

        It is not if an attempt since the time `since` may have been sent without its mark.
        """
        field = self._api.fields[kind].get(newer_than=STALE_S).get(self._mark)
        if field is None or not mark:
            return None, False
        for row in self._api.rows(kind, [self._mark], [self._mark], [mark]):
            if row.get(field.name) == mark:
                return self._writing.saved(kind, str(row["id"]), "created"), True
        return None, existed(field, since) and not field.is_encrypted

    def find_by_values(
        self,
        kind: Linked,
        contact_id: str,
        sent: Mapping[str, str],
        since: float,
        others: Collection[str],
    ) -> Saved | None:
        """Return the contact's deal or case with the values `sent`, created since `since`.

        Pipeline and stage are not compared, because a workflow may have changed them. Records with
        ids in `others` are skipped.
        """
        link, fields = self._api.link(kind), self._api.fields[kind].get()
        # The link is compared again, since the lookup is COQL's.
        texts = {**self._writing.texts(kind, CREATE, sent), link.name: contact_id}
        known = {name: fields[name] for name in texts}
        rows = self._api.rows(kind, [*texts, "Created_Time"], [link.name], [contact_id])
        candidates = [
            Candidate(
                self._writing.saved(kind, str(row["id"]), "created"),
                parse_time(row.get("Created_Time")),
                {name: field.to_text(row.get(field.name)) for name, field in known.items()},
            )
            for row in rows
            if row["id"] not in others
        ]
        since += self._api.clock_ahead - _TOLERANCE_S
        return find_created(candidates, texts, since=since)
