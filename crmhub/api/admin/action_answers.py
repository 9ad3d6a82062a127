"""Schemas and functions that make the JSON of actions.

The admin API answers with this JSON, and `crmhub actions --json` prints it.
"""

from __future__ import annotations

from typing import Any

from marshmallow import fields, validate

from crmhub.api.http.schemas import Moment, Shown
from crmhub.operators.actions.action_queries import KINDS, STATES, Full, Summary
from crmhub.records.search.filters import iso


class ActionListedShown(Shown):
    id = fields.String(data_key="actionId", required=True)
    client_id = fields.String(data_key="clientId", required=True)
    kind = fields.String(data_key="helper", required=True, validate=validate.OneOf(KINDS))
    state = fields.String(required=True, validate=validate.OneOf(STATES))
    hub_id = fields.String(
        data_key="contactId", required=True, metadata={"description": "The hub's id (`hub-…`)."}
    )
    attempts = fields.Integer(
        data_key="tries",
        required=True,
        metadata={"minimum": 0, "description": "How many attempts were made."},
    )
    reason = fields.String(
        required=True,
        metadata={"description": "What went wrong last, or why it was discarded."},
    )
    created_at = Moment(data_key="acceptedAt", required=True)
    run_at = Moment(data_key="nextTryAt", required=True, allow_none=True)
    finished_at = Moment(data_key="endedAt", required=True, allow_none=True)
    behind = fields.String(
        data_key="parkedBehind",
        required=True,
        metadata={"description": "The dead createLead of its contact that blocks a parked one."},
    )
    author = fields.String(
        metadata={"description": "Of an agent's call: the id of its API key. Else left out."}
    )


class CallShown(Shown):
    number = fields.Integer(
        required=True,
        metadata={
            "minimum": 1,
            "description": "Its place in the attempt, of which the last 20 calls are kept.",
        },
    )
    method = fields.String(required=True)
    path = fields.String(
        required=True, metadata={"description": "Without personal data and values of the query."}
    )
    status = fields.Integer(required=True, metadata={"description": "0 without an answer."})
    ms = fields.Integer(required=True, metadata={"description": "How long it took."})
    correlation_id = fields.String(
        data_key="correlationId", required=True, metadata={"description": "The CRM's id of it."}
    )


class AttemptShown(Shown):
    number = fields.Integer(required=True, metadata={"minimum": 1})
    at = Moment(attribute="began_at", required=True)
    ms = fields.Integer(required=True, metadata={"description": "How long it took."})
    outcome = fields.String(required=True)
    message = fields.String(required=True)
    correlation_id = fields.String(
        data_key="correlationId",
        required=True,
        metadata={"description": "What the CRM called the request."},
    )
    calls = fields.List(fields.Nested(CallShown), required=True)


class VersionShown(Shown):
    """Schema of an action's request as it was before an operator corrected it."""

    at = Moment(required=True)
    by = fields.String(required=True, metadata={"description": "Who corrected it."})
    request = fields.Dict(required=True)


def summary_shown(summary: Summary) -> dict[str, Any]:
    shown: dict[str, Any] = ActionListedShown().dump(summary)
    if not summary.author:
        del shown["author"]
    if summary.state not in ("running", "queued"):
        shown["nextTryAt"] = None
    return shown


def action_shown(found: Full) -> dict[str, Any]:
    return {
        **summary_shown(found.summary),
        "request": found.request,
        "mapped": found.mapped or {},
        "result": found.result or {},
        "versions": VersionShown(many=True).dump(found.versions),
        "corrected": {name: iso(moment) for name, moment in found.corrected.items()},
        "blocked": list(found.blocked),
        "attempts": AttemptShown(many=True).dump(found.tries),
    }
