"""An account's field map: its rules as rows or as JSON, and what a call becomes by it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import flask
import orjson

from crmhub.accounts import field_maps
from crmhub.accounts.field_maps import KINDS, Faulty, FieldMap
from crmhub.api.http.authentication import hub
from crmhub.console.account import about, installed
from crmhub.console.blueprint import blueprint
from crmhub.console.map_rows import Draft, Row, pairs
from crmhub.console.pages import done, page, refused
from crmhub.console.sessions import author
from crmhub.console.template_filters import counted
from crmhub.errors import BadRequest, HubError, Semantic, listed
from crmhub.helpers.actions import HELPERS
from crmhub.operations import change_account, map_fields

_TEMPLATE = "account/fieldmap.html"
_SPARE, _MORE = 2, 5
_FAULTS = 100
_SOURCES = {"bot": "the bot", "constant": "a constant", "constantIfEmpty": "a constant, if empty"}
_BY = (("typed", "as it stands in the form above"), ("stored", "as it is stored"))
_CALLS = (
    ("sample", "properties that are typed here"),
    ("newest", "those of the newest call"),
)


@blueprint.get("/accounts/<client_id>/field-map")
def fieldmap(client_id: str) -> flask.Response:
    """Show the field map as a form."""
    return page(_TEMPLATE, **_shown(client_id))


@blueprint.post("/accounts/<client_id>/field-map")
def fieldmap_save(client_id: str) -> flask.Response:
    """Save the field map that was typed once it fits the CRM, or unchecked."""
    form = flask.request.form
    change_account.find(hub(), client_id)
    draft = None if "json" in form else Draft.typed(form)
    ask = "unchecked" not in form
    try:
        given = _from_json(form["json"]) if draft is None else draft.field_map()
        _, notes = map_fields.set_field_map(
            hub(), client_id, given, ask=ask, by=author(), in_place_of=form.get("seen")
        )
    except HubError as exc:
        return refused(exc, _TEMPLATE, **_shown(client_id, draft, exc))
    said = "Saved, and checked against the CRM." if ask else "Saved. The CRM was not asked."
    if notes:
        said += f" {counted(len(notes), 'note')} below."
    return done(said, "console.fieldmap", client_id=client_id)


@blueprint.post("/accounts/<client_id>/field-map/rows")
def fieldmap_rows(client_id: str) -> flask.Response:
    """Show what was typed once more, with further rows; nothing is saved."""
    draft = Draft.typed(flask.request.form)
    for kind in KINDS:
        if kind == flask.request.form.get("more"):
            draft.rows[kind] += [Row() for _ in range(_MORE)]
    return page(_TEMPLATE, **_shown(client_id, draft))


@blueprint.post("/accounts/<client_id>/field-map/preview")
def fieldmap_preview(client_id: str) -> flask.Response:
    """Show what a call would send to the CRM; nothing is sent, and nothing is saved."""
    form = flask.request.form
    account = change_account.find(hub(), client_id)
    draft = Draft.typed(form)
    try:
        found = map_fields.preview(
            hub(),
            account,
            form.get("helper", ""),
            sample=None if form.get("call") == "newest" else _sample(form.get("sample", "")),
            field_map=None if form.get("by") == "stored" else draft.field_map(),
        )
    except HubError as exc:
        return refused(exc, _TEMPLATE, tried=True, **_shown(client_id, draft, exc))
    return page(_TEMPLATE, tried=True, preview=found, **_shown(client_id, draft))


def _from_json(text: str) -> FieldMap:
    try:
        given = orjson.loads(text)
    except orjson.JSONDecodeError as exc:
        raise BadRequest(f"This is not JSON: {exc}") from exc
    return field_maps.read(given)


def _sample(text: str) -> dict[str, str]:
    sample, wrong = pairs(text)
    if wrong:
        raise Semantic(listed([("Properties", one) for one in wrong]))
    return sample


def _shown(
    client_id: str, draft: Draft | None = None, error: HubError | None = None
) -> dict[str, Any]:
    """Return what the page is made from: the map as it is stored, or as it was just typed."""
    shared = about(client_id)
    account, form = shared["account"], flask.request.form
    stored = account.connection.field_map
    known = map_fields.mappable(hub(), account)
    notes: list[tuple[str, str]] = []
    if draft is None:
        draft = Draft.of(stored)
        for one in known:
            notes += map_fields.strange(one.kind, stored.of(one.kind), one.ours)
        draft.remark(notes)
    faults: Sequence[tuple[str, str]] = error.faults if isinstance(error, Faulty) else ()
    draft.blame(faults)
    return {
        **shared,
        "adapter": installed(account.connection.adapter),
        "seen": map_fields.seen(account),
        "kinds": [(one, _with_spare(draft.rows[one.kind])) for one in known],
        "untold": list(dict.fromkeys(one.unknown for one in known if one.unknown)),
        "notes": notes,
        "faults": faults[:_FAULTS],
        "more_faults": len(faults) - _FAULTS,
        "has_rules": bool(stored),
        "json": form.get("json") or json.dumps(stored.plain(), indent=2, ensure_ascii=False),
        "as_json": "json" in form,
        "trial": {name: form.get(name, "") for name in ("helper", "call", "by", "sample")},
        "helpers": [(name, name) for name in HELPERS],
        "calls": _CALLS,
        "bys": _BY,
        "sources": _SOURCES,
    }


def _with_spare(rows: Sequence[Row]) -> list[Row]:
    blank = sum(row.blank for row in rows)
    return [*rows, *(Row() for _ in range(_SPARE - blank))]
