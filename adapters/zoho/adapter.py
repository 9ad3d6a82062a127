"""The adapter class for Zoho CRM; its methods call the other modules of this package."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, TypeVar

from adapters.zoho.api import Api
from adapters.zoho.connecting import GUIDES, SETTINGS, oauth
from adapters.zoho.fields import MODULES, by_name
from adapters.zoho.marks import Marks
from adapters.zoho.writing import CREATE, UPDATE, Writing
from crmhub.adapter import (
    OAUTH_SECRETS,
    Adapter,
    AdapterError,
    BadConfig,
    Changes,
    Conflict,
    Contact,
    ContactWrite,
    Context,
    Described,
    Kind,
    LacksRight,
    Linked,
    NotFound,
    NotYet,
    OAuth,
    Owner,
    Pipeline,
    Problem,
    Rejected,
    Saved,
    Unsupported,
    Written,
)
from crmhub.adapter.phones import PHONES, has_number, notations

T = TypeVar("T")

_EMAILS = ("email", "Secondary_Email")
_ID = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)
_FIELDS_SCOPE = "settings.fields.READ"
# The methods with which `check` tries the rights to write, and the scopes that they need.
_WRITES: Mapping[Written, Mapping[str, str]] = {
    "contacts": {"POST": "CREATE", "PUT": "UPDATE"},
    "deals": {"POST": "CREATE"},
    "tickets": {"POST": "CREATE"},
}


class ZohoAdapter(Adapter):
    """The adapter for Zoho CRM's API v8, connected by OAuth; a ticket is a case.

    `active_workflow` is not supported, since Zoho does not tell the workflows of a contact.
    """

    title = "Zoho CRM"
    record_pages = True
    batch_size = 100
    email_names = _EMAILS
    settings = SETTINGS
    guides = GUIDES

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._api = Api(context, title=self.title)
        self._writing = Writing(self._api, context)
        self._marks = Marks(self._api, self._writing, context)
        self._mark = context.settings["mark_field"]

    @classmethod
    def clash(cls, settings: Mapping[str, str], credentials: Mapping[str, str]) -> Problem | str:
        missing = next((name for name in OAUTH_SECRETS if not credentials[name]), "")
        words = "Press Connect, or enter all three OAuth fields."
        return Problem(missing, words) if missing else ""

    @classmethod
    def oauth(cls, settings: Mapping[str, str]) -> OAuth | None:
        return oauth(settings)

    @classmethod
    def may_be_id(cls, contact_id: str) -> bool:
        return _ID.fullmatch(contact_id) is not None

    # Contacts.

    def find_contact(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        emails, phones = ([value] if value else [] for value in (email, phone))
        found = self.find_contacts(emails=emails, phones=phones, names=names)
        return found.get(email or phone)

    def find_contacts(
        self,
        *,
        emails: Sequence[str] = (),
        phones: Sequence[str] = (),
        names: Sequence[str] = (),
    ) -> dict[str, Contact]:
        """Return the oldest contact of each email, also of a secondary one, or of each phone."""
        by, forms = (_EMAILS if emails else PHONES), {email: email for email in emails}
        for phone in phones:
            forms |= dict.fromkeys(notations(phone), phone)
        found: dict[str, Contact] = {}
        for row in self._api.rows("contacts", [*names, *by], by, list(forms)):
            for text in self._contact(row, by).properties.values():
                form = text.lower() if emails else text
                if form in forms:
                    found.setdefault(forms[form], self._contact(row, names))
        return found

    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        self.check_id(contact_id)
        row = self._api.record("contacts", contact_id)
        if row is None:
            raise _no_contact()
        return self._contact(row, names)

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        """Create a contact; where Zoho takes an email twice, look for it once more under a lease.

        A contact without a last name, which Zoho requires, gets its email, its phone or a dash.
        """
        email = (properties.get("email") or properties.get("Email", "")).strip().lower()
        if not email or self._is_unique_email():
            return self._writing.create("contacts", properties, mark, {})
        with self.context.lease(f"email {email}", self.context.remaining()):
            if holder := self.find_contacts(emails=[email]).get(email):
                raise Conflict("This email is taken.", existing_id=holder.id, name="email")
            return self._writing.create("contacts", properties, mark, {})

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        self.check_id(contact_id)
        return self._writing.update(contact_id, properties)

    def write_contacts(self, writes: Sequence[ContactWrite]) -> list[Saved | AdapterError | None]:
        results: dict[int, Saved | AdapterError] = {}
        creates: dict[int, dict[str, Any]] = {}
        updates: dict[int, dict[str, Any]] = {}
        for index, write in enumerate(writes):
            try:
                if write.contact_id:
                    row = self._writing.row("contacts", UPDATE, write.properties)
                    updates[index] = {**row, "id": write.contact_id}
                else:
                    row = self._writing.row("contacts", CREATE, write.properties, write.mark)
                    creates[index] = row
            except AdapterError as exc:
                results[index] = exc
        self._writing.write_batch("PUT", updates, "updated", results)
        with ExitStack() as leases:
            try:
                unclaimed = self._unclaimed(creates, leases)
            except AdapterError as exc:
                results |= dict.fromkeys(creates, exc)
            else:
                self._writing.write_batch("POST", unclaimed, "created", results)
        return [results.get(index) for index in range(len(writes))]

    def _unclaimed(
        self, creates: Mapping[int, dict[str, Any]], leases: ExitStack
    ) -> Mapping[int, dict[str, Any]]:
        """Return the rows whose email no contact has and nobody else is writing at this moment.

        Enter the leases of their emails into `leases`. A row without an email is left out, too.
        """
        if self._is_unique_email():
            return creates
        mine: dict[str, int] = {}
        seconds = self.context.remaining()
        for index, row in creates.items():
            email = str(row.get("Email", "")).lower()
            if email and email not in mine:
                with suppress(NotYet):
                    lease = self.context.lease(f"email {email}", seconds, patience=0.0)
                    leases.enter_context(lease)
                    mine[email] = index
        taken = self.find_contacts(emails=list(mine)) if mine else {}
        return {index: creates[index] for email, index in mine.items() if email not in taken}

    def has_email(self, contact: Contact, email: str) -> bool:
        return email in (contact.properties.get(name, "").lower() for name in _EMAILS)

    def has_phone(self, contact: Contact, phone: str) -> bool:
        """Return whether the contact has this phone number, stored in any notation."""
        return has_number(contact.properties, phone)

    def changes(self, contact: Contact, properties: Mapping[str, str]) -> Changes:
        """Return the properties whose values differ from the contact's, in the form of the type."""
        texts = self._writing.texts("contacts", UPDATE, properties)
        current = contact.properties
        return Changes({name: text for name, text in texts.items() if current.get(name) != text})

    def _is_unique_email(self) -> bool:
        email = self._api.fields["contacts"].get().get("email")
        return email is not None and email.is_unique and email.ignores_case

    def _contact(self, row: Mapping[str, Any], names: Sequence[str]) -> Contact:
        fields, contact_id = self._api.fields["contacts"].get(), str(row["id"])
        known = {name: fields[name] for name in names if name in fields}
        values = {name: field.to_text(row.get(field.name)) for name, field in known.items()}
        return Contact(contact_id, values, self._writing.page("contacts", contact_id))

    # Deals and tickets.

    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        """Create a deal or case together with its link to the contact, in one call."""
        self.check_id(contact_id)
        link = self._api.link(kind)
        try:
            return self._writing.create(kind, properties, mark, {link.name: {"id": contact_id}})
        except Rejected as exc:
            if link.described.name in [problem.name for problem in exc.problems]:
                raise _no_contact() from None
            raise

    # Records of earlier attempts.

    def may_land_for(self, kind: Written, properties: Mapping[str, str]) -> float:
        """Return 0 if Zoho would refuse a second record because of its email or its mark."""
        if kind == "contacts" and properties.get("email") and self._is_unique_email():
            return 0.0
        return 0.0 if self._marks.is_unique(kind) else self.under_way_s

    def find_marked(
        self,
        kind: Written,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
    ) -> Saved | None:
        return self._made(kind, contact_id, mark, sent, since_ms / 1000, ())

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
        return self._made(kind, contact_id, mark, sent, since_ms / 1000, others)

    def _made(
        self,
        kind: Written,
        contact_id: str,
        mark: str,
        sent: Mapping[str, str],
        since: float,
        others: Collection[str],
    ) -> Saved | None:
        record, certain = self._marks.find(kind, mark, since)
        if record or certain:
            return record
        if kind != "contacts":
            self.check_id(contact_id)
            return self._marks.find_by_values(kind, contact_id, sent, since, others)
        email, phone = sent.get("email", "").lower(), sent.get("phone", "")
        contact = self.find_contact(email=email, phone="" if email else phone)
        return self._writing.saved(kind, contact.id, "created") if contact else None

    # Metadata.

    def check(self) -> None:
        """Test every right that the hub needs, and the fields that it relies on; write nothing.

        Raises LacksRight with all missing rights, and BadConfig for a field that does not fit.
        """
        missing: list[str] = []
        problems: list[Problem] = []
        for kind in _WRITES:
            with suppress(Unsupported):
                problems += self._check_kind(kind, missing)
        # Last, since the answers to these reads show that Zoho itself has answered.
        _try(missing, "settings.layouts.READ", lambda: self._api.load_places("deals"))
        _try(missing, "users.READ", self._api.load_owners)
        if missing:
            scopes = ", ".join(f"ZohoCRM.{scope}" for scope in dict.fromkeys(missing))
            raise LacksRight(
                f"The connection lacks rights in Zoho: {scopes}. Connect the account anew with"
                " these scopes, as a user whose profile may do this."
            )
        if problems:
            raise BadConfig("; ".join(p.reason for p in problems), problems=problems)

    def _check_kind(self, kind: Written, missing: list[str]) -> list[Problem]:
        module = MODULES[kind]
        listed = _try(missing, _FIELDS_SCOPE, lambda: self._api.load_fields(kind))
        if listed is None:
            return []
        fields = by_name(kind, listed)
        scope = f"modules.{module.lower()}"
        _try(missing, f"{scope}.READ and coql.READ", lambda: self._api.try_read(kind))
        for method, right in _WRITES[kind].items():
            _try(missing, f"{scope}.{right}", lambda: self._api.try_write(method, kind))  # noqa: B023
        problems = []
        if kind == "contacts" and ("email" not in fields or fields["email"].is_encrypted):
            reason = "Zoho encrypts or hides Email of Contacts, so no contact is found by it"
            problems.append(Problem("", reason))
        if self._mark and not (self._mark in fields and fields[self._mark].takes_marks):
            reason = f"{module} have no text field {self._mark} that the hub may write and find"
            problems.append(Problem("mark_field", reason))
        return problems

    def describe(self, kind: Kind) -> list[Described]:
        fields = self._api.fields[kind].get().items()
        return [field.described for name, field in fields if name == field.described.name]

    def pipelines(self, kind: Linked) -> list[Pipeline]:
        """Return the pipelines of deals by their names; the statuses of cases have no pipeline."""
        return [pipeline for pipeline, _ in self._api.places[kind].get()]

    def owners(self) -> list[Owner]:
        return self._api.owners.get()


def _try(missing: list[str], scope: str, call: Callable[[], T]) -> T | None:
    """Call `call` and return its result; without the right for it, add `scope` to `missing`."""
    try:
        return call()
    except LacksRight:
        missing.append(scope)
        return None


def _no_contact() -> NotFound:
    return NotFound("Zoho has no such contact")
