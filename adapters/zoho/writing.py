"""Write contacts, deals and cases to Zoho, contacts also in batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from adapters.zoho.api import Api, retry_with_fresh
from adapters.zoho.connecting import page_url
from adapters.zoho.fields import MODULES, OWNERS, PLACES, demanded, with_last_name
from crmhub.adapter import (
    Adapter,
    AdapterError,
    BadConfig,
    Changes,
    Conflict,
    Contact,
    ContactWrite,
    Context,
    Kind,
    LacksRight,
    Linked,
    NotFound,
    Outcome,
    Problem,
    Rejected,
    Saved,
    Written,
)
from crmhub.adapter.answers import value_at
from crmhub.adapter.batches import Action, Results, write_batches
from crmhub.adapter.coercion import fitted
from crmhub.adapter.emails import free_email, free_emails
from crmhub.adapter.places import place

CREATE, UPDATE = "api_create", "api_update"
"""What is done with a record, under Zoho's names."""
# In the addresses of pages, deals have their former name.
_TABS: Mapping[Kind, str] = {**MODULES, "deals": "Potentials"}


class Writing(Adapter):
    """The part of the adapter that creates and updates records."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._api = Api(context, title=self.title)
        self._mark = context.settings["mark_field"]
        # The API names of fields that Zoho was seen to demand of deals and cases.
        self._demanded: set[str] = set()

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        """Create a contact; where Zoho takes an email twice, look for it once more under a lease.

        A contact without a last name, which Zoho requires, gets its email, its phone or a dash.
        """
        email = (properties.get("email") or properties.get("Email", "")).strip()
        with free_email(self, "" if self._is_unique_email() else email):
            return self._create("contacts", properties, mark, {})

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        self.check_id(contact_id)
        row = self._row("contacts", UPDATE, properties)
        self._sent("PUT", "contacts", row, properties, contact_id)
        return self._saved("contacts", contact_id, "updated")

    def changes(self, contact: Contact, properties: Mapping[str, str]) -> Changes:
        """Return the properties whose values differ from the contact's, in the form of the type."""
        texts = self._texts("contacts", UPDATE, properties)
        current = contact.properties
        return Changes({name: text for name, text in texts.items() if current.get(name) != text})

    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        """Create a deal or case together with its link to the contact, in one call."""
        self.check_id(contact_id)
        link = self._api.link(kind)
        try:
            return self._create(kind, properties, mark, {link.name: {"id": contact_id}})
        except Rejected as exc:
            if link.described.name in [problem.name for problem in exc.problems]:
                raise NotFound("Zoho has no such contact") from None
            raise

    def _saved(self, kind: Kind, record_id: str, outcome: Outcome) -> Saved:
        return Saved(record_id, outcome, self._page(kind, record_id))

    def _page(self, kind: Kind, record_id: str) -> str:
        return page_url(self.context.settings, _TABS[kind], record_id)

    def _is_unique_email(self) -> bool:
        email = self._api.fields["contacts"].get().get("email")
        return email is not None and value_at(email.raw, "unique", "case_sensitive") is False

    # Properties.

    def _texts(self, kind: Kind, operation: str, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the properties in the form of their types, without pipeline and stage.

        An owner may be given by email. Raises Rejected with a problem for each value that Zoho
        would refuse, cut or ignore.
        """
        return retry_with_fresh(partial(self._fitted, kind, operation, properties))

    def _fitted(
        self, kind: Kind, operation: str, properties: Mapping[str, str], newer_than: float
    ) -> dict[str, str]:
        fields = self._api.fields[kind].get(newer_than=newer_than)
        places = PLACES[kind] if kind == "deals" or kind == "tickets" else ()
        given = {name: text for name, text in properties.items() if name not in places}
        for name, text in given.items():
            if "@" in text and name in fields and fields[name].raw["data_type"] in OWNERS:
                given[name] = self._owner_id(name, text.strip().casefold(), newer_than)
        usable = {name: fields[name].within(operation) for name in given if name in fields}
        texts = fitted(given, usable, of=kind)
        problems = [replace(p, name=n) for n, t in texts.items() if (p := fields[n].too_long(t))]
        seen: dict[str, str] = {}
        for name in texts:
            first = seen.setdefault(fields[name].name, name)
            if first != name:
                problems.append(Problem(name, f"is the same field as {first}; send one of them"))
        if problems:
            raise Rejected(problems)
        return texts

    def _owner_id(self, name: str, email: str, newer_than: float) -> str:
        try:
            owners = self._api.owners.get(newer_than=newer_than)
        except LacksRight:
            reason = "the connection may not list users in Zoho; send the id"
            raise Rejected([Problem(name, reason)]) from None
        for owner in owners:
            if owner.email.casefold() == email:
                return owner.id
        raise Rejected([Problem(name, "Zoho has no active user with this email")])

    def _row(
        self, kind: Kind, operation: str, properties: Mapping[str, str], mark: str = ""
    ) -> dict[str, Any]:
        """Return the JSON of a record to create or to update, with its mark if the account has one.

        Raises the same errors as `_texts`.
        """
        texts = self._texts(kind, operation, properties)
        fields = self._api.fields[kind].get()
        row = {fields[name].name: fields[name].to_json(text) for name, text in texts.items()}
        if operation == UPDATE:
            return with_last_name(row) if "Last_Name" in row else row
        row = {name: value for name, value in row.items() if value is not None}
        if kind == "deals" or kind == "tickets":
            row |= retry_with_fresh(partial(self._place, kind, properties))
        if mark and self._mark in fields:
            row.setdefault(self._mark, mark)
        return with_last_name(row) if kind == "contacts" else row

    def _place(
        self, kind: Linked, properties: Mapping[str, str], newer_than: float
    ) -> dict[str, Any]:
        """Return the pipeline and the stage of a new record, and its layout if that matters."""
        names = PLACES[kind]
        wanted = (properties.get(names[0], "").strip(), properties.get(names[1], "").strip())
        known = self._api.places[kind].get(newer_than=newer_than)
        layouts = {pipeline.id: layout for pipeline, layout in known}
        if wanted[0] and layouts.keys() == {""}:
            reason = f"{MODULES[kind]} have no pipelines in Zoho; leave it out"
            raise Rejected([Problem(names[0], reason)])
        pipeline, stage = place([pipeline for pipeline, _ in known], wanted, names)
        fields = self._api.fields[kind].get()
        row: dict[str, Any] = {fields[names[1]].name: stage}
        if pipeline:
            row[fields[names[0]].name] = pipeline
        if len(set(layouts.values())) > 1:
            row["Layout"] = {"id": layouts[pipeline]}
        return row

    # Single records.

    def _create(
        self, kind: Written, properties: Mapping[str, str], mark: str, link: Mapping[str, Any]
    ) -> Saved:
        """Create a record with its link, and with what the account demands beside.

        `link` is the JSON of the field that links the record to its contact. If an earlier attempt
        has already created a record with this mark, return that record.
        """
        row = {**self._row(kind, CREATE, properties, mark), **link}
        fields = self._api.fields[kind].get()
        row = demanded(fields, self._demanded) | row
        try:
            return self._created(kind, row, properties)
        except Rejected as exc:
            named = {fields[p.name].name for p in exc.problems if p.name in fields}
            more = demanded(fields, named)
            if not more.keys() - row.keys():
                raise
            self._demanded |= named & more.keys()
        return self._created(kind, more | row, properties)

    def _created(
        self, kind: Written, row: Mapping[str, Any], properties: Mapping[str, str]
    ) -> Saved:
        try:
            return self._saved(kind, self._sent("POST", kind, row, properties), "created")
        except Conflict as clash:
            if clash.name != self._mark or not self._mark or not clash.existing_id:
                raise
            return self._saved(kind, clash.existing_id, "created")

    def _sent(
        self,
        method: str,
        kind: Written,
        row: Mapping[str, Any],
        properties: Mapping[str, str],
        *path: str,
    ) -> str:
        """Write one record; return its id. Errors name the properties as the caller does."""
        fields = self._api.fields[kind].get()
        ours = {fields[name].name: name for name in properties if name in fields}

        def name_of(theirs: str) -> str:
            known = fields[theirs].described.name if theirs in fields else theirs
            return ours.get(theirs, known)

        try:
            [written] = self._api.write(method, kind, [row], *path)
        except Conflict as clash:
            clash.name = name_of(clash.name)
            raise
        except Rejected as exc:
            reasons = {problem.name: problem.reason for problem in exc.problems}
            if self._mark in reasons and self._mark not in properties:
                # Without the mark, a write whose answer was lost could not be found again.
                raise BadConfig(
                    f"Zoho does not take the hub's mark in {self._mark} of {MODULES[kind]}:"
                    f" {reasons[self._mark]}. Free this field of rules, or name another one."
                ) from exc
            exc.rename(name_of)
            raise
        if isinstance(written, AdapterError):
            raise written
        return written

    # Batches.

    def write_contacts(self, writes: Sequence[ContactWrite]) -> list[Saved | AdapterError | None]:
        return write_batches(writes, fit=dict, send=self._send_batch)

    def _send_batch(
        self, action: Action, items: Mapping[int, ContactWrite], results: Results
    ) -> None:
        rows: dict[int, dict[str, Any]] = {}
        for index, item in items.items():
            try:
                if action == "update":
                    row = self._row("contacts", UPDATE, item.properties)
                    rows[index] = {**row, "id": item.contact_id}
                else:
                    rows[index] = self._row("contacts", CREATE, item.properties, item.mark)
            except AdapterError as exc:
                results[index] = exc
        if action == "update":
            self._write_rows("PUT", rows, "updated", results)
            return
        name = "" if self._is_unique_email() else "Email"
        emails = [ContactWrite("", {"email": row.get(name, "")}) for row in rows.values()]
        with free_emails(self, emails) as free:
            indexes = list(rows)
            chosen = {indexes[i]: rows[indexes[i]] for i in free}
            self._write_rows("POST", chosen, "created", results)

    def _write_rows(
        self, method: str, rows: Mapping[int, Any], outcome: Outcome, results: Results
    ) -> None:
        """Write contacts in one call, and add the result of each to `results`.

        One that may succeed in a call of its own, or gets a better error there, has no result.
        """
        written: Sequence[str | AdapterError]
        try:
            written = self._api.write(method, "contacts", list(rows.values())) if rows else []
        except AdapterError as exc:
            # Not an error of the contacts that are not in this call.
            written = [exc] * len(rows)
        for index, result in zip(rows, written, strict=True):
            if isinstance(result, str):
                results[index] = self._saved("contacts", result, outcome)
            elif not isinstance(result, Conflict | NotFound | Rejected):
                results[index] = result
