"""The console's field map page of an account: a form with rules, and a preview of their effect.

The rules are edited as rows of fields or as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import flask
import orjson
from flask_babel import gettext, lazy_gettext, ngettext

from crmhub.accounts.accounts import Account
from crmhub.accounts.field_maps import KINDS, FieldMap
from crmhub.adapter import Described
from crmhub.api.http.authentication import hub
from crmhub.console.accounts import account_context, installed
from crmhub.console.list_filters import text
from crmhub.console.map_rows import Draft, Row, pairs
from crmhub.console.pages import add_page, done, page, refused
from crmhub.console.sessions import author, blueprint, needs
from crmhub.errors import BadRequest, HubError, NotFound, Semantic, listed
from crmhub.helpers.actions import HELPERS
from crmhub.operators.actions import action_queries
from crmhub.operators.actions.action_queries import Full
from crmhub.operators.crm import field_map_reading, map_fields
from crmhub.operators.crm.field_map_reading import Faulty
from crmhub.operators.crm.mappable_properties import Mappable, mappable

_TEMPLATE = "account/fieldmap.html"
# A page must open while the CRM does not answer; a check waits longer.
_ASK_S = 6.0
_SHOWN_RULES = 5
_MAX_FAULTS = 100
_SOURCES = {
    "bot": lazy_gettext("bot"),
    "constant": lazy_gettext("constant"),
    "constantIfEmpty": lazy_gettext("constant, if empty"),
}
_MAP_CHOICES = (
    ("typed", lazy_gettext("The rules above")),
    ("stored", lazy_gettext("The saved rules")),
)
_CALL_CHOICES = (
    ("sample", lazy_gettext("The properties typed here")),
    ("newest", lazy_gettext("The newest call")),
)


@dataclass(frozen=True, slots=True)
class Section:
    """The part of the form for a kind of record; rows after the first `shown` are folded."""

    mappable: Mappable
    rows: Sequence[Row]
    theirs: dict[str, Described]
    shown: int = _SHOWN_RULES


@blueprint.post("/accounts/<client_id>/field-map")
@needs("change")
def fieldmap_save(client_id: str) -> flask.Response:
    form = flask.request.form
    account = hub().load_account(client_id)
    draft = None if "json" in form else Draft.typed(form)
    test = "unchecked" not in form
    try:
        given = _parse_json(form["json"]) if draft is None else draft.field_map()
        _, notes = map_fields.set_field_map(
            hub(), client_id, given, test=test, by=author(), expected=form.get("seen")
        )
    except HubError as exc:
        return refused(exc, _TEMPLATE, **_shown(client_id, draft, exc))
    checked = gettext("Saved, and checked against the CRM.")
    message = checked if test else gettext("Saved without testing.")
    if action := _action(account):
        message += " " + gettext("Retry the action now.")
        return done(message, "console.action", action_id=action.summary.id)
    if notes:
        message += " " + ngettext("%(num)s note below.", "%(num)s notes below.", len(notes))
    return done(message, "console.fieldmap", client_id=client_id)


@blueprint.post("/accounts/<client_id>/field-map/rows")
@needs("change")
def fieldmap_rows(client_id: str) -> flask.Response:
    draft = Draft.typed(flask.request.form)
    kind = flask.request.form.get("more", "")
    if kind in KINDS:
        draft.focus(kind)
    return page(_TEMPLATE, **_shown(client_id, draft))


@blueprint.post("/accounts/<client_id>/field-map/preview")
@needs("change")
def fieldmap_preview(client_id: str) -> flask.Response:
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
        raise BadRequest("This is not JSON: %(reason)s", reason=exc, field="json") from exc
    return field_map_reading.read(given)


def _parse_sample(text: str) -> dict[str, str]:
    sample, faults = pairs(text)
    if faults:
        message = listed([(gettext("Properties"), fault) for fault in faults])
        raise Semantic(message, fields=[("sample", "; ".join(faults))])
    return sample


def _shown(
    client_id: str, draft: Draft | None = None, error: HubError | None = None
) -> dict[str, Any]:
    """Return the template variables of the page, with the rows of `draft` or the stored map.

    Query parameters: `kind` and `name` open the rule for a property, or a new one; `action` is the
    failed action that the rule is to fix.
    """
    kind, name = (text(flask.request.args.get(part, "")) for part in ("kind", "name"))
    shared = account_context(client_id)
    account, form = shared["account"], flask.request.form
    stored = account.connection.field_map
    mappables = mappable(hub(), account, seconds=_ASK_S)
    notes: list[tuple[str, str]] = []
    if draft is None:
        draft = Draft.of(stored)
        for each in mappables:
            notes += map_fields.unknown_names(each.kind, stored.of(each.kind), each.ours)
        draft.attach_notes(notes)
    faults: Sequence[tuple[str, str]] = error.faults if isinstance(error, Faulty) else ()
    adapter = installed(account.connection.adapter)
    is_remote = hub().registry.is_remote(adapter.name)
    crm = hub().registry.title(adapter.name) if is_remote else "crmhub"
    located = draft.place_faults(faults, crm)
    if isinstance(error, Faulty):
        error.fields = tuple((id, words) for _, id, words in located if id)
    if kind in KINDS:
        draft.focus(kind, name)
    draft.open_unsaved(Draft.of(stored))
    return {
        **shared,
        "adapter": adapter,
        "is_remote": is_remote,
        "crm": crm,
        "seen": map_fields.fingerprint(account),
        "sections": [
            Section(each, draft.rows[each.kind], {prop.name: prop for prop in each.theirs})
            for each in mappables
        ],
        "new_row": Row(open=True),
        "action": _action(account),
        "untold": list(dict.fromkeys(each.unknown for each in mappables if each.unknown)),
        # The rule that is opened shows its own note.
        "notes": [] if kind in KINDS else notes,
        "faults": located[:_MAX_FAULTS],
        "more_faults": len(faults) - _MAX_FAULTS,
        "has_rules": any(draft.rows.values()),
        "json": form.get("json") or json.dumps(stored.plain(), indent=2, ensure_ascii=False),
        "as_json": "json" in form,
        "trial": {name: form.get(name, "") for name in ("helper", "call", "by", "sample")},
        "helpers": [(name, name) for name in HELPERS],
        "calls": _CALL_CHOICES,
        "bys": _MAP_CHOICES,
        "sources": _SOURCES,
    }


add_page("/accounts/<client_id>/field-map", "fieldmap", needs("data"), _TEMPLATE, _shown)


def _action(account: Account) -> Full | None:
    """Return the account's failed action that the URL or the form names, None without one."""
    action_id = text(flask.request.values.get("action", ""))
    if not action_id:
        return None
    try:
        return action_queries.shown(hub().database, action_id, account)
    except NotFound:
        return None
