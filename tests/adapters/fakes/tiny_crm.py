"""A tiny fake CRM on the shared base of fakes; the example in the docstring of adapters.fakes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import rich_click as click

from adapters.fakes import command, control, fake
from adapters.fakes.answers import Answer, Refused
from adapters.fakes.authorizing import Authorizations
from adapters.fakes.faults import Fault
from adapters.fakes.limits import AtOnce, Window, parse, retry_header
from adapters.fakes.records import Record, now_ms
from adapters.fakes.server import Received
from adapters.fakes.tokens import BadGrant, Tokens

SEARCH_COST = 5
_OPEN = ("/token", "/oauth/authorize")


@dataclass(kw_only=True)
class Options(fake.Options):
    """The options of the tiny CRM."""

    token: str = "tiny-key"
    at_once: int | None = None
    rotates: bool = False


class TinyCrm(fake.Fake):
    """A CRM with contacts that have a name; a search for a name costs as much as five calls."""

    kinds = ("contacts",)
    settings: ClassVar = control.SETTINGS | control.TOKEN_SETTINGS | control.AT_ONCE_SETTINGS
    options: Options
    tokens: Tokens

    def __init__(self, **options: Any) -> None:
        super().__init__(Options(**options))

    def reset(self) -> None:
        with self.lock:
            super().reset()
            self.general = Window("general", *parse(self.options.limit))
            self.windows = {"limit": self.general}
            self.at_once = AtOnce(self.options.at_once)
            scopes = frozenset({"read", "write"})
            self.tokens = Tokens(
                static=self.options.token,
                rotates=self.options.rotates,
                scopes=scopes,
                known_scopes=scopes,
            )
            self.authorizations = Authorizations(
                "tiny <CRM>", self.tokens.client_id, known_scopes=scopes
            )
            self.contacts: dict[str, Record] = {}

    def costs(self, received: Received) -> list[tuple[Window, int]]:
        return [(self.general, SEARCH_COST if received.path == "/search" else 1)]

    def over(self, limit: Window | AtOnce, wait: float) -> Refused:
        headers = retry_header(wait, self.retry_after)
        return Refused(429, {"error": f"over the limit {limit.name}"}, headers=headers)

    def admit(self, received: Received) -> None:
        state = self.tokens.state(received.headers.get("X-Token", ""))
        if received.path not in _OPEN and state != "valid":
            raise Refused(401, {"error": f"the token is {state}"})

    def handle(self, received: Received) -> Answer:
        match received.method, received.path.split("/")[1:]:
            case _, ["oauth", "authorize"]:
                form = received.form if received.body else received.parameters
                return self.authorizations.answer(received.method, form)
            case "POST", ["token"]:
                return self._token(received.form)
            case "GET", ["contacts", id_] if id_ in self.contacts:
                return Answer(200, self.contacts[id_].properties)
            case "POST", ["contacts"]:
                return Answer(201, {"id": self._create(json.loads(received.body)).id})
            case "GET", ["search"]:
                return Answer(200, {"results": self._search(received.parameters["name"])})
            case "DELETE", ["contacts", id_]:
                self.contacts.pop(id_, None)
                return Answer(204)
        raise Refused(404, {"error": "no such address"})

    def decorate(self, received: Received, answer: Answer) -> None:
        answer.headers["X-Left"] = str(self.general.remaining())

    def error(self, status: int, fault: Fault) -> Answer:
        return Answer(status, {"error": f"status {status}", "id": fault.existing_id})

    def stored(self, kind: str) -> Mapping[str, Record]:
        if kind != "contacts":
            raise Refused(400, {"error": f"there are no {kind}"})
        return self.contacts

    def add(self, kind: str, properties: Mapping[str, Any], *, contacts: Iterable[str] = ()) -> str:
        record = self._create(properties)
        record.index()
        return record.id

    def linked(self, kind: str, id_: str, to: str) -> list[str]:
        return []

    def _create(self, properties: Mapping[str, Any]) -> Record:
        if not isinstance(properties.get("name"), str):
            raise Refused(422, {"error": "a name is needed"})
        record = Record("contacts", str(len(self.contacts) + 1), now_ms(), now_ms())
        record.write(dict(properties), now_ms())
        self.contacts[record.id] = record
        return record

    def _search(self, name: str) -> list[str]:
        return [
            record.id
            for record in self.contacts.values()
            if (record.searchable(self.search_lag) or {}).get("name") == name
        ]

    def _token(self, form: Mapping[str, str]) -> Answer:
        try:
            token = self.tokens.grant(form, self.authorizations)
        except BadGrant as exc:
            raise Refused(400, {"error": exc.error, "field": exc.field}) from None
        return Answer(200, {"access_token": token, "refresh_token": self.tokens.refresh_token})


@click.command(name="tiny")
@command.common_options(port=8182, limit="80/10s")
@click.option("--rotate", "rotates", is_flag=True, help="Give a new refresh token at each refresh.")
def serve(**options: Any) -> None:
    """Serve a tiny CRM."""
    crm = TinyCrm(**options)
    command.serve(
        crm,
        "tiny",
        facts={"API key": crm.tokens.static},
        settings=lambda url: {"base_url": f"{url}/v1"},
        secrets={"api_key": crm.tokens.static},
    )
