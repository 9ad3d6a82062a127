"""Adapter of crmhub for the CRM Acme: contacts, deals and tickets over Acme's REST API.

This code is a template for a common kind of API, which `tests/fake_acme.py` serves. Adapt both
files to your CRM, one method at a time: first make the fake as strict as the CRM, then change the
adapter until the tests pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from crmhub.adapter import (
    Adapter,
    AdapterError,
    Conflict,
    Contact,
    Context,
    Guide,
    Linked,
    NotFound,
    Problem,
    Rejected,
    Saved,
    Setting,
    Step,
    Unavailable,
    Written,
)
from crmhub.adapter.http import GENERAL, Answer, Http
from crmhub.adapter.phones import notations, same

# The CRM's names of the properties that crmhub names differently; others are sent unchanged.
_THEIRS: Mapping[str, Mapping[str, str]] = {
    "contacts": {"firstname": "first_name", "lastname": "last_name"},
    "deals": {"dealname": "title", "dealstage": "stage"},
    "tickets": {
        "subject": "title",
        "content": "text",
        "hs_pipeline": "pipeline",
        "hs_pipeline_stage": "stage",
        "hs_ticket_priority": "priority",
    },
}
_ID = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)


class AcmeAdapter(Adapter):
    """Adapter for Acme's REST API, which authenticates with an API token."""

    title = "Acme"
    settings = (
        Setting("base_url", "API address", "url", default="https://api.acme.example/v1"),
        Setting("token", "API token", secret=True, required=True),
    )
    guides = (
        Guide(
            "Make an API token",
            (
                Step(
                    "In Acme, open Settings > API and create a token.",
                    "https://acme.example/help/tokens",
                    "Acme's help on tokens",
                ),
                Step("Give it these rights:", codes=("people", "deals")),
            ),
        ),
    )

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._http = Http(
            context,
            context.settings["base_url"],
            crm=self.title,
            authorize=lambda: {"Authorization": f"Bearer {context.credentials['token']}"},
            failure=_failure,
            budgets={GENERAL: context.budget(GENERAL, calls=100, seconds=10)},
            secrets=context.credentials.values,
        )

    @classmethod
    def may_be_id(cls, contact_id: str) -> bool:
        return _ID.fullmatch(contact_id) is not None

    # Contacts.

    def find_contact(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        key, values = ("email", [email]) if email else ("phone", notations(phone))
        answer = self._listed("contacts", {key: values})
        contacts = [_contact(answer, contact, (key, *names)) for contact in answer.items()]
        # The CRM's filter may match parts of values, so compare the whole values.
        holders = [
            contact for contact in contacts if _holds(contact.properties.get(key, ""), email, phone)
        ]
        oldest = min(holders, key=lambda contact: int(contact.id), default=None)
        return oldest and _trimmed(oldest, names)

    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        _check_id(contact_id)
        answer = self._http.send("GET", "contacts", contact_id)
        return _contact(answer, answer.object(), names)

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        answer = self._write("POST", "contacts", fields=properties, more={"reference": mark})
        return Saved(answer.id(), "created")

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        _check_id(contact_id)
        answer = self._write("PATCH", "contacts", contact_id, fields=properties)
        return Saved(answer.id(), "updated")

    # Deals and tickets.

    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        _check_id(contact_id)
        more = {"contact_id": int(contact_id), "reference": mark}
        answer = self._write("POST", kind, fields=properties, more=more)
        return Saved(answer.id(), "created")

    # After a lost answer.

    def may_land_for(self, kind: Written, properties: Mapping[str, str]) -> float:
        # An email is taken once: a second contact would be refused, however late the first lands.
        return 0.0 if kind == "contacts" and properties.get("email") else self.under_way_s

    # Optional: what is overridden is announced. `crmhub adapters` lists it.

    def check(self) -> None:
        self._http.send("GET", "me").id()

    def find_marked(
        self,
        kind: Written,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
    ) -> Saved | None:
        answer = self._listed(kind, {"reference": [mark]})
        return next((Saved(answer.id(record), "created") for record in answer.items()), None)

    # Calls.

    def _listed(self, kind: str, params: Mapping[str, Sequence[str]]) -> Answer:
        try:
            return self._http.send("GET", kind, params=params)
        except NotFound:
            # A search without a match returns an empty list, so a 404 means a wrong address.
            raise Unavailable(f"{self.title} has no list of {kind} at its address.") from None

    def _write(
        self,
        method: str,
        kind: str,
        *rest: str,
        fields: Mapping[str, str],
        more: Mapping[str, Any] = {},
    ) -> Answer:
        """Send the properties `fields` under the CRM's names, with the fields `more` in the body.

        `kind` and `rest` are the segments of the path. Raises Rejected with the caller's property
        names.
        """
        sent = {_THEIRS[kind].get(name, name): name for name in fields}
        if twice := fields.keys() - sent.values():
            raise Rejected([Problem(name, "it is sent under two names") for name in twice])
        body = {"fields": {theirs: fields[ours] for theirs, ours in sent.items()}, **more}
        try:
            return self._http.send(method, kind, *rest, body=body)
        except Rejected as exc:
            exc.problems = tuple(replace(p, name=sent.get(p.name, p.name)) for p in exc.problems)
            raise


def _failure(answer: Answer) -> AdapterError | None:
    """Return the error for Acme's own error codes; None if the HTTP status decides."""
    match answer.status, answer.body:
        case 422, {"errors": dict(errors)} if errors:
            return Rejected([Problem(name, str(why)) for name, why in errors.items()])
        case 409, {"id": int(holder)}:
            return Conflict("Another contact has it.", existing_id=str(holder), name="email")
    return None


def _contact(answer: Answer, record: Mapping[str, Any], names: Sequence[str]) -> Contact:
    """Convert a record of Acme to a contact with the properties `names`.

    Acme sends null for a field without a value.
    """
    fields = answer.mapping(record.get("fields"))
    theirs = {name: _THEIRS["contacts"].get(name, name) for name in names}
    values = {name: fields[key] for name, key in theirs.items() if key in fields}
    texts = {name: "" if value is None else str(value) for name, value in values.items()}
    return Contact(answer.id(record), texts)


def _trimmed(contact: Contact, names: Sequence[str]) -> Contact:
    return replace(contact, properties={n: v for n, v in contact.properties.items() if n in names})


def _holds(stored: str, email: str, phone: str) -> bool:
    return stored.lower() == email if email else same(phone, stored)


def _check_id(contact_id: str) -> None:
    """Raise NotFound if the id has another format than Acme's ids, and so could change the URL."""
    if not AcmeAdapter.may_be_id(contact_id):
        raise NotFound(f"There is no contact {contact_id[:60]!r}")
