"""The console's field map page of an account: a form with rules, and a preview of their effect.

The rules are edited as rows of fields or as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import flask
import orjson

from crmhub.accounts import field_maps
from crmhub.accounts.field_maps import KINDS, Faulty, FieldMap
from crmhub.api.http.authentication import hub
from crmhub.console.access import needs
from crmhub.console.account import account_context, installed
from crmhub.console.blueprint import blueprint
from crmhub.console.map_rows import Draft, Row, pairs
from crmhub.console.pages import done, page, refused
from crmhub.console.sessions import author
from crmhub.console.template_filters import counted
from crmhub.errors import BadRequest, HubError, Semantic, listed
from crmhub.helpers.actions import HELPERS
from crmhub.operations import map_fields

_TEMPLATE = "account/fieldmap.html"
_SPARE_ROWS, _ADDED_ROWS = 2, 5
_MAX_FAULTS = 100
_SOURCES = {"bot": "the bot", "constant": "a constant", "constantIfEmpty": "a constant, if empty"}
_MAP_CHOICES = (("typed", "as it stands in the form above"), ("stored", "as it is stored"))
_CALL_CHOICES = (
    ("sample", "properties that are typed here"),
    ("newest", "those of the newest call"),
)


@blueprint.get("/accounts/<client_id>/field-map")
@needs("data")
def fieldmap(client_id: str) -> flask.Response:
    """Show the form with the account's field map."""
    return page(_TEMPLATE, **_shown(client_id))


@blueprint.post("/accounts/<client_id>/field-map")
@needs("change")
def fieldmap_save(client_id: str) -> flask.Response:
    """Save the submitted field map.

    The field map is first checked against the CRM's properties, unless the form says not to.
    """
    form = flask.request.form
    hub().load_account(client_id)
    draft = None if "json" in form else Draft.typed(form)
    test = "unchecked" not in form
    try:
        given = _parse_json(form["json"]) if draft is None else draft.field_map()
        _, notes = map_fields.set_field_map(
            hub(), client_id, given, test=test, by=author(), expected=form.get("seen")
        )
    except HubError as exc:
        return refused(exc, _TEMPLATE, **_shown(client_id, draft, exc))
    message = "Saved, and checked against the CRM." if test else "Saved. The CRM was not asked."
    if notes:
        message += f" {counted(len(notes), 'note')} below."
    return done(message, "console.fieldmap", client_id=client_id)


@blueprint.post("/accounts/<client_id>/field-map/rows")
@needs("change")
def fieldmap_rows(client_id: str) -> flask.Response:
    """Show the submitted field map again, with more empty rows; nothing is saved."""
    draft = Draft.typed(flask.request.form)
    for kind in KINDS:
        if kind == flask.request.form.get("more"):
            draft.rows[kind] += [Row() for _ in range(_ADDED_ROWS)]
    return page(_TEMPLATE, **_shown(client_id, draft))


@blueprint.post("/accounts/<client_id>/field-map/preview")
@needs("change")
def fieldmap_preview(client_id: str) -> flask.Response:
    """Show the property values that a helper call would send to the CRM.

    Nothing is sent or saved.
    """
    form = flask.request.form
    account = hub().load_account(client_id)
    draft = Draft.typed(form)
    try:
        preview = map_fields.preview(
            hub(),
            account,
            form.get("helper", ""),
            sample=None if form.get("call") == "newest" else _parse_sample(form.get("sample", "")),
            field_map=None if form.get("by") == "stored" else draft.field_map(),
        )
    except HubError as exc:
        return refused(exc, _TEMPLATE, tried=True, **_shown(client_id, draft, exc))
    return page(_TEMPLATE, tried=True, preview=preview, **_shown(client_id, draft))


def _parse_json(text: str) -> FieldMap:
    try:
        given = orjson.loads(text)
    except orjson.JSONDecodeError as exc:
        raise BadRequest(f"This is not JSON: {exc}") from exc
    return field_maps.read(given)


def _parse_sample(text: str) -> dict[str, str]:
    sample, faults = pairs(text)
    if faults:
        raise Semantic(listed([("Properties", fault) for fault in faults]))
    return sample


def _shown(
    client_id: str, draft: Draft | None = None, error: HubError | None = None
) -> dict[str, Any]:
    """Return the template variables of the field map page.

    The form shows the rows of `draft`; if it is None, it shows the stored field map. If `error` is
    a `Faulty`, each of its faults is shown in the row of the faulty rule.
    """
    shared = account_context(client_id)
    account, form = shared["account"], flask.request.form
    stored = account.connection.field_map
    mappable = map_fields.mappable(hub(), account)
    notes: list[tuple[str, str]] = []
    if draft is None:
        draft = Draft.of(stored)
        for kind in mappable:
            notes += map_fields.unknown_names(kind.kind, stored.of(kind.kind), kind.ours)
        draft.attach_notes(notes)
    faults: Sequence[tuple[str, str]] = error.faults if isinstance(error, Faulty) else ()
    draft.attach_faults(faults)
    return {
        **shared,
        "adapter": installed(account.connection.adapter),
        "seen": map_fields.fingerprint(account),
        "kinds": [(kind, _add_spare_rows(draft.rows[kind.kind])) for kind in mappable],
        "untold": list(dict.fromkeys(kind.unknown for kind in mappable if kind.unknown)),
        "notes": notes,
        "faults": faults[:_MAX_FAULTS],
        "more_faults": len(faults) - _MAX_FAULTS,
        "has_rules": bool(stored),
        "json": form.get("json") or json.dumps(stored.plain(), indent=2, ensure_ascii=False),
        "as_json": "json" in form,
        "trial": {name: form.get(name, "") for name in ("helper", "call", "by", "sample")},
        "helpers": [(name, name) for name in HELPERS],
        "calls": _CALL_CHOICES,
        "bys": _MAP_CHOICES,
        "sources": _SOURCES,
    }


def _add_spare_rows(rows: Sequence[Row]) -> list[Row]:
    blank = sum(row.blank for row in rows)
    return [*rows, *(Row() for _ in range(_SPARE_ROWS - blank))]
