"""Write contacts, deals and cases to Zoho, contacts also in batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from adapters.zoho.api import STALE_S, Api
from adapters.zoho.connecting import page_url
from adapters.zoho.fields import MODULES, PLACES, demanded, texts_of, with_last_name
from crmhub.adapter import (
    AdapterError,
    BadConfig,
    Conflict,
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
from crmhub.adapter.places import place
from crmhub.adapter.remembered import HOUR

CREATE, UPDATE = "api_create", "api_update"
"""What is done with a record, under Zoho's names."""
# In the addresses of pages, deals have their former name.
_TABS: Mapping[Kind, str] = {**MODULES, "deals": "Potentials"}


class Writing:
    """Creates and updates records in the Zoho account of one connection."""

    def __init__(self, api: Api, context: Context) -> None:
        self._api = api
        self._settings = context.settings
        self._mark = context.settings["mark_field"]
        # The API names of fields that Zoho was seen to demand of deals and cases.
        self._demanded: set[str] = set()

    def page(self, kind: Kind, record_id: str) -> str:
        """Return the address of a record's page in Zoho CRM."""
        return page_url(self._settings, _TABS[kind], record_id)

    def saved(self, kind: Kind, record_id: str, outcome: Outcome) -> Saved:
        """Return the result of a write: the record's id and page, with the outcome `outcome`."""
        return Saved(record_id, outcome, self.page(kind, record_id))

    def texts(self, kind: Kind, operation: str, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the properties with each value in the form of its type, without their stage.

        An owner may be given by email. Raises Rejected with a problem for each value that Zoho
        would refuse, cut or ignore.
        """
        try:
            return self._texts(kind, operation, properties, HOUR)
        except Rejected:
            # The definitions may be outdated, so try once with newer ones.
            return self._texts(kind, operation, properties, STALE_S)

    def _texts(
        self, kind: Kind, operation: str, properties: Mapping[str, str], newer_than: float
    ) -> dict[str, str]:
        fields = self._api.fields[kind].get(newer_than=newer_than)
        given = dict(properties)
        for name, text in properties.items():
            if "@" in text and name in fields and fields[name].is_owner:
                given[name] = self._owner_id(name, text.strip().casefold(), newer_than)
        return texts_of(kind, fields, given, operation)

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

    def row(
        self, kind: Kind, operation: str, properties: Mapping[str, str], mark: str = ""
    ) -> dict[str, Any]:
        """Return the JSON of a record to create or to update, with its mark if the account has one.

        Raises the same errors as `texts`.
        """
        texts = self.texts(kind, operation, properties)
        fields = self._api.fields[kind].get()
        row = {fields[name].name: fields[name].to_json(text) for name, text in texts.items()}
        if operation == UPDATE:
            return with_last_name(row) if "Last_Name" in row else row
        row = {name: value for name, value in row.items() if value is not None}
        if kind == "deals" or kind == "tickets":
            row |= self._place(kind, properties)
        if mark and self._mark in fields:
            row.setdefault(self._mark, mark)
        return with_last_name(row) if kind == "contacts" else row

    def _place(self, kind: Linked, properties: Mapping[str, str]) -> dict[str, Any]:
        """Return the pipeline and the stage of a new record, and its layout if that matters."""
        names = PLACES[kind]
        wanted = (properties.get(names[0], "").strip(), properties.get(names[1], "").strip())
        try:
            return self._placed(kind, names, wanted, HOUR)
        except Rejected:
            return self._placed(kind, names, wanted, STALE_S)

    def _placed(
        self, kind: Linked, names: tuple[str, str], wanted: tuple[str, str], newer_than: float
    ) -> dict[str, Any]:
        known = self._api.places[kind].get(newer_than=newer_than)
        layouts = {pipeline.id: layout for pipeline, layout in known}
        if wanted[0] and layouts.keys() == {""}:
            raise Rejected(
                [Problem(names[0], f"{MODULES[kind]} have no pipelines in Zoho; leave it out")]
            )
        pipeline, stage = place([pipeline for pipeline, _ in known], wanted, names)
        fields = self._api.fields[kind].get()
        row: dict[str, Any] = {fields[names[1]].name: stage}
        if pipeline:
            row[fields[names[0]].name] = pipeline
        if len(set(layouts.values())) > 1:
            row["Layout"] = {"id": layouts[pipeline]}
        return row

    def create(
        self,
        kind: Written,
        properties: Mapping[str, str],
        mark: str,
        link: Mapping[str, Any],
    ) -> Saved:
        """Create a record with its link, and with what the account demands beside.

        `mark` is the text that identifies this create, and `link` the JSON of the field that links
        the record to its contact. If an earlier attempt has already created a record with this
        mark, return that record.
        """
        row = {**self.row(kind, CREATE, properties, mark), **link}
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
            return self.saved(kind, self._sent("POST", kind, row, properties), "created")
        except Conflict as clash:
            if clash.name != self._mark or not self._mark or not clash.existing_id:
                raise
            return self.saved(kind, clash.existing_id, "created")

    def update(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        """Write the given properties of a contact."""
        row = self.row("contacts", UPDATE, properties)
        self._sent("PUT", "contacts", row, properties, contact_id)
        return self.saved("contacts", contact_id, "updated")

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
                raise _mark_refused(kind, self._mark, reasons[self._mark]) from exc
            exc.problems = tuple(replace(p, name=name_of(p.name)) for p in exc.problems)
            raise
        if isinstance(written, AdapterError):
            raise written
        return written

    def write_batch(
        self,
        method: str,
        rows: Mapping[int, Mapping[str, Any]],
        outcome: Outcome,
        results: dict[int, Saved | AdapterError],
    ) -> None:
        """Write contacts in one call, and add the result of each to `results`.

        `rows` are their JSON by any index. One that may succeed in a call of its own, or gets a
        better error there, has no result.
        """
        if not rows:
            return
        written: Sequence[str | AdapterError]
        try:
            written = self._api.write(method, "contacts", list(rows.values()))
        except AdapterError as exc:
            written = [exc] * len(rows)
        for index, result in zip(rows, written, strict=True):
            if isinstance(result, str):
                results[index] = self.saved("contacts", result, outcome)
            elif not isinstance(result, Conflict | NotFound | Rejected):
                results[index] = result


def _mark_refused(kind: Kind, name: str, reason: str) -> BadConfig:
    # Without the mark, a write whose answer was lost could not be found again.
    return BadConfig(
        f"Zoho does not take the hub's mark in {name} of {MODULES[kind]}: {reason}. Free this field"
        " of rules, or name another one."
    )
