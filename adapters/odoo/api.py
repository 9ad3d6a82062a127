"""The calls of Odoo's models, over JSON-RPC or JSON-2 as the settings say, and their errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from crmhub.adapter import (
    AdapterError,
    BadConfig,
    Context,
    Denied,
    LacksRight,
    NotFound,
    NotYet,
    Problem,
    Rejected,
    Unavailable,
)
from crmhub.adapter.http import GENERAL, Answer, Http
from crmhub.adapter.remembered import Remembered
from crmhub.adapter.types import to_text

# A worker of Odoo serves one call at a time, and people need some of them.
_AT_ONCE = 4
_BUSY_S = 1.0
_SHOWN = 300
_BUSY = re.compile("could not serialize|deadlock|could not obtain lock|Serialization|Lock")
_NO_MODEL = re.compile("Object (?:(?!Object ).)* doesn't exist")
_OTHER_VERSION = frozenset({"NotFound", "UnprocessableEntity", "BadRequest", "AttributeError"})
_REFUSALS = frozenset(
    {"UserError", "ValidationError", "RedirectWarning", "ValueError", "TypeError", "KeyError"}
    | {"DataError", "NumericValueOutOfRange"}
)
_NO_INTERFACE = (
    "Odoo is not at this address, or has no such interface: json-2 is for Odoo 19 and later,"
    " json-rpc for 17 and 18. If the address has several databases, enter the right one."
)


class Api:
    """JSON-RPC names the user by number: each process learns it by a login, once an hour."""

    def __init__(self, context: Context, *, title: str) -> None:
        self._settings = context.settings
        self._key = context.credentials["api_key"]
        self._json2 = context.settings["interface"] == "json-2"
        self._user = Remembered(self._log_in, context)
        self._http = Http(
            context,
            context.settings["base_url"],
            crm=title,
            authorize=self._headers,
            failure=_failure,
            budgets={GENERAL: context.budget(GENERAL, calls=100, seconds=10)},
            at_once=_AT_ONCE,
            secrets=lambda: (self._key,),
        )

    def call(
        self,
        model: str,
        method: str,
        *,
        ids: Sequence[int] = (),
        reads: bool = True,
        context: Mapping[str, Any] = {},
        **named: Any,
    ) -> Answer:
        """Return an answer with the result under "result"; `reads`: the method writes nothing."""
        # Without a zone of its own, a call has the user's, in which `load` reads times.
        named["context"] = {"lang": self._settings["language"], "tz": "UTC", **context}
        if self._json2:
            body = named | ({"ids": ids} if ids else {})
            answer = self._http.send("POST", "json", "2", model, method, body=body, reads=reads)
            return replace(answer, body={"result": answer.body})
        args = [model, method, [ids] if ids else [], named]
        return self._rpc("object", "execute_kw", self._user.get(), self._key, *args, reads=reads)

    def search(self, model: str, domain: list[Any], fields: Iterable[str], **more: Any) -> Answer:
        """Return the records as "result", oldest first; `more`: arguments of `search_read`."""
        # Odoo's own order is by name, or by priority.
        options = {"order": "id", **more}
        return self.call(model, "search_read", domain=domain, fields=sorted(fields), **options)

    def load(self, model: str, rows: Sequence[Mapping[str, str]]) -> list[str]:
        """Create or update a record for each row, all or none; return the ids in their order.

        The column `id` has the external ids of new records; an existing one stands for its record,
        which is left as it is. `.id` has the ids of records to update. Raises NotLoaded.
        """
        context = {"mode": "update", "noupdate": True} if "id" in rows[0] else {}
        fields, data = list(rows[0]), [list(row.values()) for row in rows]
        answer = self.call(model, "load", reads=False, context=context, fields=fields, data=data)
        ids = answer.mapping(answer.object().get("result")).get("ids")
        if not isinstance(ids, list) or len(ids) != len(rows):
            raise answer.broken("it names other ids than those of the rows")
        return [answer.id({"id": id}) for id in ids]

    def may(self, model: str, operation: str) -> bool:
        method, more = "has_access", dict[str, Any]()
        if not self._json2:
            method, more = "check_access_rights", {"raise_exception": False}
        return self.call(model, method, operation=operation, **more).object().get("result") is True

    def page(self, model: str, id: str) -> str:
        base = self._settings["base_url"].rstrip("/")
        if self._json2:
            return f"{base}/odoo/{model}/{id}"
        return f"{base}/web#id={id}&model={model}&view_type=form"

    def _headers(self) -> dict[str, str]:
        if not self._json2:
            return {}
        database = {"X-Odoo-Database": self._settings["db"]} if self._settings["db"] else {}
        return {"Authorization": f"bearer {self._key}", **database}

    def _log_in(self) -> int:
        answer = self._rpc("common", "authenticate", self._settings["user"], self._key, {})
        match answer.object().get("result"):
            case False:
                raise Denied("Odoo refuses user or API key.")
            case int(user) if user is not True:
                return user
        raise answer.broken("it names no user")

    def _rpc(self, service: str, method: str, *args: Any, reads: bool = True) -> Answer:
        params = {"service": service, "method": method, "args": [self._settings["db"], *args]}
        body = {"jsonrpc": "2.0", "method": "call", "id": 1, "params": params}
        return self._http.send("POST", "jsonrpc", body=body, reads=reads)


class NotLoaded(Rejected):
    """Odoo refuses `rows` (indexes; empty if unknown); the problems have Odoo's field names."""

    rows: frozenset[int] = frozenset()


def _failure(answer: Answer) -> AdapterError | None:
    """Never Uncertain: Odoo rolls back a call that raises."""
    match answer.body:
        case {"result": {"ids": False, "messages": list(messages)}}:
            return _not_loaded(messages)
        case {"ids": False, "messages": list(messages)}:
            return _not_loaded(messages)
        case {"error": {"data": {"name": str(name), "message": str(message)}}}:
            return _raised(name, message)
        case {"name": str(name), "message": str(message), "arguments": _}:
            return _raised(name, message)
        case _ if answer.status in (404, 410):
            return BadConfig(_NO_INTERFACE)
        case _ if answer.status == 409:
            # A lock, told without its class.
            return NotYet("Odoo is busy with the same records.", retry_after=_BUSY_S)
    return None


def lacks(rights: Sequence[str]) -> LacksRight:
    return LacksRight(f"The user lacks rights in Odoo: {', '.join(rights)}")


def _raised(name: str, message: str) -> AdapterError:
    kind, words = name.rpartition(".")[2], _shown(message)
    if _BUSY.search(f"{kind} {message}"):
        return NotYet(f"Odoo is busy with the same records: {words}", retry_after=_BUSY_S)
    if _NO_MODEL.search(message) or kind in _OTHER_VERSION:
        return BadConfig(f"This Odoo lacks an app, or has another version: {words}")
    if kind == "OperationalError" and "does not exist" in message:
        return BadConfig(f"Odoo has no such database: {words}")
    if kind in _REFUSALS:
        return Rejected([], f"Odoo does not take these values: {words}")
    match kind:
        case "AccessDenied" | "Unauthorized" | "SessionExpiredException":
            return Denied(f"Odoo refuses the API key or the user: {words}")
        case "MissingError" if "res.users(" in message:
            return Denied("Odoo has this user no more.")
        case "AccessError":
            return lacks([words])
        case "MissingError":
            return NotFound(f"Odoo has no such record: {words}")
    return Unavailable(f"Odoo broke down ({kind}): {words}")


def _not_loaded(messages: list[Any]) -> AdapterError:
    told = [one for one in messages if isinstance(one, dict) and one.get("type") == "error"]
    texts = [_shown(to_text(one.get("message"))) for one in told]
    if any(map(_BUSY.search, texts)):
        return NotYet(f"Odoo is busy with the same records: {texts[0]}", retry_after=_BUSY_S)
    fields = [to_text(one.get("field") or "") for one in told]
    named = [Problem(name, text) for name, text in zip(fields, texts, strict=True) if name]
    error = NotLoaded(named, "" if named else f"Odoo does not take this: {' '.join(texts)}")
    error.rows = frozenset(one["record"] for one in told if isinstance(one.get("record"), int))
    return error


def _shown(message: str) -> str:
    return " ".join(message.split())[:_SHOWN].rstrip(".")
