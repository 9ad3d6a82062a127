"""The adapter class for HubSpot: its settings, lookups of unanswered creates, and metadata."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

from adapters.hubspot.api import BATCH, SEARCH
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
    Problem,
    Rejected,
    Saved,
    Setting,
)
from crmhub.adapter.answers import parse_time
from crmhub.adapter.defined import Candidate
from crmhub.adapter.oauth import token_or_oauth


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

    def search_mark(self, mark: str) -> Saved | None:
        path = self._api.path("objects", "contacts", "search")
        body = search_body({self.mark_name: [mark.lower()]})
        answer = self._api.listed("POST", *path, body=body, lane=SEARCH)
        for record in answer.items():
            return self._api.saved("contacts", answer, record, "created")
        return None

    def candidates(
        self, kind: Linked, contact_id: str, names: Iterable[str], others: Collection[str]
    ) -> Iterator[Candidate]:
        self.check_id(contact_id)
        path = self._api.path("objects", "contacts", contact_id, "associations", kind)
        # Unlike searches, links do not lag.
        ids = [
            answer.id({"id": link.get("toObjectId")})
            for answer in self._api.pages(path, self._api.send)
            for link in answer.items()
        ]
        ids = [id for id in dict.fromkeys(ids) if id not in others]
        for answer, record in self._api.batch_reads(kind, ids, names):
            saved = self._api.saved(kind, answer, record, "created")
            values = answer.mapping(record.get("properties"))
            yield Candidate(saved, parse_time(record.get("createdAt")), values)

    def clock_ahead(self) -> float:
        return self._api.http.clock_ahead

    # Metadata.

    def describe(self, kind: Kind) -> list[Described]:
        described = super().describe(kind)
        required = self.definitions.required(kind)
        return [replace(one, required=one.name in required) for one in described]

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
