"""The public API's route that tells what became of a write which answered 202."""

from __future__ import annotations

from typing import Any

import flask
from marshmallow import fields

from crmhub.api.http.answers import as_json
from crmhub.api.http.authentication import account, hub, lacks_scope
from crmhub.api.http.blueprint import Blueprint
from crmhub.api.http.documentation import documents
from crmhub.api.http.flask_proxies import g
from crmhub.api.http.schemas import MOMENT, Shown
from crmhub.api.public.properties import in_path
from crmhub.errors import BadRequest, NotFound
from crmhub.helpers.create_linked import CreateDeal, CreateTicket
from crmhub.helpers.record_writes import WRITE_OF_KIND
from crmhub.operators.actions import action_queries
from crmhub.operators.actions.action_queries import Full
from crmhub.properties.kinds import KINDS
from crmhub.queue.models import is_id
from crmhub.records import copied
from crmhub.records.search.filters import iso

_RESOURCES: dict[str, str] = {
    CreateDeal.kind: "deals",
    CreateTicket.kind: "tickets",
    **{write.kind: resource for resource, write in WRITE_OF_KIND.items()},
}
MEANINGS = {
    "running": "It is being done now: look again in some seconds.",
    "queued": "It waits for the CRM, and the hub tries again by itself. Do not send it again.",
    "done": "It is done.",
    "refused": "It was refused: see reason. Correct the values and send a new call.",
    "dead": "It failed, and an operator has to decide. Tell the user; do not send it again.",
    "parked": "It waits behind a failed call of the same contact, on which an operator decides.",
    "discarded": "An operator discarded it: see reason.",
}
"""What the states of an action mean, and what to do."""


def resource_of(action_kind: str) -> str:
    """Return the kind of records that an action writes."""
    return _RESOURCES.get(action_kind, "contacts")


class ActionStateShown(Shown):
    action_id = fields.String(data_key="actionId", required=True)
    state = fields.String(required=True, metadata={"enum": [*MEANINGS]})
    message = fields.String(
        required=True, metadata={"description": "What the state means, and what to do."}
    )
    reason = fields.String(
        required=True, metadata={"description": 'What went wrong last; "" for nothing.'}
    )
    resource = fields.String(required=True, metadata={"enum": [*KINDS]})
    id = fields.Integer(
        required=True,
        allow_none=True,
        metadata={"minimum": 1, "description": "The record here; null until it is here."},
    )
    crm_id = fields.String(
        data_key="crmId",
        required=True,
        metadata={"description": 'The id of the record in the CRM; "" until it is there.'},
    )
    accepted_at = fields.String(data_key="acceptedAt", required=True, metadata=MOMENT)
    next_attempt_at = fields.String(
        data_key="nextAttemptAt", required=True, allow_none=True, metadata=MOMENT
    )
    ended_at = fields.String(data_key="endedAt", required=True, allow_none=True, metadata=MOMENT)


blueprint = Blueprint(
    "actions",
    __name__,
    url_prefix="/<client_id>/api/v1/actions",
    description="What became of a write that answered 202.",
)


@blueprint.get("/<action_id>", parameters=[in_path("action_id", minLength=1, maxLength=60)])
@documents(
    "getActionState",
    200,
    ActionStateShown,
    "Read what became of a write",
    errors=(400, 401, 403, 404, 429, 500, 503),
)
def _get(action_id: str) -> flask.Response:
    if not is_id(action_id):
        raise NotFound(f"There is no action {action_id[:60]}; send the actionId of an answer 202.")
    action = action_queries.shown(hub().database, action_id, account())
    summary, result = action.summary, action.result or {}
    resource = resource_of(summary.kind)
    caller = g().caller
    if not {f"{resource}:read", f"{resource}:write"} & {*caller.scopes}:
        raise lacks_scope(caller, f"{resource}:read")
    record_id = result.get("record_id", "")
    if not record_id and resource == "contacts":
        record_id = result.get("contact_id", "")
    is_own = action.adapter == "local"
    waits = summary.state in ("running", "queued")
    shown: dict[str, Any] = {
        "actionId": summary.id,
        "state": summary.state,
        "message": MEANINGS[summary.state],
        "reason": summary.reason,
        "resource": resource,
        "id": (int(record_id) if is_own else _hub_id(action, resource, record_id))
        if record_id
        else None,
        "crmId": "" if is_own else record_id,
        "acceptedAt": iso(summary.created_at),
        "nextAttemptAt": iso(summary.run_at) if waits else None,
        "endedAt": iso(summary.finished_at) if summary.finished_at else None,
    }
    return as_json(shown)


def _hub_id(action: Full, resource: str, crm_id: str) -> int | None:
    """Return the id of the copy's record; None without one, or if the action is of a former CRM."""
    if action.summary.connection_id != account().connection.id:
        return None
    try:
        found = hub().records.read_by(account(), KINDS[resource], copied.ID, [crm_id])
    except BadRequest:
        # The account has no copy.
        return None
    return found[0].id if found else None
