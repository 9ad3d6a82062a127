"""Create, update and merge records in the fake HubSpot, with HubSpot's refusals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adapters.fakes.hubspot.answers import Refused, WrongValue, missing, wrong_values
from adapters.fakes.hubspot.definitions import LIFECYCLE, PIPELINE, SINGULAR, STAGE, TYPE_IDS
from adapters.fakes.hubspot.linking import TYPES, checked_target, checked_types, link
from adapters.fakes.hubspot.portal import Portal, Record
from adapters.fakes.hubspot.values import searchable_phone, stored

_ANY_OF_CONTACT = ("email", "firstname", "lastname")
OF_TICKET = ("subject", "hs_pipeline_stage")
"""The properties that every ticket needs."""
_STAGES_OF_LIFE = [value for value, _ in LIFECYCLE]
_SEARCHABLE = {
    "phone": "hs_searchable_calculated_phone_number",
    "mobilephone": "hs_searchable_calculated_mobile_number",
}


def create(
    portal: Portal,
    kind: str,
    properties: dict[str, str],
    associations: Iterable[dict[str, Any]] = (),
) -> Record:
    """Create a record with its links to existing records, and return it.

    `associations` lists the links in the format of HubSpot's request body. Raises Refused if a
    property or link is invalid; then nothing is created.
    """
    values = _values(portal, kind, properties)
    if kind in PIPELINE and (kind == "tickets" or values.get(STAGE[kind])):
        values.setdefault(PIPELINE[kind], next(iter(portal.pipelines[kind]), ""))
    _check_complete(kind, values)
    _check_rules(portal, kind, values)
    _check_stage(portal, kind, values)
    _check_unique(portal, kind, values, None)
    links = [
        (checked_target(portal, type_, association["to"]["id"]), type_)
        for association in associations
        for type_ in checked_types(kind, association["types"], to=association["to"]["id"])
    ]
    record = portal.new_record(kind)
    portal.store(record, values | _calculated(portal, kind, values))
    for target, type_ in links:
        link(portal, record, target, type_)
    return record


def update(portal: Portal, record: Record, properties: dict[str, str]) -> None:
    """Write the given properties of a record; the value "" clears a property.

    Like HubSpot, this silently ignores a lifecycle stage before the present one, unless the stage
    was cleared first.
    """
    values = _values(portal, record.kind, properties)
    if _goes_back(record.properties.get("lifecyclestage", ""), values.get("lifecyclestage", "")):
        del values["lifecyclestage"]
    after = {**record.properties, **values}
    _check_rules(portal, record.kind, after, changed=values)
    if {PIPELINE.get(record.kind), STAGE.get(record.kind)} & values.keys():
        _check_stage(portal, record.kind, after)
    _check_unique(portal, record.kind, values, record)
    portal.store(record, after | _calculated(portal, record.kind, after))


def check_full(portal: Portal, kind: str, properties: dict[str, str]) -> None:
    """Raise Refused with status 400 if these properties do not suffice for a new record.

    HubSpot requires some properties in every record, and the account's rules may require further
    ones.
    """
    _check_complete(kind, properties)
    _check_rules(portal, kind, properties)


def merge(portal: Portal, primary: Record, other: Record) -> Record:
    """Merge two records of a kind into a new record, and return the new record.

    If both records have a value for a property, the value of `primary` is kept. Both old ids lead
    to the new record.
    """
    if primary is other:
        raise Refused(400, "Cannot merge a record with itself")
    kind = primary.kind
    emails = list(dict.fromkeys([*primary.emails, *other.emails]))
    values = {**other.properties, **primary.properties}
    if kind == "contacts" and emails:
        values |= {"email": emails[0], "hs_additional_emails": ";".join(emails[1:])}
    links = {
        (other_key, type_id)
        for key in ((kind, primary.id), (kind, other.id))
        for other_key, types in portal.links.get(key, {}).items()
        for type_id in types
        if other_key not in ((kind, primary.id), (kind, other.id))
    }
    merged = portal.new_record(kind)
    merged.created_at = min(primary.created_at, other.created_at)
    values["hs_merged_object_ids"] = f"{primary.id};{other.id}"
    for old in (primary, other):
        portal.remove(old, archive=False)
        portal.merged[kind, old.id] = merged.id
    for alias, id_ in portal.merged.items():
        if id_ in (primary.id, other.id):
            portal.merged[alias] = merged.id
    portal.store(merged, values)
    for (of, id_), type_id in links:
        link(portal, merged, portal.records[of][id_], TYPES[type_id])
    return merged


def _values(portal: Portal, kind: str, properties: dict[str, str]) -> dict[str, str]:
    """Return property values in the format in which HubSpot stores them, by property name.

    Raises Refused with a list of all invalid values.
    """
    values: dict[str, str] = {}
    wrong: list[WrongValue] = []
    for name, given in properties.items():
        value = _value(portal, kind, name, given)
        if isinstance(value, WrongValue):
            wrong.append(value)
        else:
            values[name] = value
    if wrong:
        raise wrong_values(wrong, portal.portal_id)
    return values


def _value(portal: Portal, kind: str, name: str, given: str) -> str | WrongValue:
    definition = portal.definitions[kind].get(name)
    if definition is None:
        return WrongValue(name, "PROPERTY_DOESNT_EXIST", f'Property "{name}" does not exist')
    if definition["modificationMetadata"]["readOnlyValue"]:
        return WrongValue(
            name, "READ_ONLY_VALUE", f'"{name}" is a read only property; its value cannot be set.'
        )
    if given.strip() == "":
        return ""
    value = stored(definition, given)
    if isinstance(value, str) and (allowed := _referable(portal, kind, name)) is not None:
        return value if value in allowed else _not_among(name, value, allowed)
    return value


def _referable(portal: Portal, kind: str, name: str) -> list[str] | None:
    """Return the ids that are valid values of a property that refers to owners or pipelines.

    Returns None for any further property. This includes stages, whose valid values depend on the
    pipeline.
    """
    if name == "hubspot_owner_id":
        return sorted(portal.owner_ids())
    if name == PIPELINE.get(kind):
        return [id_ for id_, pipeline in portal.pipelines[kind].items() if not pipeline["archived"]]
    return None


def _not_among(name: str, value: str, allowed: Iterable[str]) -> WrongValue:
    listed = ", ".join(allowed)
    return WrongValue(
        name, "INVALID_OPTION", f"{value} was not one of the allowed options: [{listed}]"
    )


def _check_complete(kind: str, values: dict[str, str]) -> None:
    if kind == "contacts" and not any(values.get(name) for name in _ANY_OF_CONTACT):
        raise missing(_ANY_OF_CONTACT, SINGULAR[kind], code="MISSING_REQUIRED_PROPERTY")
    if kind == "tickets" and (lacking := [name for name in OF_TICKET if not values.get(name)]):
        raise missing(lacking, SINGULAR[kind], code="MISSING_REQUIRED_PROPERTY")


def _check_rules(
    portal: Portal, kind: str, after: dict[str, str], *, changed: dict[str, str] | None = None
) -> None:
    """Raise Refused if the account's rules forbid a record with the properties `after`.

    In an update, `changed` contains the changed properties, and only rules about them apply. For a
    new record, `changed` is None. Since version 2026-09 the rules also apply to writes by the API
    (HubSpot's changelog).
    """
    rules = portal.rules[kind]
    touched = after if changed is None else changed
    lacking = [
        name
        for name in rules.required
        if not after.get(name) and (changed is None or name in touched)
    ]
    if lacking:
        raise missing(lacking, SINGULAR[kind], code="MISSING_REQUIRED_PROPERTY")
    lacking = [
        name
        for condition, value, names in rules.conditional
        if after.get(condition) == value and ({condition, *names} & touched.keys())
        for name in names
        if not after.get(name)
    ]
    if lacking:
        raise missing(lacking, SINGULAR[kind], code="MISSING_CONDITIONAL_REQUIRED_PROPERTY")


def _check_stage(portal: Portal, kind: str, after: dict[str, str]) -> None:
    """Raise Refused with status 400 unless the record's stage belongs to its pipeline.

    `after` holds the record's properties after the write.
    """
    if kind not in STAGE or not (stage := after.get(STAGE[kind])):
        return
    allowed = portal.stages(kind, after.get(PIPELINE[kind], ""))
    if stage not in allowed:
        raise wrong_values([_not_among(STAGE[kind], stage, allowed)], portal.portal_id)


def _check_unique(portal: Portal, kind: str, values: dict[str, str], record: Record | None) -> None:
    for name, value in values.items():
        if not value or not portal.is_unique(kind, name):
            continue
        holder = portal.holder(kind, name, value)
        if holder is None or holder is record:
            continue
        if name == "email":
            raise Refused(
                409, f"Contact already exists. Existing ID: {holder.id}", category="CONFLICT"
            )
        where = (
            f"PropertyValueCoordinates{{portalId={portal.portal_id}, "
            f"objectTypeId={TYPE_IDS[kind]}, propertyName={name}, value={value}}}"
        )
        on = record.id if record else "a new record"
        message = f"Cannot set {where} on {on}. {holder.id} already has that value."
        raise wrong_values(
            [WrongValue(name, "CONFLICTING_UNIQUE_VALUE", message)], portal.portal_id
        )


def _goes_back(before: str, new_stage: str) -> bool:
    if before not in _STAGES_OF_LIFE or new_stage not in _STAGES_OF_LIFE:
        return False
    return _STAGES_OF_LIFE.index(new_stage) < _STAGES_OF_LIFE.index(before)


def _calculated(portal: Portal, kind: str, values: dict[str, str]) -> dict[str, str]:
    if kind == "contacts":
        return {
            name: searchable_phone(values[given]) if values.get(given) else ""
            for given, name in _SEARCHABLE.items()
        }
    return {}
