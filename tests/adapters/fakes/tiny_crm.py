"""A tiny fake CRM on the shared base of fakes; the example in the docstring of adapters.fakes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import rich_click as click

from adapters.fakes import command, control, fake
from adapters.fakes.answers import Answer, Refused
from adapters.fakes.authorizing import Authorizations
from adapters.fakes.faults import Fault
from adapters.fakes.fields import Field
from adapters.fakes.limits import AtOnce, Window
from adapters.fakes.server import Received
from adapters.fakes.tokens import BadGrant, Tokens

SEARCH_COST = 5


@dataclass(kw_only=True)
class Options(fake.Options):
    """The options of the tiny CRM."""

    token: str = "tiny-key"
    at_once: int | None = None
    rotates: bool = False


class TinyCrm(fake.Fake):
    """A CRM with contacts that have a name; a search for a name costs as much as five calls."""

    kinds: ClassVar = {"contacts": "contacts"}
    fields: ClassVar = {"contacts": {"name": Field(required=True)}}
    settings: ClassVar = control.SETTINGS | control.TOKEN_SETTINGS | control.AT_ONCE_SETTINGS
    token_paths = ("/token",)
    options: Options
    tokens: Tokens

    def __init__(self, **options: Any) -> None:
        super().__init__(Options(**options))

    def reset(self) -> None:
        with self.lock:
            super().reset()
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

    def costs(self, received: Received) -> list[tuple[Window, int]]:
        return [(self.general, SEARCH_COST if received.path == "/search" else 1)]

    def admit(self, received: Received) -> None:
        state = self.tokens.state(received.headers.get("X-Token", ""))
        if state != "valid":
            raise Refused(401, {"message": f"the token is {state}"})

    def handle(self, received: Received) -> Answer:
        match received.method, received.parts:
            case "GET", ["contacts", id_]:
                return Answer(200, self.load("contacts", id_).properties)
            case "POST", ["contacts"]:
                return Answer(201, {"id": self.create("contacts", received.json).id})
            case "GET", ["search"]:
                names = received.parameter_lists["name"]
                found = self.store.find("contacts", "name", names, lag=self.search_lag)
                return Answer(200, {"results": [record.id for record in found]})
            case "DELETE", ["contacts", id_]:
                self.delete("contacts", id_)
                return Answer(204)
        raise Refused(404, {"message": "no such address"})

    def grant(self, received: Received) -> Answer:
        try:
            token = self.new_token(received.form)
        except BadGrant as exc:
            raise Refused(400, {"error": exc.error, "field": exc.field}) from None
        return Answer(200, {"access_token": token, "refresh_token": self.tokens.refresh_token})

    def decorate(self, received: Received, answer: Answer) -> None:
        answer.headers["X-Left"] = str(self.general.remaining())

    def error(self, status: int, fault: Fault) -> Answer:
        return Answer(status, {"message": f"status {status}", "id": fault.existing_id})


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
