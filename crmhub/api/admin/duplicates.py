"""Possible duplicates of an account: list, preview, merge, unmerge, dismiss."""

from __future__ import annotations

from typing import Any

import flask
from marshmallow import fields, validate

from crmhub.api.admin.blueprint import blueprint, documented
from crmhub.api.admin.callers import author, needs
from crmhub.api.admin.duplicate_answers import pair_shown, preview_shown
from crmhub.api.admin.lists import Filled, Listing, PageOf, PageQuery
from crmhub.api.http.answers import as_json
from crmhub.api.http.authentication import hub
from crmhub.api.properties import in_path
from crmhub.api.schemas import MOMENT, Choice, Properties, Shown, Strict
from crmhub.identity import possible_duplicates
from crmhub.identity.bindings import LONGEST
from crmhub.identity.possible_duplicates import STATES
from crmhub.operations import compare_contacts, merge_contacts

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
    """Which pairs to list."""

    state = Choice(dict.fromkeys(STATES), metadata={"description": "In this state."})


class DuplicateQuery(Strict):
    """What to preview."""

    keep = Filled("The contact to keep; by default the older one.", LONGEST)


class MergeInput(Strict):
    """How to merge a pair."""

    version = Filled("The `version` of the preview.", _LONGEST_VERSION, required=True)
    keep = Filled("The contact to keep; by default the older one.", LONGEST)
    take = Properties(
        metadata={
            "description": "Property name to the id of the contact whose value wins. Otherwise the"
            " kept contact's value wins, and a blank one is filled from the other contact."
        }
    )


class DismissInput(Strict):
    """Why a pair is closed."""

    reason = Choice(
        _REASONS,
        required=True,
        metadata={"description": "Two `different` persons, or `merged` in the account's CRM."},
    )


_NEVER = {**MOMENT, "description": "null: not, or not any more."}


class DuplicateShown(Shown):
    """Two contacts that may be one person."""

    contact_ids = fields.List(fields.String(), data_key="contactIds", required=True)
    shares = fields.List(
        fields.String(), required=True, metadata={"description": "phone, name or both."}
    )
    state = fields.String(required=True, validate=validate.OneOf(STATES))
    found_at = fields.String(data_key="foundAt", required=True, metadata=MOMENT)
    decided_at = fields.String(
        data_key="decidedAt", required=True, allow_none=True, metadata=_NEVER
    )
    decided_by = fields.String(
        data_key="decidedBy",
        required=True,
        metadata={"description": 'Who merged or dismissed it; "" for the CRM itself.'},
    )
    kept_id = fields.String(data_key="keptId", required=True)
    unmerge_until = fields.String(
        data_key="unmergeUntil", required=True, allow_none=True, metadata=_NEVER
    )


class ContactComparedShown(Shown):
    """A contact of a pair."""

    contact_id = fields.String(data_key="contactId", required=True)
    exists = fields.Boolean(required=True)
    created_at = fields.String(
        data_key="createdAt", required=True, allow_none=True, metadata=_NEVER
    )
    url = fields.String(required=True, metadata={"description": "Its page in the CRM."})
    error = fields.String(
        required=True, metadata={"description": "Why the CRM could not show the contact."}
    )
    properties = fields.Dict(keys=fields.String(), values=fields.String(), required=True)


class PropertyMergedShown(Shown):
    """A property of the merged contact, and whose value it has."""

    name = fields.String(required=True)
    label = fields.String(required=True)
    winner = fields.String(data_key="from", required=True)
    value = fields.String(required=True)


class DuplicatePreviewShown(DuplicateShown):
    """A pair with what a merge would do; it holds personal data."""

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
    """A page of pairs, the newest first."""

    results = fields.List(fields.Nested(DuplicateShown), required=True)


@blueprint.get(_ALL)
@documented("listDuplicates", 200, DuplicatePageShown, "List possible duplicates, newest first")
@needs("actions:read")
@blueprint.arguments(DuplicatesQuery(), location="query")
def _list(query: dict[str, Any], client_id: str) -> flask.Response:
    account = hub().load_account(client_id)
    asked = Listing.asked(f"duplicates of {account.id}", query)
    after: Any = tuple(asked.after) if asked.after else None
    with hub().database.reading() as db:
        found = possible_duplicates.listed(
            db, account, state=asked.filters.get("state", ""), after=after, limit=asked.limit + 1
        )
    return asked.page(found, pair_shown, lambda pair: [pair.found_at, *pair.ids])


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
    return as_json(pair_shown(merged))


@blueprint.post(f"{_PAIR}/unmerge", parameters=_PARAMETERS)
@documented(
    "unmergeDuplicate", 200, DuplicateShown, "Undo a merge of the last 30 days", errors=_CONFLICTS
)
@needs("actions:write")
def _unmerge(client_id: str, contact_id: str, other_id: str) -> flask.Response:
    account = hub().load_account(client_id)
    return as_json(
        pair_shown(merge_contacts.unmerge(hub(), account, contact_id, other_id, by=author()))
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
    return as_json(pair_shown(closed))
