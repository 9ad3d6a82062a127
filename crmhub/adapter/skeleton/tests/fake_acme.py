"""An in-memory fake of Acme, called over real HTTP and as strict as the CRM.

`adapters.fakes` holds the records, checks values, and brings a server, faults, limits and a page
that shows the records. Here stand Acme's own fields, paths and answers.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar

from adapters.fakes.answers import Answer, Refused
from adapters.fakes.fake import Fake, Options
from adapters.fakes.fields import Field, integer, number
from adapters.fakes.records import Record
from adapters.fakes.server import Received

TOKEN = "the-token-of-the-tests"
STAGES = ("open", "won", "lost")
PLACE = {
    "pipeline": Field(options=("main",)),
    "stage": Field(options=STAGES),
    "reference": Field(),
    "contact_id": Field("id", integer, to="contacts", required=True),
}


class FakeAcme(Fake):
    """The fake CRM; as a context manager, it starts and stops an HTTP server at `url`."""

    first_id = 101
    fields: ClassVar = {
        "contacts": {
            "email": Field("email", unique=True),
            "phone": Field("phone"),
            "first_name": Field(),
            "last_name": Field(),
            "status": Field("enumeration", options=("lead", "customer")),
            "created_at": Field("datetime", read_only=True),
            "reference": Field(),
        },
        "deals": {"title": Field(), "amount": Field("currency", number), **PLACE},
        "tickets": {
            "title": Field(),
            "text": Field("text"),
            "priority": Field("enumeration", options=("low", "high")),
            **PLACE,
        },
    }
    # crmhub's names of the fields that it names differently.
    names: ClassVar = {
        "contacts": {"first_name": "firstname", "last_name": "lastname"},
        "deals": {"title": "dealname", "stage": "dealstage"},
        "tickets": {
            "title": "subject",
            "text": "content",
            "pipeline": "hs_pipeline",
            "stage": "hs_pipeline_stage",
            "priority": "hs_ticket_priority",
        },
    }

    def __init__(self) -> None:
        super().__init__(Options())

    def admit(self, received: Received) -> None:
        if received.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise Refused(401, {"message": "unknown token"})

    def handle(self, received: Received) -> Answer:
        match received.method, received.parts:
            case "GET", ["v1", "me"]:
                return Answer(200, {"id": 1})
            case "GET", ["v1", "fields", kind] if kind in self.fields:
                fields = self.fields[kind].items()
                return _results(_definition(name, field) for name, field in fields)
            case "GET", ["v1", "pipelines", kind] if kind in self.fields:
                stages = [{"id": one, "name": one.title()} for one in STAGES]
                return _results([{"id": "main", "name": "Main", "stages": stages}])
            case "GET", ["v1", kind] if kind in self.fields:
                [(name, values)] = received.parameter_lists.items()
                found = self.store.find(kind, name, values)
                return _results(self._shown(record) for record in found)
            case "GET", ["v1", "contacts", id]:
                return Answer(200, self._shown(self.load("contacts", id)))
            case "POST", ["v1", kind] if kind in self.fields:
                return Answer(201, {"id": int(self.create(kind, received.json).id)})
            case "PATCH", ["v1", "contacts", id]:
                record = self.load("contacts", id)
                self.update(record, received.json)
                return Answer(200, self._shown(record))
        raise Refused(404, {"message": "no such address"})

    def taken(self, name: str, holder: Record) -> Refused:
        return Refused(409, {"message": f"this {name} is taken", "id": int(holder.id)})

    def _shown(self, record: Record) -> dict[str, Any]:
        shown = {**dict.fromkeys(self.fields[record.kind]), **record.properties}
        if record.kind == "contacts":
            shown["created_at"] = datetime.fromtimestamp(record.created_at / 1000, UTC).isoformat()
        return {**shown, "id": int(record.id)}


def _results(found: Any) -> Answer:
    return Answer(200, {"results": list(found)})


def _definition(name: str, field: Field) -> dict[str, Any]:
    return {
        "name": name,
        "label": name.replace("_", " ").title(),
        "type": field.type,
        "options": field.options,
        "read_only": field.read_only,
    }
