"""One company in the fake Pipedrive: its records, and what lists, searches and writes do."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from adapters.fakes.pipedrive.answers import Refused, invalid, moment
from adapters.fakes.pipedrive.catalogue import Field, custom, fields_of
from adapters.fakes.pipedrive.values import check
from adapters.fakes.records import Record, now_ms

_USUAL_PAGE, _MOST_PAGE, _MOST_IDS, _MOST_KEYS = 100, 500, 100, 15
_WHOLE_SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)
_NO_DIGIT = re.compile(r"[^0-9]+", re.ASCII)
_SINGULAR = {"persons": "Person", "deals": "Deal"}
_PAGING = ("limit", "cursor")
_FILTERS = {
    "persons": ("owner_id", "org_id"),
    "deals": ("owner_id", "person_id", "org_id", "pipeline_id", "stage_id"),
}
_OF_LISTS = (*_PAGING, "ids", "updated_since", "sort_by", "sort_direction", "custom_fields")
_SEARCHED = {"email": "emails", "phone": "phones"}
_OWNER = 7301
PhoneSearch = Literal["digits", "text"]


@dataclass
class Company:
    """The records, fields, pipelines and users of a company.

    `phone_search` says how the search compares phones: by their digits, or by the text as it
    stands. `channel` says whether a deal keeps the value of `channel_id`, which Pipedrive's API
    file does not name. `deleted` says what a read by id answers for a deleted record: the record
    with `is_deleted`, or 404. `names_field` says whether the refusal of a custom field names it in
    `field_code`. `most_deals` is the plan's limit of open deals.
    """

    phone_search: PhoneSearch = "digits"
    keeps_channel: bool = True
    deleted: Literal["flagged", "gone"] = "flagged"
    names_field: bool = False
    synced: bool = False
    most_deals: int = 10_000
    currency: str = "EUR"
    records: dict[str, dict[int, Record]] = field(
        default_factory=lambda: {"persons": {}, "deals": {}}
    )
    fields: dict[str, dict[str, Field]] = field(
        default_factory=lambda: {kind: fields_of(kind) for kind in ("persons", "deals")}
    )
    pipelines: list[dict[str, Any]] = field(default_factory=list)
    stages: list[dict[str, Any]] = field(default_factory=list)
    users: list[dict[str, Any]] = field(default_factory=list)
    _newest: int = 0

    def __post_init__(self) -> None:
        for i, (name, stages) in enumerate(
            {
                "Sales": ("Qualified", "Contact made", "Negotiation"),
                "Partners": ("New", "Signed"),
                "Support": ("Open", "Waiting", "Done"),
            }.items()
        ):
            # The first pipeline of the list is not the first one for people.
            pipeline = {"id": i + 1, "name": name, "order_nr": (2, 1, 3)[i], "is_deleted": False}
            self.pipelines.append(pipeline)
            for order, stage in enumerate(stages, 1):
                id_ = len(self.stages) + 1
                self.stages.append(
                    {"id": id_, "name": stage, "order_nr": order, "pipeline_id": i + 1}
                    | {"is_deleted": False, "deal_probability": 100}
                )
        self.users = [
            {"id": _OWNER, "name": "Me", "email": "me@acme.example", "active_flag": True}
            | {"default_currency": self.currency, "is_deleted": False, "is_you": True},
            {"id": _OWNER + 1, "name": "Eve", "email": "eve@acme.example", "active_flag": False}
            | {"default_currency": self.currency, "is_deleted": False, "is_you": False},
            {"id": _OWNER + 2, "name": "Tom", "email": "tom@acme.example", "active_flag": True}
            | {"default_currency": self.currency, "is_deleted": False, "is_you": False},
        ]

    def define(self, kind: str, name: str, type_: str = "varchar", *labels: str) -> str:
        """Add a custom field to persons or deals; return its key."""
        made = custom(kind, name, type_, labels)
        self.fields[kind][made["field_code"]] = made
        return str(made["field_code"])

    # Writes.

    def create(self, kind: str, body: Any) -> Record:
        """Create a person or a deal; raise Refused if Pipedrive would refuse it."""
        self._check(kind, body)
        name = "name" if kind == "persons" else "title"
        if not body.get(name):
            raise Refused(400, f"{_SINGULAR[kind]} {name} must be given.")
        now = now_ms()
        record = Record(kind, self._next_id(), now, now)
        properties: dict[str, Any] = {
            "owner_id": _OWNER,
            "org_id": None,
            "visible_to": 3,
            "label_ids": [],
            "is_deleted": False,
            "custom_fields": {},
            "add_time": moment(now),
        }
        if kind == "persons":
            properties |= {"emails": [], "phones": []}
        else:
            opened = [one for one in self.stored("deals").values() if self._is_open(one)]
            if len(opened) >= self.most_deals:
                words = "Couldn't add the deal. Open deals limit reached."
                raise Refused(403, words, code="feature_capping_deals_limit")
            properties |= {"value": 0, "currency": self.currency, "status": "open"}
            properties |= {"person_id": None, "channel_id": None, "expected_close_date": None}
            properties |= {"origin": "API", "is_archived": False}
        self._write(record, properties, body)
        self.records[kind][int(record.id)] = record
        return record

    def update(self, kind: str, id_: int, body: Any) -> Record:
        """Change a person or a deal: the named fields only, but lists as a whole."""
        record = self.load(kind, id_)
        if record.properties["is_deleted"]:
            raise Refused(404, f"{_SINGULAR[kind]} not found")
        self._check(kind, body)
        if "name" in body and not body["name"]:
            raise Refused(400, "Person name must be given.")
        self._write(record, record.properties, body)
        return record

    def delete(self, kind: str, id_: int) -> None:
        """Mark a record as deleted."""
        record = self.load(kind, id_)
        record.write({**record.properties, "is_deleted": True}, now_ms())

    def load(self, kind: str, id_: int) -> Record:
        """Return a record by its id, also a deleted one."""
        if id_ not in self.records[kind]:
            raise Refused(404, f"{_SINGULAR[kind]} not found")
        return self.records[kind][id_]

    def stored(self, kind: str) -> dict[str, Record]:
        """Return the records of persons or deals that are not deleted, by id."""
        return {
            str(id_): record
            for id_, record in self.records[kind].items()
            if not record.properties["is_deleted"]
        }

    def _check(self, kind: str, body: Any) -> None:
        names_field, synced = self.names_field, self.synced
        check(kind, body, self.fields[kind], synced=synced, names_field=names_field)

    def _write(self, record: Record, properties: dict[str, Any], body: Mapping[str, Any]) -> None:
        given = {name: value for name, value in body.items() if name != "custom_fields"}
        if not self.keeps_channel:
            given.pop("channel_id", None)
        values = {**properties, **given}
        held = {**properties["custom_fields"], **body.get("custom_fields", {})}
        values["custom_fields"] = {key: value for key, value in held.items() if value is not None}
        if record.kind == "persons":
            first, _, last = values["name"].partition(" ")
            values |= {"first_name": first, "last_name": last or None}
            for listed in ("emails", "phones"):
                values[listed] = _with_primary(values[listed])
        else:
            values |= self._place(values, given)
            if values.get("lost_reason") and values["status"] != "lost":
                raise invalid("lost_reason", "can only be set if the status is lost")
        now = now_ms()
        record.write(values | {"update_time": moment(now)}, now)

    def _place(self, values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, int]:
        """Return the pipeline and the stage of a deal; by default the first for people."""
        pipeline, stage = given.get("pipeline_id"), given.get("stage_id")
        if pipeline is None and stage is None and values.get("stage_id"):
            return {}
        pipelines = sorted(self.pipelines, key=lambda one: one["order_nr"])
        found = next((one for one in self.stages if one["id"] == stage), None)
        if stage is not None and found is None:
            raise invalid("stage_id", "there is no such stage")
        pipeline = pipeline or (found or {}).get("pipeline_id") or pipelines[0]["id"]
        if pipeline not in [one["id"] for one in pipelines]:
            raise invalid("pipeline_id", "there is no such pipeline")
        found = found or next(one for one in self.stages if one["pipeline_id"] == pipeline)
        if found["pipeline_id"] != pipeline:
            raise invalid("stage_id", "the stage is not in the pipeline")
        return {"pipeline_id": pipeline, "stage_id": found["id"]}

    def _next_id(self) -> str:
        self._newest += 1
        return str(self._newest)

    def _is_open(self, deal: Record) -> bool:
        return bool(deal.properties["status"] == "open")

    # Reads.

    def read(self, kind: str, id_: int) -> dict[str, Any]:
        """Return a record by id; a deleted one as the option `deleted` says."""
        record = self.load(kind, id_)
        if record.properties["is_deleted"] and self.deleted == "gone":
            raise Refused(404, f"{_SINGULAR[kind]} not found")
        return shown(record)

    def listed(self, kind: str, query: Mapping[str, str]) -> dict[str, Any]:
        """Return a page of persons or deals that are not deleted, as the query says."""
        _known(query, *_OF_LISTS, *_FILTERS[kind])
        if len(query.get("custom_fields", "").split(",")) > _MOST_KEYS:
            raise invalid("custom_fields", f"at most {_MOST_KEYS} keys")
        records = list(self.stored(kind).values())
        if "ids" in query:
            ids = query["ids"].split(",")
            if len(ids) > _MOST_IDS or not all(map(_NUMBER.fullmatch, ids)):
                raise invalid("ids", f"at most {_MOST_IDS} ids")
            records = [record for record in records if record.id in ids]
        for name in _FILTERS[kind]:
            if name in query:
                wanted = _whole(query, name)
                records = [one for one in records if one.properties.get(name) == wanted]
        if since := query.get("updated_since"):
            if not _WHOLE_SECONDS.fullmatch(since):
                raise invalid("updated_since", "must be a time in RFC 3339, in whole seconds")
            records = [one for one in records if one.properties["update_time"] >= since]
        by, direction = query.get("sort_by", "id"), query.get("sort_direction", "asc")
        if by not in ("id", "update_time", "add_time") or direction not in ("asc", "desc"):
            raise invalid("sort_by", "is not allowed")
        records.sort(
            key=lambda one: (one.properties.get(by) if by != "id" else "", int(one.id)),
            reverse=direction == "desc",
        )
        return paged([shown(record) for record in records], query)

    def search(self, query: Mapping[str, str], lag: float) -> dict[str, Any]:
        """Return a page of the people whom the search index finds; the index is `lag` s late."""
        _known(query, *_PAGING, "term", "fields", "exact_match", "organization_id")
        exact = query.get("exact_match", "false")
        if exact not in ("true", "false"):
            raise invalid("exact_match", "must be a boolean")
        term = query.get("term", "").casefold()
        if len(term) < (1 if exact == "true" else 2):
            raise invalid("term", "is too short")
        names = query.get("fields", ",".join(_SEARCHED)).split(",")
        if not {*names} <= {*_SEARCHED}:
            raise invalid("fields", f"this fake searches {', '.join(_SEARCHED)}")
        items = []
        for record in self.records["persons"].values():
            held = record.searchable(lag)
            if held and not held["is_deleted"] and self._hits(held, names, term, exact == "true"):
                items.append({"result_score": 0.5, "item": _found(record, held)})
        page = paged(items, query)
        return page | {"data": {"items": page["data"]}}

    def _hits(self, held: Mapping[str, Any], names: list[str], term: str, exact: bool) -> bool:
        for name in names:
            for entry in held[_SEARCHED[name]]:
                text, wanted = entry["value"].casefold(), term
                if name == "phone" and self.phone_search == "digits":
                    text, wanted = (_NO_DIGIT.sub("", one) for one in (text, wanted))
                if text == wanted or (not exact and wanted and wanted in text):
                    return True
        return False


def shown(record: Record) -> dict[str, Any]:
    """Return a record as Pipedrive's JSON."""
    return {"id": int(record.id), **record.properties}


def paged(items: list[Any], query: Mapping[str, str]) -> dict[str, Any]:
    """Return the page of a list that `limit` and `cursor` ask for, with the next cursor."""
    limit = _whole(query, "limit") if "limit" in query else _USUAL_PAGE
    if not 1 <= limit <= _MOST_PAGE:
        raise invalid("limit", f"must be from 1 to {_MOST_PAGE}")
    start = _start(query["cursor"]) if "cursor" in query else 0
    end = start + limit
    cursor = base64.b64encode(f"from {end}".encode()).decode() if end < len(items) else None
    return {
        "success": True,
        "data": items[start:end],
        "additional_data": {"next_cursor": cursor},
    }


def _start(cursor: str) -> int:
    try:
        return int(base64.b64decode(cursor, validate=True).decode().removeprefix("from "))
    except (ValueError, binascii.Error):
        raise invalid("cursor", "is invalid") from None


def _whole(query: Mapping[str, str], name: str) -> int:
    if not _NUMBER.fullmatch(query[name]):
        raise invalid(name, "must be an integer")
    return int(query[name])


def _known(query: Mapping[str, str], *names: str) -> None:
    if unknown := sorted(query.keys() - {*names}):
        raise invalid(unknown[0], "is not allowed")


def _with_primary(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    primary: Callable[[int, dict[str, Any]], bool] = lambda i, one: one.get("primary", False)  # noqa: E731
    if not any(one.get("primary") for one in entries):
        primary = lambda i, one: i == 0  # noqa: E731
    return [
        {"value": one["value"], "primary": primary(i, one), "label": one.get("label") or "work"}
        for i, one in enumerate(entries)
    ]


def _found(record: Record, held: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": int(record.id),
        "type": "person",
        "name": held["name"],
        "phones": [entry["value"] for entry in held["phones"]],
        "emails": [entry["value"] for entry in held["emails"]],
        "visible_to": held["visible_to"],
        "owner": {"id": held["owner_id"]},
        "organization": None,
        "custom_fields": [],
        "notes": [],
    }
