"""Write records to Odoo by `load`: single ones with their marks, and contacts in batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from adapters.odoo.api import Api, number
from adapters.odoo.definitions import Definitions
from adapters.odoo.failures import NotLoaded, lacks
from adapters.odoo.fields import CONTACTS
from crmhub.adapter import AdapterError, ContactWrite, NotFound, Rejected, Saved, Written

Row = dict[str, str]
"""A row of a `load`: cells by column."""


class Writing:
    """Creates and updates records in the Odoo of one connection."""

    def __init__(self, api: Api, definitions: Definitions) -> None:
        self._api = api
        self._definitions = definitions

    def create(
        self, kind: Written, properties: Mapping[str, str], mark: str, *, contact: int = 0
    ) -> Saved:
        """Create a record with its mark as external id; a deal or ticket is linked to `contact`.

        If a record with this mark exists already, return that record.
        """
        return self.saved(kind, self._write(kind, *_new(kind, properties, mark, contact)))

    def update(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        """Write properties of a contact; raise NotFound also for an archived one."""
        id = self._write("contacts", properties, {".id": str(number(contact_id))})
        return replace(self.saved("contacts", id), outcome="updated")

    def batch(
        self, writes: Sequence[ContactWrite], indexes: Iterable[int]
    ) -> list[Saved | AdapterError | None]:
        """Make the writes with these indexes, in one call for all with the same properties.

        Return the outcome of each write, in order; None for one that must be made alone.
        """
        outcomes: list[Saved | AdapterError | None] = [None] * len(writes)
        # All rows of a `load` have the same columns, and an empty cell clears a value.
        batches: dict[tuple[str, ...], dict[int, Row]] = {}
        for index in indexes:
            # A write that is refused here is refused again, in words, when it is made alone.
            with suppress(Rejected, NotFound):
                row = self._row_of(writes[index])
                batches.setdefault(tuple(row), {})[index] = row
        for rows in batches.values():
            for index, outcome in self._load_rows(rows).items():
                if isinstance(outcome, Saved) and writes[index].contact_id:
                    outcome = replace(outcome, outcome="updated")
                outcomes[index] = outcome
        return outcomes

    def saved(self, kind: Written, id: str) -> Saved:
        """Return the result of a create."""
        return Saved(id, "created", self._api.page(self._definitions.model(kind).name, id))

    def _write(self, kind: Written, properties: Mapping[str, str], fixed: Mapping[str, str]) -> str:
        """Load one row, which begins with the cells `fixed`; return the record's id."""
        model = self._definitions.model(kind)
        with model.names.translated(properties) as given:
            row = self._row(kind, self._definitions.fit(kind, given), fixed)
            try:
                return self._load_row(model.name, row)
            except Rejected:
                # The definitions may have changed.
                stale_s = self._definitions.stale_s
                fresh = self._definitions.fit(kind, given, newer_than=stale_s)
                if self._row(kind, fresh, fixed) == row:
                    raise
            return self._load_row(model.name, self._row(kind, fresh, fixed))

    def _row(self, kind: Written, fit: Mapping[str, str], fixed: Mapping[str, str]) -> Row:
        fields = self._definitions.fields(kind)
        return {**fixed, **dict(fields[name].cell(text) for name, text in fit.items())}

    def _load_row(self, model: str, row: Row) -> str:
        try:
            return str(self._api.load(model, [row])[0])
        except NotLoaded as exc:
            if {".id", "partner_id"} & {problem.name for problem in exc.problems}:
                raise NotFound("Odoo has no such contact") from exc
            # `load` tells a missing right in words only.
            operation = "write" if ".id" in row else "create"
            if not exc.problems and not self._api.may(model, operation):
                raise lacks([f"{operation} {model}"]) from exc
            raise

    def _row_of(self, write: ContactWrite) -> Row:
        if write.contact_id:
            properties, fixed = write.properties, {".id": str(number(write.contact_id))}
        else:
            properties, fixed = _new("contacts", write.properties, write.mark)
        with CONTACTS.names.translated(properties) as given:
            return self._row("contacts", self._definitions.fit("contacts", given), fixed)

    def _load_rows(self, rows: Mapping[int, Row]) -> dict[int, Saved | AdapterError]:
        """Load rows of contacts without those that Odoo refuses; return the outcomes by index."""
        while rows:
            try:
                ids = self._api.load(CONTACTS.name, list(rows.values()))
                saved = [self.saved("contacts", str(id)) for id in ids]
                return dict(zip(rows, saved, strict=True))
            except NotLoaded as exc:
                bad = exc.rows or range(len(rows))
                rows = {index: row for i, (index, row) in enumerate(rows.items()) if i not in bad}
            except Rejected:
                break
            except AdapterError as exc:
                return dict.fromkeys(rows, exc)
        return {}


def external_id(mark: str) -> str:
    """Return the external id of the record with this mark."""
    # Under the name of a module, which need not exist.
    return f"crmhub.{mark}"


def _new(
    kind: Written, properties: Mapping[str, str], mark: str, contact: int = 0
) -> tuple[Row, Row]:
    """Return the properties of a new record without blank ones, and the cells beside them."""
    filled = {name: text for name, text in properties.items() if text}
    fixed = {"id": external_id(mark)} if mark else {}
    if kind != "contacts":
        fixed["partner_id/.id"] = str(contact)
    if kind == "deals":
        fixed["type"] = "opportunity"
    names = [filled[name] for name in ("email", "phone", "mobilephone") if name in filled]
    if kind == "contacts" and names:
        # Odoo has no contact without a name.
        fixed["name"] = names[0]
    return filled, fixed
