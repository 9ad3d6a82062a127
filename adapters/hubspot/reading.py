"""Read contacts: by id or email, which shows the latest writes, and by phone, which is a search."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from adapters.hubspot.api import SEARCH, Api, next_page
from adapters.hubspot.definitions import HubSpotDefinitions
from adapters.hubspot.failures import TooLong
from crmhub.adapter import Contact, Context, NotFound, Rejected
from crmhub.adapter.answers import Answer, text_of
from crmhub.adapter.batches import groups_that_fit
from crmhub.adapter.defined import MarkedAdapter
from crmhub.adapter.phones import PHONES, has_number, nationals, notations, oldest_holders

_ID = re.compile(r"[0-9]{1,20}", re.ASCII)
# HubSpot calculates these properties without the country code; its search uses them.
_CALCULATED_PHONES = (
    "hs_searchable_calculated_phone_number",
    "hs_searchable_calculated_mobile_number",
)
# HubSpot accepts 3,000 characters in a search (its search guide). The limit for URLs is unknown;
# proxies between the hub and HubSpot may have limits, too.
_SEARCH_BODY, _LONGEST_QUERY = 2_900, 2_000


class Reading(MarkedAdapter):
    """The part of the adapter that finds and reads contacts."""

    title = "HubSpot"
    email_names = ("email", "hs_additional_emails")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._api = Api(context, title=self.title)
        self.mark_name = context.settings["mark_property"]
        self.definitions: HubSpotDefinitions = HubSpotDefinitions(self._api, context)
        self._calculated_phones = True

    @classmethod
    def may_be_id(cls, contact_id: str) -> bool:
        return _ID.fullmatch(contact_id) is not None

    def find_contact(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        if not email:
            return self._by_phone([phone], names).get(phone)
        try:
            return self._contact(email, names, by="email")
        except NotFound:
            return None

    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        self.check_id(contact_id)
        return self._contact(contact_id, names)

    def has_email(self, contact: Contact, email: str) -> bool:
        # The additional emails stand in one text, separated by semicolons.
        emails = (contact.properties.get(name, "").lower() for name in self.email_names)
        return any(email in addresses.split(";") for addresses in emails)

    def has_phone(self, contact: Contact, phone: str) -> bool:
        return has_number(contact.properties, phone)

    def find_contacts(
        self,
        *,
        emails: Sequence[str] = (),
        phones: Sequence[str] = (),
        names: Sequence[str] = (),
    ) -> dict[str, Contact]:
        if phones:
            return self._by_phone(phones, names)
        contacts = self._contacts(emails, list(dict.fromkeys((*names, "email"))), by="email")
        return {contact.properties.get("email", "").lower(): contact for contact in contacts}

    def _contact(self, key: str, names: Sequence[str], *, by: str = "") -> Contact:
        """Return the contact with the id `key`, or with the value `key` of the property `by`."""
        params = {"idProperty": by} if by else {}
        if names:
            params["properties"] = ",".join(names)
        try:
            if len(params.get("properties", "")) <= _LONGEST_QUERY:
                path = self._api.path("objects", "contacts", key)
                with self.definitions.reject_sensitive("contacts", names):
                    answer = self._api.send("GET", *path, params=params or None)
                return self._contact_of(answer, answer.object(), names)
        except TooLong:
            pass
        for contact in self._contacts([key], names, by=by):
            return contact
        raise NotFound("HubSpot has no such contact")

    def _contacts(
        self, keys: Sequence[str], names: Sequence[str], *, by: str = ""
    ) -> list[Contact]:
        """Return the contacts of several `keys`, as `_contact` does, in any order."""
        with self.definitions.reject_sensitive("contacts", names):
            found = list(self._api.batch_reads("contacts", keys, names, by=by))
        return [self._contact_of(answer, record, names) for answer, record in found]

    def _contact_of(
        self, answer: Answer, record: Mapping[str, Any], names: Sequence[str]
    ) -> Contact:
        # HubSpot sends null for a property without a value, and omits unknown properties.
        values = answer.mapping(record.get("properties"))
        properties = {name: text_of(values[name]) for name in names if name in values}
        contact_id = answer.id(record)
        return Contact(contact_id, properties, self._api.page("contacts", contact_id, record))

    # By phone.

    def _by_phone(self, phones: Sequence[str], names: Sequence[str]) -> dict[str, Contact]:
        """Return the oldest contact with each phone, by phone.

        Only the ids come from the search: since it lags, the properties are read once more.
        """
        ids_by_phone = self._search(phones)
        ids = dict.fromkeys(id for phone_ids in ids_by_phone.values() for id in phone_ids)
        all_names = list(dict.fromkeys((*names, *PHONES)))
        return oldest_holders(ids_by_phone, self._contacts(list(ids), all_names), names)

    def _search(self, phones: Sequence[str]) -> dict[str, list[str]]:
        """Search for contacts with these phones; return their ids by phone, the oldest first."""
        if self._calculated_phones:
            try:
                return self._searched(phones, calculated=True)
            except Rejected:
                pass
        # Accounts without the calculated properties are searched by the stored notation.
        ids_by_phone = self._searched(phones, calculated=False)
        self._calculated_phones = False
        return ids_by_phone

    def _searched(self, phones: Sequence[str], *, calculated: bool) -> dict[str, list[str]]:
        ids_by_phone: dict[str, list[str]] = {}
        path = self._api.path("objects", "contacts", "search")

        def search_for(batch: Sequence[str]) -> dict[str, Any]:
            return _phone_search(batch, calculated=calculated)

        def fits(batch: Sequence[str]) -> bool:
            return len(json.dumps(search_for(batch))) <= _SEARCH_BODY

        for batch in groups_that_fit(phones, fits):
            body, after = search_for(batch), "0"
            while after:
                answer = self._api.listed("POST", *path, body=body | {"after": after}, lane=SEARCH)
                for record in answer.items():
                    # The search ignores country codes, so compare the whole number.
                    numbers = answer.mapping(record.get("properties"))
                    for phone in batch:
                        if has_number(numbers, phone):
                            ids_by_phone.setdefault(phone, []).append(answer.id(record))
                # The first are the oldest; HubSpot shows the first 10,000 only.
                after = "" if ids_by_phone.keys() >= {*batch} else next_page(answer, after=after)
        return ids_by_phone


def search_body(values_by_name: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the body of a search for contacts with any of the values, all in lower case."""
    groups = [
        {"filters": [{"propertyName": name, "operator": "IN", "values": values}]}
        for name, values in values_by_name.items()
    ]
    common = {"properties": list(PHONES), "sorts": ["createdate"], "limit": 200, "after": "0"}
    return {"filterGroups": groups, **common}


def _phone_search(phones: Sequence[str], *, calculated: bool) -> dict[str, Any]:
    """Return the body of a search for phones, also by HubSpot's calculated properties."""
    most_forms = 1 if calculated and len(phones) > 1 else None
    typed = [form.lower() for phone in phones for form in notations(phone)[:most_forms]]
    values_by_name = dict.fromkeys(PHONES, typed)
    plain = [digits for phone in phones for digits in nationals(phone)]
    if calculated and plain:
        values_by_name |= dict.fromkeys(_CALCULATED_PHONES, plain)
    return search_body(values_by_name)
