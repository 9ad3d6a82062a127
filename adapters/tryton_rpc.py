"""Tryton's JSON-RPC: sessions, calls, errors, and values as JSON."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from crmhub import adapter as hub
from crmhub.adapter.coercion import Misfit
from crmhub.adapter.http import Answer, Http
from crmhub.adapter.oauth import Grant
from crmhub.adapter.remembered import Remembered
from crmhub.adapter.tables import BOOL, LINE, OPTION, OPTIONS, TEXT, Codec
from crmhub.adapter.types import to_text

_MOMENT = ("year", "month", "day", "hour", "minute", "second", "microsecond")
_LARGEST = 2**31 - 1
_FORBIDDEN = re.compile("You are not allowed to (?!modify the field)")
_ABSENT = re.compile("records (?:(?!records ).)* that don't exist", re.DOTALL)
_NO_MODEL = re.compile(r"'([a-z_]+(?:\.[a-z_]+)+)'")


class Rpc:
    def __init__(self, context: hub.Context, crm: str) -> None:
        self._settings = context.settings
        self._session = Grant(context, crm, self._log_in)
        self.http = Http(
            context,
            context.settings["base_url"],
            crm=crm,
            authorize=lambda: {"Authorization": f"Session {self._session.token()}"},
            renew=self._session.renew,
            failure=failure,
            trailing_slash=True,
            secrets=self._session.secrets,
        )
        self.preferences = Remembered(self._load_preferences, context)
        """The ids of the user's company and employee, by these names, as far as it has them."""

    def call(self, model: str, method: str, *params: Any, reads: bool = False) -> Answer:
        """Tryton's messages come in English, since `failure` and others read them."""
        context = {**self.preferences.get(), "language": "en"}
        return self._send(f"model.{model}.{method}", (*params, context), reads=reads)

    def search(
        self, model: str, domain: Sequence[Any], *names: str, most: int | None = None
    ) -> list[Mapping[str, Any]]:
        params = (domain, 0, most, [["id", "ASC"]], ["id", *names])
        answer = self.call(model, "search_read", *params, reads=True)
        return [record for record in answer.items("result") if answer.id(record)]

    def read(self, model: str, method: str, *params: Any) -> Mapping[str, Any]:
        answer = self.call(model, method, *params, reads=True)
        return answer.mapping(answer.object().get("result"))

    def _log_in(self, credentials: Mapping[str, str]) -> Mapping[str, Any]:
        user = self._settings["user"]
        params = (user, {"password": credentials["password"]})
        answer = self._send("common.db.login", params, reads=True, anonymous=True)
        match answer.object().get("result"):
            case [int(user_id), str(key), *_]:
                session = base64.b64encode(f"{user}:{user_id}:{key}".encode())
                return {"access_token": session.decode(), "expires_in": 86_400}
        raise answer.broken("it names no session")

    def _load_preferences(self) -> dict[str, int]:
        answer = self._send("model.res.user.get_preferences", (True, {}), reads=True)
        held = answer.mapping(answer.object().get("result"))
        return {name: held[name] for name in ("company", "employee") if held.get(name)}

    def _send(self, method: str, params: Sequence[Any], **options: Any) -> Answer:
        body = {"id": 1, "method": method, "params": params}
        return self.http.send("POST", self._settings["database"], "rpc", body=body, **options)


def failure(answer: Answer) -> hub.AdapterError | None:
    match answer.body:
        case {"error": [("UserError" | "UserWarning") as kind, [*texts]]}:
            message = str(texts[kind == "UserWarning"])
            if _FORBIDDEN.match(message):
                return hub.LacksRight(f"The user lacks a right in Tryton: {message}")
            return hub.NotFound(message) if _ABSENT.search(message) else hub.Rejected([], message)
        case {"error": ["LoginException", *_]}:
            return hub.Denied("Tryton asks the user for more than a password.")
        case {"error": error}:
            text = str(error[0] if isinstance(error, list) and error else error)
            if model := _NO_MODEL.fullmatch(text):
                return hub.Unsupported(f"Tryton has no {model[1]}; activate the module with it.")
            # The error of a task that runs after the commit looks the same.
            words = f"Tryton broke down: {text[:300]}"
            return hub.Unavailable(words) if answer.reads else hub.Uncertain(words)
        case _ if answer.status in (404, 410):
            return hub.BadConfig("Tryton has no such database, or is not at this address.")
    return None


def choices(definition: Any) -> tuple[hub.Choice, ...]:
    """Return the options of a field; none if a method of Tryton tells them."""
    match definition:
        case {"selection": [*pairs]}:
            return tuple(hub.Choice(str(value), str(label)) for value, label in pairs if value)
    return ()


def _integer(text: str) -> int:
    if not text.removeprefix("-").isdecimal() or abs(int(text)) > _LARGEST:
        raise Misfit(f"is no whole number up to {_LARGEST}")
    return int(text)


def _at(type_of: str, parts: Sequence[str]) -> Callable[[str], Any]:
    def write(text: str) -> Any:
        at = datetime.fromisoformat(text)
        return {"__class__": type_of, **{part: getattr(at, part) for part in parts}}

    return write


def in_json(seconds: float) -> Any:
    """Return a time in seconds since 1970 as Tryton writes a timestamp."""
    at = datetime.fromtimestamp(seconds, UTC)
    return {"__class__": "datetime", **{part: getattr(at, part) for part in _MOMENT}}


def _read(value: Any) -> str:
    match value:
        case {"__class__": "Decimal", "decimal": str(number)}:
            plain = f"{Decimal(number):f}"
            return plain.rstrip("0").rstrip(".") if "." in plain else plain
        case {"__class__": "date"}:
            return "{:04}-{:02}-{:02}".format(*map(value.get, _MOMENT[:3]))
        case {"__class__": "datetime"}:
            at = "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}".format(*map(value.get, _MOMENT))
            return f"{at[:-3]}Z"
    return to_text(value)


CODECS: Mapping[str, Codec] = {
    "char": LINE,
    "text": TEXT,
    "boolean": replace(BOOL, blank=False),
    "date": Codec("date", _at("date", _MOMENT[:3]), _read),
    **dict.fromkeys(("datetime", "timestamp"), Codec("datetime", _at("datetime", _MOMENT), _read)),
    **dict.fromkeys(("integer", "many2one"), Codec("number", _integer)),
    "float": Codec("number", float),
    "numeric": Codec("number", lambda text: {"__class__": "Decimal", "decimal": text}, _read),
    "selection": OPTION,
    "multiselection": OPTIONS,
}


def escaped(text: str) -> str:
    """Return a pattern of `ilike` that matches this text alone, in any case."""
    return re.sub(r"([\\%_])", r"\\\1", text)
