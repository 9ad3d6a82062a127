"""Finding contacts: by email and id, which never lags, and by phone, which only a search can."""

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
# HubSpot keeps these itself, without the country code, and searches them.
_CALCULATED_PHONES = (
    "hs_searchable_calculated_phone_number",
    "hs_searchable_calculated_mobile_number",
)
# HubSpot takes 3,000 characters in a search (its search guide), and an unknown number in an
# address, which its edge and proxies on the way limit.
_SEARCH_BODY, _LONGEST_QUERY = 2_900, 2_000
_NO_DIGIT = re.compile(r"[^0-9]+", re.ASCII)


class Finding:
    """Finds the contacts of one connection."""

    def __init__(self, api: Api, definitions: Definitions) -> None:
        self._api = api
        self._definitions = definitions
        self._calculated_phones = True

    def contact(self, key: str, names: Sequence[str], *, by: str = "") -> Contact:
        """Return the contact of this id, or of this value of `by`; raises NotFound."""
        params = {"idProperty": by} if by else {}
        if names:
            params["properties"] = ",".join(names)
        try:
            if len(params.get("properties", "")) <= _LONGEST_QUERY:
                with self._definitions.naming("contacts", names):
                    answer = self._api.get("contacts", key, params)
                return self._contact_of(answer, answer.object(), names)
        except TooLong:
            pass
        for contact in self.contacts([key], names, by=by):
            return contact
        raise no_contact()

    def by_email(self, email: str, names: Sequence[str] = ()) -> Contact | None:
        """Return the contact of this email, as of now."""
        try:
            return self.contact(email, names, by="email")
        except NotFound:
            return None

    def contacts(self, keys: Sequence[str], names: Sequence[str], *, by: str = "") -> list[Contact]:
        """Return those of the contacts that there are, in no order."""
        with self._definitions.naming("contacts", names):
            answers = list(self._api.batch_reads("contacts", keys, names, by=by))
        return [self._contact_of(one, record, names) for one in answers for record in one.items()]

    def several(
        self, *, emails: Sequence[str], phones: Sequence[str], names: Sequence[str]
    ) -> dict[str, Contact]:
        """Return the contacts of these emails, or else of these phones, by email or phone."""
        if phones:
            return self.by_phone(phones, names)
        wanted = list(dict.fromkeys((*names, "email")))
        found = self.contacts(emails, wanted, by="email") if emails else []
        return {one.properties.get("email", "").lower(): one for one in found}

    def by_phone(self, phones: Sequence[str], names: Sequence[str] = ()) -> dict[str, Contact]:
        """Return the oldest contact of each of these phones.

        The search tells their ids only: it lags, and what it says of a contact may be of before.
        """
        held = self._holders(phones)
        ids = dict.fromkeys(one for found in held.values() for one in found)
        wanted = list(dict.fromkeys((*names, *PHONES)))
        contacts = {one.id: one for one in self.contacts(list(ids), wanted)}
        # Whoever was merged since comes under another id.
        others = [one for one in contacts if one not in ids]
        found: dict[str, Contact] = {}
        for phone, holders in held.items():
            for contact in (contacts[one] for one in (*holders, *others) if one in contacts):
                if has_number(contact.properties, phone):
                    only = {n: v for n, v in contact.properties.items() if n in names}
                    found.setdefault(phone, replace(contact, properties=only))
        return found

    def _contact_of(
        self, answer: Answer, record: Mapping[str, Any], names: Sequence[str]
    ) -> Contact:
        # What the contact does not have comes as null, what HubSpot does not know not at all.
        values = answer.mapping(record.get("properties"))
        known = {name: text_of(values[name]) for name in names if name in values}
        found = answer.id(record)
        return Contact(found, known, self._api.page("contacts", found, record))

    def _holders(self, phones: Sequence[str]) -> dict[str, list[str]]:
        """Return the ids of the contacts that the search knows with each phone, oldest first."""
        if self._calculated_phones:
            try:
                return self._searched(phones, calculated=True)
            except Rejected:
                pass
        # An account without what HubSpot calculates is searched by what was typed in.
        held = self._searched(phones, calculated=False)
        self._calculated_phones = False
        return held

    def _searched(self, phones: Sequence[str], *, calculated: bool) -> dict[str, list[str]]:
        held: dict[str, list[str]] = {}
        path = self._api.objects("contacts", "search")
        for groups, some in _searches(phones, calculated=calculated):
            body, after = search_body(groups), "0"
            while after:
                answer = self._api.listed("POST", *path, body=body | {"after": after}, lane=SEARCH)
                for record in answer.items():
                    # The number without its country code is found in other countries, too.
                    numbers = answer.mapping(record.get("properties"))
                    for phone in some:
                        if has_number(numbers, phone):
                            held.setdefault(phone, []).append(answer.id(record))
                # The first are the oldest; HubSpot shows the first 10,000 only.
                after = "" if held.keys() >= {*some} else next_page(answer, after=after)
        return held


def has_number(values: Mapping[str, Any], phone: str) -> bool:
    """Return whether one of the phones among a contact's properties is this number."""
    numbers = (text_of(values[name]) for name in PHONES if values.get(name))
    return any(_ends_alike(phone, number) and same(phone, number) for number in numbers)


def _ends_alike(phone: str, stored: str) -> bool:
    """Return False for most numbers that differ: reading one takes a quarter of a millisecond.

    Numbers in letters, or in other digits than these, are left to the reading.
    """
    if not stored.isascii() or any(map(str.isalpha, stored)):
        return True
    return _NO_DIGIT.sub("", stored)[-4:] == _NO_DIGIT.sub("", phone)[-4:]


def _searches(phones: Sequence[str], *, calculated: bool) -> Iterator[tuple[list[Any], list[str]]]:
    """Yield the filter groups that find these phones, as many phones at once as fit a search."""
    some: list[str] = []
    for phone in phones:
        grown = search_body(_phone_filters([*some, phone], calculated=calculated))
        if some and len(json.dumps(grown)) > _SEARCH_BODY:
            yield _phone_filters(some, calculated=calculated), some
            some = []
        some = [*some, phone]
    if some:
        yield _phone_filters(some, calculated=calculated), some


def search_body(groups: Sequence[Any]) -> dict[str, Any]:
    """Return the body of a search for contacts, any of these groups of filters."""
    return {
        "filterGroups": groups,
        "properties": list(PHONES),
        "sorts": ["createdate"],
        "limit": 200,
        "after": "0",
    }


def _phone_filters(phones: Sequence[str], *, calculated: bool) -> list[Any]:
    """Return the filter groups, any of which may match, that find these numbers."""
    few = 1 if calculated and len(phones) > 1 else None
    typed = [form.lower() for phone in phones for form in notations(phone)[:few]]
    groups = [group(name, typed) for name in PHONES]
    plain = [digits for phone in phones for digits in nationals(phone)]
    if calculated and plain:
        groups += [group(name, plain) for name in _CALCULATED_PHONES]
    return groups


def group(name: str, values: Sequence[str]) -> dict[str, Any]:
    """Return a filter group; values of IN must be lower-case (HubSpot's search guide)."""
    return {"filters": [{"propertyName": name, "operator": "IN", "values": values}]}
