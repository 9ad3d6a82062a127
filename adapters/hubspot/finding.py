"""Find contacts by email or id, without lag, and by phone, through HubSpot's search."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from adapters.hubspot.answers import next_page, text_of
from adapters.hubspot.api import SEARCH, Api
from adapters.hubspot.definitions import Definitions
from adapters.hubspot.failures import TooLong, no_contact
from crmhub.adapter import Contact, NotFound, Rejected
from crmhub.adapter.http import Answer
from crmhub.adapter.phones import nationals, notations, same

PHONES = ("phone", "mobilephone")
# HubSpot calculates these properties without the country code; its search uses them.
_CALCULATED_PHONES = (
    "hs_searchable_calculated_phone_number",
    "hs_searchable_calculated_mobile_number",
)
# HubSpot accepts 3,000 characters in a search (its search guide). The limit for URLs is unknown;
# proxies between the hub and HubSpot may have limits, too.
_SEARCH_BODY, _LONGEST_QUERY = 2_900, 2_000
_NO_DIGIT = re.compile(r"[^0-9]+", re.ASCII)


class Finding:
    """Finds and reads contacts in the HubSpot account of one connection."""

    def __init__(self, api: Api, definitions: Definitions) -> None:
        self._api = api
        self._definitions = definitions
        self._calculated_phones = True

    def contact(self, key: str, names: Sequence[str], *, by: str = "") -> Contact:
        """Return the contact with the id `key`.

        If `by` names a property, return the contact whose property has the value `key` instead.
        `names` are the properties to read. Raises NotFound if there is no such contact.
        """
        params = {"idProperty": by} if by else {}
        if names:
            params["properties"] = ",".join(names)
        try:
            if len(params.get("properties", "")) <= _LONGEST_QUERY:
                with self._definitions.reject_sensitive("contacts", names):
                    answer = self._api.get("contacts", key, params)
                return self._contact_of(answer, answer.object(), names)
        except TooLong:
            pass
        for contact in self.contacts([key], names, by=by):
            return contact
        raise no_contact()

    def by_email_or_phone(
        self, email: str, phone: str, names: Sequence[str] = ()
    ) -> Contact | None:
        """Return the contact with this email, or, if `email` is "", the contact with this phone.

        A contact is read by email without lag, but searched by phone. `names` are the properties to
        read. Returns None if there is no such contact.
        """
        if not email:
            return self.by_phone([phone], names).get(phone)
        try:
            return self.contact(email, names, by="email")
        except NotFound:
            return None

    def contacts(self, keys: Sequence[str], names: Sequence[str], *, by: str = "") -> list[Contact]:
        """Return the contacts with the ids `keys`.

        If `by` names a property, return the contacts whose property has one of the values `keys`
        instead. `names` are the properties to read. Contacts that do not exist are left out. The
        order of the result is not that of `keys`.
        """
        with self._definitions.reject_sensitive("contacts", names):
            answers = list(self._api.batch_reads("contacts", keys, names, by=by))
        return [
            self._contact_of(answer, record, names)
            for answer in answers
            for record in answer.items()
        ]

    def by_emails(self, emails: Sequence[str], names: Sequence[str]) -> dict[str, Contact]:
        """Return the contacts with these primary emails.

        The result maps each email, in lower case, to its contact. `names` are the properties to
        read.
        """
        all_names = list(dict.fromkeys((*names, "email")))
        contacts = self.contacts(emails, all_names, by="email")
        return {contact.properties.get("email", "").lower(): contact for contact in contacts}

    def by_phone(self, phones: Sequence[str], names: Sequence[str]) -> dict[str, Contact]:
        """Return the oldest contact with each phone, as a mapping of phone to contact.

        `names` are the properties to read. Phones without a contact are left out. Only the
        contacts' ids come from the search. Because search results lag, the properties are read in a
        second request.
        """
        ids_by_phone = self._holders(phones)
        ids = dict.fromkeys(id for phone_ids in ids_by_phone.values() for id in phone_ids)
        all_names = list(dict.fromkeys((*names, *PHONES)))
        contacts = {contact.id: contact for contact in self.contacts(list(ids), all_names)}
        # A contact that was merged since the search indexed it comes back under another id.
        merged = [id for id in contacts if id not in ids]
        oldest: dict[str, Contact] = {}
        for phone, phone_ids in ids_by_phone.items():
            for contact in (contacts[id] for id in (*phone_ids, *merged) if id in contacts):
                if has_number(contact.properties, phone):
                    only = {n: v for n, v in contact.properties.items() if n in names}
                    oldest.setdefault(phone, replace(contact, properties=only))
        return oldest

    def _contact_of(
        self, answer: Answer, record: Mapping[str, Any], names: Sequence[str]
    ) -> Contact:
        # HubSpot sends null for a property without a value, and omits unknown properties.
        values = answer.mapping(record.get("properties"))
        properties = {name: text_of(values[name]) for name in names if name in values}
        contact_id = answer.id(record)
        return Contact(contact_id, properties, self._api.page("contacts", contact_id, record))

    def _holders(self, phones: Sequence[str]) -> dict[str, list[str]]:
        """Search for the contacts with these phones; return their ids.

        The result maps each phone to the ids of its contacts, the oldest contact first.
        """
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
        path = self._api.objects("contacts", "search")
        for groups, batch in _searches(phones, calculated=calculated):
            body, after = search_body(groups), "0"
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


def has_number(values: Mapping[str, Any], phone: str) -> bool:
    """Return whether the properties `phone` or `mobilephone` hold the phone number `phone`."""
    numbers = (text_of(values[name]) for name in PHONES if values.get(name))
    return any(_ends_alike(phone, number) and same(phone, number) for number in numbers)


def _ends_alike(phone: str, stored: str) -> bool:
    """Return whether two phone numbers may be equal: a fast test before the slow comparison.

    The test compares the last four digits. The result is also True if `stored` contains letters or
    characters outside ASCII, which only the slow comparison can handle.
    """
    if not stored.isascii() or any(map(str.isalpha, stored)):
        return True
    return _NO_DIGIT.sub("", stored)[-4:] == _NO_DIGIT.sub("", phone)[-4:]


def _searches(phones: Sequence[str], *, calculated: bool) -> Iterator[tuple[list[Any], list[str]]]:
    """Group phones into searches; yield each search's filter groups and its phones.

    A search contains as many phones as fit into the body of a request. If `calculated` is True,
    HubSpot's calculated properties for phones are searched, too.
    """
    batch: list[str] = []
    for phone in phones:
        body = search_body(_phone_filters([*batch, phone], calculated=calculated))
        if batch and len(json.dumps(body)) > _SEARCH_BODY:
            yield _phone_filters(batch, calculated=calculated), batch
            batch = []
        batch = [*batch, phone]
    if batch:
        yield _phone_filters(batch, calculated=calculated), batch


def search_body(groups: Sequence[Any]) -> dict[str, Any]:
    """Return the body of a search for contacts that match at least one of these filter groups."""
    return {
        "filterGroups": groups,
        "properties": list(PHONES),
        "sorts": ["createdate"],
        "limit": 200,
        "after": "0",
    }


def _phone_filters(phones: Sequence[str], *, calculated: bool) -> list[Any]:
    """Return filter groups that match contacts with any of these phones.

    If `calculated` is True, they match HubSpot's calculated properties for phones, too.
    """
    most_forms = 1 if calculated and len(phones) > 1 else None
    typed = [form.lower() for phone in phones for form in notations(phone)[:most_forms]]
    groups = [group(name, typed) for name in PHONES]
    plain = [digits for phone in phones for digits in nationals(phone)]
    if calculated and plain:
        groups += [group(name, plain) for name in _CALCULATED_PHONES]
    return groups


def group(name: str, values: Sequence[str]) -> dict[str, Any]:
    """Return a filter group that matches records whose property `name` has one of these values.

    `values` must be in lower case, as HubSpot requires.
    """
    return {"filters": [{"propertyName": name, "operator": "IN", "values": values}]}
