"""The methods of Odoo's models that may be called from outside, as far as the fake has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from adapters.fakes.odoo.database import Database
from adapters.fakes.odoo.errors import OdooError
from adapters.fakes.odoo.loading import Import

_OF_MODEL = frozenset({"fields_get", "search_read", "load", "check_access_rights"})


class Methods:
    """The methods of the model `name`, called by a user whose time zone is `zone`."""

    def __init__(self, database: Database, name: str, zone: str) -> None:
        self._database = database
        self._name = name
        self._zone = zone
        self._model = database.model(name)

    def call(self, method: str, ids: Any, named: Mapping[str, Any]) -> Any:
        """Call a method with the records `ids` and named arguments; return its result.

        Raises OdooError, also for a method or an argument that does not exist.
        """
        arguments = dict(named)
        context = arguments.pop("context", None) or {}
        self._database.check_context(context)
        known: dict[str, Callable[..., Any]] = {
            "fields_get": self._fields_get,
            "search_read": self._search_read,
            "load": self._load,
        }
        # Odoo 18 renamed this one.
        old, new = self._database.version < 19, self._database.version > 17
        known |= {"check_access_rights": self._check_access_rights} if old else {}
        known |= {"has_access": self._has_access} if new else {}
        if method not in known:
            message = f"The method '{self._name}.{method}' does not exist"
            raise OdooError("builtins.AttributeError", message, 404)
        if ids and method in _OF_MODEL:
            raise _unprocessable(f"cannot call {self._name}.{method} with ids")
        try:
            return known[method](ids, context, **arguments)
        except TypeError as exc:
            raise _unprocessable(str(exc)) from exc

    def _fields_get(
        self,
        ids: Any,
        context: Mapping[str, Any],
        allfields: list[str] | None = None,
        attributes: list[str] | None = None,
    ) -> dict[str, Any]:
        self._database.allow(self._name, "read")
        shown: dict[str, Any] = {}
        for name, field in self._model.fields.items():
            if allfields and name not in allfields:
                continue
            told = {
                "type": field.type,
                "string": field.string,
                "required": field.required,
                "readonly": field.readonly,
                "store": field.store,
                "searchable": True,
                "name": name,
            }
            told |= {"relation": field.relation} if field.relation else {}
            if field.type == "selection":
                told["selection"] = [list(one) for one in field.selection]
            shown[name] = {n: v for n, v in told.items() if not attributes or n in attributes}
        return shown

    def _search_read(
        self,
        ids: Any,
        context: Mapping[str, Any],
        domain: Any = None,
        fields: list[str] | None = None,
        offset: int = 0,
        limit: int | None = None,
        order: str | None = None,
    ) -> list[dict[str, Any]]:
        found = self._database.search(self._name, domain or [], context)
        if order:
            found = self._database.ordered(self._name, found, order)
        names = list(self._model.fields) if fields is None else fields
        page = found[offset : None if limit is None else offset + limit]
        return [self._database.read(self._name, one, names, context) for one in page]

    def _load(
        self, ids: Any, context: Mapping[str, Any], fields: list[str], data: list[list[Any]]
    ) -> dict[str, Any]:
        return Import(self._database, self._name, context, self._zone).load(fields, data)

    def _check_access_rights(
        self,
        ids: Any,
        context: Mapping[str, Any],
        operation: str,
        raise_exception: bool = True,
    ) -> bool:
        if raise_exception:
            self._database.allow(self._name, operation)
        return (self._name, operation) not in self._database.denied

    def _has_access(self, ids: Any, context: Mapping[str, Any], operation: str) -> bool:
        return (self._name, operation) not in self._database.denied


def _unprocessable(message: str) -> OdooError:
    return OdooError("werkzeug.exceptions.UnprocessableEntity", message, 422)
