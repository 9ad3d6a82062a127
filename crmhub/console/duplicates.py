"""Possible duplicates of an account: the list, and each pair with the preview of its merge."""

from __future__ import annotations

from typing import Any

import flask

from crmhub.accounts.accounts import Account
from crmhub.api.http.authentication import hub
from crmhub.console import list_filters
from crmhub.console.account import installed, tabs
from crmhub.console.blueprint import blueprint
from crmhub.console.pages import done, page, refused
from crmhub.console.sessions import author
from crmhub.errors import HubError
from crmhub.identity import possible_duplicates
from crmhub.identity.possible_duplicates import Pair
from crmhub.operations import (
    change_account,
    compare_contacts,
    merge_contacts,
)
from crmhub.operations.compare_contacts import Preview

STATES = {"open": "Open", "merged": "Merged", "dismissed": "Dismissed"}
_AT_ONCE = 50
_PATH = "/accounts/<client_id>/duplicates"
_PAIR = f"{_PATH}/<one>/<other>"
# Before the name of a property in a form: the id of the contact whose value wins.
_TAKE = "take."


@blueprint.get(_PATH, endpoint="duplicates")
def duplicates_list(client_id: str) -> flask.Response:
    """List the pairs of a state, the newest first."""
    account = change_account.find(hub(), client_id)
    state = flask.request.args.get("state", "")
    state = state if state in STATES else "open"
    with hub().database.reading() as db:
        found = possible_duplicates.listed(
            db, account, state=state, after=_after(), limit=_AT_ONCE + 1
        )
    shown = found[:_AT_ONCE]
    return page(
        "account/duplicates.html",
        pairs=shown,
        titles=compare_contacts.titles(hub(), account, shown),
        state=state,
        states=STATES,
        first=_after() is not None,
        next=shown[-1] if len(found) > _AT_ONCE else None,
        **_frame(account),
    )


@blueprint.get(_PAIR)
def duplicates_pair(client_id: str, one: str, other: str) -> flask.Response:
    """Show a pair, and what a merge would do."""
    account = change_account.find(hub(), client_id)
    keep = list_filters.text(flask.request.args.get("keep", ""))
    found = compare_contacts.preview(hub(), account, one, other, keep=keep)
    return page("account/duplicate.html", **_shown(account, found))


@blueprint.post(f"{_PAIR}/merge")
def duplicates_merge(client_id: str, one: str, other: str) -> flask.Response:
    """Merge a pair as the page showed it."""
    account = change_account.find(hub(), client_id)
    form = flask.request.form
    keep = form.get("keep", "")
    take = {name.removeprefix(_TAKE): id for name, id in form.items() if name.startswith(_TAKE)}
    version = form.get("version", "")
    try:
        merged = merge_contacts.merge(
            hub(), account, one, other, version=version, keep=keep, take=take, by=author()
        )
    except HubError as exc:
        found = _again(account, exc, one, other, keep=keep, take=take)
        return refused(exc, "account/duplicate.html", **_shown(account, found))
    said = f"Contact {merged.merged_id} is merged into contact {merged.kept_id}."
    return done(said, "console.duplicates_pair", client_id=client_id, one=one, other=other)


@blueprint.post(f"{_PAIR}/unmerge")
def duplicates_unmerge(client_id: str, one: str, other: str) -> flask.Response:
    """Undo a merge."""
    account = change_account.find(hub(), client_id)
    try:
        merge_contacts.unmerge(hub(), account, one, other, by=author())
    except HubError as exc:
        found = _again(account, exc, one, other)
        return refused(exc, "account/duplicate.html", **_shown(account, found))
    said = "The merge is undone. Both contacts are there again."
    return done(said, "console.duplicates_pair", client_id=client_id, one=one, other=other)


@blueprint.post(f"{_PAIR}/dismiss")
def duplicates_dismiss(client_id: str, one: str, other: str) -> flask.Response:
    """Close a pair without merging it here."""
    account = change_account.find(hub(), client_id)
    merged = flask.request.form.get("reason") == "merged"
    merge_contacts.dismiss(hub(), account, one, other, merged=merged, by=author())
    said = f"Contacts {one} and {other} are {'merged' if merged else 'two different persons'}."
    return done(said, "console.duplicates", client_id=client_id)


def _after() -> tuple[int, str, str] | None:
    """Return what the page begins behind, as its address says."""
    args = flask.request.args
    at = args.get("after", "")
    if not (at.isascii() and at.isdigit() and len(at) < 16):
        return None
    return int(at), list_filters.text(args.get("one", "")), list_filters.text(args.get("other", ""))


def _again(account: Account, error: HubError, one: str, other: str, **choice: Any) -> Preview:
    """Return the preview of a pair once more; raises the error where there is none any more."""
    try:
        return compare_contacts.preview(hub(), account, one, other, **choice)
    except HubError:
        raise error from None


def _shown(account: Account, found: Preview) -> dict[str, Any]:
    kept, other = found.sides
    return {
        **_frame(account),
        "found": found,
        "pair": found.pair,
        "kept": kept,
        "other": other,
        "contact_ids": {"one": found.pair.one, "other": found.pair.other},
        "by_crm": _by_crm(found.pair),
        "compared": compare_contacts.COMPARED,
        "take": _TAKE,
    }


def _by_crm(pair: Pair) -> bool:
    """Return whether the CRM itself has merged a pair."""
    return pair.state == "merged" and not pair.decided_by


def _frame(account: Account) -> dict[str, Any]:
    return {
        "account": account,
        "tabs": tabs(account),
        "own_records": compare_contacts.is_mergeable(hub(), account),
        "crm": installed(account.connection.adapter).title or account.connection.adapter,
    }
