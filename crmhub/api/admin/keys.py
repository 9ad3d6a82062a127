"""The admin API's routes for an account's API keys: list, create and revoke them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import flask
import marshmallow as ma
from marshmallow import fields

from crmhub.accounts import keys
from crmhub.api.admin.account_answers import IssuedKeyShown, KeyShown
from crmhub.api.admin.blueprint import WITH_BODY, WITHOUT_BODY, blueprint, documented
from crmhub.api.admin.callers import author
from crmhub.api.admin.lists import all_of
from crmhub.api.http.answers import as_json, nothing
from crmhub.api.http.authentication import hub, needs
from crmhub.api.http.field_types import Strict, Text, Words
from crmhub.api.http.schemas import PageOf
from crmhub.errors import Semantic
from crmhub.operators.accounts import change_account

_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})?"
_SAID = re.compile(f"^{_DATE}({_TIME})?$")


class _Moment(Text):
    """Field for a date, or a date with time, loaded as ms since 1970; UTC without an offset."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        text = super()._deserialize(value, attr, data, **kwargs)
        if not _SAID.fullmatch(text):
            raise ma.ValidationError(
                "must be a date such as 2031-12-31, or with its time 2031-12-31T08:00:00Z"
            )
        try:
            read = datetime.fromisoformat(text)
            # OverflowError: in UTC it may lie beyond the year 9999.
            read = (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            # 422, because the pattern in the schema accepts days such as 2031-02-30.
            raise Semantic(f"{self.data_key}: {text} is not in the calendar.") from None
        return int(read.timestamp() * 1000)


def _some(given: Any) -> None:
    if not given:
        raise ma.ValidationError("is empty; leave it out for all, or name some")


class KeyInput(Strict):
    name = Text(
        validate=ma.validate.Length(max=keys.LONGEST_NAME),
        metadata={"description": "What it is for."},
    )
    scopes = Words(
        keys.SCOPES,
        validate=_some,
        metadata={"minItems": 1, "description": "What it may do; without any: everything."},
    )
    expires_at = _Moment(
        data_key="expiresAt",
        metadata={
            "pattern": _SAID.pattern,
            "description": "When it ends; without it never. A date is meant in UTC.",
        },
    )


class KeyPageShown(PageOf):
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
@documented(
    "createKey", 201, IssuedKeyShown, "Make an API key, which is shown this once", errors=WITH_BODY
)
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
@documented(
    "revokeKey", 204, None, "End an API key, within a second in every process", errors=WITHOUT_BODY
)
@needs("accounts:write")
def _revoke(client_id: str, key_id: str) -> flask.Response:
    change_account.revoke_key(hub(), client_id, key_id, by=author())
    return nothing()
