"""An in-memory fake of Peoplebase, called over real HTTP and as strict as the CRM.

`adapters.fakes` holds the records, checks values, and brings a server, faults, limits and a page
that shows the records. Here stand Peoplebase's own fields, paths and answers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from adapters.fakes.answers import Answer, Refused
from adapters.fakes.fake import Fake, Options
from adapters.fakes.fields import Field, each, matching, number
from adapters.fakes.records import Record
from adapters.fakes.server import Received

TOKEN = "the-token-of-the-tests"
PHASES = ("new", "talking", "won")
STATUSES = ("open", "pending", "solved")
_EMAIL = matching(r"[^@\s]+@[^@\s]+\.[^@\s]+")
PERSON = Field("person", to="persons")


class FakePeoplebase(Fake):
    """The fake CRM; as a context manager, it starts and stops an HTTP server at `url`."""

    kinds: ClassVar = {"contacts": "persons", "deals": "opportunities", "tickets": "cases"}
    first_id = 81
    fields: ClassVar = {
        "persons": {
            "full_name": Field(required=True),
            "emails": Field("emails", each(_EMAIL), unique=True),
            "phone": Field(),
            "notes": Field("text"),
        },
        "opportunities": {
            "title": Field(required=True),
            "person_id": PERSON,
            "phase": Field(options=PHASES),
            "value": Field("number", number),
        },
        "cases": {
            "subject": Field(required=True),
            "person_id": PERSON,
            "status": Field(options=STATUSES),
        },
    }
    # crmhub's names of the fields that it names differently.
    names: ClassVar = {
        "contacts": {"emails": "email"},
        "deals": {"title": "dealname", "value": "amount", "phase": "dealstage"},
        "tickets": {"status": "hs_pipeline_stage"},
    }

    def __init__(self) -> None:
        super().__init__(Options())

    def id_of(self, kind: str, number: int) -> str:
        return f"{kind[0]}_{number}"

    def admit(self, received: Received) -> None:
        if received.headers.get("X-Token") != TOKEN:
            raise error(401, "bad_token", None, "X-Token is missing or unknown")

    def handle(self, received: Received) -> Answer:
        body = received.json
        match received.method, received.path.split("/")[1:]:
            case "GET", ["v1", "me", ""]:
                return Answer(200, {"company": "Demo Company"})
            case "GET", ["v1", kind, ""] if kind in self.fields:
                return self._list(kind, received.parameters)
            case "POST", ["v1", kind, "search", ""] if kind in self.fields:
                return self._search(kind, body or {})
            case "POST", ["v1", kind, ""] if kind in self.fields:
                return Answer(201, self._shown(self.create(kind, body)))
            case "GET", ["v1", kind, id] if kind in self.fields:
                return Answer(200, self._shown(self.load(kind, id)))
            case "PATCH", ["v1", kind, id] if kind in self.fields:
                record = self.load(kind, id)
                self.update(record, body)
                return Answer(200, self._shown(record))
            case "DELETE", ["v1", kind, id] if kind in self.fields:
                self.store.delete(self.load(kind, id))
                return Answer(204)
        raise error(404, "no_such_path", None, "No such path")

    def _list(self, kind: str, asked: Mapping[str, str]) -> Answer:
        found = list(self.store.records[kind].values())
        if after := asked.get("updated_after"):
            mark = datetime.fromisoformat(after).timestamp() * 1000
            found = [one for one in found if one.updated_at > mark]
        return self._page(found, int(asked.get("page", 1)), int(asked.get("per_page", 25)))

    def _search(self, kind: str, body: Mapping[str, Any]) -> Answer:
        where = body.get("where") or {}
        if unknown := [name for name in where if name not in self.fields[kind]]:
            raise self.invalid(dict.fromkeys(unknown, "Unknown field"))
        records = self.store.records[kind].values()
        found = [one for one in records if all(_fits(one, *item) for item in where.items())]
        return self._page(found, int(body.get("page", 1)), int(body.get("per_page", 25)))

    def _page(self, found: list[Record], page: int, per_page: int) -> Answer:
        if page < 1 or not 1 <= per_page <= 100:
            raise self.invalid({"page": "page from 1, per_page 1 to 100"})
        found.sort(key=lambda one: (one.updated_at, one.id))
        items = [self._shown(one) for one in found[(page - 1) * per_page : page * per_page]]
        more = {"page": page, "per_page": per_page, "total": len(found)}
        return Answer(200, {"items": items, **more})

    def check(self, kind: str, values: Mapping[str, Any], *, own: Record | None = None) -> None:
        if values.get("person_id") not in (None, *self.store.records["persons"]):
            raise self.invalid({"person_id": "No such person"})
        super().check(kind, values, own=own)

    def create(self, kind: str, values: Mapping[str, Any]) -> Record:
        defaults = {"opportunities": {"phase": "new", "value": 0}, "cases": {"status": "open"}}
        return super().create(kind, {**defaults.get(kind, {}), **values})

    def own_names(self, kind: str, properties: Mapping[str, str]) -> Mapping[str, Any]:
        values = dict(super().own_names(kind, properties))
        if kind == "contacts":
            values.setdefault("full_name", "Somebody")
            if email := values.get("emails"):
                values["emails"] = [email]
        return values

    def invalid(self, faults: Mapping[str, str]) -> Refused:
        field, why = next(iter(faults.items()))
        return error(422, "bad_value", field, f"{field} {why}")

    def taken(self, name: str, holder: Record) -> Refused:
        return error(409, "duplicate", name, f"{name} is taken", existing_id=holder.id)

    def absent(self, kind: str, id_: str) -> Refused:
        return error(404, "not_found", "id", f"No {kind} with id {id_}")

    def _shown(self, record: Record) -> dict[str, Any]:
        blank = {**dict.fromkeys(self.fields[record.kind]), **record.properties}
        if record.kind == "persons":
            blank["emails"] = blank["emails"] or []
        times = {"created_at": record.created_at, "updated_at": record.updated_at}
        return {**blank, "id": record.id, **{name: _time(at) for name, at in times.items()}}


def error(status: int, code: str, field: str | None, message: str, **more: Any) -> Refused:
    return Refused(status, {"error": {"code": code, "field": field, "message": message, **more}})


def _time(ms: int) -> str:
    text = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def _fits(record: Record, name: str, wanted: Any) -> bool:
    have = record.properties.get(name)
    if name == "emails":
        return str(wanted).lower() in (one.lower() for one in have or ())
    if name == "phone":
        return re.sub(r"\D", "", have or "") == re.sub(r"\D", "", str(wanted))
    return bool(have == wanted)
