"""The database of the fake Odoo: records, external ids, rights, and what the ORM does with them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from adapters.fakes.odoo.domains import matches
from adapters.fakes.odoo.errors import (
    OdooError,
    access_error,
    invalid_field,
    missing_error,
    user_error,
)
from adapters.fakes.odoo.models import INSTALLED_LANGUAGES, Field, Model, models
from adapters.fakes.records import Record, now_ms

# Before, Odoo quotes the words of a constraint.
_PLAIN_WORDS_SINCE = 18
_ADDRESS = re.compile(r"[^\s,;<>\"]+@[^\s,;<>\"]+")
_SCRIPT = re.compile(r"<script.*?</script>", re.DOTALL | re.IGNORECASE)
_ORDER = re.compile(r"(\w+)(?: (asc|desc))?", re.IGNORECASE)
# What is written to a deal or ticket under these names, Odoo writes to its contact, too.
_WRITTEN_THROUGH = {
    "email_from": "email",
    "phone": "phone",
    "mobile": "mobile",
    "partner_email": "email",
    "partner_phone": "phone",
}


def now() -> str:
    """Return the present time as Odoo writes it: UTC, without a zone."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")


class Database:
    """The records of an Odoo of the major version `version`, by model and id.

    `external` maps external ids to the model, the id, and whether an import leaves the record as it
    is. `denied` holds pairs of model and operation (create, read, write) that the user may not.
    """

    def __init__(self, version: int) -> None:
        self.version = version
        self.models = models(version)
        self.records: dict[str, dict[int, Record]] = {name: {} for name in self.models}
        self.external: dict[str, tuple[str, int, bool]] = {}
        self.denied: set[tuple[str, str]] = set()
        self._newest = dict.fromkeys(self.models, 0)

    def model(self, name: str) -> Model:
        """Return a model; raise the error of an Odoo without the app that has it."""
        if name not in self.models:
            raise user_error(f"Object {name} doesn't exist")
        return self.models[name]

    def snapshot(self) -> Any:
        """Return the whole state, for `restore`: a transaction."""
        records = {name: dict(found) for name, found in self.records.items()}
        values = [(one, one.properties) for found in records.values() for one in found.values()]
        return records, values, dict(self.external)

    def restore(self, snapshot: Any) -> None:
        """Undo all changes since `snapshot` was made. Ids are not given again."""
        records, values, external = snapshot
        self.records = {name: dict(found) for name, found in records.items()}
        self.external = dict(external)
        for record, properties in values:
            record.properties = properties

    # Reading.

    def search(self, name: str, domain: Any, context: Mapping[str, Any]) -> list[Record]:
        """Return the records in a domain, in the model's order; archived ones are hidden."""
        model = self.model(name)
        self.allow(name, "read")
        hidden = "active" in model.fields and context.get("active_test", True)
        found = [
            record
            for record in self.records[name].values()
            if matches(model, name, record.properties, domain)
            and (not hidden or record.properties["active"] or "active" in str(domain))
        ]
        return self.ordered(name, found, model.order)

    def ordered(self, name: str, records: list[Record], order: str) -> list[Record]:
        """Return records in an order such as `sequence, id desc`."""
        for part in reversed(order.split(",")):
            written = _ORDER.fullmatch(part.strip())
            if written is None or written[1] not in self.model(name).fields:
                raise OdooError("odoo.exceptions.UserError", f'Invalid "order" ({order})', 422)
            field = written[1]
            records = sorted(
                records,
                key=lambda record: self._sort_key(record.properties.get(field)),
                reverse=(written[2] or "").lower() == "desc",
            )
        return records

    def _sort_key(self, value: Any) -> tuple[bool, float, str]:
        number = float(value) if isinstance(value, int | float) and value is not False else 0.0
        return value is False or value is None, number, value if isinstance(value, str) else ""

    def read(
        self, name: str, record: Record, fields: list[str], context: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return a record as `read` answers it: links with a label, the empty value as false."""
        model = self.model(name)
        shown: dict[str, Any] = {"id": int(record.id)}
        for field in fields:
            if field not in model.fields:
                raise invalid_field(field, name)
            shown[field] = self._shown(model.fields[field], record.properties.get(field), context)
        return shown

    def _shown(self, field: Field, value: Any, context: Mapping[str, Any]) -> Any:
        if value in (None, False, ""):
            return field.empty()
        if field.type == "many2one":
            target = self.records[field.relation].get(value)
            return [value, target.properties.get("name") if target else ""]
        if isinstance(value, dict):
            return value.get(context.get("lang"), value["en_US"])
        return value

    def get(self, name: str, id: int) -> Record:
        """Return a record; raise MissingError if it does not exist."""
        record = self.records[name].get(id)
        if record is None:
            raise missing_error(name, id)
        return record

    # Writing.

    def allow(self, name: str, operation: str) -> None:
        """Raise AccessError if the user may not carry out an operation on a model."""
        if (name, operation) in self.denied:
            label = self.model(name).label
            raise access_error(
                f"You are not allowed to {operation} '{label}' ({name}) records.\n\nThis operation"
                " is allowed for the following groups:\n\t- Sales/Administrator"
            )

    def create(self, name: str, values: Mapping[str, Any]) -> Record:
        """Create a record with its defaults and computed values; return it."""
        self.allow(name, "create")
        model = self.model(name)
        self._newest[name] += 1
        id = self._newest[name]
        complete: dict[str, Any] = {
            field: (list(one.empty()) if one.type == "many2many" else False)
            for field, one in model.fields.items()
            if one.store
        }
        made = now()
        complete |= {**model.defaults, **values, "id": id, "create_date": made, "write_date": made}
        record = Record(name, str(id), now_ms(), now_ms())
        self.records[name][id] = record
        self._store(name, record, complete, values)
        return record

    def write(self, name: str, record: Record, values: Mapping[str, Any]) -> None:
        """Change values of a record; its other values are kept."""
        self.allow(name, "write")
        ignored = ("id", "create_uid", "create_date", "write_date")
        kept = {field: value for field, value in values.items() if field not in ignored}
        self._store(name, record, {**record.properties, **kept, "write_date": now()}, kept)

    def _store(
        self, name: str, record: Record, complete: dict[str, Any], given: Mapping[str, Any]
    ) -> None:
        model = self.model(name)
        for field, value in given.items():
            if model.fields[field].type == "html" and value:
                complete[field] = _SCRIPT.sub("", value)
        self._check(name, model, complete)
        if name == "res.partner":
            found = _ADDRESS.search(complete["email"] or "")
            complete["email_normalized"] = found[0].lower() if found else False
        elif complete.get("partner_id"):
            through = {
                theirs: given[mine] for mine, theirs in _WRITTEN_THROUGH.items() if given.get(mine)
            }
            if through:
                self.write("res.partner", self.get("res.partner", complete["partner_id"]), through)
        record.write(complete, now_ms())
        record.index()

    def _check(self, name: str, model: Model, values: Mapping[str, Any]) -> None:
        if name == "res.partner" and values["type"] == "contact" and not values["name"]:
            message = "Contacts require a name"
            message = f"'{message}'" if self.version < _PLAIN_WORDS_SINCE else message
            raise OdooError("psycopg2.errors.CheckViolation", message)
        for field, value in values.items():
            one = model.fields[field]
            if one.required and value in (False, ""):
                raise MissingValue(field, one.string)
            if isinstance(value, str) and "\x00" in value:
                message = "A string literal cannot contain NUL (0x00) characters."
                raise OdooError("builtins.ValueError", message)
            if one.type == "integer" and not -(2**31) <= value < 2**31:
                raise OdooError("psycopg2.errors.NumericValueOutOfRange", "integer out of range\n")
            if one.type in ("date", "datetime") and value and value < "1000":
                # Odoo writes such a year without zeros, and cannot read it back.
                message = f"time data '{value.lstrip('0')}' does not match format '%Y-%m-%d'"
                raise OdooError("builtins.ValueError", message)

    def delete(self, name: str, id: int) -> None:
        """Delete a record; links to it become empty."""
        del self.records[name][id]
        for other, model in self.models.items():
            links = [n for n, f in model.fields.items() if f.relation == name and f.store]
            for record in self.records[other].values():
                gone = {n: False for n in links if record.properties.get(n) == id}
                if gone:
                    record.write({**record.properties, **gone}, now_ms())

    def check_context(self, context: Mapping[str, Any]) -> None:
        """Raise UserError for a language that is not installed; Odoo 17 takes English then."""
        language = context.get("lang")
        if self.version > 17 and language and language not in INSTALLED_LANGUAGES:
            raise user_error(f"Invalid language code: {language}")


class MissingValue(OdooError):
    """A required value is missing (NOT NULL); `field` is its field."""

    def __init__(self, field: str, label: str) -> None:
        message = f"Missing required value for the field '{label}' ({field})"
        super().__init__("psycopg2.errors.NotNullViolation", message)
        self.field = field
