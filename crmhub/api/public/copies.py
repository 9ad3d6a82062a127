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
from crmhub.api.http.schemas import Shown
from crmhub.operators.crm import copy_crm
from crmhub.properties.kinds import KINDS
from crmhub.records.search.filters import iso


def check_copy(of: Account, scope: str) -> None:
    """Check that the copy of the account's CRM can answer a request with this scope.

    Raises Unavailable while the copy of this kind is incomplete, Semantic if the CRM has no such
    records, and Conflict for a change, which must be made in the CRM.
    """
    resource, _, right = scope.partition(":")
    if resource not in KINDS:
        return
    if right == "write":
        of.require_own_records()
    synced_at = copy_crm.complete_until(hub(), of, KINDS[resource])
    flask_proxies.g().source = {"X-Record-Source": "copy", "X-CRM-Synced-At": iso(synced_at)}


class CopyShown(Shown):
    state = fields.String(
        required=True,
        metadata={"enum": ["loading", "following", "ending", "absent"]},
    )
    records = fields.Integer(required=True, metadata={"minimum": 0})
    share = fields.Float(
        required=True,
        allow_none=True,
        metadata={
            "minimum": 0,
            "maximum": 1,
            "description": "The part of the CRM's records that is loaded, if the CRM tells it.",
        },
    )
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
        "share": None if state.share is None else round(state.share, 3),
        "complete": state.is_complete,
        "syncedAt": state.synced_at and iso(state.synced_at),
        "comparedAt": state.compared_at and iso(state.compared_at),
        "differences": state.differences,
        "leftOut": state.left_out,
        "failure": state.failure,
    }
