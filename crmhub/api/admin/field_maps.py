"""The admin API's routes for an account's field map, and for a preview of its effect.

A field map translates the property names and values of bots to those of the account's CRM.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

import flask
import marshmallow as ma
from marshmallow import fields

from crmhub.accounts.field_maps import KINDS, WHEN
from crmhub.api.admin.blueprint import blueprint, documented
from crmhub.api.admin.callers import author
from crmhub.api.admin.connections import SaveQuery
from crmhub.api.http.answers import as_json
from crmhub.api.http.authentication import hub, needs
from crmhub.api.http.field_types import Choice, Inner, Properties, Strict
from crmhub.api.http.schemas import Shown
from crmhub.errors import Forbidden
from crmhub.helpers.actions import HELPERS
from crmhub.operators.crm import field_map_reading, map_fields
from crmhub.operators.crm.field_map_reading import LONGEST_NAME, LONGEST_VALUE
from crmhub.operators.crm.map_fields import Preview
from crmhub.operators.resources import WITH_BODY

_NAME = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}
_VALUE = {"type": "string", "minLength": 1, "maxLength": LONGEST_VALUE}
_RULE = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "to": {**_NAME, "description": "The CRM's name of the property; else the same."},
        "values": {
            "type": "object",
            "additionalProperties": _VALUE,
            "description": "The CRM's value for values of bots; others are passed on.",
        },
        "constant": {**_VALUE, "description": "A value, as bots would send it, sent by itself."},
        "set": {
            "type": "string",
            "enum": list(WHEN),
            "description": "Whether the constant replaces what bots send (always, as when not"
            " given), or is for where neither they nor the CRM have a value (empty).",
        },
    },
}


class _Rules(fields.Field[dict[str, Any]]):
    default_error_messages = {"null": "must be an object, not null"}

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ma.ValidationError("must be an object")
        return value


def _rules(kind: str, shape: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": shape,
        "description": f"Rules for {kind}, by the names that bots use.",
    }


class FieldMapInput(Strict):
    """Schema of a complete field map; kinds of records that are not sent have no rules."""

    class Meta(Strict.Meta):
        include: ClassVar = {
            kind: _Rules(metadata=_rules(kind, {"oneOf": [_NAME, _RULE]})) for kind in KINDS
        }


class FieldMapShown(Shown):
    class Meta(Shown.Meta):
        include: ClassVar = {
            kind: fields.Raw(required=True, metadata=_rules(kind, _RULE)) for kind in KINDS
        }


class NoteShown(Shown):
    """Schema of a warning about a valid rule; `path` names the rule."""

    path = fields.String(required=True)
    message = fields.String(required=True)


class SavedFieldMapShown(FieldMapShown):
    notes = fields.List(fields.Nested(NoteShown), required=True)


class PreviewInput(Strict):
    """Schema of the helper call to preview, and optionally the field map to apply to it."""

    helper = Choice(HELPERS, required=True)
    properties = Properties(
        metadata={
            "description": "What the bot sends; of createLead name, email and phone. Without it"
            " the newest call there was is taken, for which the scope actions:read is needed."
        }
    )
    field_map = Inner(
        FieldMapInput,
        data_key="fieldMap",
        metadata={"description": "The map to try; without it the one that is set."},
    )


class SentShown(Shown):
    name = fields.String(required=True, metadata={"description": "The CRM's name."})
    value = fields.String(required=True)
    of = fields.String(required=True, metadata={"description": "What bots call it."})
    given = fields.String(required=True, metadata={"description": "Its value before."})
    source = fields.String(
        required=True,
        metadata={
            "enum": ["bot", "constant", "constantIfEmpty"],
            "description": "constantIfEmpty is sent where the contact has no value only.",
        },
    )


class RefusedShown(Shown):
    name = fields.String(required=True)
    reason = fields.String(required=True)


class PreviewShown(Shown):
    helper = fields.String(required=True)
    kind = fields.String(required=True, metadata={"enum": list(KINDS)})
    sent = fields.List(fields.Nested(SentShown), required=True)
    refused = fields.List(fields.Nested(RefusedShown), required=True)
    note = fields.String(required=True, metadata={"description": "What could not be told."})


def preview_shown(found: Preview) -> dict[str, Any]:
    return {
        "helper": found.helper,
        "kind": found.kind,
        "sent": [asdict(sent) for sent in found.sent],
        "refused": [{"name": refused.name, "reason": refused.reason} for refused in found.refused],
        "note": found.note,
    }


@blueprint.get("/accounts/<client_id>/field-map")
@documented("getFieldMap", 200, FieldMapShown, "Read the field map of an account's CRM")
@needs("accounts:read")
def _get(client_id: str) -> flask.Response:
    return as_json(hub().load_account(client_id).connection.field_map.plain())


@blueprint.put("/accounts/<client_id>/field-map")
@documented(
    "setFieldMap",
    200,
    SavedFieldMapShown,
    "Set the field map of an account's CRM, once it fits that CRM's properties",
    errors=WITH_BODY,
)
@needs("accounts:write")
@blueprint.arguments(SaveQuery(), location="query")
@blueprint.arguments(FieldMapInput())
def _set(query: dict[str, Any], body: dict[str, Any], client_id: str) -> flask.Response:
    test = query.get("check", "true") == "true"
    given = field_map_reading.read(body)
    account, notes = map_fields.set_field_map(hub(), client_id, given, test=test, by=author())
    shown = [{"path": path, "message": message} for path, message in notes]
    return as_json({**account.connection.field_map.plain(), "notes": shown})


@blueprint.post("/accounts/<client_id>/field-map/preview")
@documented("previewFieldMap", 200, PreviewShown, "Show what a call would send to an account's CRM")
@needs("accounts:read")
@blueprint.arguments(PreviewInput())
def _preview(body: dict[str, Any], client_id: str) -> flask.Response:
    sample, given = body.get("properties"), body.get("field_map")
    if sample is None and "actions:read" not in flask.g.caller.scopes:
        raise Forbidden(
            "properties: what bots have sent is shown to a token with the scope actions:read;"
            " send a sample."
        )
    found = map_fields.preview(
        hub(),
        hub().load_account(client_id),
        body["helper"],
        sample=sample,
        field_map=None if given is None else field_map_reading.read(given),
    )
    return as_json(preview_shown(found))
