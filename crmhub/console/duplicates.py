"""The console's pages for possible duplicates: the list of pairs, and a pair with its merge."""

from __future__ import annotations

from typing import Any

import flask
from flask_babel import gettext, lazy_gettext, ngettext, pgettext

from crmhub.accounts.accounts import Account
from crmhub.api.http.authentication import hub
from crmhub.console import list_filters
from crmhub.console.accounts import tabs
from crmhub.console.pages import add_page, done, errors_on, page
from crmhub.console.sessions import author, blueprint, needs
from crmhub.identity import possible_duplicates
from crmhub.operators.duplicates import compare_contacts, merge_contacts

STATES = ("open", "merged", "dismissed")
_SHARED = {"phone": lazy_gettext("phone"), "name": lazy_gettext("name")}
_PAGE_SIZE = 50
_PATH = "/accounts/<client_id>/duplicates"
_PAIR = f"{_PATH}/<one>/<other>"
# Prefix of form fields: the id of the contact whose value of this property wins.
_TAKE_PREFIX = "take."


def _state_labels() -> dict[str, str]:
    labels = (pgettext("state", "Open"), gettext("Merged"), gettext("Dismissed"))
    return dict(zip(STATES, labels, strict=True))


def _list_context(account: Account) -> dict[str, Any]:
    return {
        "account": account,
        "tabs": tabs(account),
        "own_records": compare_contacts.is_mergeable(hub(), account),
        "crm": hub().registry.title(account.connection.adapter),
        "states": _state_labels(),
        "shared": _SHARED,
    }


def _cursor() -> tuple[int, str, str] | None:
    """Return the key of the last pair on the previous page, None on the first page."""
    args = flask.request.args
    found_at = list_filters.parse_id(args.get("after", ""), digits=15)
    one, other = (list_filters.text(args.get(name, "")) for name in ("one", "other"))
    return None if found_at is None else (found_at, one, other)


@blueprint.get(_PATH, endpoint="duplicates")
@needs("data")
def duplicates_list(client_id: str) -> flask.Response:
    account = hub().load_account(client_id)
    state = flask.request.args.get("state", "")
    state = state if state in STATES else "open"
    with hub().database.reading() as db:
        matches = possible_duplicates.listed(
            db, account, state=state, after=_cursor(), limit=_PAGE_SIZE + 1
        )
    shown = matches[:_PAGE_SIZE]
    return page(
        "account/duplicates.html",
        pairs=shown,
        titles=compare_contacts.titles(hub(), account, shown),
        state=state,
        first=_cursor() is not None,
        next=shown[-1] if len(matches) > _PAGE_SIZE else None,
        **_list_context(account),
    )


# --- one pair ------------------------------------------------------------------------------------


def _typed() -> dict[str, Any]:
    """Return the contact to keep, and the ids of those whose value of a property wins."""
    values = flask.request.values
    take = {
        name.removeprefix(_TAKE_PREFIX): id
        for name, id in flask.request.form.items()
        if name.startswith(_TAKE_PREFIX)
    }
    return {"keep": list_filters.text(values.get("keep", "")), "take": take}


def _pair_context(client_id: str, one: str, other: str) -> dict[str, Any]:
    account = hub().load_account(client_id)
    preview = compare_contacts.preview(hub(), account, one, other, **_typed())
    kept, merged = preview.sides
    names = {side.id: side.title for side in preview.sides}
    if not all(names.get(id) for id in preview.pair.ids):
        names |= compare_contacts.titles(hub(), account, [preview.pair])
    return {
        **_list_context(account),
        "names": names,
        "found": preview,
        "moved": [_moved(name, count) for name, count in preview.moves.items() if count],
        "pair": preview.pair,
        "kept": kept,
        "other": merged,
        "contact_ids": {"one": preview.pair.one, "other": preview.pair.other},
        "by_crm": preview.pair.state == "merged" and not preview.pair.decided_by,
        "compared": compare_contacts.COMPARED,
        "take": _TAKE_PREFIX,
    }


def _moved(name: str, count: int) -> str:
    """Return what a merge moves as text: `2 conversations`."""
    number = f"{count:,}"
    texts: dict[str, str] = {
        "contacts": ngettext("%(count)s contact", "%(count)s contacts", count, count=number),
        "deals": ngettext("%(count)s deal", "%(count)s deals", count, count=number),
        "companies": ngettext("%(count)s company", "%(count)s companies", count, count=number),
        "tickets": ngettext("%(count)s ticket", "%(count)s tickets", count, count=number),
        "conversations": ngettext(
            "%(count)s conversation", "%(count)s conversations", count, count=number
        ),
        "enrolments": ngettext("%(count)s enrolment", "%(count)s enrolments", count, count=number),
    }
    return texts[name]


add_page(_PAIR, "duplicates_pair", needs("data"), "account/duplicate.html", _pair_context)


@blueprint.post(f"{_PAIR}/merge")
@needs("change")
@errors_on("account/duplicate.html", _pair_context)
def duplicates_merge(client_id: str, one: str, other: str) -> flask.Response:
    account = hub().load_account(client_id)
    version = flask.request.form.get("version", "")
    merged = merge_contacts.merge(
        hub(), account, one, other, version=version, **_typed(), by=author()
    )
    message = gettext(
        "Contact %(merged)s is merged into contact %(kept)s.",
        merged=merged.merged_id,
        kept=merged.kept_id,
    )
    return done(message, "console.duplicates_pair", client_id=client_id, one=one, other=other)


@blueprint.post(f"{_PAIR}/unmerge")
@needs("change")
@errors_on("account/duplicate.html", _pair_context)
def duplicates_unmerge(client_id: str, one: str, other: str) -> flask.Response:
    merge_contacts.unmerge(hub(), hub().load_account(client_id), one, other, by=author())
    message = gettext("The merge was undone. Both contacts exist again.")
    return done(message, "console.duplicates_pair", client_id=client_id, one=one, other=other)


@blueprint.post(f"{_PAIR}/dismiss")
@needs("change")
def duplicates_dismiss(client_id: str, one: str, other: str) -> flask.Response:
    """Close a pair: two different persons, or contacts that were merged in the CRM."""
    account = hub().load_account(client_id)
    merged = flask.request.form.get("reason") == "merged"
    merge_contacts.dismiss(hub(), account, one, other, merged=merged, by=author())
    if merged:
        message = gettext("Contacts %(one)s and %(other)s are merged.", one=one, other=other)
    else:
        message = gettext(
            "Contacts %(one)s and %(other)s are different people.", one=one, other=other
        )
    return done(message, "console.duplicates", client_id=client_id)
