"""The database of the fake Odoo: records, external ids, rights, and what the ORM does with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from itertools import dropwhile, islice
from typing import Any

from adapters.fakes.odoo.domains import Leaf, parse
from adapters.fakes.odoo.errors import OdooError, missing_error, own_error
from adapters.fakes.odoo.models import INSTALLED_LANGUAGES, Column, Model, models
from adapters.fakes.records import Record, now_ms
from adapters.fakes.store import Store, Values

# Before, Odoo quotes the words of a constraint.
_PLAIN_WORDS_SINCE = 18
_ADDRESS = re.compile(r"[^\s,;<>\"]+@[^\s,;<>\"]+")
_SCRIPT = re.compile(r"<script.*?</script>", re.DOTALL | re.IGNORECASE)
_ORDER = re.compile(r"(\w+)(?: (asc|desc))?", re.IGNORECASE)
_SECONDS = len("2026-11-28 09:30:00")
_KEPT = {"id", "create_uid", "create_date", "write_date"}
# What is written to a deal or ticket under these names, Odoo writes to its contact, too.
_WRITTEN_THROUGH = {
    "email_from": "email",
    "phone": "phone",
    "mobile": "mobile",
    "partner_email": "email",
    "partner_phone": "phone",
}


class Database(Store):
    """The records of an Odoo of the major version `version`, by model and id.

    `external` maps external ids to the model, the id, and whether an import leaves the record as it
    is. `denied` holds pairs of model and operation (create, read, write) that the user may not.
    """

    def __init__(self, version: int) -> None:
        self.version = version
        self.models = models(version)
        super().__init__({name: model.fields for name, model in self.models.items()})
        self.external: dict[str, tuple[str, int, bool]] = {}
        self.denied: set[tuple[str, str]] = set()
        self._newest = dict.fromkeys(self.models, 0)
        self._undo: list[Callable[[], Any]] = []

    def new_id(self, kind: str) -> str:
        self._newest[kind] += 1
        return str(self._newest[kind])

    def model(self, name: str) -> Model:
        """Return a model; raise the error of an Odoo without the app that has it."""
        if name not in self.models:
            raise own_error("UserError", f"Object {name} doesn't exist")
        return self.models[name]

    # Transactions.

    def snapshot(self) -> Callable[[], None]:
        """Return the function that undoes all later changes; ids are not given again."""
        before = len(self._undo)

        def restore() -> None:
            while len(self._undo) > before:
                self._undo.pop()()

        return restore

    def commit(self) -> None:
        """Keep all changes; no earlier snapshot undoes them any more."""
        self._undo.clear()

    def name_record(self, external: str, model: str, id: int, *, fixed: bool) -> None:
        """Give a record an external id; `fixed`: an import leaves the record as it is."""
        former = self.external.get(external)
        self.external[external] = (model, id, fixed)

        def undo() -> None:
            self.external.pop(external)
            if former:
                self.external[external] = former

        self._undo.append(undo)

    # Reading.

    def search(
        self,
        name: str,
        domain: Any,
        context: Mapping[str, Any],
        *,
        order: str = "",
        most: int | None = None,
    ) -> list[Record]:
        """Return the first `most` records in a domain; archived ones are hidden.

        Without an order, they have the model's own.
        """
        model = self.model(name)
        self.allow(name, "read")
        is_in, needed = parse(model, name, domain)
        hidden = "active" in model.fields and context.get("active_test", True)
        hidden = hidden and "active" not in str(domain)
        found = (
            record
            for record in self._candidates(name, needed)
            if is_in(record.properties) and (not hidden or record.properties["active"])
        )
        if order == "id":
            return list(islice(found, most))
        return self.ordered(name, list(found), order or model.order)[:most]

    def _candidates(self, name: str, needed: list[Leaf]) -> Iterable[Record]:
        """Return the records that may meet all these conditions, in the order of their ids."""
        changed, last = None, 0
        for field, operator, wanted in needed:
            values = wanted if operator == "in" else [wanted] if operator == "=" else []
            if field == "id" and values:
                found = (self.records[name].get(str(id)) for id in sorted({*values}))
                return (record for record in found if record)
            if values and self.models[name].fields[field].type == "char" and all(values):
                return self.having(name, field, values)
            if (field, operator) == ("write_date", ">="):
                changed = datetime.fromisoformat(f"{wanted}Z").timestamp() * 1000
            elif (field, operator) == ("id", ">"):
                last = wanted
        if changed is not None:
            return self.written_since(name, changed)
        records = self.records[name].values()
        return dropwhile(lambda record: int(record.id) <= last, records)

    def ordered(self, name: str, records: list[Record], order: str) -> list[Record]:
        """Return records in an order such as `sequence, id desc`."""
        for part in reversed(order.split(",")):
            written = _ORDER.fullmatch(part.strip())
            if written is None or written[1] not in self.model(name).fields:
                raise own_error("UserError", f'Invalid "order" ({order})')
            keys = {one.id: _sort_key(one.properties.get(written[1])) for one in records}
            reverse = (written[2] or "").lower() == "desc"
            records = sorted(records, key=lambda one, keys=keys: keys[one.id], reverse=reverse)
        return records

    def read(
        self,
        name: str,
        record: Record,
        fields: list[str],
        context: Mapping[str, Any],
        *,
        labels: bool = True,
    ) -> dict[str, Any]:
        """Return a record as `read` answers it: the empty value as false, times in whole seconds.

        `labels`: links have the name of the linked record.
        """
        model = self.model(name)
        if unknown := [one for one in fields if one not in model.fields]:
            message = f"Invalid field '{unknown[0]}' on model '{name}'"
            raise OdooError("builtins.ValueError", message)
        held = record.properties
        shown = {
            one: self._shown(model.fields[one], held.get(one), context, labels) for one in fields
        }
        return {"id": int(record.id), **shown}

    def _shown(self, column: Column, value: Any, context: Mapping[str, Any], labels: bool) -> Any:
        if value in (None, False, ""):
            return column.empty()
        if column.type == "datetime":
            return value[:_SECONDS]
        if column.type == "many2one" and labels:
            target = self.records[column.to].get(str(value))
            return [value, target.properties.get("name") if target else ""]
        if isinstance(value, dict):
            return value.get(context.get("lang"), value["en_US"])
        return value

    def get(self, name: str, id: int) -> Record:
        """Return a record; raise MissingError if it does not exist."""
        record = self.records[name].get(str(id))
        if record is None:
            raise missing_error(name, id)
        return record

    # Writing.

    def allow(self, name: str, operation: str) -> None:
        """Raise AccessError if the user may not carry out an operation on a model."""
        if (name, operation) in self.denied:
            label = self.model(name).label
            message = (
                f"You are not allowed to {operation} '{label}' ({name}) records.\n\nThis operation"
                " is allowed for the following groups:\n\t- Sales/Administrator"
            )
            raise own_error("AccessError", message)

    def insert(self, kind: str, values: Values) -> Record:
        """Create a record with its defaults and computed values; return it."""
        self.allow(kind, "create")
        model, made = self.model(kind), _now()
        stored = {name: one.empty() for name, one in model.fields.items() if one.store}
        empty = {name: value if value == [] else False for name, value in stored.items()}
        dates = {"create_date": made, "write_date": made}
        complete = {**empty, **model.defaults, **values, **dates, "id": 0}
        record = super().insert(kind, self._completed(kind, complete, values))
        record.properties["id"] = int(record.id)
        record.index()
        self._undo.append(lambda: self.records[kind].pop(record.id))
        return record

    def update(self, record: Record, values: Values) -> None:
        """Change values of a record; its other values are kept."""
        self.allow(record.kind, "write")
        kept = {name: value for name, value in values.items() if name not in _KEPT}
        former = record.properties
        complete = {**former, **kept, "write_date": _now()}
        self._undo.append(lambda: setattr(record, "properties", former))
        record.write(self._completed(record.kind, complete, kept), now_ms())
        record.index()

    def _completed(self, kind: str, complete: dict[str, Any], given: Values) -> dict[str, Any]:
        """Return the values of a record with those that Odoo computes; `given` are written now."""
        model = self.model(kind)
        for name, value in given.items():
            if model.fields[name].type == "html" and value:
                complete[name] = _SCRIPT.sub("", value)
        self._check(kind, model, complete)
        if kind == "res.partner":
            found = _ADDRESS.search(complete["email"] or "")
            complete["email_normalized"] = found[0].lower() if found else False
        elif complete.get("partner_id"):
            through = {to: given[name] for name, to in _WRITTEN_THROUGH.items() if given.get(name)}
            if through:
                self.update(self.get("res.partner", complete["partner_id"]), through)
        return complete

    def _check(self, name: str, model: Model, values: Values) -> None:
        if name == "res.partner" and values["type"] == "contact" and not values["name"]:
            message = "Contacts require a name"
            message = f"'{message}'" if self.version < _PLAIN_WORDS_SINCE else message
            raise OdooError("psycopg2.errors.CheckViolation", message)
        for field, value in values.items():
            column = model.fields[field]
            if column.required and value in (False, ""):
                message = f"Missing required value for the field '{column.string}' ({field})"
                raise OdooError("psycopg2.errors.NotNullViolation", message, field=field)
            if isinstance(value, str) and "\x00" in value:
                message = "A string literal cannot contain NUL (0x00) characters."
                raise OdooError("builtins.ValueError", message)
            if column.type == "integer" and not -(2**31) <= value < 2**31:
                raise OdooError("psycopg2.errors.NumericValueOutOfRange", "integer out of range\n")
            if column.type in ("date", "datetime") and value and value < "1000":
                # Odoo writes such a year without zeros, and cannot read it back.
                message = f"time data '{value.lstrip('0')}' does not match format '%Y-%m-%d'"
                raise OdooError("builtins.ValueError", message)

    def delete(self, record: Record) -> None:
        """Delete a record; links to it become empty."""
        super().delete(record)
        for other, columns in self.fields.items():
            for name in [n for n, one in columns.items() if one.to == record.kind]:
                for linked in self.having(other, name, [record.id]):
                    if linked.properties[name] == int(record.id):
                        linked.write({**linked.properties, name: False}, now_ms())

    def check_context(self, context: Mapping[str, Any]) -> None:
        """Raise UserError for a language that is not installed; Odoo 17 takes English then."""
        language = context.get("lang")
        if self.version > 17 and language and language not in INSTALLED_LANGUAGES:
            raise own_error("UserError", f"Invalid language code: {language}")


def _now() -> str:
    """Return the present time as Odoo stores it: UTC, without a zone, with microseconds."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def _sort_key(value: Any) -> tuple[bool, float, str]:
    number = float(value) if isinstance(value, int | float) and value is not False else 0.0
    return value is False or value is None, number, value if isinstance(value, str) else ""
