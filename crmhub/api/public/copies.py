"""The copy of the account's CRM: its state (`GET /sync`), and what requests to it may do."""

from __future__ import annotations

from typing import Any, ClassVar

import flask
from marshmallow import fields

from crmhub.accounts.accounts import Account
from crmhub.api.http import flask_proxies
from crmhub.api.http.answers import as_json
from crmhub.api.http.authentication import account, hub
from crmhub.api.http.blueprint import Blueprint
from crmhub.api.http.documentation import documents
from crmhub.api.http.idempotency_key import given_key
from crmhub.api.http.schemas import Shown
from crmhub.errors import Conflict
from crmhub.helpers.crm_records import CrmRecords, Deferred
from crmhub.operators.crm import copy_crm
from crmhub.properties.kinds import KINDS
from crmhub.records.search.filters import iso
from crmhub.records.store import RecordStore

ASYNC = "respond-async"


def check_copy(of: Account, scope: str) -> None:
    """Check that the copy of the account's CRM can answer a request with this scope.

    Raises Unavailable while the copy of this kind is incomplete, and Semantic if the CRM has no
    such records.
    """
    resource = scope.partition(":")[0]
    if resource not in KINDS:
        return
    synced_at = copy_crm.complete_until(hub(), of, KINDS[resource])
    flask_proxies.g().source = {"X-Record-Source": "copy", "X-CRM-Synced-At": iso(synced_at)}


def writer() -> RecordStore | CrmRecords:
    """Return what writes the records of the request's account: the hub, or its CRM."""
    return crm_records() or hub().records


def crm_records() -> CrmRecords | None:
    """Return what writes records in the CRM of the request's account; None without a copy of it."""
    g = flask_proxies.g()
    if not account().switches.mirror:
        return None
    if "crm_records" not in g:
        key = given_key() if flask_proxies.request().method == "POST" else ""
        g.crm_records = CrmRecords(hub(), key=key, author=g.caller.key_id, may_wait=_may_wait())
    found: CrmRecords = g.crm_records
    return found


def _may_wait() -> bool:
    """Return whether the request prefers an answer before the write is done (RFC 7240)."""
    preferences = flask.request.headers.getlist("Prefer")
    return any(one.strip().lower() == ASYNC for sent in preferences for one in sent.split(","))


def deferred(error: Deferred) -> flask.Response:
    """Answer a write that a worker finishes."""
    headers = {"Preference-Applied": ASYNC} if _may_wait() else {}
    shown: dict[str, Any] = {"actionId": error.action_ids[0]}
    if len(error.action_ids) > 1:
        shown["actionIds"] = list(error.action_ids)
    return as_json(shown, 202, headers)


def refuse_copy(done: str) -> None:
    """Raise Conflict for what no CRM can do by its API, such as "restored"."""
    of = account()
    if of.switches.mirror:
        raise Conflict(
            f"The records of this account are in its CRM ({of.connection.adapter}); they can be"
            f" {done} there only."
        )


class DeferredShown(Shown):
    action_id = fields.String(
        data_key="actionId",
        required=True,
        metadata={"description": "The action with which a worker finishes the write."},
    )
    action_ids = fields.List(
        fields.String(),
        data_key="actionIds",
        metadata={"description": "Of a batch: the actions that a worker finishes, if several."},
    )


DEFERRED = {
    202: ("The account's CRM has not answered yet, and a worker finishes the write", DeferredShown)
}
"""A further answer of writes, as `documents` takes it."""


class CopyShown(Shown):
    state = fields.String(
        required=True,
        metadata={"enum": ["loading", "following", "ending", "absent"]},
    )
    records = fields.Integer(required=True, metadata={"minimum": 0})
    complete = fields.Boolean(required=True)
    synced_at = fields.String(data_key="syncedAt", required=True, allow_none=True)
    compared_at = fields.String(data_key="comparedAt", required=True, allow_none=True)
    differences = fields.Integer(required=True, allow_none=True)
    left_out = fields.Integer(
        data_key="leftOut",
        required=True,
        metadata={"description": "Values that the hub cannot hold."},
    )
    failure = fields.String(required=True, metadata={"description": 'Why it waits; "" if not.'})


class CopiesShown(Shown):
    class Meta(Shown.Meta):
        include: ClassVar = {kind: fields.Nested(CopyShown) for kind in KINDS}


blueprint = Blueprint(
    "sync",
    __name__,
    url_prefix="/<client_id>/api/v1/sync",
    description="What the copy of the account's CRM holds. Any key of the account may read it.",
)


@blueprint.get("")
@documents("getSync", 200, CopiesShown, "Read what the copy of the account's CRM holds")
def _get() -> flask.Response:
    return as_json({each.kind: _shown(each) for each in copy_crm.states(hub(), account())})


def _shown(state: copy_crm.CopyState) -> dict[str, Any]:
    return {
        "state": state.state,
        "records": state.records,
        "complete": state.is_complete,
        "syncedAt": state.synced_at and iso(state.synced_at),
        "comparedAt": state.compared_at and iso(state.compared_at),
        "differences": state.differences,
        "leftOut": state.left_out,
        "failure": state.failure,
    }
