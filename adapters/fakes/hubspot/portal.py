"""The state of one HubSpot account of the fake.

The state consists of property definitions, pipelines, owners (users), records and links.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from adapters.fakes import records
from adapters.fakes.hubspot import definitions as starter
from adapters.fakes.hubspot.answers import Refused, iso, not_found
from adapters.fakes.hubspot.definitions import CHANGED_AT, KINDS, SHOWN, SINGULAR, TYPE_IDS
from adapters.fakes.limits import Window
from adapters.fakes.records import now_ms

Definition = dict[str, Any]
Key = tuple[str, str]  # kind and id

_FIRST_ID = {
    "contacts": 60_100_000_001,
    "companies": 20_300_000_001,
    "deals": 40_200_000_001,
    "tickets": 30_500_000_001,
}
_LONGEST_HISTORY = 20


@dataclass(slots=True)
class Record(records.Record):
    """A contact, deal, ticket or company.

    `history` lists the former (ms, value) of each property, by property name.
    """

    archived_at: int | None = None
    history: dict[str, list[tuple[int, str]]] = field(default_factory=dict)

    @property
    def emails(self) -> list[str]:
        """The contact's primary email and additional emails."""
        more = self.properties.get("hs_additional_emails", "").split(";")
        return [email for email in (self.properties.get("email", ""), *more) if email]

    def write(self, properties: dict[str, str], at_ms: int) -> None:
        """Replace all properties of the record by `properties`.

        `at_ms` is the time of the change, in ms since 1970. The change is added to the history and
        to the search index.
        """
        for name in properties.keys() | self.properties.keys():
            if (value := properties.get(name, "")) != self.properties.get(name, ""):
                past = self.history.setdefault(name, [])
                past.insert(0, (at_ms, value))
                del past[_LONGEST_HISTORY:]
        # A dataclass with slots is made anew, so super() without arguments finds another class.
        records.Record.write(self, properties, at_ms)


@dataclass(slots=True)
class Rules:
    """The properties that an account's administrator requires for a kind of record.

    The properties `required` must have values in every record. `conditional` lists (property,
    value, names): if the property has this value, the properties `names` are required as well.
    """

    required: tuple[str, ...] = ()
    conditional: tuple[tuple[str, str, tuple[str, ...]], ...] = ()


class Portal:
    """The state of one HubSpot account.

    The class is not thread-safe: the service locks it during each call.
    """

    def __init__(self, *, portal_id: int, marks: bool = False) -> None:
        self.portal_id = portal_id
        self.definitions = {kind: starter.starter_definitions(kind) for kind in KINDS}
        self.archived_definitions: dict[str, dict[str, Definition]] = defaultdict(dict)
        self.groups = {kind: {starter.GROUPS[kind]: _label(kind)} for kind in KINDS}
        self.pipelines = {kind: starter.starter_pipelines(kind) for kind in KINDS}
        self.owners = starter.starter_owners()
        self.records: dict[str, dict[str, Record]] = {kind: {} for kind in KINDS}
        self.archived: dict[str, dict[str, Record]] = {kind: {} for kind in KINDS}
        self.links: dict[Key, dict[Key, set[int]]] = {}
        self.rules = {kind: Rules() for kind in KINDS}
        self.merged: dict[Key, str] = {}
        self.daily = Window("daily", 250_000, 86_400)
        self._ids = dict(_FIRST_ID)
        # (Kind, property) → value → record id, for emails and unique properties.
        self._unique: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
        if marks:
            for kind in ("contacts", "deals", "tickets"):
                self.definitions[kind]["crmhub_mark"] = starter.mark(kind)

    def kind(self, named: str) -> str:
        """Return the kind of record that `named` means.

        `named` is the plural name, the singular name or HubSpot's type id of the kind. Raises
        Refused with status 400 for any other text.
        """
        for kind in KINDS:
            if named in (kind, SINGULAR[kind], TYPE_IDS[kind]):
                return kind
        raise Refused(400, f"Unable to infer object type from: {named}")

    def new_record(self, kind: str) -> Record:
        """Return an empty record with a new id; the record is not stored yet."""
        now = now_ms()
        id_ = str(self._ids[kind])
        self._ids[kind] += 1
        return Record(kind, id_, now, now)

    def store(self, record: Record, properties: dict[str, str]) -> None:
        """Store a new or existing record; `properties` replace all of its present properties."""
        self._forget(record)
        now = max(now_ms(), record.updated_at)
        own = {
            "hs_object_id": record.id,
            "createdate": iso(record.created_at),
            CHANGED_AT[record.kind]: iso(now),
        }
        record.write({**{k: v for k, v in properties.items() if v != ""}, **own}, now)
        self.records[record.kind][record.id] = record
        self._remember(record)

    def remove(self, record: Record, *, archive: bool = True) -> None:
        """Remove a record and its links.

        If `archive` is True, the record can still be read as an archived record.
        """
        self._forget(record)
        self.records[record.kind].pop(record.id, None)
        key = (record.kind, record.id)
        for other in self.links.pop(key, {}):
            self.links.get(other, {}).pop(key, None)
        if archive:
            record.archived_at = now_ms()
            self.archived[record.kind][record.id] = record

    def holder(self, kind: str, name: str, value: str) -> Record | None:
        """Return the record whose unique property `name` has the value `value`, or None."""
        id_ = self._unique[kind, name].get(_unique_form(name, value))
        return self.records[kind][id_] if id_ else None

    def is_unique(self, kind: str, name: str) -> bool:
        """Return whether a property must have a different value in each record of a kind."""
        if kind == "contacts" and name == "email":
            return True
        definition = self.definitions[kind].get(name)
        return bool(definition and definition["hasUniqueValue"])

    def find(self, kind: str, id_: str, id_property: str | None = None) -> Record | None:
        """Return the record with the id `id_`, or None if there is none or it is archived.

        If `id_property` names a unique property, `id_` is a value of this property instead of a
        record id. Raises Refused with status 400 if the property is not unique.
        """
        if id_property in (None, "", "hs_object_id"):
            return self.records[kind].get(self.merged.get((kind, id_), id_))
        if not self.is_unique(kind, str(id_property)):
            raise Refused(400, f"Property {id_property} is not a unique property of {kind}")
        return self.holder(kind, str(id_property), id_)

    def load(self, kind: str, id_: str, id_property: str | None = None) -> Record:
        """Return the record with the id `id_`, as `find` does.

        If `id_property` names a unique property, `id_` is a value of this property instead of a
        record id. Raises Refused with status 404 if there is no such record or it is archived.
        """
        if record := self.find(kind, id_, id_property):
            return record
        if id_property in (None, "", "hs_object_id") and id_.isdigit():
            raise not_found()
        raise not_found(
            "Object not found.  objectId are usually numeric.", category="OBJECT_NOT_FOUND"
        )

    def load_archived(self, kind: str, id_: str) -> Record:
        """Return the archived record with this id.

        Raises Refused with status 404 if there is none.
        """
        if record := self.archived[kind].get(id_):
            return record
        raise not_found()

    def owner_ids(self) -> set[str]:
        """Return the owner (user) ids that are valid values of the property hubspot_owner_id."""
        return {owner["id"] for owner in self.owners if not owner["archived"]}

    def stages(self, kind: str, pipeline_id: str) -> list[str]:
        """Return the ids of the stages of a pipeline.

        Return an empty list if there is no such pipeline.
        """
        pipeline = self.pipelines[kind].get(pipeline_id)
        if pipeline is None:
            return []
        return [stage["id"] for stage in pipeline["stages"] if not stage["archived"]]

    def copied_definitions(self, kind: str) -> list[Definition]:
        """Return copies of the property definitions of a kind of record.

        Archived definitions are left out.
        """
        return copy.deepcopy(list(self.definitions[kind].values()))

    def _unique_values(self, record: Record) -> Iterator[tuple[str, str]]:
        if record.kind == "contacts":
            for email in record.emails:
                yield "email", email
        for name, definition in self.definitions[record.kind].items():
            if definition["hasUniqueValue"] and (value := record.properties.get(name)):
                yield name, value

    def _remember(self, record: Record) -> None:
        for name, value in self._unique_values(record):
            self._unique[record.kind, name][_unique_form(name, value)] = record.id

    def _forget(self, record: Record) -> None:
        for name, value in self._unique_values(record):
            ids = self._unique[record.kind, name]
            if ids.get(_unique_form(name, value)) == record.id:
                del ids[_unique_form(name, value)]


def shown(
    portal: Portal,
    record: Record,
    *,
    names: list[str] | None = None,
    history: list[str] | None = None,
    with_url: bool = True,
    properties: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Return a record in the format of HubSpot's responses.

    `names` are the properties to include; None means those that HubSpot includes by default. The
    record's id and times are always included. A property without a value is null, and an unknown
    property is left out. `history` names the properties whose former values are included. If
    `with_url` is True, the URL of the record's page is included. `properties` replaces the record's
    own properties.
    """
    kind = record.kind
    definitions = record.properties if properties is None else properties
    asked = list(SHOWN[kind]) if names is None else names
    wanted_names = dict.fromkeys([*asked, "createdate", "hs_object_id", CHANGED_AT[kind]])
    body: dict[str, Any] = {
        "id": record.id,
        "properties": {
            name: definitions.get(name) for name in wanted_names if name in portal.definitions[kind]
        },
        "createdAt": iso(record.created_at),
        "updatedAt": iso(record.updated_at),
        "archived": record.archived_at is not None,
    }
    if record.archived_at is not None:
        body["archivedAt"] = iso(record.archived_at)
    if with_url:
        place = f"record/{TYPE_IDS[kind]}/{record.id}"
        body["url"] = f"https://app.hubspot.com/contacts/{portal.portal_id}/{place}"
    if history:
        body["propertiesWithHistory"] = {
            name: [
                {"value": value, "timestamp": iso(at), "sourceType": "INTEGRATION"}
                for at, value in record.history.get(name, [])
            ]
            for name in history
            if name in portal.definitions[kind]
        }
    return body


def _label(kind: str) -> str:
    return f"{SINGULAR[kind].capitalize()} information"


def _unique_form(name: str, value: str) -> str:
    return value.strip().lower() if name == "email" else value.strip()
