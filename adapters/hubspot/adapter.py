"""The adapter class for HubSpot; its methods call the other modules of this package."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from adapters.hubspot.api import BATCH, Api, check_id, may_be_id
from adapters.hubspot.connecting import GUIDES, OWNERS_SCOPE, SCOPES, oauth
from adapters.hubspot.definitions import Definitions
from adapters.hubspot.failures import MissingScopes
from adapters.hubspot.finding import PHONES, Finding, has_number
from adapters.hubspot.marks import UNDER_WAY_S, Marks
from adapters.hubspot.values import Values
from adapters.hubspot.writing import Writing
from crmhub.adapter import (
    OAUTH_SECRETS,
    Adapter,
    AdapterError,
    Changes,
    Contact,
    ContactWrite,
    Context,
    Described,
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
from crmhub.adapter.oauth import KEPT

# HubSpot requires one of these for a contact.
_CALLED = ("email", "firstname", "lastname")
# Association types differ by direction: these lead to the contact.
_TO_CONTACT: Mapping[Linked, int] = {"deals": 3, "tickets": 16}


class HubSpotAdapter(Adapter):
    """The adapter for HubSpot's CRM API, in its dated versions and in v3.

    `active_workflow` is not supported, since no API version reports the workflows of a contact; so
    the hub itself stores which workflow a contact is in.
    """

    title = "HubSpot"
    record_pages = True
    batch_size = BATCH
    email_names = ("email", "hs_additional_emails")
    # A create with a taken email is a 409 that names the contact, even if it is a secondary email.
    unique_emails = True
    under_way_s = UNDER_WAY_S
    settings: ClassVar[tuple[Setting, ...]] = (
        Setting("base_url", "API address", "url", default="https://api.hubapi.com"),
        Setting(
            "api_version",
            "API version",
            choices=("2026-09", "2026-03", "v3"),
            default="2026-09",
            help="HubSpot supports a dated version for 18 months, and v3 until September 2027.",
        ),
        Setting(
            "mark_property",
            "Property for the hub's marks",
            default="crmhub_mark",
            help="Internal name of a text property of contacts, deals and tickets. It prevents"
            " duplicates after a lost answer. Optional.",
        ),
        Setting(
            "access_token",
            "Access token",
            help="From a HubSpot service key or private app. Or fill in the OAuth fields below.",
            secret=True,
        ),
        Setting(
            "client_id",
            "OAuth client id",
            help="From your HubSpot app. With client id and client secret, you can press Connect.",
            secret=True,
        ),
        Setting("client_secret", "OAuth client secret", secret=True),
        Setting(
            "refresh_token",
            "OAuth refresh token",
            help="Connect fills this in. Enter it only if you already have one.",
            secret=True,
        ),
        Setting(KEPT, "OAuth access token", secret=True, kept=True),
    )

    guides = GUIDES

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._api = api = Api(context, title=self.title)
        self._definitions = definitions = Definitions(api, context)
        self._finding = finding = Finding(api, definitions)
        values = Values(definitions)
        self._writing = writing = Writing(api, definitions, values, context)
        self._marks = Marks(api, definitions, values, finding, writing, context)

    @classmethod
    def clash(cls, settings: Mapping[str, str], credentials: Mapping[str, str]) -> Problem | str:
        given = [bool(credentials[name]) for name in OAUTH_SECRETS]
        if all(given) != any(given) or all(given) == bool(credentials["access_token"]):
            return Problem(
                "access_token",
                "Enter an access token, or all three OAuth fields, not both"
                f" ({', '.join(OAUTH_SECRETS)}).",
            )
        return ""

    @classmethod
    def oauth(cls, settings: Mapping[str, str]) -> OAuth | None:
        return oauth(settings)

    @classmethod
    def may_be_id(cls, contact_id: str) -> bool:
        return may_be_id(contact_id)

    # Contacts.

    def find_contact(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        """Return the contact with this email, or, if no email is given, with this phone.

        A contact is read by email without lag, but searched by phone. Return None if there is no
        such contact.
        """
        return self._finding.by_email_or_phone(email, phone, names)

    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        check_id(contact_id)
        return self._finding.contact(contact_id, names)

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        """Create a contact.

        HubSpot requires an email or a name. A contact with neither gets its phone as first name, in
        addition to the phone property.
        """
        try:
            return self._writing.create("contacts", properties, mark, [])
        except Rejected as refused:
            refused_names = {problem.name for problem in refused.problems}
            phone = next(filter(None, map(properties.get, PHONES)), "")
            has_name = any(map(properties.get, _CALLED))
            if has_name or not phone or refused_names & properties.keys():
                raise
        return self._writing.create("contacts", {**properties, "firstname": phone}, mark, [])

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        check_id(contact_id)
        return self._writing.update(contact_id, properties)

    def changes(self, contact: Contact, properties: Mapping[str, str]) -> Changes:
        """Return the properties whose values differ from the contact's, in HubSpot's format.

        A lifecycle stage before the contact's present stage is listed as refused.
        """
        return self._writing.changes(contact, properties)

    def has_email(self, contact: Contact, email: str) -> bool:
        """Return whether `email` is the primary email or an additional email of the contact."""
        emails = (contact.properties.get(name, "").lower() for name in self.email_names)
        return any(email in addresses.split(";") for addresses in emails)

    def has_phone(self, contact: Contact, phone: str) -> bool:
        """Return whether the contact has this phone number, stored in any notation."""
        return has_number(contact.properties, phone)

    def find_contacts(
        self,
        *,
        emails: Sequence[str] = (),
        phones: Sequence[str] = (),
        names: Sequence[str] = (),
    ) -> dict[str, Contact]:
        """Return contacts by email, read in batches, or by phone, found by searches.

        The keys of the result are the given emails or phones. If `phones` is given, `emails` is
        ignored. `names` are the properties to read.
        """
        if phones:
            return self._finding.by_phone(phones, names)
        return self._finding.by_emails(emails, names)

    def write_contacts(self, writes: Sequence[ContactWrite]) -> list[Saved | AdapterError | None]:
        return self._writing.write_batch(writes)

    # Deals and tickets.

    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        """Create a deal or ticket together with its link to the contact, in one call.

        So no record without its link can remain if a call fails.
        """
        check_id(contact_id)
        link = {"associationCategory": "HUBSPOT_DEFINED", "associationTypeId": _TO_CONTACT[kind]}
        links = [{"to": {"id": contact_id}, "types": [link]}]
        return self._writing.create(kind, properties, mark, links)

    # Records of earlier attempts.

    def may_land_for(self, kind: Written, properties: Mapping[str, str]) -> float:
        return self._marks.may_land_for(kind, properties)

    def find_marked(
        self,
        kind: Written,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
    ) -> Saved | None:
        return self._marks.find(kind, contact_id, mark, sent=sent, since_ms=since_ms)

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
        return self._marks.find(kind, contact_id, mark, sent=sent, since_ms=since_ms, others=others)

    # Metadata.

    def check(self) -> None:
        """Test the credentials by calling every endpoint that needs a right.

        Raises Denied if HubSpot refuses the credentials, and LacksRight with all missing rights.
        """
        missing: list[str] = []
        for kind, (reads, writes) in SCOPES.items():
            self._try(missing, reads, "GET", self._api.objects(kind), params={"limit": "1"})
            path = self._api.objects(kind, "batch", "update")
            # HubSpot checks rights first, and an empty batch writes nothing.
            with suppress(Rejected):
                self._try(missing, writes, "POST", path, body={"inputs": []})
        self._try(missing, OWNERS_SCOPE, "GET", self._api.area("owners"), params={"limit": "1"})
        if missing:
            raise LacksRight(
                "The access token lacks rights in HubSpot; give it the scopes"
                f" {', '.join(dict.fromkeys(missing))}."
            )

    def _try(
        self, missing: list[str], scope: str, method: str, path: Sequence[str], **options: Any
    ) -> None:
        try:
            self._api.listed(method, *path, **options).items()
        except MissingScopes:
            missing.append(scope)

    def describe(self, kind: Kind) -> list[Described]:
        return self._definitions.described(kind)

    def pipelines(self, kind: Linked) -> list[Pipeline]:
        return self._definitions.pipelines(kind)

    def owners(self) -> list[Owner]:
        return self._definitions.owners()
