"""The adapter for Roster, a CRM with JSON-RPC: the RPC example of docs/adapters.md."""

# ruff: noqa: RUF012 (class attributes as an author would write them)

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from crmhub.adapter import (
    AdapterError,
    BadConfig,
    Choice,
    Context,
    Denied,
    Kind,
    LacksRight,
    Linked,
    NotFound,
    Pipeline,
    Problem,
    Rejected,
    Saved,
    Setting,
    Throttled,
    Unavailable,
    Uncertain,
)
from crmhub.adapter.creates import Create
from crmhub.adapter.fields import Field
from crmhub.adapter.http import QUOTA, Answer, Http, Limit
from crmhub.adapter.oauth import KEPT, Grant
from crmhub.adapter.phones import notations
from crmhub.adapter.table_adapter import TableAdapter
from crmhub.adapter.tables import Records, Row, Write

_SEARCH_COST = 5


class RosterAdapter(TableAdapter):
    """Adapter for Roster's JSON-RPC interface, with a session for a user and a password."""

    title = "Roster"
    whole_name = "name"
    phone_names = ("phone",)
    # Roster's names of the properties that crmhub names differently.
    kinds = {
        "contacts": Records("contact"),
        "deals": Records("deals", {"dealname": "title", "dealstage": "stage"}),
        "tickets": Records(
            "tickets",
            {
                "subject": "title",
                "content": "text",
                "hs_pipeline": "pipeline",
                "hs_pipeline_stage": "stage",
                "hs_ticket_priority": "priority",
            },
        ),
    }
    settings = (
        Setting("login_url", "Login address", "url", default="https://login.roster.example/auth"),
        Setting("user", "User", required=True),
        Setting("password", "Password", secret=True, required=True),
        Setting(KEPT, "Session", secret=True, kept=True),
    )

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        # The address of the calls comes with the session.
        self._session = Grant(context, self.title, self._log_in, keeps=["url"])
        self._login = Http(
            context,
            context.settings["login_url"],
            crm=self.title,
            authorize=dict,
            failure=failure,
            limits=[Limit(10, 600.0, key="login")],
            trailing_slash=True,
            secrets=self._session.secrets,
        )
        self._http = Http(
            context,
            lambda: self._session.kept("url"),
            crm=self.title,
            authorize=lambda: {"X-Session": self._session.token()},
            renew=self._session.renew,
            failure=failure,
            limits=[Limit(50_000, 86_400.0, QUOTA, key="credits")],
            at_once=4,
            trailing_slash=True,
            secrets=self._session.secrets,
        )

    def _log_in(self, credentials: Mapping[str, str]) -> Mapping[str, Any]:
        body = {"user": self.context.settings["user"], "password": credentials["password"]}
        answer = self._login.send("POST", "session", body=body, reads=True).object()
        names = {"access_token": "session", "expires_in": "lifetime", "url": "url"}
        return {name: answer.get(theirs) for name, theirs in names.items()}

    def _call(self, method: str, *, reads: bool = False, cost: int = 1, **params: Any) -> Answer:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self._http.send("POST", "rpc", body=body, reads=reads, cost=cost)

    def find(self, by: str, values: Sequence[str], names: Sequence[str]) -> Iterator[Row]:
        for value in values:
            if by == "email":
                yield from _rows(self._call("contact.list", reads=True, email=value))
            else:
                options = {"reads": True, "cost": _SEARCH_COST}
                yield from _rows(self._call("contact.search", phones=notations(value), **options))

    def read(self, contact_id: str, names: Sequence[str]) -> Row:
        return _row(self._call("contact.read", reads=True, id=int(contact_id)))

    def send(self, write: Write) -> Row:
        kind, values = write.kind, write.values
        if write.record_id:
            return _row(self._call("contact.write", id=int(write.record_id), values=values))
        if kind == "contacts":
            return _row(self._call("contact.create", values=values, mark=write.mark))
        more = {"contact": int(write.contact["id"]), "mark": write.mark}
        return _row(self._call("record.create", kind=kind, values=values, **more))

    def find_create(self, create: Create) -> Saved | None:
        answer = self._call("record.marked", reads=True, kind=create.kind, mark=create.mark)
        return next((self.saved(create.kind, row, "created") for row in _rows(answer)), None)

    def load_fields(self, kind: Kind) -> Iterator[Field | None]:
        for item in self._call("record.fields", reads=True, kind=kind).items("result"):
            name, options = str(item.get("name")), item.get("options") or ()
            choices = [Choice(str(one), str(one).title()) for one in options]
            read_only = name == "created"
            yield self.field(
                kind, name, name.title(), str(item.get("type")), choices, read_only=read_only
            )

    def load_pipelines(self, kind: Linked) -> list[Pipeline]:
        stages = (Choice("open", "Open"), Choice("won", "Won"))
        return [Pipeline("main", "Main", stages)]

    def check(self) -> None:
        answer = self._call("user.me", reads=True)
        if not answer.mapping(answer.object().get("result")).get("name"):
            raise answer.broken("it names no user")


def _row(answer: Answer) -> Row:
    row = answer.mapping(answer.object().get("result"))
    return {**row, "id": answer.id(row)}


def _rows(answer: Answer) -> list[Row]:
    return [{**row, "id": answer.id(row)} for row in answer.items("result")]


def failure(answer: Answer) -> AdapterError | None:
    """Return the error that an answer of Roster reports, whatever its status; None for a result."""
    match answer.body:
        case {"error": {"code": str(code), "message": str(message)} as error}:
            pass
        case _ if answer.status in (404, 410):
            return BadConfig("Roster is not at this address.")
        case _:
            return None
    match code:
        case "SessionExpired" | "AccessDenied":
            return Denied(f"Roster refuses the credentials: {message}")
        case "MissingRight":
            return LacksRight(f"The user lacks a right in Roster: {message}")
        case "Busy":
            return Throttled(f"Roster is busy: {message}", retry_after=2.0)
        case "OutOfCredits":
            return Throttled(f"Roster wants a pause: {message}", retry_after=600.0, scope=QUOTA)
        case "TooManyLogins":
            return Throttled(f"Roster wants fewer logins: {message}", retry_after=600.0)
        case "NotFound":
            return NotFound("Roster has no such record")
        case "Invalid":
            faults = error.get("fields")
            named = faults.items() if isinstance(faults, dict) else ()
            return Rejected([Problem(name, str(why)) for name, why in named], message)
    # Roster does not say whether it had written before it broke down.
    words = f"Roster broke down ({code}): {message}"
    return Unavailable(words) if answer.reads else Uncertain(words)
