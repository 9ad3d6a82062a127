"""`load`: Odoo's import of rows of texts, all or none, with a message for each error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from adapters.fakes.odoo.database import Database
from adapters.fakes.odoo.errors import OdooError, own_error
from adapters.fakes.odoo.models import Column, Model

# Before, an unknown column is an error of Python.
_NAMES_FIELDS_SINCE = 19
# After this many errors, Odoo looks at no further row.
_MOST_ERRORS = 10
_TIME = "%Y-%m-%d %H:%M:%S"
_NO = ("0", "false", "no")
Row = tuple[dict[str, Any], dict[str, Any]]
"""The values of a row, and the part of messages that says which row it is."""


class Import:
    """One call of `load` for the model `name`, with the caller's context.

    `user_zone` is the time zone in the user's preferences, which counts unless the context has one.
    """

    def __init__(
        self, database: Database, name: str, context: Mapping[str, Any], user_zone: str
    ) -> None:
        self._database = database
        self._name = name
        self._model: Model = database.model(name)
        self._context = context
        self._zone = ZoneInfo(context.get("tz") or user_zone)
        self._messages: list[dict[str, Any]] = []

    def load(self, columns: list[str], rows: list[list[Any]]) -> dict[str, Any]:
        """Create or update a record for each row; return their ids, or why none was written."""
        for column in columns:
            field = column.partition("/")[0]
            if field not in ("id", ".id") and field not in self._model.fields:
                if self._database.version < _NAMES_FIELDS_SINCE:
                    raise OdooError("builtins.KeyError", field)
                raise OdooError("builtins.ValueError", f"Invalid field name {field!r}")
        restore = self._database.snapshot()
        batch = [self._converted(columns, row, i) for i, row in enumerate(rows)]
        ids: Any = self._flushed(batch)
        if any(message["type"] == "error" for message in self._messages):
            restore()
            ids = False
        return {"ids": ids, "messages": self._messages, "nextrow": 0}

    # Conversion of texts.

    def _converted(self, columns: list[str], row: list[Any], index: int) -> Row:
        info = {"rows": {"from": index, "to": index}, "record": index}
        values: dict[str, Any] = {}
        for column, cell in zip(columns, row, strict=True):
            name, _, by = column.partition("/")
            if cell not in (False, None) and not isinstance(cell, str):
                message = f"'{type(cell).__name__}' object has no attribute 'lower'"
                raise OdooError("builtins.AttributeError", message)
            if name == "id":
                values["id"] = cell
            elif name == ".id":
                values[".id"] = self._own_id(cell, info)
            elif not cell:
                several = self._model.fields[name].type == "many2many"
                values[name] = [] if several else False
            else:
                try:
                    values[name] = self._value(self._model.fields[name], by, cell)
                except ValueError as exc:
                    text = str(exc).replace("%(field)s", self._model.fields[name].string)
                    self._tell(info, text, field=name)
        return values, info

    def _own_id(self, cell: str, info: Mapping[str, Any]) -> int | bool:
        try:
            id = int(cell)
        except ValueError:
            message = f'invalid input syntax for type integer: "{cell}"\n'
            raise OdooError("psycopg2.errors.InvalidTextRepresentation", message) from None
        if id >= 2**31:
            message = f'value "{id}" is out of range for type integer\n'
            raise OdooError("psycopg2.errors.NumericValueOutOfRange", message)
        if self._database.search(self._name, [["id", "=", id]], self._context):
            return int(id)
        self._tell(info, f"Unknown database identifier '{id}'", field=".id")
        return False

    def _value(self, column: Column, by: str, cell: str) -> Any:
        converters: dict[str, Callable[[Column, str], Any]] = {
            "boolean": _boolean,
            "integer": _number(int, "an integer"),
            "many2one_reference": _number(int, "an integer"),
            "float": _number(float, "a number"),
            "monetary": _number(float, "a number"),
            "date": _date,
            "datetime": self._datetime,
            "selection": _selection,
        }
        if column.to:
            if by == "id":
                return self._named(column, cell)
            if by != ".id":
                # The fake looks no names up.
                raise ValueError(f"No matching record found for name '{cell}' in field '%(field)s'")
            ids = [self._linked(column, one) for one in cell.split(",")]
            if column.type == "many2many":
                return [id for id in ids if id]
            return ids[0]
        converter = converters.get(column.type)
        return converter(column, cell) if converter else cell

    def _named(self, column: Column, cell: str) -> int:
        model, id, _ = self._database.external.get(cell, ("", 0, False))
        if model != column.to:
            raise ValueError(
                f"No matching record found for external id '{cell}' in field '%(field)s'"
            )
        return id

    def _linked(self, column: Column, cell: str) -> int | bool:
        if cell.lower() in _NO:
            return False
        try:
            id = int(cell)
        except ValueError:
            raise ValueError(f"Invalid database id '{cell}' for the field '%(field)s'") from None
        if not self._database.search(column.to, [["id", "=", id]], self._context):
            raise ValueError(
                f"No matching record found for database id '{cell}' in field '%(field)s'"
            )
        return id

    def _datetime(self, column: Column, cell: str) -> str:
        try:
            local = datetime.strptime(cell, _TIME).replace(tzinfo=self._zone)
        except ValueError:
            raise ValueError(
                f"'{cell}' does not seem to be a valid datetime for field '%(field)s'"
            ) from None
        return local.astimezone(UTC).strftime(_TIME)

    # Writing.

    def _flushed(self, batch: list[Row]) -> list[int]:
        """Write all rows at once; if that fails, each one by itself, to tell which are wrong."""
        restore = self._database.snapshot()
        at_once = ""
        try:
            return [self._stored(values) for values, _ in batch]
        except OdooError as exc:
            restore()
            if exc.name.startswith("odoo.exceptions."):
                at_once = exc.message
        ids, errors = [], 0
        for i, (values, info) in enumerate(batch, 1):
            try:
                ids.append(self._stored(values))
            except OdooError as exc:
                errors += 1
                restore()
                named = {"field": exc.field} if exc.field else {}
                self._tell(info, _described(exc), **named)
            if errors >= max(_MOST_ERRORS, i / _MOST_ERRORS):
                text = "Found more than 10 errors and more than one error per 10 records"
                self._messages.append({"type": "warning", "message": text})
                break
        first = {**batch[0][1], "type": "error", "message": at_once}
        if errors and at_once and first not in self._messages:
            # So the first row is blamed, whichever was at fault.
            self._messages.insert(0, first)
        return ids

    def _stored(self, row: Mapping[str, Any]) -> int:
        """Create or update the record of a row, as `_load_records` does; return its id."""
        database, update = self._database, self._context.get("mode") == "update"
        values = {name: value for name, value in row.items() if name not in ("id", ".id")}
        external, id = row.get("id"), row.get(".id")
        if external:
            external = external if "." in external else f"__import__.{external}"
            model, known, fixed = database.external.get(external, ("", 0, False))
            if model not in ("", self._name):
                message = f"For external id {external} found record of {model}"
                raise own_error("ValidationError", message)
            if record := database.records[self._name].get(str(known)):
                if not (update and fixed):
                    database.update(record, values)
                return known
        elif id:
            database.update(database.get(self._name, id), values)
            return int(id)
        elif update:
            message = "Cannot update a record without specifying its id or xml_id"
            raise own_error("ValidationError", message)
        # A contact gets the caller's language and time zone.
        names = ("lang", "tz") if self._name == "res.partner" else ()
        defaults = {name: self._context.get(name) or False for name in names}
        made = int(database.insert(self._name, defaults | values).id)
        if external:
            fixed = bool(self._context.get("noupdate"))
            database.name_record(external, self._name, made, fixed=fixed)
        return made

    def _tell(self, info: Mapping[str, Any], message: str, **more: Any) -> None:
        self._messages.append({**info, "type": "error", "message": message, **more})


def _described(error: OdooError) -> str:
    """Return the message of a row; errors of Python are named."""
    package, _, kind = error.name.rpartition(".")
    if package == "builtins":
        return f"Unknown error during import: <class '{kind}'>: {error.message}"
    return error.message


def _boolean(column: Column, cell: str) -> bool:
    if cell.lower() in ("1", "true", "yes"):
        return True
    if cell.lower() in _NO:
        return False
    raise ValueError(f"Unknown value '{cell}' for boolean field '%(field)s'")


def _number(kind: Callable[[str], Any], what: str) -> Callable[[Column, str], Any]:
    def convert(column: Column, cell: str) -> Any:
        try:
            return kind(cell)
        except ValueError:
            raise ValueError(f"'{cell}' does not seem to be {what} for field '%(field)s'") from None

    return convert


def _date(column: Column, cell: str) -> str:
    try:
        return date.fromisoformat(cell).isoformat()
    except ValueError:
        raise ValueError(
            f"'{cell}' does not seem to be a valid date for field '%(field)s'"
        ) from None


def _selection(column: Column, cell: str) -> str:
    for value, label in column.selection:
        if cell.lower() in (value.lower(), label.lower()):
            return value
    raise ValueError(f"Value '{cell}' not found in selection field '%(field)s'")
