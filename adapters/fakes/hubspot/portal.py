"""The state of one HubSpot account: its definitions, records and links, and how it changes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from adapters.fakes.hubspot import definitions as starter
from adapters.fakes.hubspot.answers import (
    Refused,
    WrongValue,
    iso,
    missing,
    not_found,
    wrong_values,
)
from adapters.fakes.hubspot.definitions import (
    CHANGED_AT,
    KINDS,
    LIFECYCLE,
    LINK_TYPES,
    PIPELINE,
    SHOWN,
    SINGULAR,
    STAGE,
    TYPE_IDS,
)
from adapters.fakes.hubspot.values import searchable_phone, stored
from adapters.fakes.records import Record, now_ms
from adapters.fakes.store import Store, Values

MOST_LINKS = 100
"""The most links of a record to one kind in a list of records; the fake's guess."""
Key = tuple[str, str]
"""The kind and the id of a record."""
_ANY_OF_CONTACT = ("email", "firstname", "lastname")
NEEDED = {
    "tickets": ("subject", "hs_pipeline_stage"),
    "notes": ("hs_timestamp",),
    "tasks": ("hs_timestamp",),
}
"""The properties that every record of a kind needs."""
_STAGES_OF_LIFE = list(LIFECYCLE)
_SEARCHABLE = {
    "phone": "hs_searchable_calculated_phone_number",
    "mobilephone": "hs_searchable_calculated_mobile_number",
}


@dataclass(slots=True)
class Rules:
    """The properties that an account's administrator requires for a kind of record.

    The properties `required` must have values in every record. `conditional` lists (property,
    value, names): if the property has this value, the properties `names` are required as well.
    """

    required: tuple[str, ...] = ()
    conditional: tuple[tuple[str, str, tuple[str, ...]], ...] = ()


class Portal(Store):
    """One HubSpot account. `merged` holds the new id of a merged record by kind and old id, and
    `archived` the time when a record was archived (in ms since 1970)."""

    def __init__(self, *, portal_id: int, marks: bool = False) -> None:
        super().__init__({kind: {} for kind in KINDS}, first=60_100_000_001)
        self.portal_id = portal_id
        self.definitions = {kind: starter.starter_definitions(kind) for kind in KINDS}
        self.pipelines = {kind: starter.starter_pipelines(kind) for kind in KINDS}
        self.owners = list(starter.starter_owners())
        self.rules = {kind: Rules() for kind in KINDS}
        self.merged: dict[Key, str] = {}
        self.archived: dict[Key, int] = {}
        self._links: dict[Key, set[Key]] = defaultdict(set)
        # (Kind, property) → value → record id, for emails and unique properties.
        self._unique: dict[Key, dict[str, str]] = defaultdict(dict)
        for kind in ("contacts", "deals", "tickets") if marks else ():
            self.define(kind, "crmhub_mark", unique=True)

    def define(self, kind: str, name: str, type_: str = "string", **more: Any) -> None:
        """Define a custom property; `more` are further arguments of `definitions.definition`."""
        made = starter.definition(name, name, type_, kind=kind, own=False, **more)
        self.definitions[kind][name] = made

    def kind(self, named: str) -> str:
        """Return the kind that has this plural name, singular name or type id; raise Refused."""
        for kind in KINDS:
            if named in (kind, SINGULAR[kind], TYPE_IDS[kind]):
                return kind
        raise Refused(400, f"Unable to infer object type from: {named}")

    # Reading.

    def find_record(self, kind: str, id_: str, id_property: str | None = None) -> Record | None:
        """Return the record with an id; None if there is none.

        If `id_property` names a unique property, `id_` is a value of this property instead. Raises
        Refused with status 400 if the property is not unique.
        """
        if id_property in (None, "", "hs_object_id"):
            return self.records[kind].get(self.merged.get((kind, id_), id_))
        if not self._is_unique(kind, str(id_property)):
            raise Refused(400, f"Property {id_property} is not a unique property of {kind}")
        return self.holder(kind, str(id_property), id_)

    def load(self, kind: str, id_: str, id_property: str | None = None) -> Record:
        """Return the record that `find_record` finds; raise Refused with status 404 if none."""
        if record := self.find_record(kind, id_, id_property):
            return record
        if id_property in (None, "", "hs_object_id") and id_.isdigit():
            raise not_found()
        message = "Object not found.  objectId are usually numeric."
        raise not_found(message, category="OBJECT_NOT_FOUND")

    def holder(self, kind: str, name: str, value: str) -> Record | None:
        """Return the record whose unique property `name` has the value `value`, or None."""
        id_ = self._unique[kind, name].get(_unique_form(name, value))
        return self.records[kind][id_] if id_ else None

    def linked(self, kind: str, id_: str, to: str) -> list[str]:
        """Return the ids of the records of the kind `to` that are linked to a given record."""
        key = kind, self.merged.get((kind, id_), id_)
        return sorted((one for of, one in self._links[key] if of == to), key=int)

    def shown(
        self,
        record: Record,
        *,
        names: Iterable[str] | None = None,
        with_url: bool = True,
        properties: Values | None = None,
        associations: Iterable[str] = (),
    ) -> dict[str, Any]:
        """Return a record in the format of HubSpot's responses.

        `names` are the properties to include; None means those that HubSpot includes by default.
        The record's id and times are always included. A property without a value is null, and an
        unknown property is left out. If `with_url` is True, the URL of the record's page is
        included. `properties` replaces the record's own properties. `associations` are the kinds
        whose linked records are included; a kind without any is left out.
        """
        kind = record.kind
        held = record.properties if properties is None else properties
        asked = SHOWN[kind] if names is None else names
        wanted = dict.fromkeys([*asked, "createdate", "hs_object_id", CHANGED_AT[kind]])
        body = {
            "id": record.id,
            "properties": {n: held.get(n) for n in wanted if n in self.definitions[kind]},
            "createdAt": iso(record.created_at),
            "updatedAt": iso(record.updated_at),
            "archived": False,
        }
        if at := self.archived.get((kind, record.id)):
            body |= {"archived": True, "archivedAt": iso(at)}
        linked = {to: self._shown_links(kind, record.id, to) for to in associations}
        if any(linked.values()):
            body["associations"] = {to: links for to, links in linked.items() if links}
        if with_url:
            place = f"record/{TYPE_IDS[kind]}/{record.id}"
            body["url"] = f"https://app.hubspot.com/contacts/{self.portal_id}/{place}"
        return body

    def _shown_links(self, kind: str, id_: str, to: str) -> dict[str, Any]:
        ids = self.linked(kind, id_, to)
        type_ = f"{SINGULAR[kind]}_to_{SINGULAR[to]}"
        # HubSpot lists a link once for each of its types.
        results = [
            {"id": one, "type": name}
            for one in ids[:MOST_LINKS]
            for name in (type_, f"{type_}_any")
        ]
        more = {"paging": {"next": {"after": ids[MOST_LINKS - 1]}}} if len(ids) > MOST_LINKS else {}
        return {"results": results, **more} if ids else {}

    # Writing, without looking at the values.

    def insert(self, kind: str, values: Values) -> Record:
        record = super().insert(kind, {})
        record.indexed = []
        self.store(record, values)
        return record

    def update(self, record: Record, values: Values) -> None:
        self.store(record, {**record.properties, **values})

    def store(self, record: Record, properties: Values) -> None:
        """Replace all properties of a record."""
        self._forget(record)
        now = max(now_ms(), record.updated_at)
        own = {
            "hs_object_id": record.id,
            "createdate": iso(record.created_at),
            CHANGED_AT[record.kind]: iso(now),
        }
        record.write({name: text for name, text in properties.items() if text != ""} | own, now)
        for name, value in self._unique_values(record):
            self._unique[record.kind, name][_unique_form(name, value)] = record.id

    def delete(self, record: Record) -> None:
        self._forget(record)
        key = (record.kind, record.id)
        for other in self._links.pop(key, set()):
            self._links[other].discard(key)
        self.archived[key] = now_ms()
        super().delete(record)

    def link(self, record: Record, other: Record) -> None:
        """Link two records in both directions."""
        here, there = (record.kind, record.id), (other.kind, other.id)
        self._links[here].add(there)
        self._links[there].add(here)

    def unlink(self, here: tuple[str, str], there: tuple[str, str]) -> None:
        """Remove the link of two records, named by kind and id, in both directions."""
        self._links[here].discard(there)
        self._links[there].discard(here)

    # Writing, with HubSpot's refusals.

    def create(
        self, kind: str, properties: Mapping[str, str], associations: Iterable[Any] = ()
    ) -> Record:
        """Create a record with its links to existing records, and return it.

        `associations` lists the links in the format of HubSpot's request body. Raises Refused if a
        property or link is invalid; then nothing is created.
        """
        values = self._values(kind, properties)
        if kind in PIPELINE and (kind == "tickets" or values.get(STAGE[kind])):
            values.setdefault(PIPELINE[kind], next(iter(self.pipelines[kind]), ""))
        self._check_complete(kind, values)
        self._check_rules(kind, values)
        self._check_stage(kind, values)
        self._check_unique(kind, values, None)
        targets = [self._target(kind, one) for one in associations]
        record = self.insert(kind, values | _calculated(kind, values))
        for target in targets:
            self.link(record, target)
        return record

    def change(self, record: Record, properties: Mapping[str, str]) -> None:
        """Write the given properties of a record; the value "" clears a property.

        Like HubSpot, this silently ignores a lifecycle stage before the present one, unless the
        stage was cleared first.
        """
        values = self._values(record.kind, properties)
        if _goes_back(record.properties.get("lifecyclestage"), values.get("lifecyclestage")):
            del values["lifecyclestage"]
        after = {**record.properties, **values}
        self._check_rules(record.kind, after, changed=values)
        if {PIPELINE.get(record.kind), STAGE.get(record.kind)} & values.keys():
            self._check_stage(record.kind, after)
        self._check_unique(record.kind, values, record)
        self.store(record, after | _calculated(record.kind, after))

    def merge(self, primary: Record, other: Record) -> Record:
        """Merge two records of a kind into a new record, and return the new record.

        If both records have a value for a property, the value of `primary` is kept. Both old ids
        lead to the new record.
        """
        if primary is other:
            raise Refused(400, "Cannot merge a record with itself")
        kind, old_ids = primary.kind, (primary.id, other.id)
        emails = list(dict.fromkeys([*_emails(primary), *_emails(other)]))
        values = {**other.properties, **primary.properties}
        former = [key for key, id_ in self.merged.items() if id_ in old_ids]
        gone = [*(id_ for _, id_ in former), *old_ids]
        values["hs_merged_object_ids"] = ";".join(gone)
        if emails:
            values |= {"email": emails[0], "hs_additional_emails": ";".join(emails[1:])}
        links = set().union(*(self._links[kind, id_] for id_ in old_ids))
        for old in (primary, other):
            self.delete(old)
            del self.deleted[kind][old.id]
        merged = self.insert(kind, values)
        merged.created_at = min(primary.created_at, other.created_at)
        self.store(merged, values)
        for of, id_ in links - {(kind, id_) for id_ in old_ids}:
            self.link(merged, self.records[of][id_])
        self.merged |= dict.fromkeys(((kind, id_) for id_ in gone), merged.id)
        return merged

    def _values(self, kind: str, properties: Mapping[str, str]) -> dict[str, str]:
        """Return property values in the format in which HubSpot stores them, by property name.

        Raises Refused with a list of all invalid values.
        """
        values = {name: self._value(kind, name, given) for name, given in properties.items()}
        if wrong := [one for one in values.values() if isinstance(one, WrongValue)]:
            raise wrong_values(wrong, self.portal_id)
        return {name: str(value) for name, value in values.items()}

    def _value(self, kind: str, name: str, given: str) -> str | WrongValue:
        definition = self.definitions[kind].get(name)
        if definition is None:
            return WrongValue(name, "PROPERTY_DOESNT_EXIST", f'Property "{name}" does not exist')
        if definition["modificationMetadata"]["readOnlyValue"]:
            why = f'"{name}" is a read only property; its value cannot be set.'
            return WrongValue(name, "READ_ONLY_VALUE", why)
        if given.strip() == "":
            return ""
        value = stored(definition, given)
        allowed = self._referable(kind, name)
        if isinstance(value, WrongValue) or allowed is None or value in allowed:
            return value
        return _not_among(name, value, allowed)

    def _referable(self, kind: str, name: str) -> list[str] | None:
        """Return the ids that a property that refers to owners or pipelines may have.

        Returns None for any further property. This includes stages, whose valid values depend on
        the pipeline.
        """
        if name == "hubspot_owner_id":
            return [owner["id"] for owner in self.owners if not owner["archived"]]
        if name == PIPELINE.get(kind):
            return [id_ for id_, one in self.pipelines[kind].items() if not one["archived"]]
        return None

    def _check_complete(self, kind: str, values: Mapping[str, str]) -> None:
        if kind == "contacts" and not any(values.get(name) for name in _ANY_OF_CONTACT):
            raise missing(_ANY_OF_CONTACT, SINGULAR[kind])
        if lacking := [name for name in NEEDED.get(kind, ()) if not values.get(name)]:
            raise missing(lacking, SINGULAR[kind])

    def _check_rules(
        self, kind: str, after: Mapping[str, str], *, changed: Mapping[str, str] | None = None
    ) -> None:
        """Raise Refused if the account's rules forbid a record with the properties `after`.

        In an update, `changed` contains the changed properties, and only rules about them apply.
        Since version 2026-09 the rules also apply to writes by the API (HubSpot's changelog).
        """
        rules, touched = self.rules[kind], after if changed is None else changed
        names = [n for n in rules.required if changed is None or n in touched]
        if lacking := [name for name in names if not after.get(name)]:
            raise missing(lacking, SINGULAR[kind])
        lacking = [
            name
            for condition, value, needed in rules.conditional
            if after.get(condition) == value and ({condition, *needed} & touched.keys())
            for name in needed
            if not after.get(name)
        ]
        if lacking:
            raise missing(lacking, SINGULAR[kind], conditional=True)

    def _check_stage(self, kind: str, after: Mapping[str, str]) -> None:
        """Raise Refused unless the stage of a record with these properties is in its pipeline."""
        if kind not in STAGE or not (stage := after.get(STAGE[kind])):
            return
        pipeline = self.pipelines[kind].get(after.get(PIPELINE[kind], ""), {"stages": ()})
        allowed = [one["id"] for one in pipeline["stages"] if not one["archived"]]
        if stage not in allowed:
            raise wrong_values([_not_among(STAGE[kind], stage, allowed)], self.portal_id)

    def _check_unique(self, kind: str, values: Mapping[str, str], own: Record | None) -> None:
        for name, value in values.items():
            unique = value and self._is_unique(kind, name)
            holder = self.holder(kind, name, value) if unique else None
            if holder is None or holder is own:
                continue
            if name == "email":
                message = f"Contact already exists. Existing ID: {holder.id}"
                raise Refused(409, message, category="CONFLICT")
            where = (
                f"PropertyValueCoordinates{{portalId={self.portal_id}, "
                f"objectTypeId={TYPE_IDS[kind]}, propertyName={name}, value={value}}}"
            )
            on = own.id if own else "a new record"
            message = f"Cannot set {where} on {on}. {holder.id} already has that value."
            wrong = WrongValue(name, "CONFLICTING_UNIQUE_VALUE", message)
            raise wrong_values([wrong], self.portal_id)

    def _target(self, kind: str, association: Mapping[str, Any]) -> Record:
        """Return the record to which a new record of a kind is to be linked; raise Refused."""
        id_, types = association["to"]["id"], association["types"]
        if not types:
            raise Refused(400, "At least one association type is needed")
        for named in types:
            source, target = LINK_TYPES.get(named["associationTypeId"], ("", ""))
            if source != kind or named["associationCategory"] != "HUBSPOT_DEFINED":
                message = f"Association type {named} does not start at {TYPE_IDS[kind]}"
                raise _invalid_object(message, kind, id_)
            record = self.target(target, id_)
        return record

    def target(self, kind: str, id_: str) -> Record:
        """Return the record to which another one is to be linked; raise Refused.

        HubSpot documents only for reads that the id of a merged record leads to the new one.
        """
        if id_ not in self.records[kind]:
            message = f"No {SINGULAR[kind]} with id {id_} exists"
            raise _invalid_object(message, kind, id_)
        return self.records[kind][id_]

    def _is_unique(self, kind: str, name: str) -> bool:
        definition = self.definitions[kind].get(name, {"hasUniqueValue": False})
        return (kind, name) == ("contacts", "email") or bool(definition["hasUniqueValue"])

    def _unique_values(self, record: Record) -> Iterator[tuple[str, str]]:
        if record.kind == "contacts":
            yield from (("email", email) for email in _emails(record))
        for name, definition in self.definitions[record.kind].items():
            if definition["hasUniqueValue"] and (value := record.properties.get(name)):
                yield name, value

    def _forget(self, record: Record) -> None:
        for name, value in self._unique_values(record):
            ids = self._unique[record.kind, name]
            if ids.get(_unique_form(name, value)) == record.id:
                del ids[_unique_form(name, value)]


def _emails(record: Record) -> list[str]:
    """Return a contact's primary email and additional emails."""
    more = record.properties.get("hs_additional_emails", "").split(";")
    return [email for email in (record.properties.get("email", ""), *more) if email]


def _unique_form(name: str, value: str) -> str:
    return value.strip().lower() if name == "email" else value.strip()


def _not_among(name: str, value: str, allowed: Iterable[str]) -> WrongValue:
    why = f"{value} was not one of the allowed options: [{', '.join(allowed)}]"
    return WrongValue(name, "INVALID_OPTION", why)


def _invalid_object(message: str, kind: str, id_: str) -> Refused:
    """Return HubSpot's 400 response to a link with an invalid record, which it names."""
    context = {"INVALID_OBJECT_IDS": [id_], "objectId": [id_], "objectType": [TYPE_IDS[kind]]}
    return Refused(400, message, context=context)


def _goes_back(before: str | None, after: str | None) -> bool:
    if before not in _STAGES_OF_LIFE or after not in _STAGES_OF_LIFE:
        return False
    return _STAGES_OF_LIFE.index(after) < _STAGES_OF_LIFE.index(before)


def _calculated(kind: str, values: Mapping[str, str]) -> dict[str, str]:
    if kind != "contacts":
        return {}
    return {
        name: searchable_phone(values[given]) if values.get(given) else ""
        for given, name in _SEARCHABLE.items()
    }
