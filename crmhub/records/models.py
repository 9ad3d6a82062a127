"""Records as they are stored, and the inputs of writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from crmhub.database.bulk import Row
from crmhub.records.associations import Links


@dataclass(frozen=True, slots=True)
class Record:
    """Times are milliseconds since 1970 (UTC)."""

    id: int
    created_at: int
    updated_at: int
    version: int
    properties: dict[str, str]
    associations: Links = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stored:
    """`properties` are JSON text, ready to be sent."""

    id: int
    created_at: int
    updated_at: int
    version: int
    properties: str
    associations: Links

    def record(self) -> Record:
        return parse_record(
            (self.id, self.created_at, self.updated_at, self.version, self.properties),
            self.associations,
        )


@dataclass(frozen=True, slots=True)
class NewRecord:
    """`path` is the JSON path of the input, such as `inputs[3].`; `associations` maps a kind's name
    to ids; `sent` are the values as sent."""

    properties: Mapping[str, str]
    associations: Mapping[str, Sequence[int]] = field(default_factory=dict)
    path: str = ""
    sent: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """The value "" clears a property; the version must be in `if_match` (None: any).

    The record must still have the value of the unique property `found_by`. `associations` are links
    to add.
    """

    id: int
    properties: Mapping[str, str]
    path: str = ""
    if_match: frozenset[int] | None = None
    found_by: str = ""
    sent: Mapping[str, str] = field(default_factory=dict)
    associations: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Upsert:
    property_name: str
    value: str
    properties: Mapping[str, str]
    path: str = ""
    associations: Mapping[str, Sequence[int]] = field(default_factory=dict)


def parse_record(row: Row, links: Links | None = None) -> Record:
    id, created_at, updated_at, version, properties = row
    return Record(id, created_at, updated_at, version, orjson.loads(properties), links or {})
