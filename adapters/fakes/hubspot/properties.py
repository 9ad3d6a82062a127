"""The endpoints of the fake HubSpot for property definitions and property groups."""

from __future__ import annotations

import re
from typing import Any

from adapters.fakes.answers import Answer
from adapters.fakes.hubspot import shapes
from adapters.fakes.hubspot.answers import Refused, iso, not_found
from adapters.fakes.hubspot.calls import Call
from adapters.fakes.hubspot.definitions import Definition, definition
from adapters.fakes.hubspot.writing import OF_TICKET
from adapters.fakes.records import now_ms

_MAX_UNIQUE = 10
_MAX_INPUTS = 100
_PLAIN = "non_sensitive"
# The form fields that each property type allows (HubSpot's guide to properties).
_FIELD_TYPES = {
    "bool": {"booleancheckbox", "calculation_equation"},
    "enumeration": {"booleancheckbox", "checkbox", "radio", "select", "calculation_equation"},
    "date": {"date"},
    "datetime": {"date"},
    "string": {"file", "text", "textarea", "calculation_equation", "html", "phonenumber"},
    "number": {"number", "calculation_equation"},
    "phone_number": {"phonenumber", "text"},
}


def list_definitions(call: Call) -> Answer:
    """Respond with all property definitions of a kind of record.

    Sensitive definitions are returned only if the query parameter dataSensitivity asks for them.
    """
    if call.flag("archived"):
        return Answer(200, {"results": list(call.portal.archived_definitions[call.kind].values())})
    sensitivity = call.given("dataSensitivity") or _PLAIN
    definitions = [
        definition
        for definition in call.portal.copied_definitions(call.kind)
        if definition["dataSensitivity"] == sensitivity
    ]
    return Answer(200, {"results": definitions})


def read_schema(call: Call) -> Answer:
    """Respond with the schema of a kind of record, with the properties that the account requires.

    The definitions of the properties are left out.
    """
    own = OF_TICKET if call.kind == "tickets" else ()
    required = [*own, *call.portal.rules[call.kind].required]
    body = {"name": call.kind, "requiredProperties": required, "properties": []}
    return Answer(200, body)


def read_definition(call: Call) -> Answer:
    """Respond with one property definition.

    A sensitive definition is returned only if the query parameter dataSensitivity asks for it.
    """
    definition = _loaded(call, call.at["name"])
    if definition["dataSensitivity"] != (call.given("dataSensitivity") or _PLAIN):
        raise _unknown(call.at["name"])
    return Answer(200, definition)


def create_definition(call: Call) -> Answer:
    """Create a property definition, and respond with it (201)."""
    made = _made(call, call.json(shapes.PROPERTY_CREATE))
    return Answer(201, made, {"Location": f"{call.path}/{made['name']}"})


def update_definition(call: Call) -> Answer:
    """Update a property definition, and respond with it.

    If the request contains options, they replace all present options of the property.
    """
    given = call.json(shapes.PROPERTY_UPDATE)
    definition = _loaded(call, call.at["name"])
    locked = definition["modificationMetadata"]["readOnlyDefinition"]
    if locked and set(given) - {"options", "label", "description"}:
        raise Refused(400, f"{definition['name']} is defined by HubSpot and cannot be changed so")
    if definition["modificationMetadata"].get("readOnlyOptions") and definition["externalOptions"]:
        raise Refused(400, f"The options of {definition['name']} cannot be changed")
    _check_group(call, given)
    definition.update(given, updatedAt=iso(now_ms()))
    return Answer(200, definition)


def archive_definition(call: Call) -> Answer:
    """Archive a property definition (204)."""
    _archive(call, _loaded(call, call.at["name"]))
    return Answer(204)


def batch_create(call: Call) -> Answer:
    """Create several property definitions.

    The first failure stops the batch; the definitions before it are kept.
    """
    inputs = call.json(shapes.PROPERTY_BATCH_CREATE)["inputs"]
    _check_count(inputs)
    return Answer(201, _complete([_made(call, item) for item in inputs]))


def batch_read(call: Call) -> Answer:
    """Respond with several property definitions of one sensitivity level.

    If some of them do not exist, the status is 207 and the response lists the missing names.
    """
    given = call.json(shapes.PROPERTY_BATCH_READ)
    _check_count(given["inputs"])
    names = [item["name"] for item in given["inputs"]]
    definitions = {
        name: item
        for name, item in call.portal.definitions[call.kind].items()
        if item["dataSensitivity"] == given["dataSensitivity"]
    }
    absent = [name for name in names if name not in definitions]
    body = _complete([definitions[name] for name in names if name in definitions])
    if absent:
        body |= {"numErrors": len(absent), "errors": [_absent(name) for name in absent]}
    return Answer(207 if absent else 200, body)


def batch_archive(call: Call) -> Answer:
    """Archive several property definitions; unknown names are ignored."""
    for item in call.json(shapes.PROPERTY_BATCH_ARCHIVE)["inputs"]:
        if found := call.portal.definitions[call.kind].get(item["name"]):
            _archive(call, found)
    return Answer(204)


def list_groups(call: Call) -> Answer:
    """Respond with the property groups of a kind of record."""
    groups = call.portal.groups[call.kind]
    return Answer(200, {"results": [_group(name, label) for name, label in groups.items()]})


def create_group(call: Call) -> Answer:
    """Create a property group, and respond with it (201)."""
    given = call.json(shapes.GROUP_CREATE)
    if given["name"] in call.portal.groups[call.kind]:
        raise _exists("group", given["name"])
    call.portal.groups[call.kind][given["name"]] = given["label"]
    return Answer(201, _group(given["name"], given["label"]))


def _made(call: Call, given: dict[str, Any]) -> Definition:
    name, definitions = given["name"], call.portal.definitions[call.kind]
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,99}", name):
        raise Refused(
            400, f"{name} is no property name: a-z first, then a-z, 0-9 and _, 100 in all"
        )
    if name in definitions:
        raise _exists("property", name)
    _check_group(call, given)
    if given["fieldType"] not in _FIELD_TYPES[given["type"]]:
        raise Refused(400, f"{given['fieldType']} is no fieldType of {given['type']}")
    if given["type"] == "enumeration" and not (
        given.get("options") or given.get("externalOptions")
    ):
        raise Refused(400, f"{name}: an enumeration needs options")
    if given.get("hasUniqueValue"):
        _check_unique(call, given)
    blank = definition(name, given["label"], given["type"], group=given["groupName"], own=False)
    at = iso(now_ms())
    definitions[name] = {**blank, **given, "createdAt": at, "updatedAt": at}
    call.portal.archived_definitions[call.kind].pop(name, None)
    return definitions[name]


def _check_unique(call: Call, given: dict[str, Any]) -> None:
    if given["type"] not in ("string", "number"):
        raise Refused(400, f"A property of type {given['type']} cannot have unique values")
    definitions = call.portal.definitions[call.kind].values()
    if sum(definition["hasUniqueValue"] for definition in definitions) >= _MAX_UNIQUE:
        raise Refused(400, f"There are {_MAX_UNIQUE} properties with unique values already")


def _check_group(call: Call, given: dict[str, Any]) -> None:
    group = given.get("groupName")
    if group is not None and group not in call.portal.groups[call.kind]:
        raise Refused(400, f"Property group {group} does not exist")


def _check_count(inputs: list[Any]) -> None:
    if len(inputs) > _MAX_INPUTS:
        raise Refused(400, f"Batch input size {len(inputs)} exceeds the limit of {_MAX_INPUTS}")


def _archive(call: Call, definition: Definition) -> None:
    if not definition["modificationMetadata"]["archivable"]:
        raise Refused(400, f"{definition['name']} is defined by HubSpot and cannot be archived")
    del call.portal.definitions[call.kind][definition["name"]]
    definition |= {"archived": True, "archivedAt": iso(now_ms())}
    call.portal.archived_definitions[call.kind][definition["name"]] = definition


def _loaded(call: Call, name: str) -> Definition:
    if definition := call.portal.definitions[call.kind].get(name):
        return definition
    raise _unknown(name)


def _unknown(name: str) -> Refused:
    return not_found(f"Property {name} does not exist", category="OBJECT_NOT_FOUND")


def _exists(what: str, name: str) -> Refused:
    return Refused(
        409, f"A {what} named '{name}' already exists.", category="OBJECT_ALREADY_EXISTS"
    )


def _absent(name: str) -> dict[str, Any]:
    return {
        "status": "error",
        "category": "OBJECT_NOT_FOUND",
        "message": f"Property {name} does not exist",
        "context": {"name": [name]},
        "errors": [],
        "links": {},
    }


def _group(name: str, label: str) -> dict[str, Any]:
    return {"name": name, "label": label, "displayOrder": -1, "archived": False}


def _complete(results: list[Definition]) -> dict[str, Any]:
    at = iso(now_ms())
    return {"status": "COMPLETE", "results": results, "startedAt": at, "completedAt": at}
