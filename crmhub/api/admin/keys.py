"""The admin API's routes for an account's API keys: list, create and revoke them."""

from __future__ import annotations

from typing import Any

import flask
import marshmallow as ma
from marshmallow import fields

from crmhub.accounts import keys
from crmhub.api.admin.account_answers import IssuedKeyShown, KeyShown
from crmhub.api.admin.blueprint import blueprint, documented
from crmhub.api.admin.callers import author
from crmhub.api.admin.lists import PageOf, all_of
from crmhub.api.admin.moments import MomentText
from crmhub.api.field_types import Strict, Text, Words
from crmhub.api.http.answers import as_json, nothing
from crmhub.api.http.authentication import hub, needs
from crmhub.operations import change_account


def _some(given: Any) -> None:
    if not given:
        raise ma.ValidationError("is empty; leave it out for all, or name some")


class KeyInput(Strict):
    """Schema of the name, the scopes and the expiry time of a new API key."""

    name = Text(
        validate=ma.validate.Length(max=keys.LONGEST_NAME),
        metadata={"description": "What it is for."},
    )
    scopes = Words(
        keys.SCOPES,
        validate=_some,
        metadata={"minItems": 1, "description": "What it may do; without any: everything."},
    )
    expires_at = MomentText(
        "When it ends; without it never. A date is meant in UTC.", data_key="expiresAt"
    )


class KeyPageShown(PageOf):
    """Schema of the list of all API keys of an account, on a single page.

    The list includes revoked and expired keys; the oldest key comes first.
    """

    results = fields.List(fields.Nested(KeyShown), required=True)


@blueprint.get("/accounts/<client_id>/keys")
@documented("listKeys", 200, KeyPageShown, "List an account's API keys, always on one page")
@needs("accounts:read")
def _list(client_id: str) -> flask.Response:
    account = hub().load_account(client_id)
    with hub().database.reading() as db:
        found = keys.list_keys(db, account.id)
    return all_of(KeyShown(many=True).dump(found))


@blueprint.post("/accounts/<client_id>/keys")
@documented("createKey", 201, IssuedKeyShown, "Make an API key, which is shown this once")
@needs("accounts:write")
@blueprint.arguments(KeyInput())
def _create(body: dict[str, Any], client_id: str) -> flask.Response:
    issued = change_account.create_key(
        hub(),
        client_id,
        name=body.get("name", ""),
        scopes=body.get("scopes", ()),
        expires_at=body.get("expires_at"),
        by=author(),
    )
    return as_json(IssuedKeyShown().dump(issued), 201)


@blueprint.delete("/accounts/<client_id>/keys/<key_id>")
@documented("revokeKey", 204, None, "End an API key, within a second in every process")
@needs("accounts:write")
def _revoke(client_id: str, key_id: str) -> flask.Response:
    change_account.revoke_key(hub(), client_id, key_id, by=author())
    return nothing()
