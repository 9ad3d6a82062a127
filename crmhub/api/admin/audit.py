"""The admin API's route for the audit log, which lists changes with their authors."""

from __future__ import annotations

from typing import Any

import flask
from marshmallow import fields

from crmhub import audit
from crmhub.api.admin.account_answers import EntryShown
from crmhub.api.admin.blueprint import WITHOUT_BODY, blueprint, documented
from crmhub.api.admin.lists import Age, Filled, Listing, PageQuery, account_named
from crmhub.api.http.authentication import hub, needs
from crmhub.api.http.field_types import Choice
from crmhub.api.http.schemas import PageOf
from crmhub.audit import OBJECTS, VERBS, Wanted


class AuditQuery(PageQuery):
    account = Filled("The clientId of the account.", 64)
    object = Choice(OBJECTS, metadata={"description": "What was changed."})
    verb = Choice(VERBS, metadata={"description": "What was done to it."})
    by = Filled(
        "The name or the id of a token, a user at the command line, or one of the console.", 100
    )
    newer_than = Age("Since so long ago: 12h.", data_key="newerThan")


class AuditPageShown(PageOf):
    results = fields.List(fields.Nested(EntryShown), required=True)


@blueprint.get("/audit")
@documented(
    "listAuditEntries",
    200,
    AuditPageShown,
    "List who changed what, the newest first",
    errors=WITHOUT_BODY,
)
@needs("audit:read")
@blueprint.arguments(AuditQuery(), location="query")
def _list(query: dict[str, Any]) -> flask.Response:
    listing = Listing.from_query("audit", query)
    filters = listing.filters
    wanted = Wanted(
        account_id=account_named(filters["account"]).id if "account" in filters else None,
        object=filters.get("object", ""),
        verb=filters.get("verb", ""),
        by=filters.get("by", ""),
        newer_than_ms=filters.get("newer_than"),
        before_id=listing.after,
    )
    with hub().database.reading() as db:
        found = audit.listed(db, wanted, limit=listing.limit + 1)
    return listing.page(found, EntryShown().dump, lambda entry: entry.id)
