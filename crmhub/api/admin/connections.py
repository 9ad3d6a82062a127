"""The admin API's routes for an account's connection to its CRM, and for installed adapters."""

from __future__ import annotations

from typing import Any

import flask
from marshmallow import fields

from crmhub.api.admin.blueprint import blueprint, documented
from crmhub.api.admin.callers import author
from crmhub.api.http.answers import as_json
from crmhub.api.http.authentication import hub, needs
from crmhub.api.http.field_types import Between, Choice, Flag, Properties, Strict, Text
from crmhub.api.http.resource_schemas import schema_of, shown
from crmhub.api.http.schemas import MOMENT, Shown
from crmhub.operators.accounts import change_account
from crmhub.operators.accounts.resources import CONNECTION
from crmhub.operators.crm import connect_crm, mappable_properties, set_crm
from crmhub.operators.crm.set_crm import LAST, Crm
from crmhub.operators.crm.switch_crm import DECISIONS
from crmhub.operators.resources import WITH_BODY
from crmhub.records.search.filters import iso


class _Given(Strict):
    restore = Flag(
        metadata={
            "description": "true: what is not given here is taken from the account's last"
            " connection to this adapter, field map included. It is kept for 30 days after the"
            " account has left it."
        }
    )
    settings = Properties(
        metadata={"description": "All settings that are not to have their default."}
    )
    secrets = Properties(
        metadata={
            "description": "Secrets to store. On the same adapter one that is not named stays;"
            ' null or "" removes it.'
        }
    )


class ConnectionInput(_Given):
    adapter = Text(required=True, metadata={"description": "One of those installed."})
    queued = Choice(
        DECISIONS,
        metadata={
            "description": "What becomes of what is queued for the former CRM: finish (there), move"
            " (where that CRM was not told of the person yet; the others finish) or drop. Needed"
            " when the adapter changes and something is queued."
        },
    )


class CheckInput(_Given):
    """Schema of the connection to test; an empty object tests the stored connection."""

    adapter = Text(metadata={"description": "Without it the present one."})


class LinkInput(ConnectionInput):
    days = Between(
        1,
        connect_crm.MOST_LINK_DAYS,
        metadata={
            "description": "For how many days the link is valid.",
            "default": connect_crm.LINK_DAYS,
        },
    )


class LinkShown(Shown):
    """Schema of a link with which a customer connects its CRM by OAuth; it is shown only once."""

    url = fields.String(required=True, metadata={"description": "Shown this once."})
    expires_at = fields.String(data_key="expiresAt", required=True, metadata=MOMENT)


class SaveQuery(Strict):
    check = Choice(
        ("true", "false"),
        metadata={
            "description": "false saves without asking the CRM; else it is asked, and nothing is"
            " saved when it finds something wrong.",
            "default": "true",
        },
    )


class CheckedShown(Shown):
    ok = fields.Boolean(required=True)
    message = fields.String(
        required=True, metadata={"description": 'What is wrong, in its words; "" when nothing.'}
    )
    warnings = fields.List(
        fields.String(),
        metadata={
            "description": "A sentence for each property that the CRM requires of new records, and"
            " that neither helpers nor field map fill; left out when there is none."
        },
    )


@blueprint.put("/accounts/<client_id>/connection")
@documented(
    "setConnection",
    200,
    schema_of(CONNECTION),
    "Choose an account's CRM, once it says that all is well",
)
@needs("accounts:write")
@blueprint.arguments(SaveQuery(), location="query")
@blueprint.arguments(ConnectionInput())
def _set(query: dict[str, Any], body: dict[str, Any], client_id: str) -> flask.Response:
    crm = _crm(body["adapter"], body)
    test = query.get("check", "true") == "true"
    set_crm.set_crm(hub(), client_id, crm, test=test, queued=body.get("queued"), by=author())
    return as_json(shown(CONNECTION, change_account.detail(hub(), client_id)))


@blueprint.post("/accounts/<client_id>/connection/check")
@documented(
    "checkConnection",
    200,
    CheckedShown,
    "Ask an account's CRM, as it is set or would be set",
    errors=WITH_BODY,
)
@needs("accounts:write")
@blueprint.arguments(CheckInput())
def _check(body: dict[str, Any], client_id: str) -> flask.Response:
    account, crm = hub().load_account(client_id), None
    if body:
        crm = _crm(body.get("adapter", account.connection.adapter), body)
    fault = set_crm.check_crm(hub(), client_id, crm)
    warnings = mappable_properties.unfilled(hub(), account) if fault is None and not crm else []
    found = {"ok": fault is None, "message": fault.message if fault else ""}
    return as_json(found | ({"warnings": warnings} if warnings else {}))


@blueprint.post("/accounts/<client_id>/connection/link")
@documented(
    "createConnectLink", 201, LinkShown, "Make a link with which a customer connects the account"
)
@needs("accounts:write")
@blueprint.arguments(LinkInput())
def _link(body: dict[str, Any], client_id: str) -> flask.Response:
    base = connect_crm.require_public_url(hub())
    link = connect_crm.make_link(
        hub(),
        client_id,
        _crm(body["adapter"], body),
        by=author(),
        queued=body.get("queued"),
        days=body.get("days", connect_crm.LINK_DAYS),
    )
    return as_json({"url": link.url(base), "expiresAt": iso(link.expires_at)}, 201)


def _crm(adapter: str, body: dict[str, Any]) -> Crm:
    restore = body.get("restore", False)
    return Crm(
        adapter,
        body.get("settings", {}),
        body.get("secrets", {}),
        whole=not restore,
        guarded=True,
        past=LAST if restore else None,
    )
