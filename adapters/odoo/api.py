"""The calls of Odoo's models, over JSON-RPC or JSON-2 as the settings say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from adapters.odoo.failures import COOLDOWN_S, failure
from crmhub.adapter import Context, Denied, NotFound
from crmhub.adapter.http import GENERAL, Answer, Http
from crmhub.adapter.oauth import Grant
from crmhub.adapter.remembered import HOUR

_LOGIN = "login"
# Below the five refused logins after which Odoo refuses all.
_LOGINS = 4
# A worker of Odoo serves one call at a time, and people need some of them.
_AT_ONCE = 4
_ID = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)
_IDS = 2**31


class Api:
    """Calls the models of one Odoo, with the API key of the connection.

    JSON-RPC names the user by number: a login tells it, and it is kept for an hour.
    """

    def __init__(self, context: Context, *, title: str) -> None:
        self._settings = context.settings
        self._key = context.credentials["api_key"]
        self._json2 = context.settings["interface"] == "json-2"
        self._user = Grant(context, title, self._log_in)
        self._http = Http(
            context,
            context.settings["base_url"],
            crm=title,
            authorize=self._headers,
            failure=failure,
            budgets={
                GENERAL: context.budget(GENERAL, calls=100, seconds=10),
                _LOGIN: context.budget(_LOGIN, calls=_LOGINS, seconds=COOLDOWN_S),
            },
            at_once=_AT_ONCE,
            secrets=self._user.secrets,
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
        """Call a method of a model with named arguments; return an answer of the form of JSON-RPC.

        Its body has the method's result under "result". `ids` are the records of the call. `reads`
        says whether the method writes nothing. `context` is added to the context of all calls.
        """
        # Without a zone of its own, a call has the user's, in which `load` reads times.
        named["context"] = {"lang": self._settings["language"], "tz": "UTC", **context}
        if self._json2:
            body = named | ({"ids": ids} if ids else {})
            answer = self._http.send("POST", "json", "2", model, method, body=body, reads=reads)
            return replace(answer, body={"result": answer.body})
        user = int(self._user.token())
        args = [self._settings["db"], user, self._key, model, method, [ids] if ids else [], named]
        return self._rpc("object", "execute_kw", args, reads=reads)

    def search(self, model: str, domain: list[Any], fields: Iterable[str], **more: Any) -> Answer:
        """Return the records in a domain with some fields, the oldest first.

        They are the items "result" of the answer. `more` are further arguments of `search_read`.
        """
        # Odoo's own order is by name, or by priority.
        options = {"order": "id", **more}
        return self.call(model, "search_read", domain=domain, fields=sorted(fields), **options)

    def load(self, model: str, rows: Sequence[Mapping[str, str]]) -> list[int]:
        """Create or update a record for each row, all or none; return the ids in their order.

        Rows map the same columns to cells. The column `id` holds the external ids of new records:
        an external id that exists stands for its record, which is left as it is. The column `.id`
        holds the ids of records to update. Raises NotLoaded with the rows that Odoo refuses.
        """
        context = {"mode": "update", "noupdate": True} if "id" in rows[0] else {}
        fields, data = list(rows[0]), [list(row.values()) for row in rows]
        answer = self.call(model, "load", reads=False, context=context, fields=fields, data=data)
        ids = answer.mapping(answer.object().get("result")).get("ids")
        if not isinstance(ids, list) or len(ids) != len(rows):
            raise answer.broken("it names other ids than those of the rows")
        return [int(answer.id({"id": id})) for id in ids]

    def may(self, model: str, operation: str) -> bool:
        """Return whether the user may create, read or write records of a model."""
        more: dict[str, Any] = {}
        if not self._json2:
            more = {"raise_exception": False}
        method = "has_access" if self._json2 else "check_access_rights"
        return self.call(model, method, operation=operation, **more).object().get("result") is True

    def page(self, model: str, id: str) -> str:
        """Return the web address of a record."""
        base = self._settings["base_url"].rstrip("/")
        if self._json2:
            return f"{base}/odoo/{model}/{id}"
        return f"{base}/web#id={id}&model={model}&view_type=form"

    def _headers(self) -> dict[str, str]:
        if not self._json2:
            return {}
        database = {"X-Odoo-Database": self._settings["db"]} if self._settings["db"] else {}
        return {"Authorization": f"bearer {self._key}", **database}

    def _log_in(self, credentials: Mapping[str, str]) -> Mapping[str, Any]:
        args = [self._settings["db"], self._settings["user"], credentials["api_key"], {}]
        answer = self._rpc("common", "authenticate", args, lane=_LOGIN, reads=True, anonymous=True)
        user = answer.object().get("result")
        if user is False:
            raise Denied(
                "Odoo refuses user or API key. After five such logins it refuses all for a minute."
            )
        if not isinstance(user, int):
            raise answer.broken("it names no user")
        return {"access_token": str(user), "expires_in": HOUR}

    def _rpc(self, service: str, method: str, args: list[Any], **options: Any) -> Answer:
        params = {"service": service, "method": method, "args": args}
        body = {"jsonrpc": "2.0", "method": "call", "id": 1, "params": params}
        return self._http.send("POST", "jsonrpc", body=body, **options)


def may_be_id(text: str) -> bool:
    """Return whether a text has the format of Odoo's ids: a number from 1 to 2**31 - 1."""
    return _ID.fullmatch(text) is not None and int(text) < _IDS


def number(contact_id: str) -> int:
    """Return a contact's id as a number; raise NotFound for an id of another format."""
    if not may_be_id(contact_id):
        raise NotFound(f"Odoo has no contact {contact_id[:60]!r}")
    return int(contact_id)
