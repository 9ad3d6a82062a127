"""The methods of Odoo's models that may be called from outside, as far as the fake has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from adapters.fakes.odoo.database import Database
from adapters.fakes.odoo.errors import OdooError
from adapters.fakes.odoo.loading import Import

_OF_MODEL = frozenset({"fields_get", "search_read", "search_count", "load", "check_access_rights"})


def call(
    database: Database, name: str, method: str, ids: Any, named: Mapping[str, Any], *, zone: str
) -> Any:
    """Call a method of the model `name` with the records `ids` and named arguments.

    `zone` is the user's time zone. Raises OdooError, also for a method or an argument that does not
    exist.
    """
    model, arguments = database.model(name), dict(named)
    context = arguments.pop("context", None) or {}
    database.check_context(context)

    def fields_get(
        allfields: list[str] | None = None, attributes: list[str] | None = None
    ) -> dict[str, Any]:
        database.allow(name, "read")
        shown: dict[str, Any] = {}
        for field, one in model.fields.items():
            if allfields and field not in allfields:
                continue
            described: dict[str, Any] = {
                "type": one.type,
                "string": one.string,
                "required": one.required,
                "readonly": one.read_only,
                "store": one.store,
                "searchable": True,
                "name": field,
            }
            described |= {"relation": one.to} if one.to else {}
            if one.type == "selection":
                described["selection"] = [list(pair) for pair in one.selection]
            shown[field] = {n: v for n, v in described.items() if not attributes or n in attributes}
        return shown

    def search_read(
        domain: Any = None,
        fields: list[str] | None = None,
        offset: int = 0,
        limit: int | None = None,
        order: str | None = None,
        load: str | None = "_classic_read",
    ) -> list[dict[str, Any]]:
        most = None if limit is None else offset + limit
        found = database.search(name, domain or [], context, order=order or "", most=most)
        names = list(model.fields) if fields is None else fields
        labels = load == "_classic_read"
        return [database.read(name, one, names, context, labels=labels) for one in found[offset:]]

    def search_count(domain: Any = None) -> int:
        return len(database.search(name, domain or [], context, order="id"))

    def load(fields: list[str], data: list[list[Any]]) -> dict[str, Any]:
        return Import(database, name, context, zone).load(fields, data)

    def check_access_rights(operation: str, raise_exception: bool = True) -> bool:
        if raise_exception:
            database.allow(name, operation)
        return has_access(operation)

    def has_access(operation: str) -> bool:
        return (name, operation) not in database.denied

    known: dict[str, Callable[..., Any]] = {
        "fields_get": fields_get,
        "search_read": search_read,
        "search_count": search_count,
        "load": load,
    }
    # Odoo 18 renamed this one.
    known |= {"check_access_rights": check_access_rights} if database.version < 19 else {}
    known |= {"has_access": has_access} if database.version > 17 else {}
    if method not in known:
        message = f"The method '{name}.{method}' does not exist"
        raise OdooError("builtins.AttributeError", message, 404)
    if ids and method in _OF_MODEL:
        raise _unprocessable(f"cannot call {name}.{method} with ids")
    try:
        return known[method](**arguments)
    except TypeError as exc:
        raise _unprocessable(str(exc)) from exc


def _unprocessable(message: str) -> OdooError:
    return OdooError("werkzeug.exceptions.UnprocessableEntity", message, 422)
