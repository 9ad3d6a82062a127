from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adapters.zoho.api import MODULES, Api
from adapters.zoho.connecting import page_url
from adapters.zoho.definitions import (
    CREATE,
    UPDATE,
    Definitions,
    Field,
    demanded,
    with_last_name,
)
from crmhub.adapter import (
    AdapterError,
    Conflict,
    ContactWrite,
    Context,
    Kind,
    Linked,
    NotFound,
    Outcome,
    Problem,
    Rejected,
    Saved,
    Written,
)
from crmhub.adapter.batches import Action, Results, write_batches
from crmhub.adapter.defined import MarkedAdapter
from crmhub.adapter.emails import free_email, free_emails
from crmhub.adapter.fitting import Fitting
from crmhub.adapter.places import PLACES

# In the addresses of pages, deals have their former name.
_TABS: Mapping[Kind, str] = {**MODULES, "deals": "Potentials"}


class Writing(MarkedAdapter):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._api = Api(context, title=self.title)
        self.mark_name = context.settings["mark_field"]
        self.definitions: Definitions = Definitions(self._api, context)
        self.fitting = Fitting(self.definitions)
        self._demanded: set[str] = set()

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        """Where Zoho takes an email twice, look for it once more under a lease."""
        email = (properties.get("email") or properties.get("Email", "")).strip()
        with free_email(self, "" if self.is_unique_email() else email):
            return self._create("contacts", properties, mark, {})

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        self.check_id(contact_id)
        row = self._row("contacts", UPDATE, properties)
        self._sent("PUT", "contacts", row, properties, contact_id)
        return self.saved("contacts", contact_id, "updated")

    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        self.check_id(contact_id)
        link = self.definitions.link(kind)
        try:
            return self._create(kind, properties, mark, {link.theirs: {"id": contact_id}})
        except Rejected as exc:
            if link.name in [problem.name for problem in exc.problems]:
                raise NotFound("Zoho has no such contact") from None
            raise

    def saved(self, kind: Kind, record_id: str, outcome: Outcome) -> Saved:
        return Saved(record_id, outcome, self.page(kind, record_id))

    def page(self, kind: Kind, record_id: str) -> str:
        return page_url(self.context.settings, _TABS[kind], record_id)

    def is_unique_email(self) -> bool:
        email = self.definitions.fields("contacts").get("email")
        return email is not None and email.in_any_case

    def _row(
        self, kind: Kind, operation: str, properties: Mapping[str, str], mark: str = ""
    ) -> dict[str, Any]:
        """Raises Rejected with a problem for each value that Zoho would refuse, cut or ignore."""
        fit = self.fitting.fitted(kind, properties)
        fields = self.definitions.fields(kind)
        fixed = [name for name in fit if name in fields and operation in fields[name].refuses]
        if fixed:
            only = "created" if operation == UPDATE else "updated"
            reason = f"Zoho takes it only when a record is {only}; leave it out"
            raise Rejected([Problem(name, reason) for name in fixed])
        if operation == CREATE:
            # A new record has no values to clear.
            fit = {name: text for name, text in fit.items() if text}
        row = self.definitions.values(kind, fit, Field.to_json)
        if operation == UPDATE:
            return with_last_name(row) if "Last_Name" in row else row
        if kind == "deals" or kind == "tickets":
            row |= self.definitions.layout(kind, fit.get(PLACES[kind][0], ""))
        row = self.mark_to_send(kind, mark) | row
        return with_last_name(row) if kind == "contacts" else row

    def _create(
        self, kind: Written, properties: Mapping[str, str], mark: str, link: Mapping[str, Any]
    ) -> Saved:
        """Return an earlier attempt's record with this mark; `link`: the contact's JSON."""
        row = {**self._row(kind, CREATE, properties, mark), **link}
        fields = self.definitions.fields(kind)
        row = demanded(fields, self._demanded) | row
        try:
            return self._created(kind, row, properties)
        except Rejected as exc:
            named = {fields[p.name].theirs for p in exc.problems if p.name in fields}
            more = demanded(fields, named)
            if not more.keys() - row.keys():
                raise
            self._demanded |= named & more.keys()
        return self._created(kind, more | row, properties)

    def _created(
        self, kind: Written, row: Mapping[str, Any], properties: Mapping[str, str]
    ) -> Saved:
        try:
            return self.saved(kind, self._sent("POST", kind, row, properties), "created")
        except Conflict as clash:
            if clash.name != self.mark_name or not self.mark_name or not clash.existing_id:
                raise
            return self.saved(kind, clash.existing_id, "created")

    def _sent(
        self,
        method: str,
        kind: Written,
        row: Mapping[str, Any],
        properties: Mapping[str, str],
        *path: str,
    ) -> str:
        """Errors name the properties as the caller does."""
        try:
            with self.definitions.renamed(kind, properties):
                [written] = self._api.write(method, kind, [row], *path)
        except Rejected as exc:
            self.raise_for_mark(MODULES[kind], properties, exc)
            raise
        if isinstance(written, AdapterError):
            raise written
        return written

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
        name = "" if self.is_unique_email() else "Email"
        emails = [ContactWrite("", {"email": row.get(name, "")}) for row in rows.values()]
        with free_emails(self, emails) as free:
            indexes = list(rows)
            chosen = {indexes[i]: rows[indexes[i]] for i in free}
            self._write_rows("POST", chosen, "created", results)

    def _write_rows(
        self, method: str, rows: Mapping[int, Any], outcome: Outcome, results: Results
    ) -> None:
        """A row that may succeed alone, or gets a better error there, has no result."""
        written: Sequence[str | AdapterError]
        try:
            written = self._api.write(method, "contacts", list(rows.values())) if rows else []
        except AdapterError as exc:
            # Not an error of the contacts that are not in this call.
            written = [exc] * len(rows)
        for index, result in zip(rows, written, strict=True):
            if isinstance(result, str):
                results[index] = self.saved("contacts", result, outcome)
            elif not isinstance(result, Conflict | NotFound | Rejected):
                results[index] = result
