"""The admin API's routes for possible duplicates, which are pairs of contacts.

A pair can be listed, previewed, merged, unmerged and dismissed.
"""

from __future__ import annotations

from typing import Any

import flask
from marshmallow import fields

from crmhub.api.admin.blueprint import blueprint, documented
from crmhub.api.admin.callers import author
from crmhub.api.admin.duplicate_answers import ContactComparedShown, DuplicateShown, preview_shown
from crmhub.api.admin.lists import Filled, Listing, PageQuery
from crmhub.api.http.answers import as_json
from crmhub.api.http.authentication import hub, needs
from crmhub.api.http.field_types import Choice, Properties, Strict
from crmhub.api.http.schemas import PageOf, Shown
from crmhub.api.public.properties import in_path
from crmhub.identity import possible_duplicates
from crmhub.identity.bindings import LONGEST
from crmhub.identity.possible_duplicates import STATES
from crmhub.operators.duplicates import compare_contacts, merge_contacts

_ALL = "/accounts/<client_id>/duplicates"
_PAIR = f"{_ALL}/<contact_id>/<other_id>"
_PARAMETERS = [
    in_path("contact_id", minLength=1, maxLength=LONGEST),
    in_path("other_id", minLength=1, maxLength=LONGEST),
]
_CONFLICTS = (400, 401, 403, 404, 409, 429, 500, 503)
_LONGEST_VERSION = 40
_REASONS = {"different": False, "merged": True}


class DuplicatesQuery(PageQuery):
    state = Choice(STATES, metadata={"description": "In this state."})


class DuplicateQuery(Strict):
    keep = Filled("The contact to keep; by default the older one.", LONGEST)


class MergeInput(Strict):
    version = Filled("The `version` of the preview.", _LONGEST_VERSION, required=True)
    keep = Filled("The contact to keep; by default the older one.", LONGEST)
    take = Properties(
        metadata={
            "description": "Property name to the id of the contact whose value wins. Otherwise the"
            " kept contact's value wins, and a blank one is filled from the other contact."
        }
    )


class DismissInput(Strict):
    reason = Choice(
        _REASONS,
        required=True,
        metadata={"description": "Two `different` persons, or `merged` in the account's CRM."},
    )


class PropertyMergedShown(Shown):
    """Schema of a merged property; `from` is the id of the contact whose value would be kept."""

    name = fields.String(required=True)
    label = fields.String(required=True)
    winner = fields.String(data_key="from", required=True)
    value = fields.String(required=True)


class DuplicatePreviewShown(DuplicateShown):
    contacts = fields.List(
        fields.Nested(ContactComparedShown),
        required=True,
        metadata={"description": "The contact to keep comes first."},
    )
    obstacle = fields.String(
        required=True, metadata={"description": "Why the hub cannot merge the pair, if so."}
    )
    version = fields.String(
        required=True, metadata={"description": "Changes with the values of either contact."}
    )
    properties = fields.List(fields.Nested(PropertyMergedShown), required=True)
    moves = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(),
        required=True,
        metadata={"description": "How many links, conversations and enrolments move."},
    )


class DuplicatePageShown(PageOf):
    results = fields.List(fields.Nested(DuplicateShown), required=True)


@blueprint.get(_ALL)
@documented("listDuplicates", 200, DuplicatePageShown, "List possible duplicates, newest first")
@needs("actions:read")
@blueprint.arguments(DuplicatesQuery(), location="query")
def _list(query: dict[str, Any], client_id: str) -> flask.Response:
    account = hub().load_account(client_id)
    listing = Listing.from_query(f"duplicates of {account.id}", query)
    after: Any = tuple(listing.after) if listing.after else None
    with hub().database.reading() as db:
        found = possible_duplicates.listed(
            db,
            account,
            state=listing.filters.get("state", ""),
            after=after,
            limit=listing.limit + 1,
        )
    return listing.page(found, DuplicateShown().dump, lambda pair: [pair.found_at, *pair.ids])


@blueprint.get(_PAIR, parameters=_PARAMETERS)
@documented(
    "previewDuplicate",
    200,
    DuplicatePreviewShown,
    "Read a pair, and preview its merge",
    errors=(400, 401, 403, 404, 422, 429, 500, 503),
)
@needs("actions:read")
@blueprint.arguments(DuplicateQuery(), location="query")
def _preview(
    query: dict[str, Any], client_id: str, contact_id: str, other_id: str
) -> flask.Response:
    account = hub().load_account(client_id)
    found = compare_contacts.preview(
        hub(), account, contact_id, other_id, keep=query.get("keep", "")
    )
    return as_json(preview_shown(found))


@blueprint.post(f"{_PAIR}/merge", parameters=_PARAMETERS)
@documented("mergeDuplicate", 200, DuplicateShown, "Merge a pair as its preview shows")
@needs("actions:write")
@blueprint.arguments(MergeInput())
def _merge(body: dict[str, Any], client_id: str, contact_id: str, other_id: str) -> flask.Response:
    account = hub().load_account(client_id)
    merged = merge_contacts.merge(
        hub(),
        account,
        contact_id,
        other_id,
        version=body["version"],
        keep=body.get("keep", ""),
        take=body.get("take", {}),
        by=author(),
    )
    return as_json(DuplicateShown().dump(merged))


@blueprint.post(f"{_PAIR}/unmerge", parameters=_PARAMETERS)
@documented(
    "unmergeDuplicate", 200, DuplicateShown, "Undo a merge of the last 30 days", errors=_CONFLICTS
)
@needs("actions:write")
def _unmerge(client_id: str, contact_id: str, other_id: str) -> flask.Response:
    account = hub().load_account(client_id)
    return as_json(
        DuplicateShown().dump(
            merge_contacts.unmerge(hub(), account, contact_id, other_id, by=author())
        )
    )


@blueprint.post(f"{_PAIR}/dismiss", parameters=_PARAMETERS)
@documented("dismissDuplicate", 200, DuplicateShown, "Close a pair without merging it here")
@needs("actions:write")
@blueprint.arguments(DismissInput())
def _dismiss(
    body: dict[str, Any], client_id: str, contact_id: str, other_id: str
) -> flask.Response:
    account = hub().load_account(client_id)
    closed = merge_contacts.dismiss(
        hub(), account, contact_id, other_id, by=author(), merged=_REASONS[body["reason"]]
    )
    return as_json(DuplicateShown().dump(closed))
