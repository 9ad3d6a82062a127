"""Find the record that an earlier, unanswered create has made.

The record is recognized by its mark, a text that the hub has written into it, or by its values and
its creation time.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from decimal import Decimal, InvalidOperation

from adapters.hubspot.answers import moment, text_of
from adapters.hubspot.api import SEARCH, Api, check_id
from adapters.hubspot.definitions import Definitions
from adapters.hubspot.finding import Finding, group, search_body
from adapters.hubspot.values import Values
from adapters.hubspot.writing import Writing
from crmhub.adapter import Context, Linked, Saved, Written
from crmhub.adapter.remembered import HOUR

UNDER_WAY_S = 30.0
"""The time in seconds for which a write without a response may still take effect."""
_SEARCH_LAG_S = 60.0
"""The longest time in seconds by which a search lags behind a write."""


class Marks:
    """Finds records that earlier, unanswered creates have made in a HubSpot account."""

    def __init__(
        self,
        api: Api,
        definitions: Definitions,
        values: Values,
        finding: Finding,
        writing: Writing,
        context: Context,
    ) -> None:
        self._api = api
        self._definitions = definitions
        self._values = values
        self._finding = finding
        self._writing = writing
        self._mark = context.settings["mark_property"]

    def find(
        self,
        kind: Written,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
        others: Collection[str] = (),
    ) -> Saved | None:
        """Return the record that an earlier attempt of a create has made, or None if there is none.

        `mark` is the text that identifies the create, `sent` are its properties, and `since_ms` is
        the time of its first attempt (ms since 1970). If marks must be unique in the account, the
        record is found by its mark. Otherwise, or if the attempt may have been sent without mark, a
        contact is found by its email or phone or by a search for the mark, and a deal or ticket is
        found among the records linked to the contact. Of these linked records, those with ids in
        `others` are skipped.
        """
        unique, marked = self._kept(kind, mark, since_ms)
        made = self._writing.by_mark(kind, mark) if unique else None
        if made or (unique and marked):
            return made
        if kind == "contacts":
            return self._contact_written(marked, sent)
        return self._linked_record(kind, contact_id, marked, sent, since_ms, others)

    def may_land_for(self, kind: Written, properties: Mapping[str, str]) -> float:
        """Return the number of seconds for which an unanswered create may still take effect.

        `properties` are those of the create. The result is 0 if HubSpot would refuse a second
        record because its email or mark (the text that identifies the create) must be unique. For a
        contact without an email the result is longer, because only a search finds it, and searches
        lag.
        """
        if kind == "contacts" and properties.get("email"):
            return 0.0
        seconds = UNDER_WAY_S + (_SEARCH_LAG_S if kind == "contacts" else 0.0)
        # A write that may still show up was sent within the last hour.
        unique, marked = self._kept(kind, "any", int((time.time() - HOUR) * 1000))
        return 0.0 if unique and marked else seconds

    def _kept(self, kind: Written, mark: str, since_ms: int) -> tuple[bool, Mapping[str, str]]:
        """Return whether marks must be unique in the account, and the mark to search for.

        A mark is the text that identifies a create. The second item maps the name of the mark
        property to `mark`. The mapping is empty if an attempt since `since_ms` (ms since 1970) may
        have been sent without its mark, because a process did not know the mark property yet.
        """
        definition = self._definitions.mark(kind) if mark else None
        if definition is None:
            return False, {}
        changed = moment(definition.get("updatedAt") or definition.get("createdAt"))
        # Another process may still use cached definitions from before the property existed.
        sure = not changed or changed + HOUR < since_ms / 1000 + self._api.clock_ahead
        return bool(definition.get("hasUniqueValue")), ({self._mark: mark} if sure else {})

    def _contact_written(self, marked: Mapping[str, str], sent: Mapping[str, str]) -> Saved | None:
        email, phone = sent.get("email", ""), sent.get("phone", "")
        if email or phone:
            contact = self._finding.by_email_or_phone(email, phone)
            return Saved(contact.id, "created", contact.url) if contact else None
        for name, value in marked.items():
            body = search_body([group(name, [value.lower()])])
            path = self._api.objects("contacts", "search")
            answer = self._api.listed("POST", *path, body=body, lane=SEARCH)
            for record in answer.items():
                return self._api.saved("contacts", answer, record, "created")
        return None

    def _linked_record(
        self,
        kind: Linked,
        contact_id: str,
        marked: Mapping[str, str],
        sent: Mapping[str, str],
        since_ms: int,
        others: Collection[str],
    ) -> Saved | None:
        """Return the contact's deal or ticket that an earlier attempt has created, or None.

        If `marked` contains a mark property, the record must have this value. Otherwise it must
        have the values in `sent` and a creation time after `since_ms` (ms since 1970). Records with
        ids in `others` are skipped. Pipeline and stage are not compared, because an automation may
        have changed them.
        """
        fit = marked or self._values.without_stage(kind, sent)
        expected = {name: value for name, value in fit.items() if value}
        since = since_ms / 1000 + self._api.clock_ahead - 2.0
        matches: list[tuple[float, Saved]] = []
        ids = [
            record_id for record_id in self._linked_ids(kind, contact_id) if record_id not in others
        ]
        for answer in self._api.batch_reads(kind, ids, expected):
            for record in answer.items():
                values = answer.mapping(record.get("properties"))
                made = moment(record.get("createdAt"))
                alike = all(_alike(v, text_of(values.get(n))) for n, v in expected.items())
                if alike and (marked or made >= since):
                    matches.append((made, self._api.saved(kind, answer, record, "created")))
        if matches:
            return min(matches, key=lambda match: (match[0], match[1].id))[1]
        return None

    def _linked_ids(self, kind: Linked, contact_id: str) -> list[str]:
        """Return the ids of the deals or tickets that are linked to the contact.

        The ids are read from the contact's links because, unlike searches, links do not lag.
        """
        check_id(contact_id)
        pages = self._api.pages(self._api.links(contact_id, kind), self._api.send)
        ids = [
            answer.id({"id": link.get("toObjectId")}) for answer in pages for link in answer.items()
        ]
        return list(dict.fromkeys(ids))


def _alike(sent: str, stored: str) -> bool:
    """Return whether `stored` may be the form in which HubSpot stores the value `sent`."""
    if sent.strip().casefold() == stored.strip().casefold():
        return True
    try:
        return Decimal(sent) == Decimal(stored)
    except InvalidOperation:
        pass
    if moment(sent) and moment(sent) == moment(stored):
        return True
    return ";" in sent and set(sent.split(";")) == set(stored.split(";"))
