"""The adapter class for Odoo: it finds people, and writes records by `load`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from adapters.odoo.api import Api, NotLoaded, lacks
from adapters.odoo.definitions import CONTACTS, TICKETS, Definitions
from crmhub.adapter import (
    Adapter,
    AdapterError,
    BadConfig,
    Changes,
    Conflict,
    Contact,
    ContactWrite,
    Context,
    Described,
    Guide,
    Kind,
    Linked,
    NotFound,
    NotYet,
    Outcome,
    Owner,
    Pipeline,
    Problem,
    Rejected,
    Saved,
    Setting,
    Step,
    Written,
    is_record_id,
)
from crmhub.adapter.batches import Action, Results, write_batches
from crmhub.adapter.emails import free_email, free_emails
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
_ADDRESS_ENDS = re.compile(r"[\s,;<>\"]+")

Row = dict[str, str]
"""A row of a `load`: cells by column."""


class OdooAdapter(Adapter):
    title = "Odoo"
    own_titles: ClassVar[Mapping[Linked, str]] = {"deals": "name", "tickets": "name"}
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

    @classmethod
    def clash(cls, settings: Mapping[str, str], credentials: Mapping[str, str]) -> Problem | str:
        for name in ("db", "user"):
            if settings["interface"] == "json-rpc" and not settings[name]:
                return Problem(name, "The interface json-rpc needs database and user.")
        if settings["tickets"] == "project.task" and not cls.may_be_id(settings["project"]):
            return Problem("project", "Enter the id of the project in which tickets are tasks.")
        return ""

    @classmethod
    def may_be_id(cls, contact_id: str) -> bool:
        """Return whether a text is a number from 1 to 2**31 - 1, as Odoo's ids are."""
        return is_record_id(contact_id) and int(contact_id) < 2**31

    def may_land_for(self, kind: Written, properties: Mapping[str, str]) -> float:
        """Return 0: the mark is a unique external id, so a repeated create returns the record."""
        return 0.0

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
        """A person is found by the first address in the field Email, and by both phones."""
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
        self.check_id(contact_id)
        for contact in self._contacts([["id", "=", int(contact_id)]], names):
            return contact
        raise NotFound(f"Odoo has no contact {contact_id}")

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        """Create a contact; one without a name gets its email or phone as name."""
        with free_email(self, properties.get("email", "")):
            return self._write("contacts", properties, _marked(mark))

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        self.check_id(contact_id)
        if properties.get("name") == "":
            raise Rejected([Problem("name", "Odoo needs a name for each contact")])
        # Odoo repeats other methods by itself when two calls write one record, but no `load`.
        with self.context.lease(f"contact {contact_id}", self.context.remaining()):
            if len(_addresses(properties.get("email", ""))) == 1:
                present = self.get_contact(contact_id, ["email"]).properties["email"]
                properties = {**properties, "email": _corrected(present, properties["email"])}
            return self._write("contacts", properties, {".id": contact_id})

    def changes(self, contact: Contact, properties: Mapping[str, str]) -> Changes:
        if properties.get("email"):
            email = _corrected(contact.properties.get("email", ""), properties["email"])
            properties = {**properties, "email": email}
        fit = self._fit_contact(properties)
        fields, ours = self._definitions.fields("contacts"), CONTACTS.names.ours
        stored = {ours(name): fields[name].stored(text) for name, text in fit.items()}
        return super().changes(contact, stored)

    def has_email(self, contact: Contact, email: str) -> bool:
        return email in _addresses(contact.properties.get("email", "").lower())

    def has_phone(self, contact: Contact, phone: str) -> bool:
        held = (contact.properties.get(name, "") for name in ("phone", "mobilephone"))
        return any(same(phone, part.strip()) for text in held for part in text.split("|"))

    def write_contacts(self, writes: Sequence[ContactWrite]) -> list[Saved | AdapterError | None]:
        return write_batches(writes, fit=self._fit_contact, send=self._send_batch)

    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        self.check_id(contact_id)
        fixed = _marked(mark) | {"partner_id/.id": contact_id}
        if kind == "deals":
            fixed["type"] = "opportunity"
        return self._write(kind, properties, fixed)

    def check(self) -> None:
        """Raise BadConfig, or LacksRight with all missing rights; nothing is cached."""
        if "email_normalized" not in self._definitions.load_list("properties", "contacts"):
            raise BadConfig("This Odoo cannot find contacts by email; install its app CRM.")
        kinds: list[Linked] = ["deals"]
        if self.context.settings["tickets"]:
            kinds.append("tickets")
        models = {kind: self._definitions.model(kind) for kind in kinds}
        wanted = [(CONTACTS.name, "create"), (CONTACTS.name, "write")]
        wanted += [(model.name, "create") for model in models.values()]
        lacking = [f"{how} {model}" for model, how in wanted if not self._api.may(model, how)]
        if lacking:
            raise lacks(lacking)
        for kind, model in models.items():
            if not self._definitions.load_pipelines(kind):
                raise BadConfig(f"Odoo shows this user no {model.pipelines} with stages.")

    def describe(self, kind: Kind) -> list[Described]:
        fitting, ours = self._definitions.fitting(kind), self._definitions.model(kind).names.ours
        described = [fitting.with_options(kind, one) for one in self._definitions.described(kind)]
        return [replace(one, name=ours(one.name)) for one in described]

    def pipelines(self, kind: Linked) -> list[Pipeline]:
        return self._definitions.pipelines(kind)

    def check_place(self, kind: Linked, properties: Mapping[str, str]) -> None:
        with self._definitions.model(kind).names.translated(properties) as given:
            self._definitions.fitting(kind).check_place(kind, given)

    def owners(self) -> list[Owner]:
        return self._definitions.owners()

    def _holders(self, phones: Sequence[str]) -> list[Any]:
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

    def _fit_contact(self, properties: Mapping[str, str]) -> dict[str, str]:
        with CONTACTS.names.translated(properties) as given:
            return self._definitions.fitted("contacts", given)

    def _row(self, kind: Written, fit: Mapping[str, str], fixed: Row) -> Row:
        if ".id" not in fixed:
            # A new record has no values to clear.
            fit = {name: text for name, text in fit.items() if text}
            if kind == "contacts":
                # Odoo has no contact without a name, and gives one the time zone of the call.
                names = [fit[name] for name in ("email", "phone", "mobile") if name in fit]
                fit = {"name": "".join(names[:1]), "tz": "", **fit}
        fields = self._definitions.fields(kind)
        return fixed | dict(fields[name].cell(text) for name, text in fit.items())

    def _write(self, kind: Written, properties: Mapping[str, str], fixed: Row) -> Saved:
        """Load one row; a record with its mark is returned as it is."""
        model, fitted = self._definitions.model(kind), self._definitions.fitted
        with model.names.translated(properties) as given:
            if kind == "tickets" and "priority" in given:
                given["priority"] = self._definitions.priority(given["priority"])
            row = self._row(kind, fitted(kind, given), fixed)
            try:
                id = self._load(model.name, row)
            except Rejected:
                # The definitions may have changed, even if Odoo names no field.
                fit = fitted(kind, given, newer_than=self._definitions.stale_s)
                fresh = self._row(kind, fit, fixed)
                if fresh == row:
                    raise
                id = self._load(model.name, fresh)
        return self._saved(kind, id, "updated" if ".id" in fixed else "created")

    def _load(self, model: str, row: Row) -> str:
        try:
            return self._api.load(model, [row])[0]
        except NotLoaded as exc:
            if {".id", "partner_id"} & {problem.name for problem in exc.problems}:
                raise NotFound("Odoo has no such contact") from exc
            # `load` tells a missing right in words only.
            operation = "write" if ".id" in row else "create"
            if not exc.problems and not self._api.may(model, operation):
                raise lacks([f"{operation} {model}"]) from exc
            raise

    def _send_batch(
        self, action: Action, items: Mapping[int, ContactWrite], results: Results
    ) -> None:
        # All rows of a `load` have the same columns, and an empty cell clears a value.
        batches: dict[tuple[str, ...], dict[int, Row]] = {}
        with free_emails(self, list(items.values())) as free:
            for index, item in (one for i, one in enumerate(items.items()) if i in free):
                if action == "create" or self.may_be_id(item.contact_id):
                    fixed = {".id": item.contact_id} if item.contact_id else _marked(item.mark)
                    row = self._row("contacts", item.properties, fixed)
                    batches.setdefault(tuple(row), {})[index] = row
            for rows in batches.values():
                outcome: Outcome = "updated" if action == "update" else "created"
                results.update(self._load_batch(rows, outcome))

    def _load_batch(self, rows: Mapping[int, Row], outcome: Outcome) -> Results:
        """Return results by index; errors that no row can cause are the result of all rows."""
        while rows:
            try:
                ids = self._api.load(CONTACTS.name, list(rows.values()))
                saved = [self._saved("contacts", id, outcome) for id in ids]
                return dict(zip(rows, saved, strict=True))
            except NotLoaded as exc:
                # Written alone, a refused row gets an error of its own.
                good = {
                    index: row for i, (index, row) in enumerate(rows.items()) if i not in exc.rows
                }
                rows = good if len(good) < len(rows) else {}
            except (Conflict, NotFound, NotYet, Rejected):
                return {}
            except AdapterError as exc:
                return dict.fromkeys(rows, exc)
        return {}

    def _saved(self, kind: Written, id: str, outcome: Outcome) -> Saved:
        return Saved(id, outcome, self._api.page(self._definitions.model(kind).name, id))


def _marked(mark: str) -> Row:
    # Under the name of a module, which need not exist.
    return {"id": f"crmhub.{mark}"} if mark else {}


def _addresses(text: str) -> list[str]:
    return [part for part in _ADDRESS_ENDS.split(text) if "@" in part]


def _corrected(present: str, email: str) -> str:
    first, *others = _addresses(present) or [""]
    if not others:
        return email
    if any(other.lower() == email.lower() for other in others):
        return "; ".join([email, *(one for one in others if one.lower() != email.lower())])
    return present.replace(first, email, 1)
