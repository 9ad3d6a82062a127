"""The adapter of an imagined REST CRM that has little: no marks, definitions or pipelines.

Its ids are texts, its emails plain lists, its searches POST, and its lists end with a slash.
"""

# ruff: noqa: RUF012 (class attributes as an author would write them)

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from crmhub.adapter import (
    AdapterError,
    BadConfig,
    ChangedPage,
    Choice,
    Conflict,
    Context,
    Kind,
    Linked,
    NotFound,
    Pipeline,
    Problem,
    Rejected,
    Saved,
    Setting,
)
from crmhub.adapter.answers import Answer, parse_time
from crmhub.adapter.creates import Candidate, Create, find_created
from crmhub.adapter.fields import Field
from crmhub.adapter.http import Limit
from crmhub.adapter.phones import notations
from crmhub.adapter.rest_adapter import RestAdapter
from crmhub.adapter.several import Several
from crmhub.adapter.tables import Records, Row, Write
from crmhub.adapter.walks import Walk

_PAGE = 100
_OPTIONS = {"phase": ("new", "talking", "won"), "status": ("open", "pending", "solved")}
_TIMES = {"changed": "updated_at", "created": "created_at"}
_OF_PERSON: dict[Kind, str] = {"contacts": "person_id"}
_FIELDS: Mapping[Kind, Mapping[str, tuple[str, str]]] = {
    "contacts": {
        "full_name": ("Full name", "string"),
        "email": ("Email", "email"),
        "phone": ("Phone", "phone"),
        "notes": ("Notes", "text"),
    },
    "deals": {
        "title": ("Title", "string"),
        "phase": ("Phase", "enumeration"),
        "value": ("Value", "currency"),
    },
    "tickets": {"subject": ("Subject", "string"), "status": ("Status", "enumeration")},
}
# The clock in headers, and times in records, are rounded.
_CLOCKS_S = 2.0


def _choices(names: Sequence[str]) -> tuple[Choice, ...]:
    return tuple(Choice(name, name.title()) for name in names)


class PeoplebaseAdapter(RestAdapter):
    """Adapter for Peoplebase's REST API, which authenticates with a token in X-Token."""

    title = "Peoplebase"
    settings = (
        Setting("base_url", "API address", "url", default="https://api.peoplebase.example/v1"),
        Setting("token", "API token", secret=True, required=True),
    )
    limits = (Limit(50, 1.0),)
    list_in = "items"
    id_form = re.compile(r"[poc]_[1-9][0-9]{0,11}", re.ASCII)
    whole_name = "full_name"
    email_names = ("emails",)
    phone_names = ("phone",)
    unique_emails = True
    several = {"email": Several("emails", "email", value="")}
    untold_deletions = frozenset({"contacts", "deals", "tickets"})
    kinds = {
        "contacts": Records("persons", **_TIMES),
        "deals": Records(
            "opportunities",
            {"dealname": "title", "dealstage": "phase", "amount": "value"},
            link="person_id",
            links=_OF_PERSON,
            **_TIMES,
        ),
        "tickets": Records(
            "cases",
            {"hs_pipeline_stage": "status"},
            link="person_id",
            links=_OF_PERSON,
            **_TIMES,
        ),
    }

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.lists = self.client(at_once=self.at_once, trailing_slash=True)

    def authorize(self) -> Mapping[str, str]:
        return {"X-Token": self.grant.token()}

    @staticmethod
    def failure(answer: Answer) -> AdapterError | None:
        """Return the error for Peoplebase's own error codes; None if the HTTP status decides."""
        match answer.body:
            case {"error": {"code": str(code), "field": field, "message": str(message)} as error}:
                name = "email" if field == "emails" else field or ""
            case _ if answer.status in (404, 410):
                return BadConfig("Peoplebase is not at this address.")
            case _:
                return None
        match answer.status, code, name:
            case 404, "no_such_path", _:
                return BadConfig("Peoplebase is not at this address.")
            case 409, "duplicate", _:
                holder = str(error.get("existing_id") or "")
                return Conflict("Another person has it.", existing_id=holder, name=name)
            case 422, _, "person_id":
                return NotFound("Peoplebase has no such person")
            case 422, _, _:
                return Rejected([Problem(name, message)] if name else [], message)
        return None

    def call(self, method: str, *path: str, **options: Any) -> Answer:
        is_list = len(path) == 1 or path[-1] == "search"
        return (self.lists if is_list else self.http).send(method, *path, **options)

    def check(self) -> None:
        answer = self.call("GET", "me")
        if not isinstance(answer.object().get("company"), str):
            raise answer.broken("it names no company")

    # Reading.

    def next_page(self, answer: Answer, params: Mapping[str, Any]) -> Mapping[str, Any] | None:
        total, per_page = (answer.object().get(name) for name in ("total", "per_page"))
        if not isinstance(total, int) or not isinstance(per_page, int):
            raise answer.broken("it does not say how many records there are")
        page = params["page"]
        return {**params, "page": page + 1} if page * per_page < total else None

    def found(self, kind: Kind, **where: str) -> Iterator[Row]:
        body = {"where": where, "page": 1, "per_page": _PAGE}
        return self.rows(self.kinds[kind].path, "search", method="POST", params=body)

    def find(self, by: str, values: Sequence[str], names: Sequence[str]) -> Iterator[Row]:
        for value in values:
            if by == "email":
                yield from self.found("contacts", emails=value)
            else:
                # The search compares digits alone.
                forms = {re.sub(r"\D", "", form): form for form in notations(value)}
                for form in forms.values():
                    yield from self.found("contacts", phone=form)

    def read_several(self, kind: Kind, ids: Sequence[str], names: Sequence[str]) -> Iterator[Row]:
        for one in ids:
            try:
                yield self.row(self.call("GET", self.kinds[kind].path, one))
            except NotFound:
                continue

    # Writing.

    def before_write(self, write: Write) -> None:
        super().before_write(write)
        values = write.values
        if write.kind == "contacts" and not write.record_id and not values.get("full_name"):
            named = [*values.get("emails", ()), values.get("phone"), "Unknown"]
            values["full_name"] = next(filter(None, named))

    def find_create(self, create: Create) -> Saved | None:
        """Look for the values since the create began; no other contact can have its email."""
        kind, sent = create.kind, dict(create.sent)
        if kind == "contacts" and (email := sent.get("email", "").lower()):
            contact = self.find_contact(email=email)
            return Saved(contact.id, "created") if contact else None
        if kind != "contacts":
            rows: Iterator[Row] = self.found(kind, person_id=create.contact_id)
            sent = self.fitting.without_place(kind, sent)
        elif phone := sent.get("phone"):
            rows = self.find("phone", [phone], ())
        else:
            rows = self.found(kind, full_name=sent.get("full_name", ""))
        candidates = (
            Candidate(
                self.saved(kind, row, "created"),
                self.seconds(row.get("created_at")),
                self.to_record(kind, row, list(sent)).properties,
            )
            for row in rows
            if row["id"] not in create.others
        )
        since = create.since_ms / 1000 + self.http.clock_ahead - _CLOCKS_S
        return find_created(candidates, sent, since=since)

    # Definitions.

    def load_fields(self, kind: Kind) -> Iterator[Field | None]:
        for name, (label, type_) in _FIELDS[kind].items():
            yield self.field(kind, name, label, type_, _choices(_OPTIONS.get(name, ())))
        for name in _TIMES.values():
            yield self.field(kind, name, name, "datetime", read_only=True)

    def load_pipelines(self, kind: Linked) -> list[Pipeline]:
        return [Pipeline("", "", _choices(_OPTIONS["phase" if kind == "deals" else "status"]))]

    # The copy.

    def changed_since(self, kind: Kind, since: str, names: Sequence[str]) -> ChangedPage:
        """Peoplebase lists by time of change: begin each page where the last one ended."""
        self.check_kind(kind)
        walk, asked = Walk.of(since), time.time() + self.lists.clock_ahead - _CLOCKS_S
        after, page = json.loads(walk.cursor) if walk.cursor else (walk.since, 1)
        params = {"page": page, "per_page": _PAGE, "updated_after": _iso(after)}
        answer = self.listed("GET", self.kinds[kind].path, params=params)
        rows = [self.row(answer, item) for item in answer.items(self.list_in)]
        cursor = ""
        if rows and self.next_page(answer, params):
            # The list is of times after `after`, and several records may have the last one.
            last = round(parse_time(rows[-1].get("updated_at")) - 0.001, 3)
            cursor = json.dumps([last, 1] if last > after else [after, page + 1])
        return walk.page((self.to_record(kind, row, names) for row in rows), cursor, asked=asked)


def _iso(seconds: float) -> str:
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
