from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, TypeVar

from adapters.zoho.api import MODULES
from adapters.zoho.connecting import GUIDES, SCOPE, SETTINGS, accounts_url
from adapters.zoho.definitions import CREATE
from adapters.zoho.writing import Writing
from crmhub.adapter import (
    OAUTH_SECRETS,
    BadConfig,
    Contact,
    Kind,
    LacksRight,
    Linked,
    OAuth,
    Problem,
    Rejected,
    Saved,
    Unsupported,
    Written,
)
from crmhub.adapter.answers import parse_time
from crmhub.adapter.defined import Candidate
from crmhub.adapter.phones import PHONES, has_number, notations
from crmhub.adapter.remembered import HOUR

T = TypeVar("T")

_EMAILS = ("email", "Secondary_Email")
_ID = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)
# COQL takes 50 values in a list and 50 columns, of which one is the id.
_VALUES, _COLUMNS = 50, 49
_WRITES: Mapping[Written, Mapping[str, str]] = {
    "contacts": {"POST": "CREATE", "PUT": "UPDATE"},
    "deals": {"POST": "CREATE"},
    "tickets": {"POST": "CREATE"},
}


class ZohoAdapter(Writing):
    """A ticket is a case; `active_workflow` is missing, since Zoho does not tell workflows."""

    title = "Zoho CRM"
    own_titles: ClassVar[Mapping[Linked, str]] = {"deals": "Deal_Name", "tickets": "Subject"}
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
        by, forms = (_EMAILS if emails else PHONES), {email: email for email in emails}
        for phone in phones:
            forms |= dict.fromkeys(notations(phone), phone)
        found: dict[str, Contact] = {}
        for row in self._rows("contacts", [*names, *by], by, list(forms)):
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
        fields, contact_id = self.definitions.fields("contacts"), str(row["id"])
        values = {name: fields[name].to_text(row) for name in names if name in fields}
        return Contact(contact_id, values, self.page("contacts", contact_id))

    def _rows(
        self, kind: Kind, names: Sequence[str], by: Sequence[str], values: Sequence[str]
    ) -> list[Mapping[str, Any]]:
        """Return records with one of `values` in one of at most two fields `by`, oldest first.

        Unknown fields, and encrypted ones in `by`, are ignored. COQL may compare texts in other
        ways than Python, so compare the values of the records.
        """
        try:
            return self._found(kind, names, by, values, HOUR)
        except Rejected:
            # Zoho may have other fields since.
            return self._found(kind, names, by, values, self.definitions.stale_s)

    def _found(
        self,
        kind: Kind,
        names: Sequence[str],
        by: Sequence[str],
        values: Sequence[str],
        newer_than: float,
    ) -> list[Mapping[str, Any]]:
        fields = self.definitions.fields(kind, newer_than=newer_than)
        columns = sorted({fields[name].theirs for name in names if name in fields} - {"id"})
        known = [fields[name] for name in by if name in fields]
        filters = [field.theirs for field in known if not field.is_encrypted]
        # How COQL reads a backslash is unknown.
        asked = [value for value in values if "\\" not in value]
        found: dict[str, dict[str, Any]] = {}
        for start in range(0, len(asked) if filters else 0, _VALUES):
            quoted = ", ".join(map(_quoted, asked[start : start + _VALUES]))
            where = " or ".join(f"{name} in ({quoted})" for name in filters)
            for column in range(0, max(1, len(columns)), _COLUMNS):
                chosen = columns[column : column + _COLUMNS]
                for record_id, row in self._api.query(kind, chosen, f"({where})"):
                    found.setdefault(record_id, {}).update(row)
        return [found[record_id] for record_id in sorted(found, key=int)]

    def may_land_for(self, kind: Written, properties: Mapping[str, str]) -> float:
        if kind == "contacts" and properties.get("email") and self.is_unique_email():
            return 0.0
        field = self.definitions.fields(kind).get(self.mark_name)
        # All processes know a field after an hour, and a write that may still land is of the last.
        is_unique = field and field.unique and field.created + 2 * HOUR < time.time()
        return 0.0 if is_unique else self.under_way_s

    def find_unique_mark(self, kind: Written, mark: str) -> Saved | None:
        for row in self._rows(kind, [self.mark_name], [self.mark_name], [mark]):
            if row.get(self.mark_name) == mark:
                return self.saved(kind, str(row["id"]), "created")
        return None

    def search_mark(self, mark: str) -> Saved | None:
        """Return None: a contact with neither email nor phone is found by its mark, or not."""
        return None

    def candidates(
        self, kind: Linked, contact_id: str, names: Iterable[str], others: Collection[str]
    ) -> Iterator[Candidate]:
        self.check_id(contact_id)
        fields, link, names = self.definitions.fields(kind), self.definitions.link(kind), [*names]
        asked = [*names, link.name, "Created_Time"]
        for row in self._rows(kind, asked, [link.name], [contact_id]):
            # The link is compared again, since the lookup is COQL's.
            if row["id"] not in others and link.to_text(row) == contact_id:
                values = {name: fields[name].to_text(row) for name in names}
                saved = self.saved(kind, str(row["id"]), "created")
                yield Candidate(saved, parse_time(row.get("Created_Time")), values)

    def clock_ahead(self) -> float:
        return self._api.clock_ahead

    def check(self) -> None:
        """Write nothing; LacksRight has all missing rights, BadConfig a field that does not fit."""
        missing: list[str] = []
        problems: list[Problem] = []
        for kind in _WRITES:
            with suppress(Unsupported):
                problems += self._check_kind(kind, missing)
        # Last, since the answers to these reads show that Zoho itself has answered.
        _try(missing, "settings.layouts.READ", lambda: self.definitions.load_pipelines("deals"))
        _try(missing, "users.READ", self.definitions.load_owners)
        if missing:
            scopes = ", ".join(f"ZohoCRM.{scope}" for scope in dict.fromkeys(missing))
            raise LacksRight(
                f"The connection lacks rights in Zoho: {scopes}. Connect the account again with"
                " these scopes, as a user whose profile may do this."
            )
        if problems:
            raise BadConfig("; ".join(p.reason for p in problems), problems=problems)

    def _check_kind(self, kind: Written, missing: list[str]) -> list[Problem]:
        module = MODULES[kind]
        fields = _try(
            missing,
            "settings.fields.READ",
            lambda: {field.theirs: field for field in self.definitions.load_fields(kind)},
        )
        if fields is None:
            return []
        scope = f"modules.{module.lower()}"
        # No record has this id.
        read = partial(self._api.query, kind, (), "id in ('1')")
        _try(missing, f"{scope}.READ and coql.READ", lambda: list(read()))
        for method, right in _WRITES[kind].items():
            _try(missing, f"{scope}.{right}", lambda: self._api.try_write(method, kind))  # noqa: B023
        problems = []
        if kind == "contacts" and ("Email" not in fields or fields["Email"].is_encrypted):
            reason = "Zoho encrypts or hides Email of Contacts, so no contact is found by it"
            problems.append(Problem("", reason))
        mark = fields.get(self.mark_name)
        usable = mark and mark.type == "string" and not mark.is_encrypted and not mark.read_only
        if self.mark_name and (not mark or not usable or CREATE in mark.refuses):
            reason = f"{module} have no text field {self.mark_name} that the hub may write and find"
            problems.append(Problem("mark_field", reason))
        return problems


def _try(missing: list[str], scope: str, call: Callable[[], T]) -> T | None:
    try:
        return call()
    except LacksRight:
        missing.append(scope)
        return None


def _quoted(value: str) -> str:
    doubled = value.replace("'", "''")
    return f"'{doubled}'"
