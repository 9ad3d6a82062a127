"""Find the record that an earlier, unanswered create has made.

Lists show a write at once, and none is older than the create. The record is recognized by its mark,
a text that the hub has written into it, or by its values.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from adapters.pipedrive.api import Api, Found
from adapters.pipedrive.entries import has_email, has_phone
from adapters.pipedrive.fields import Fields
from crmhub.adapter import Linked
from crmhub.adapter.fitting import Fitting

# Pipedrive's times are whole seconds, and its clock is known only roughly.
_CLOCK_S = 2.0


class Marks:
    """Finds records that earlier, unanswered creates have made in a Pipedrive company."""

    def __init__(self, api: Api, fields: Fields, fitting: Fitting) -> None:
        self._api = api
        self._fields = fields
        self._fitting = fitting

    def person(self, mark: str, sent: Mapping[str, str], since_ms: int) -> Found | None:
        """Return the person that a create has made since `since_ms` (ms since 1970), or None.

        `mark` is the text that identifies the create, and `sent` its properties. The person has the
        mark; or it has none, and the email, or else the phone.
        """
        field, since = self._fields.mark("contacts"), self._since(since_ms)
        email, phone = sent.get("email", "").lower(), sent.get("phone", "")
        for answer, person in self._api.listed("persons", params={"updated_since": since}):
            if person.get("is_deleted") or str(person.get("add_time")) < since:
                continue
            own = field.text(person) if field else ""
            by_value = has_email(person, email) if email else has_phone(person, phone)
            if own == mark if own else by_value:
                return answer, person
        return None

    def deal(
        self,
        kind: Linked,
        contact_id: str,
        mark: str,
        sent: Mapping[str, str],
        since_ms: int,
        others: Collection[str],
    ) -> Found | None:
        """Return the deal that a create has made for a person since `since_ms`, or None.

        The deal has the mark; or it has none, its id is not in `others`, and it has the properties
        `sent`. Pipeline and stage are not compared, since an automation may have changed them.
        """
        fields, field, since = self._fields.of(kind), self._fields.mark(kind), self._since(since_ms)
        fit = self._fitting.without_place(kind, sent)
        expected = {name: text for name, text in fit.items() if text}
        params = {"person_id": contact_id, "sort_by": "add_time", "sort_direction": "desc"}
        alike: Found | None = None
        for answer, deal in self._api.listed("deals", params=params):
            if str(deal.get("add_time")) < since:
                break
            own = field.text(deal) if field and not fit.get(field.described.name) else ""
            if mark and own == mark:
                return answer, deal
            same = all(fields[name].text(deal) == text for name, text in expected.items())
            if same and not own and answer.id(deal) not in others:
                alike = answer, deal
        return alike

    def _since(self, since_ms: int) -> str:
        return self._api.moment(since_ms / 1000 - _CLOCK_S)
