"""Read contacts: by id or email, which shows the latest writes, and by phone, which is a search."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from adapters.hubspot.api import SEARCH, Api, check_id, may_be_id, next_page
from adapters.hubspot.definitions import Definitions
from adapters.hubspot.failures import TooLong, no_contact
from crmhub.adapter import Adapter, Contact, Context, NotFound, Rejected
from crmhub.adapter.answers import Answer, text_of
from crmhub.adapter.phones import PHONES, has_number, nationals, notations

# HubSpot calculates these properties without the country code; its search uses them.
_CALCULATED_PHONES = (
    "hs_searchable_calculated_phone_number",
    "hs_searchable_calculated_mobile_number",
)
# HubSpot accepts 3,000 characters in a search (its search guide). The limit for URLs is unknown;
# proxies between the hub and HubSpot may have limits, too.
_SEARCH_BODY, _LONGEST_QUERY = 2_900, 2_000


class Reading(Adapter):
    """The part of the adapter that finds and reads contacts."""

    title = "HubSpot"
    email_names = ("email", "hs_additional_emails")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._api = Api(context, title=self.title)
        self._definitions = Definitions(self._api, context)
        self._calculated_phones = True

    @classmethod
    def may_be_id(cls, contact_id: str) -> bool:
        return may_be_id(contact_id)

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
        check_id(contact_id)
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
                with self._definitions.reject_sensitive("contacts", names):
                    answer = self._api.send("GET", *path, params=params or None)
                return self._contact_of(answer, answer.object(), names)
        except TooLong:
            pass
        for contact in self._contacts([key], names, by=by):
            return contact
        raise no_contact()

    def _contacts(
        self, keys: Sequence[str], names: Sequence[str], *, by: str = ""
    ) -> list[Contact]:
        """Return the contacts of several `keys`, as `_contact` does, in any order."""
        with self._definitions.reject_sensitive("contacts", names):
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
        contacts = {contact.id: contact for contact in self._contacts(list(ids), all_names)}
        # A contact that was merged since the search indexed it comes back under another id.
        merged = [id for id in contacts if id not in ids]
        oldest: dict[str, Contact] = {}
        for phone, phone_ids in ids_by_phone.items():
            for contact in (contacts[id] for id in (*phone_ids, *merged) if id in contacts):
                if has_number(contact.properties, phone):
                    only = {n: v for n, v in contact.properties.items() if n in names}
                    oldest.setdefault(phone, replace(contact, properties=only))
        return oldest

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
        for batch, body in _searches(phones, calculated=calculated):
            after = "0"
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
    """Return the body of a search for contacts that have one of the values of any property.

    The values must be in lower case, as HubSpot requires.
    """
    groups = [
        {"filters": [{"propertyName": name, "operator": "IN", "values": values}]}
        for name, values in values_by_name.items()
    ]
    common = {"properties": list(PHONES), "sorts": ["createdate"], "limit": 200, "after": "0"}
    return {"filterGroups": groups, **common}


def _searches(
    phones: Sequence[str], *, calculated: bool
) -> Iterator[tuple[Sequence[str], dict[str, Any]]]:
    """Yield searches, each with as many of the phones as fit into its body, and these phones."""
    body, start = _phone_search(phones[:1], calculated=calculated), 0
    for end in range(2, len(phones) + 1):
        longer = _phone_search(phones[start:end], calculated=calculated)
        if len(json.dumps(longer)) > _SEARCH_BODY:
            yield phones[start : end - 1], body
            start = end - 1
            longer = _phone_search(phones[start:end], calculated=calculated)
        body = longer
    yield phones[start:], body


def _phone_search(phones: Sequence[str], *, calculated: bool) -> dict[str, Any]:
    """Return the body of a search for phones, also by HubSpot's calculated properties."""
    most_forms = 1 if calculated and len(phones) > 1 else None
    typed = [form.lower() for phone in phones for form in notations(phone)[:most_forms]]
    values_by_name = dict.fromkeys(PHONES, typed)
    plain = [digits for phone in phones for digits in nationals(phone)]
    if calculated and plain:
        values_by_name |= dict.fromkeys(_CALCULATED_PHONES, plain)
    return search_body(values_by_name)
