"""The adapter class for Odoo; its methods call the other modules of this package."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from adapters.odoo.api import Api, may_be_id, number
from adapters.odoo.definitions import Definitions
from adapters.odoo.failures import lacks
from adapters.odoo.fields import CONTACTS, TICKETS
from adapters.odoo.writing import Writing, external_id
from crmhub.adapter import (
    Adapter,
    AdapterError,
    BadConfig,
    Changes,
    Contact,
    ContactWrite,
    Context,
    Described,
    Guide,
    Kind,
    Linked,
    NotFound,
    Owner,
    Pipeline,
    Problem,
    Rejected,
    Saved,
    Setting,
    Step,
    Written,
)
from crmhub.adapter.emails import free_email, free_emails
from crmhub.adapter.oauth import KEPT
from crmhub.adapter.phones import notations, same

# People: neither companies nor addresses, and nobody who works in Odoo.
_PEOPLE = [
    ["is_company", "=", False],
    ["partner_share", "=", True],
    ["type", "in", ["contact", False]],
]
_PHONES = ("phone", "mobile")
# How many of the notations of a number an upgrade may have put beside another number.
_MERGED = 4
_CANDIDATES = 100
_ADDRESS_ENDS = re.compile(r"[\s,;<>\"]+")


class OdooAdapter(Adapter):
    """The adapter for Odoo's contacts and opportunities, and for its tickets or tasks."""

    title = "Odoo"
    record_pages = True
    whole_name = "name"
    linked_kinds: ClassVar[Mapping[Linked, str]] = {"deals": "", "tickets": "tickets"}
    batch_size = 50
    # Odoo ends a request after 120 s (limit_time_real); before, it may wait for a free worker.
    under_way_s = 180.0
    settings: ClassVar[tuple[Setting, ...]] = (
        Setting("base_url", "Address", "url", help="Such as https://acme.odoo.com", required=True),
        Setting(
            "interface",
            "Interface",
            help="json-2 for Odoo 19 and later, json-rpc for Odoo 17 and 18.",
            choices=("json-2", "json-rpc"),
            default="json-2",
        ),
        Setting("db", "Database", help="For json-rpc, or if the address has several databases."),
        Setting("user", "User", help="For json-rpc: the login of the user with the API key."),
        Setting("api_key", "API key", secret=True, required=True),
        Setting(
            "tickets",
            "Tickets",
            help="Odoo's model for tickets. helpdesk.ticket needs Odoo Enterprise.",
            choices=tuple(TICKETS),
        ),
        Setting("project", "Project", help="For project.task: the id of the project."),
        Setting("language", "Language", help="Of labels, such as de_DE.", default="en_US"),
        Setting(KEPT, "User id", secret=True, kept=True),
    )
    guides = (
        Guide(
            "Make an API key",
            (
                Step(
                    "In Odoo, create a user for crmhub. It needs the right Contact Creation, and"
                    " may see all leads, tickets or tasks."
                ),
                Step(
                    "As this user, open My Preferences > Security and add an API key. From Odoo 19"
                    " on, a key ends after three months at most. Then enter another one here.",
                    "https://www.odoo.com/documentation/19.0/developer/reference/external_api.html",
                    "Odoo on its external API",
                ),
            ),
        ),
    )

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._api = Api(context, title=self.title)
        self._definitions = Definitions(self._api, context)
        self._writing = Writing(self._api, self._definitions)

    @classmethod
    def clash(cls, settings: Mapping[str, str], credentials: Mapping[str, str]) -> Problem | str:
        for name in ("db", "user"):
            if settings["interface"] == "json-rpc" and not settings[name]:
                return Problem(name, "The interface json-rpc needs database and user.")
        if settings["tickets"] == "project.task" and not may_be_id(settings["project"]):
            return Problem("project", "Enter the id of the project in which tickets are tasks.")
        return ""

    @classmethod
    def may_be_id(cls, contact_id: str) -> bool:
        return may_be_id(contact_id)

    def may_land_for(self, kind: Written, properties: Mapping[str, str]) -> float:
        """Return 0: the mark is a unique external id, with which nothing is created twice."""
        return 0.0

    # Contacts.

    def find_contact(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        emails, phones = [email] if email else [], [phone] if phone else []
        return self.find_contacts(emails=emails, phones=phones, names=names).get(email or phone)

    def find_contacts(
        self,
        *,
        emails: Sequence[str] = (),
        phones: Sequence[str] = (),
        names: Sequence[str] = (),
    ) -> dict[str, Contact]:
        """Return the people with these emails or phones, found in one search.

        A person is found by the first address in the field Email, and by both phones.
        """
        domain = [["email_normalized", "in", list(emails)]] if emails else self._holders(phones)
        found: dict[str, Contact] = {}
        asked = [*names, "email_normalized", "phone", "mobilephone"]
        for contact in self._contacts([*_PEOPLE, *domain], asked):
            held = contact.properties
            only = {name: held[name] for name in names if name in held}
            matches = [phone for phone in phones if self.has_phone(contact, phone)]
            for match in (*matches, held.get("email_normalized", "")):
                if match in emails or match in phones:
                    found.setdefault(match, replace(contact, properties=only))
        return found

    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        for contact in self._contacts([["id", "=", number(contact_id)]], names):
            return contact
        raise NotFound(f"Odoo has no contact {contact_id}")

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        """Create a contact; one without a name gets its email or phone as name."""
        with free_email(self, properties.get("email", "")):
            return self._writing.create("contacts", properties, mark)

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        if properties.get("name") == "":
            raise Rejected([Problem("name", "Odoo needs a name for each contact")])
        return self._writing.update(contact_id, properties)

    def changes(self, contact: Contact, properties: Mapping[str, str]) -> Changes:
        """Return the properties whose values differ from the contact's, as Odoo stores them."""
        with CONTACTS.names.translated(properties) as given:
            fit = self._definitions.fit("contacts", given)
        fields, ours = self._definitions.fields("contacts"), CONTACTS.names.ours
        stored = {ours(name): fields[name].stored(text) for name, text in fit.items()}
        return super().changes(contact, stored)

    def has_email(self, contact: Contact, email: str) -> bool:
        """Return whether `email` is one of the addresses in the contact's field Email."""
        return email in _ADDRESS_ENDS.split(contact.properties.get("email", "").lower())

    def has_phone(self, contact: Contact, phone: str) -> bool:
        """Return whether the contact has this number, in any notation, or beside another one."""
        held = (contact.properties.get(name, "") for name in ("phone", "mobilephone"))
        return any(same(phone, part.strip()) for text in held for part in text.split("|"))

    def write_contacts(self, writes: Sequence[ContactWrite]) -> list[Saved | AdapterError | None]:
        try:
            with free_emails(self, writes) as free:
                return self._writing.batch(writes, free)
        except AdapterError as exc:
            # Raised by the lookup, before anything was written.
            return [exc] * len(writes)

    # Deals and tickets.

    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        """Create an opportunity, ticket or task of a contact, with its link in the same row."""
        return self._writing.create(kind, properties, mark, contact=number(contact_id))

    def find_marked(
        self,
        kind: Written,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
    ) -> Saved | None:
        """Return the newest record of the contact, or with its values, whose external id is `mark`.

        Users may not search for external ids, but may read those of records.
        """
        model = self._definitions.model(kind).name
        if kind != "contacts":
            domain: list[Any] = [["partner_id", "=", number(contact_id)]]
        elif sent.get("email"):
            domain = [["email_normalized", "=", sent["email"].lower()]]
        else:
            domain = self._holders([sent["phone"]]) if sent.get("phone") else []
        newest = self._api.search(model, domain, ["id"], order="id desc", limit=_CANDIDATES)
        ids = [int(newest.id(record)) for record in newest.items("result")]
        answer = self._api.call(model, "get_metadata", ids=ids) if ids else newest
        for record in answer.items("result"):
            if record.get("xmlid") == external_id(mark):
                return self._writing.saved(kind, answer.id(record))
        return None

    # What it tells.

    def check(self) -> None:
        """Test the key, the apps and the rights; raise BadConfig, or LacksRight with all of them.

        Nothing of it is cached.
        """
        if "email_normalized" not in self._definitions.load_fields(CONTACTS):
            raise BadConfig("This Odoo cannot find contacts by email; install its app CRM.")
        kinds = ["deals", "tickets"] if self.context.settings["tickets"] else ["deals"]
        models = [self._definitions.model(kind) for kind in kinds]
        wanted = [(CONTACTS.name, "create"), (CONTACTS.name, "write")]
        wanted += [(model.name, "create") for model in models]
        lacking = [f"{how} {model}" for model, how in wanted if not self._api.may(model, how)]
        if lacking:
            raise lacks(lacking)
        for model in models:
            if not self._definitions.load_stages(model):
                raise BadConfig(f"Odoo shows this user no {model.pipelines} with stages.")

    def describe(self, kind: Kind) -> list[Described]:
        return self._definitions.described(kind)

    def pipelines(self, kind: Linked) -> list[Pipeline]:
        return self._definitions.pipelines(kind)

    def owners(self) -> list[Owner]:
        return self._definitions.owners()

    # Reading.

    def _holders(self, phones: Sequence[str]) -> list[Any]:
        """Return the domain of the contacts that may have one of these phones."""
        fields = self._definitions.fields("contacts")
        forms = [form for phone in phones for form in notations(phone)]
        terms: list[Any] = [[name, "in", forms] for name in _PHONES if name in fields]
        for phone in phones:
            if "phone_mobile_search" in fields and phone.startswith("+"):
                # Finds numbers in any punctuation.
                terms.append(["phone_mobile_search", "=", phone])
            if "mobile" not in fields:
                # An upgrade may have put both numbers into the one field that is left.
                for form in notations(phone)[:_MERGED]:
                    terms += [["phone", "=like", f"{form} | %"], ["phone", "=like", f"% | {form}"]]
        return ["|"] * (len(terms) - 1) + terms

    def _contacts(self, domain: list[Any], names: Sequence[str]) -> list[Contact]:
        """Return the contacts in a domain, the oldest first; unknown names are left out."""
        fields = self._definitions.fields("contacts")
        theirs = {name: CONTACTS.names.theirs(name) for name in names}
        asked = {name: fields[key] for name, key in theirs.items() if key in fields}
        answer = self._api.search(CONTACTS.name, domain, {one.name for one in asked.values()})
        return [
            Contact(
                answer.id(record),
                {name: one.text(record.get(one.name)) for name, one in asked.items()},
                self._api.page(CONTACTS.name, answer.id(record)),
            )
            for record in answer.items("result")
        ]
