"""The adapter for Roster, a CRM with JSON-RPC: the RPC example of docs/adapters.md."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from crmhub.adapter import (
    Adapter,
    AdapterError,
    BadConfig,
    Choice,
    Conflict,
    Contact,
    Context,
    Denied,
    Described,
    Kind,
    LacksRight,
    Linked,
    NotFound,
    Pipeline,
    Problem,
    PropertyType,
    Rejected,
    Saved,
    Setting,
    Throttled,
    Unavailable,
    Uncertain,
    Unsupported,
    Written,
)
from crmhub.adapter.coercion import Misfit, coerced
from crmhub.adapter.http import GENERAL, QUOTA, Answer, Http
from crmhub.adapter.oauth import KEPT, Grant
from crmhub.adapter.phones import notations, same
from crmhub.adapter.types import to_json, to_text

# Roster's names of the properties that crmhub names differently.
_THEIRS: Mapping[str, Mapping[str, str]] = {
    "contacts": {},
    "deals": {"dealname": "title", "dealstage": "stage"},
    "tickets": {
        "subject": "title",
        "content": "text",
        "hs_pipeline": "pipeline",
        "hs_pipeline_stage": "stage",
        "hs_ticket_priority": "priority",
    },
}
# The properties that are no texts in JSON.
_TYPES: Mapping[str, PropertyType] = {
    "score": "number",
    "amount": "number",
    "birthday": "date",
    "newsletter": "bool",
    "interests": "multi_enumeration",
}
_STAGES = (Choice("open", "Open"), Choice("won", "Won"))
_ID = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)
_SEARCH_COST = 5


class RosterAdapter(Adapter):
    """Adapter for Roster's JSON-RPC interface, with a session for a user and a password."""

    title = "Roster"
    whole_name = "name"
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
            budgets={GENERAL: context.budget("login", calls=10, seconds=600)},
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
            budgets={QUOTA: context.budget("credits", calls=50_000, seconds=86_400)},
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

    @classmethod
    def may_be_id(cls, contact_id: str) -> bool:
        return _ID.fullmatch(contact_id) is not None

    # Contacts.

    def find_contact(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        if email:
            answer = self._call("contact.list", reads=True, email=email)
        else:
            cost, numbers = _SEARCH_COST, notations(phone)
            answer = self._call("contact.search", reads=True, cost=cost, phones=numbers)
        holders = [
            record
            for record in answer.items("result")
            if (same(phone, to_text(record.get("phone"))) if phone else _has(record, email))
        ]
        oldest = min(holders, key=lambda record: int(answer.id(record)), default=None)
        return oldest and _contact(answer, oldest, names)

    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        answer = self._call("contact.read", reads=True, id=_number(contact_id))
        return _contact(answer, answer.mapping(answer.object().get("result")), names)

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        email = properties.get("email", "").lower()
        if not email:
            return self._create("contact.create", "contacts", properties, mark=mark)
        # Roster takes an email twice.
        with self.context.lease(f"email {email}", self.context.remaining()):
            holder = self.find_contact(email=email)
            if holder is not None:
                raise Conflict("This email is taken.", existing_id=holder.id, name="email")
            return self._create("contact.create", "contacts", properties, mark=mark)

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        id = _number(contact_id)
        return replace(
            self._create("contact.write", "contacts", properties, id=id), outcome="updated"
        )

    # Deals and tickets.

    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        contact = _number(contact_id)
        return self._create(
            "record.create", kind, properties, kind=kind, contact=contact, mark=mark
        )

    def find_marked(
        self,
        kind: Written,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
    ) -> Saved | None:
        answer = self._call("record.marked", reads=True, kind=kind, mark=mark)
        found = answer.items("result")
        return Saved(answer.id(found[0]), "created") if found else None

    def _create(
        self, method: str, of: Written, properties: Mapping[str, str], **params: Any
    ) -> Saved:
        """Send properties under Roster's names and as JSON values; return the record's id."""
        theirs = {_THEIRS[of].get(name, name): name for name in properties}
        values, problems = {}, []
        for name, ours in theirs.items():
            described = Described(ours, ours, _TYPES.get(name, "string"))
            try:
                values[name] = to_json(described.type, coerced(described, properties[ours]))
            except Misfit as exc:
                problems.append(Problem(ours, str(exc), exc.options))
        problems += [Problem(n, "sent twice") for n in properties.keys() - theirs.values()]
        if problems:
            raise Rejected(problems)
        try:
            answer = self._call(method, values=values, **params)
        except Rejected as exc:
            exc.rename(lambda name: theirs.get(name, name))
            raise
        return Saved(answer.id(answer.mapping(answer.object().get("result"))), "created")

    # What it tells.

    def check(self) -> None:
        answer = self._call("user.me", reads=True)
        if not answer.mapping(answer.object().get("result")).get("name"):
            raise answer.broken("it names no user")

    def describe(self, kind: Kind) -> list[Described]:
        if kind != "contacts":
            raise Unsupported(f"Roster describes no {kind}.")
        answer = self._call("contact.fields", reads=True)
        return [_described(answer, field) for field in answer.items("result")]

    def pipelines(self, kind: Linked) -> list[Pipeline]:
        return [Pipeline("main", "Main", _STAGES)]


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


def _contact(answer: Answer, record: Mapping[str, Any], names: Sequence[str]) -> Contact:
    values = {name: to_text(record[name]) for name in names if name in record and name != "id"}
    return Contact(answer.id(record), values)


def _described(answer: Answer, field: Mapping[str, Any]) -> Described:
    name, options = field.get("name"), field.get("options")
    if not isinstance(name, str) or not isinstance(options, list):
        raise answer.broken("it describes no field")
    choices = tuple(Choice(str(one), str(one).title()) for one in options)
    kind: PropertyType = field.get("type", "string")
    return Described(name, name.title(), kind, choices, read_only=name == "created")


def _has(record: Mapping[str, Any], email: str) -> bool:
    return to_text(record.get("email")).lower() == email


def _number(contact_id: str) -> int:
    if not RosterAdapter.may_be_id(contact_id):
        raise NotFound(f"There is no contact {contact_id[:60]!r}")
    return int(contact_id)
