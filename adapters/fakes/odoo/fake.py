"""The fake Odoo: its two interfaces over HTTP, its logins, and what a new database contains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import orjson

from adapters.fakes import control, fake
from adapters.fakes.answers import Answer, Refused
from adapters.fakes.faults import Fault
from adapters.fakes.limits import AtOnce, Window, retry_header
from adapters.fakes.odoo.database import Database
from adapters.fakes.odoo.errors import OdooError, missing_error, own_error
from adapters.fakes.odoo.methods import call
from adapters.fakes.records import Record
from adapters.fakes.server import Received

JSON_2_SINCE = 19
"""The first major version of Odoo that has the interface JSON-2."""
_PAGE = b"<!doctype html><title>404 Not Found</title><h1>Not Found</h1>"
_PARTNERS: Mapping[str, Mapping[str, bool]] = {
    "contacts": {"partner_share": True, "is_company": False},
    "companies": {"is_company": True},
}
_HTML = "text/html; charset=utf-8"


@dataclass(kw_only=True)
class Options(fake.Options):
    """The options of the fake Odoo.

    `version` is the major version: 17, 18 or 19. `tickets` is the model of tickets. `database` and
    `user` are the names with which the key is used; with `databases` above 1, the server has others
    beside it, and JSON-2 needs the name. `zone` is the user's time zone. `plain_errors` lets JSON-2
    answer an error with its bare text, as an earlier tree did.
    """

    version: int = 17
    tickets: Literal["helpdesk.ticket", "project.task"] = "helpdesk.ticket"
    database: str = "acme"
    databases: int = 1
    user: str = "crmhub@acme.example"
    api_key: str = "0123456789abcdef0123456789abcdef01234567"
    zone: str = "Europe/Berlin"
    plain_errors: bool = False


class FakeOdoo(fake.Fake):
    """A fake Odoo on its own port; `with FakeOdoo() as fake:` starts and stops it.

    `data` is its database.
    """

    names: ClassVar = {
        "contacts": {"mobile": "mobilephone"},
        "deals": {
            "name": "dealname",
            "expected_revenue": "amount",
            "team_id": "pipeline",
            "stage_id": "dealstage",
            "user_id": "hubspot_owner_id",
            "date_deadline": "closedate",
        },
        "tickets": {
            "name": "subject",
            "description": "content",
            "team_id": "hs_pipeline",
            "project_id": "hs_pipeline",
            "stage_id": "hs_pipeline_stage",
            "priority": "hs_ticket_priority",
        },
    }
    settings: ClassVar = {
        name: setting for name, setting in control.SETTINGS.items() if name != "search_lag"
    }
    options: Options

    def __init__(self, options: Options | None = None) -> None:
        super().__init__(options or Options())

    @property
    def kinds(self) -> Mapping[str, str]:  # type: ignore[override]
        """Odoo's models by the hub's kinds."""
        kinds = {"contacts": "res.partner", "companies": "res.partner", "deals": "crm.lead"}
        return {**kinds, "tickets": self.options.tickets}

    def reset(self) -> None:
        """Discard the whole state, and start again with the original options."""
        with self.lock:
            super().reset()
            self.data = Database(self.options.version)
            self.store = self.data
            self.uid = _fill(self.data, self.options.user)

    def over(self, limit: Window | AtOnce, wait: float) -> Refused:
        """Return the refusal of a proxy before Odoo, which has no limit itself."""
        headers = retry_header(wait, self.retry_after)
        return Refused(429, b"Too Many Requests", headers=headers, content_type="text/plain")

    # Calls.

    def admit(self, received: Received) -> None:
        """Raise Refused for an unknown path, and in JSON-2 for a wrong key or database."""
        parts = received.path.split("/")[1:]
        json2 = parts[:2] == ["json", "2"] and len(parts) == 4
        if json2 and self.options.version >= JSON_2_SINCE:
            self._admit_json2(received)
        elif received.path not in ("/jsonrpc", "/web/version"):
            raise Refused(404, _PAGE, content_type=_HTML)
        if received.path != "/web/version":
            if received.method != "POST":
                raise Refused(405, b"Method Not Allowed", content_type=_HTML)
            if not received.headers.get("Content-Type", "").startswith("application/json"):
                raise Refused(415, b"Unsupported Media Type", content_type=_HTML)

    def _admit_json2(self, received: Received) -> None:
        named = received.headers.get("X-Odoo-Database")
        if named != self.options.database and (named or self.options.databases > 1):
            raise Refused(404, _PAGE, content_type=_HTML)
        scheme, _, key = received.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or key != self.options.api_key:
            error = OdooError("werkzeug.exceptions.Unauthorized", "Invalid apikey", 401)
            raise Refused(401, self._told(error), headers={"WWW-Authenticate": "bearer"})

    def handle(self, received: Received) -> Answer:
        """Execute a call of JSON-RPC, of JSON-2, or the question for the version."""
        if received.path == "/web/version":
            series = f"{self.options.version}.0"
            return Answer(200, {"version": series, "version_info": [self.options.version, 0]})
        try:
            body = orjson.loads(received.body)
        except orjson.JSONDecodeError as exc:
            raise Refused(400, b"Bad Request", content_type=_HTML) from exc
        if received.path == "/jsonrpc":
            return self._json_rpc(body)
        _, _, _, model, method = received.path.split("/")
        return self._json_2(model, method, body)

    def _json_2(self, model: str, method: str, body: Any) -> Answer:
        named = dict(body) if isinstance(body, dict) else {}
        try:
            if model not in self.data.models:
                message = f"the model {model!r} does not exist"
                raise OdooError("werkzeug.exceptions.NotFound", message, 404)
            return Answer(200, self._called(model, method, named.pop("ids", []), named))
        except OdooError as exc:
            if exc.name == "builtins.AttributeError" and exc.status == 404:
                exc.name = "werkzeug.exceptions.NotFound"
            raise Refused(exc.status, self._told(exc)) from exc

    def _json_rpc(self, body: Any) -> Answer:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": body.get("id")}
        try:
            params = body["params"]
            answer["result"] = self._served(params["service"], params["method"], params["args"])
        except OdooError as exc:
            answer["error"] = _rpc_error(exc, self.options.api_key)
        except (KeyError, TypeError, ValueError) as exc:
            error = OdooError(f"builtins.{type(exc).__name__}", str(exc))
            answer["error"] = _rpc_error(error)
        return Answer(200, answer)

    def _served(self, service: str, method: str, args: list[Any]) -> Any:
        if service == "common" and method == "version":
            return {"server_version": f"{self.options.version}.0", "protocol_version": 1}
        if service == "common" and method == "authenticate":
            database, user, password, _ = args
            self._open(database)
            good = (user, password) == (self.options.user, self.options.api_key)
            return self.uid if good else False
        if service == "object" and method == "execute_kw":
            database, uid, password, model, called, positional, named = args
            self._open(database)
            if uid != self.uid:
                raise missing_error("res.users", uid)
            if password != self.options.api_key:
                raise own_error("AccessDenied", "Access Denied")
            return self._called(model, called, positional[0] if positional else [], named)
        raise OdooError("builtins.Exception", f"Method not found: {service}.{method}")

    def _open(self, database: str) -> None:
        if database != self.options.database:
            message = 'connection to server at "127.0.0.1", port 5432 failed: FATAL:  '
            message += f'database "{database}" does not exist\n'
            raise OdooError("psycopg2.OperationalError", message)

    def _called(self, model: str, method: str, ids: Any, named: Mapping[str, Any]) -> Any:
        """Call a method in a transaction: whatever it wrote is undone if it fails."""
        restore = self.data.snapshot()
        try:
            return call(self.data, model, method, ids, named, zone=self.options.zone)
        except OdooError:
            restore()
            raise
        finally:
            self.data.commit()

    def _told(self, error: OdooError) -> Any:
        return error.message if self.options.plain_errors else error.data(self.options.api_key)

    def error(self, status: int, fault: Fault) -> Answer:
        """Return an error of a proxy before Odoo, since Odoo's own errors have a class."""
        page = f"<html><title>{status}</title><h1>{status}</h1></html>"
        return Answer(status, page.encode(), content_type=_HTML)

    # Records.

    def stored(self, kind: str) -> Mapping[str, Record]:
        """Return the records of a kind by id, without archived ones; contacts are customers."""
        expected = {"active": True, **_PARTNERS.get(kind, {})}
        return {
            id_: record
            for id_, record in super().stored(kind).items()
            if all(record.properties[name] is value for name, value in expected.items())
        }

    def add(self, kind: str, properties: Mapping[str, Any], *, contacts: Iterable[str] = ()) -> str:
        fixed = {"is_company": True} if kind == "companies" else {}
        return super().add(kind, {**properties, **fixed}, contacts=contacts)

    def create(self, kind: str, values: Mapping[str, Any]) -> Record:
        """Create a record with Odoo's names and values."""
        if unknown := values.keys() - self.data.models[kind].fields.keys():
            raise Refused(400, {"message": f"{kind} has no {', '.join(sorted(unknown))}"})
        return self.data.insert(kind, values)

    def update(self, record: Record, values: Mapping[str, Any]) -> None:
        self.data.update(record, values)

    def link(self, id_: str) -> int:
        return int(id_)

    def readable(self, kind: str, record: Record) -> Mapping[str, Any]:
        """Return a record's values, and its external id, which the hub makes of its mark."""
        named = self._external_ids(record)
        return {**record.properties, **({"external id (crmhub)": named[0]} if named else {})}

    def hub_names(self, kind: str, record: Record) -> Mapping[str, Any]:
        held = super().hub_names(kind, record)
        # The empty value is false, and of a boolean, no value differs from it.
        values = {name: value or "" for name, value in held.items() if name != "write_date"}
        return {**values, "mark": ",".join(self._external_ids(record))}

    def _external_ids(self, record: Record) -> list[str]:
        place = (record.kind, int(record.id))
        return [key for key, (*found, _) in self.data.external.items() if tuple(found) == place]


def _rpc_error(error: OdooError, secret: str = "") -> dict[str, Any]:
    return {"code": 200, "message": "Odoo Server Error", "data": error.data(secret)}


def _fill(data: Database, user: str) -> int:
    """Create what a new database contains; return the id of the key's user."""
    company = {"name": "Acme", "email": "info@acme.example", "is_company": True}
    data.insert("res.partner", company)
    people = {"Mitchell Admin": "admin@acme.example", "crmhub": user}
    for person, email in people.items():
        data.insert("res.partner", {"name": person, "email": email, "partner_share": False})
        data.insert("res.users", {"name": person, "login": email, "email": email})
    data.insert("res.users", {"name": "A customer", "login": "portal", "share": True})
    for country in ("Germany", "United States"):
        data.insert("res.country", {"name": country})
    for tag in ("VIP", "Newsletter", "Partner"):
        data.insert("res.partner.category", {"name": tag})
    _teams(data, "crm.team", ("Sales", "Partners"), use_opportunities=True)
    data.insert("crm.team", {"name": "Point of Sale", "sequence": 9, "use_opportunities": False})
    for external, model, values in (
        ("mail.mt_note", "mail.message.subtype", {"name": "Note"}),
        ("mail.mail_activity_data_todo", "mail.activity.type", {"name": "To-Do"}),
        ("base.model_res_partner", "ir.model", {"name": "Contact", "model": "res.partner"}),
    ):
        data.external[external] = (model, int(data.insert(model, values).id), True)
    link = "team_ids" if "team_ids" in data.models["crm.stage"].fields else "team_id"
    every, second = ([], [2]) if link == "team_ids" else (False, 2)
    stages: tuple[tuple[str, str, Any], ...] = (
        ("New", "Neu", every),
        ("Won", "Gewonnen", every),
        ("Signed", "Unterzeichnet", second),
    )
    for i, (english, german, team) in enumerate(stages):
        name = {"en_US": english, "de_DE": german}
        data.insert("crm.stage", {"name": name, "sequence": i, link: team})
    _teams(data, "helpdesk.team", ("Support", "Returns"))
    _teams(data, "project.project", ("Inbox", "Construction"))
    for model, link in (("helpdesk.stage", "team_ids"), ("project.task.type", "project_ids")):
        for i, (label, groups) in enumerate((("New", [1, 2]), ("Done", [1]), ("Sent", [2]))):
            data.insert(model, {"name": label, "sequence": i, link: groups})
        # A person's own stage, which no team and no project uses.
        data.insert(model, {"name": "My inbox", "sequence": 0, link: []})
    return 2


def _teams(data: Database, model: str, names: Iterable[str], **more: Any) -> None:
    for i, name in enumerate(names):
        data.insert(model, {"name": name, "sequence": i, **more})
