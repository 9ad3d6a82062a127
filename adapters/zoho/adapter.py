"""The adapter class for Zoho CRM; its methods call the other modules of this package."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from adapters.zoho.api import STALE_S
from adapters.zoho.connecting import GUIDES, SCOPE, SETTINGS, accounts_url
from adapters.zoho.fields import MODULES, existed
from adapters.zoho.writing import CREATE, Writing
from crmhub.adapter import (
    OAUTH_SECRETS,
    BadConfig,
    Contact,
    Described,
    Kind,
    LacksRight,
    Linked,
    OAuth,
    Owner,
    Pipeline,
    Problem,
    Saved,
    Unsupported,
    Written,
)
from crmhub.adapter.answers import parse_time
from crmhub.adapter.defined import Candidate, find_created
from crmhub.adapter.phones import PHONES, has_number, notations
from crmhub.adapter.remembered import HOUR

T = TypeVar("T")

_EMAILS = ("email", "Secondary_Email")
_ID = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)
# Zoho's times are whole seconds.
_TOLERANCE_S = 2.0
# The methods with which `check` tries the rights to write, and the scopes that they need.
_WRITES: Mapping[Written, Mapping[str, str]] = {
    "contacts": {"POST": "CREATE", "PUT": "UPDATE"},
    "deals": {"POST": "CREATE"},
    "tickets": {"POST": "CREATE"},
}


class ZohoAdapter(Writing):
    """The adapter for Zoho CRM's API v8, connected by OAuth; a ticket is a case.

    `active_workflow` is not supported, since Zoho does not tell the workflows of a contact.
    """

    title = "Zoho CRM"
    record_pages = True
    batch_size = 100
    email_names = _EMAILS
    settings = SETTINGS
    guides = GUIDES

    @classmethod
    def clash(cls, settings: Mapping[str, str], credentials: Mapping[str, str]) -> Problem | str:
        missing = next((name for name in OAUTH_SECRETS if not credentials[name]), "")
        words = "Press Connect, or enter all three OAuth fields."
        return Problem(missing, words) if missing else ""

    @classmethod
    def oauth(cls, settings: Mapping[str, str]) -> OAuth | None:
        accounts = accounts_url(settings)
        return OAuth(
            authorize_url=f"{accounts}/oauth/v2/auth",
            token_url=f"{accounts}/oauth/v2/token",
            scopes=(SCOPE,),
            parameters={"access_type": "offline", "prompt": "consent"},
        )

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
        return self._contact(self._api.record("contacts", contact_id), names)

    def has_email(self, contact: Contact, email: str) -> bool:
        return email in (contact.properties.get(name, "").lower() for name in _EMAILS)

    def has_phone(self, contact: Contact, phone: str) -> bool:
        return has_number(contact.properties, phone)

    def _contact(self, row: Mapping[str, Any], names: Sequence[str]) -> Contact:
        fields, contact_id = self._api.fields["contacts"].get(), str(row["id"])
        known = {name: fields[name] for name in names if name in fields}
        values = {name: field.to_text(row.get(field.name)) for name, field in known.items()}
        return Contact(contact_id, values, self._page("contacts", contact_id))

    # Records of earlier attempts.

    def may_land_for(self, kind: Written, properties: Mapping[str, str]) -> float:
        """Return 0 if Zoho would refuse a second record because of its email or its mark."""
        if kind == "contacts" and properties.get("email") and self._is_unique_email():
            return 0.0
        field = self._api.fields[kind].get().get(self._mark)
        # A write that may still land was sent within the last hour.
        is_unique = field and field.raw.get("unique") and existed(field, time.time() - HOUR)
        return 0.0 if is_unique else self.under_way_s

    def find_marked(
        self,
        kind: Written,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
    ) -> Saved | None:
        return self._made(kind, contact_id, mark, sent, since_ms, ())

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
        return self._made(kind, contact_id, mark, sent, since_ms, others)

    def _made(
        self,
        kind: Written,
        contact_id: str,
        mark: str,
        sent: Mapping[str, str],
        since_ms: int,
        others: Collection[str],
    ) -> Saved | None:
        """Return the record that an earlier attempt of a create has made, or None.

        It is found by its mark. If an attempt may have been sent without it, a contact is found by
        its email or phone, and a deal or case, except those in `others`, by its values.
        """
        field = self._api.fields[kind].get(newer_than=STALE_S).get(self._mark)
        if field and mark:
            for row in self._api.rows(kind, [self._mark], [self._mark], [mark]):
                if row.get(field.name) == mark:
                    return self._saved(kind, str(row["id"]), "created")
            if existed(field, since_ms / 1000) and not field.is_encrypted:
                return None
        if kind == "contacts":
            email, phone = sent.get("email", "").lower(), sent.get("phone", "")
            contact = self.find_contact(email=email, phone="" if email else phone)
            return Saved(contact.id, "created", contact.url) if contact else None
        self.check_id(contact_id)
        link, fields = self._api.link(kind), self._api.fields[kind].get()
        # Pipeline and stage are not compared, because a workflow may have changed them. The link is
        # compared again, since the lookup is COQL's.
        texts = {**self._texts(kind, CREATE, sent), link.name: contact_id}
        rows = self._api.rows(kind, [*texts, "Created_Time"], [link.name], [contact_id])
        candidates = [
            Candidate(
                self._saved(kind, str(row["id"]), "created"),
                parse_time(row.get("Created_Time")),
                {name: fields[name].to_text(row.get(fields[name].name)) for name in texts},
            )
            for row in rows
            if row["id"] not in others
        ]
        since = since_ms / 1000 + self._api.clock_ahead - _TOLERANCE_S
        return find_created(candidates, texts, since=since)

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
        fields = _try(missing, "settings.fields.READ", lambda: self._api.load_fields(kind))
        if fields is None:
            return []
        scope = f"modules.{module.lower()}"
        _try(missing, f"{scope}.READ and coql.READ", lambda: self._api.try_read(kind))
        for method, right in _WRITES[kind].items():
            _try(missing, f"{scope}.{right}", lambda: self._api.try_write(method, kind))  # noqa: B023
        problems = []
        if kind == "contacts" and ("email" not in fields or fields["email"].is_encrypted):
            reason = "Zoho encrypts or hides Email of Contacts, so no contact is found by it"
            problems.append(Problem("", reason))
        mark = fields.get(self._mark)
        definition = mark.within(CREATE) if mark and not mark.is_encrypted else None
        if self._mark and (not definition or definition.type != "string" or definition.read_only):
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
