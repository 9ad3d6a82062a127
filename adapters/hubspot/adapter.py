"""The adapter class for HubSpot: its settings, lookups of unanswered creates, and metadata."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from adapters.hubspot.api import BATCH, SEARCH, check_id
from adapters.hubspot.connecting import GUIDES, OWNERS_SCOPE, SCOPES, SETTINGS, oauth
from adapters.hubspot.failures import MissingScopes
from adapters.hubspot.reading import search_body
from adapters.hubspot.writing import Writing
from crmhub.adapter import (
    Described,
    Guide,
    Kind,
    LacksRight,
    Linked,
    OAuth,
    Owner,
    Pipeline,
    Problem,
    Rejected,
    Saved,
    Setting,
    Written,
)
from crmhub.adapter.answers import parse_time
from crmhub.adapter.marks import Candidate, find_created
from crmhub.adapter.oauth import token_or_oauth
from crmhub.adapter.remembered import HOUR

_SEARCH_LAG_S = 60.0
"""The longest time in seconds by which a search lags behind a write."""


class HubSpotAdapter(Writing):
    """The adapter for HubSpot's CRM API, in its dated versions and in v3.

    `active_workflow` is not supported, since no API version reports the workflows of a contact; so
    the hub itself stores which workflow a contact is in.
    """

    record_pages = True
    batch_size = BATCH
    # A create with a taken email is a 409 that names the contact, even if it is a secondary email.
    unique_emails = True
    under_way_s = 30.0
    settings: ClassVar[tuple[Setting, ...]] = SETTINGS
    guides: ClassVar[tuple[Guide, ...]] = GUIDES

    @classmethod
    def clash(cls, settings: Mapping[str, str], credentials: Mapping[str, str]) -> Problem | str:
        return token_or_oauth(credentials, "access_token")

    @classmethod
    def oauth(cls, settings: Mapping[str, str]) -> OAuth | None:
        return oauth(settings)

    # Records of earlier attempts.

    def may_land_for(self, kind: Written, properties: Mapping[str, str]) -> float:
        """Return 0 if HubSpot would refuse a second record with the same email or mark.

        A contact without an email lands later than other records, because only a search finds it,
        and searches lag.
        """
        if kind == "contacts" and properties.get("email"):
            return 0.0
        seconds = self.under_way_s + (_SEARCH_LAG_S if kind == "contacts" else 0.0)
        # A write that may still show up was sent within the last hour.
        unique, marked = self._kept(kind, "any", int((time.time() - HOUR) * 1000))
        return 0.0 if unique and marked else seconds

    def find_marked(
        self,
        kind: Written,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
    ) -> Saved | None:
        return self._created_before(kind, contact_id, mark, sent, since_ms, ())

    def find_apart(
        self,
        kind: Linked,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
        others: Collection[str],
    ) -> Saved | None:
        return self._created_before(kind, contact_id, mark, sent, since_ms, others)

    def _created_before(
        self,
        kind: Written,
        contact_id: str,
        mark: str,
        sent: Mapping[str, str],
        since_ms: int,
        others: Collection[str],
    ) -> Saved | None:
        """Return the record that an earlier attempt of a create has made, or None.

        If marks must be unique in the account, the record is found by its mark. Otherwise, or if
        the attempt may have been sent without mark, a contact is found by its email or phone or by
        a search for the mark, and a deal or ticket among the records linked to the contact.
        """
        unique, marked = self._kept(kind, mark, since_ms)
        created = self._by_mark(kind, mark) if unique else None
        if created or (unique and marked):
            return created
        if kind == "contacts":
            return self._contact_written(marked, sent)
        # Pipeline and stage are not compared, because an automation may have changed them.
        expected = marked or self._fitting.without_place(kind, sent)
        since = 0.0 if marked else since_ms / 1000 + self._api.clock_ahead - 2.0
        ids = [id for id in self._linked_ids(kind, contact_id) if id not in others]
        return find_created(self._candidates(kind, ids, expected), expected, since=since)

    def _kept(self, kind: Written, mark: str, since_ms: int) -> tuple[bool, Mapping[str, str]]:
        """Return whether marks must be unique in the account, and the mark as a property.

        The property is missing if an attempt since `since_ms` (ms since 1970) may have been sent
        without its mark, because a process did not know the mark property yet.
        """
        definition = self._definitions.mark(kind) if mark else None
        if definition is None:
            return False, {}
        changed = parse_time(definition.get("updatedAt") or definition.get("createdAt"))
        # Another process may still use cached definitions from before the property existed.
        sure = not changed or changed + HOUR < since_ms / 1000 + self._api.clock_ahead
        return bool(definition.get("hasUniqueValue")), ({self._mark: mark} if sure else {})

    def _contact_written(self, marked: Mapping[str, str], sent: Mapping[str, str]) -> Saved | None:
        email, phone = sent.get("email", ""), sent.get("phone", "")
        if email or phone:
            contact = self.find_contact(email=email, phone="" if email else phone)
            return Saved(contact.id, "created", contact.url) if contact else None
        if marked:
            body = search_body({name: [value.lower()] for name, value in marked.items()})
            path = self._api.path("objects", "contacts", "search")
            answer = self._api.listed("POST", *path, body=body, lane=SEARCH)
            for record in answer.items():
                return self._api.saved("contacts", answer, record, "created")
        return None

    def _candidates(
        self, kind: Linked, ids: Sequence[str], names: Mapping[str, str]
    ) -> Iterator[Candidate]:
        for answer, record in self._api.batch_reads(kind, ids, names):
            saved = self._api.saved(kind, answer, record, "created")
            values = answer.mapping(record.get("properties"))
            yield Candidate(saved, parse_time(record.get("createdAt")), values)

    def _linked_ids(self, kind: Linked, contact_id: str) -> list[str]:
        """Return the ids of the deals or tickets of a contact, by its links, which do not lag."""
        check_id(contact_id)
        path = self._api.path("objects", "contacts", contact_id, "associations", kind)
        links = [
            answer.id({"id": link.get("toObjectId")})
            for answer in self._api.pages(path, self._api.send)
            for link in answer.items()
        ]
        return list(dict.fromkeys(links))

    # Metadata.

    def check(self) -> None:
        """Test the credentials by calling every endpoint that needs a right.

        Raises Denied if HubSpot refuses the credentials, and LacksRight with all missing rights.
        """
        missing: list[str] = []
        for kind, (reads, writes) in SCOPES.items():
            self._try(missing, reads, "GET", "objects", kind, params={"limit": "1"})
            # HubSpot checks rights first, and an empty batch writes nothing.
            with suppress(Rejected):
                path = ("objects", kind, "batch", "update")
                self._try(missing, writes, "POST", *path, body={"inputs": []})
        self._try(missing, OWNERS_SCOPE, "GET", "owners", params={"limit": "1"})
        if missing:
            raise LacksRight(
                "The access token lacks rights in HubSpot; give it the scopes"
                f" {', '.join(dict.fromkeys(missing))}."
            )

    def _try(self, missing: list[str], scope: str, method: str, *path: str, **options: Any) -> None:
        try:
            self._api.listed(method, *self._api.path(*path), **options).items()
        except MissingScopes:
            missing.append(scope)

    def describe(self, kind: Kind) -> list[Described]:
        described = self._definitions.described(kind)
        return [self._fitting.with_options(kind, one) for one in described]

    def pipelines(self, kind: Linked) -> list[Pipeline]:
        return self._definitions.pipelines(kind)

    def owners(self) -> list[Owner]:
        return self._definitions.owners()
