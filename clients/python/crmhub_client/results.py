"""What the client returns.

What has times, or more than one wire form, is a frozen dataclass with Python's names; its `raw` is
the JSON as it came, so that nothing of the wire is lost. Definitions, which callers read, change
and send back, are TypedDicts: the JSON itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict

__all__ = [
    "Batch", "Event", "HelperAnswer", "ItemError", "Option", "Page", "Pipeline",
    "PropertyDefinition", "Record", "RecordNote", "Stage", "Subscription",
    "TestDelivery", "Usage", "Used",
]  # fmt: skip

INPUT = re.compile(r"inputs\[(\d+)\]")

Kind = Literal["contacts", "deals", "companies", "tickets"]


@dataclass(frozen=True, slots=True)
class Record:
    """A contact, deal, company or ticket.

    `associations`, `created_at` and `updated_at` are None where a list or search did not include
    them. `etag`: the version of the properties, for `if_match`; "" in lists and batches. `is_new`:
    whether an upsert created the record; None elsewhere. `archived_at`: of an archived record.
    """

    id: int
    properties: Mapping[str, str]
    associations: Mapping[str, Sequence[int]] | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    etag: str = ""
    is_new: bool | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    archived_at: datetime | None = None

    @classmethod
    def parse(cls, raw: Mapping[str, Any], etag: str = "") -> Record:
        """Return the record of an answer's JSON."""
        return cls(
            raw["id"],
            raw["properties"],
            raw.get("associations"),
            moment(raw.get("createdAt")),
            moment(raw.get("updatedAt")),
            etag,
            raw.get("new"),
            raw,
            moment(raw.get("archivedAt")),
        )


@dataclass(frozen=True, slots=True)
class RecordNote:
    """A note of a record. `kind`: note or transcript. `crm_id`: its id in the CRM that has it."""

    id: int
    text: str = field(repr=False)
    kind: str
    author: str
    at: datetime
    created_at: datetime
    crm_id: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> RecordNote:
        """Return the note of an answer's JSON."""
        return cls(
            raw["id"],
            raw["text"],
            raw["kind"],
            raw["author"],
            datetime.fromisoformat(raw["at"]),
            datetime.fromisoformat(raw["createdAt"]),
            raw.get("crmId", ""),
            raw,
        )


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list or search. `cursor` leads to the next one; it is "" on the last page."""

    total: int
    results: Sequence[Record]
    cursor: str
    next_link: str
    has_more: bool
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Page:
        """Return the page of an answer's JSON."""
        records = [Record.parse(each) for each in raw["results"]]
        cursor = raw["cursor"]
        return cls(raw["total"], records, cursor["next"], cursor["nextLink"], raw["hasMore"], raw)


@dataclass(frozen=True, slots=True)
class ItemError:
    """Why an input of a batch was refused. `index` counts the caller's inputs from 0."""

    index: int
    category: str
    message: str
    existing_id: int | None = None


@dataclass(slots=True)
class Batch:
    """The outcome of a batch of any length.

    `results`: the stored records, in the order of the inputs. `indexes`: for each result, the index
    of its input. `errors`: the refused inputs; empty unless the batch was `partial`. `sent`: how
    many inputs were answered.
    """

    results: list[Record] = field(default_factory=list)
    indexes: list[int] = field(default_factory=list)
    errors: list[ItemError] = field(default_factory=list)
    sent: int = 0

    def add(self, answer: Any, count: int) -> None:
        """Add the JSON answer to a request of `count` inputs; None for an answer without a body."""
        records = answer["results"] if isinstance(answer, dict) else answer
        errors = [
            ItemError(
                each["index"] + self.sent,
                each["category"],
                shifted(each["message"], self.sent),
                each.get("existingId"),
            )
            for each in (answer["errors"] if isinstance(answer, dict) else ())
        ]
        refused = {each.index for each in errors}
        accepted = [i for i in range(self.sent, self.sent + count) if i not in refused]
        self.results += [Record.parse(each) for each in records or ()]
        self.indexes += accepted if records is not None else []
        self.errors += errors
        self.sent += count


@dataclass(frozen=True, slots=True)
class HelperAnswer:
    """The answer of a webhook helper.

    `status`: created, updated, unchanged, queued or ok. `stale`: whether the values are the last
    known ones, because the CRM is unavailable. `refused` and `missing`: names of properties. What a
    helper does not answer is "", None or empty here.
    """

    status: str
    message: str
    action_id: str
    stale: bool
    refused: Sequence[str]
    missing: Sequence[str]
    contact_id: str
    deal_id: str
    ticket_id: str
    note_id: str
    task_id: str
    owner_id: str
    owner_name: str
    owner_email: str
    workflow_id: str
    reason: str
    url: str
    value: int | None
    properties: Mapping[str, str]
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> HelperAnswer:
        """Return the answer's JSON as a HelperAnswer."""
        # A property that was asked for may have the name of a key of another helper.
        asked = raw.get("properties", {})
        own = {name: value for name, value in raw.items() if name not in asked}
        return cls(
            status=raw["status"],
            message=raw["message"],
            action_id=raw["actionId"],
            stale=raw["stale"] == "true",
            refused=names(raw["refused"]),
            missing=names(raw.get("missing", "")),
            contact_id=own.get("contactId", ""),
            deal_id=own.get("dealId", ""),
            ticket_id=own.get("ticketId", ""),
            note_id=own.get("noteId", ""),
            task_id=own.get("taskId", ""),
            owner_id=own.get("ownerId", ""),
            owner_name=own.get("ownerName", ""),
            owner_email=own.get("ownerEmail", ""),
            workflow_id=own.get("workflowId", ""),
            reason=own.get("reason", ""),
            url=own.get("url", ""),
            value=own.get("value"),
            properties=asked,
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription to events. `secret` is given once, when the subscription is created.

    `reason`: why it is not active, or what was wrong with the last delivery.
    """

    id: str
    url: str
    types: Sequence[str]
    state: str
    reason: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    secret: str = field(default="", repr=False)
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Subscription:
        """Return the subscription of an answer's JSON."""
        return cls(
            str(raw["id"]),
            raw["url"],
            raw["types"],
            raw["state"],
            raw.get("reason", ""),
            moment(raw.get("createdAt")),
            moment(raw.get("updatedAt")),
            raw.get("secret", ""),
            raw,
        )


@dataclass(frozen=True, slots=True)
class Event:
    """A delivered event. `data` holds `id`, `properties`, and what has changed."""

    id: str
    type: str
    created_at: datetime | None
    client_id: str
    data: Mapping[str, Any]
    raw: Mapping[str, Any] = field(repr=False, compare=False)


class TestDelivery(TypedDict):
    """What came of a test event. `status`: the address's HTTP status, None without an answer."""

    eventId: str
    delivered: bool
    status: int | None
    message: str


class Option(TypedDict):
    """An option of an enumeration: the value that is stored, and the label that people see."""

    value: str
    label: NotRequired[str]


class PropertyDefinition(TypedDict, total=False):
    """What is known of a property; a new one needs `name` and `type`."""

    name: str
    label: str
    type: str
    description: str
    required: bool
    unique: bool
    readOnly: bool
    options: list[Option]


class Stage(TypedDict):
    """A stage of a pipeline; the hub issues an `id` where there is none."""

    id: NotRequired[str]
    label: str
    probability: NotRequired[str | float | None]
    closed: NotRequired[bool]


class Pipeline(TypedDict, total=False):
    """A pipeline with its stages in order; a new one needs `label` and `stages`."""

    id: str
    label: str
    stages: list[Stage]


class Used(TypedDict):
    """Records of a kind, and how many the plan allows; None: any number."""

    used: int
    limit: int | None


class Usage(TypedDict):
    """The account's plan, its limits, and what is used. A rate is such as "1000/10s"."""

    plan: str
    rateLimit: str | None
    keyRateLimit: str | None
    resources: dict[str, Used]


def moment(text: str | None) -> datetime | None:
    """Return the time of an ISO text of the hub, in UTC; None for None."""
    return datetime.fromisoformat(text) if text else None


def shifted(message: str, offset: int) -> str:
    """Return a message in which the indexes of inputs are greater by so many."""
    return INPUT.sub(lambda one: f"inputs[{int(one[1]) + offset}]", message)


def names(joined: str) -> tuple[str, ...]:
    """Return the names in a comma-joined text."""
    return tuple(name for name in joined.split(",") if name)
