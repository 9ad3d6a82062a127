"""Saved views: filters of a list in the console, under a name, for one user or for all.

A view stores no personal data, so that erasing a person leaves it unchanged: the caller refuses
filters that name one person.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from crmhub.database.connection import Connection
from crmhub.database.rows import delete_where, find_row, set_where, upsert_row
from crmhub.database.statements import Statement, count_of, equals, param
from crmhub.database.tables import console_user, saved_view
from crmhub.errors import Conflict, Forbidden, NotFound, Semantic
from crmhub.hub import Hub, in_transaction
from crmhub.secrets import BASE36, token
from crmhub.users.user_sessions import SignedIn

MOST = 50
"""The most views of a user."""
LONGEST_NAME = 60
LONGEST_QUERY = 2_000
_v, _user = saved_view.c, console_user.c
_LIST = Statement(
    sa.select(saved_view, _user.email)
    .join_from(saved_view, console_user, _user.id == _v.user_id)
    .where(sa.or_(_v.user_id == param("user_id"), _v.shared))
    .order_by(_v.page, _v.name, _user.email)
)
_COUNT = count_of(saved_view, _v.user_id == param("user_id"))
_NAMESAKE = Statement(
    sa.select(_v.id).where(*equals(saved_view, "user_id", "page", "name"), _v.id != param("id"))
)


def list_views(hub: Hub, user: SignedIn) -> list[Any]:
    """Return the rows of the user's own views and of all shared ones, with the `email` of each."""
    with hub.database.reading() as db:
        return list(db.rows(_LIST, {"user_id": user.user_id}))


@in_transaction
def save_view(
    hub: Hub, tx: Connection, user: SignedIn, page: str, name: str, query: str, *, shared: bool
) -> None:
    """Save a view, or replace the user's view with this name; `query`: as in a URL.

    Raises Semantic, Conflict if there are too many, and Forbidden if the role may not share.
    """
    name = _checked(user, name, shared=shared)
    if len(query) > LONGEST_QUERY:
        raise Semantic("The filter is too long to be saved. Clear some of its fields.")
    key = {"user_id": user.user_id, "page": page, "name": name}
    if find_row(tx, saved_view, key) is None and tx.scalar(_COUNT, key) >= MOST:
        raise Conflict(
            "You have %(most)s views already. Delete one first.", field="name", most=MOST
        )
    values = {"query": query, "shared": shared}
    upsert_row(tx, saved_view, key, values, {"id": token(12, BASE36)})


@in_transaction
def change_view(
    hub: Hub, tx: Connection, user: SignedIn, id: str, name: str, *, shared: bool
) -> None:
    """Rename an own view, share it or end that.

    Raises NotFound, Semantic, Conflict if another one has the name, and Forbidden.
    """
    row = _own(tx, user, id)
    name = _checked(user, name, shared=shared and not row.shared)
    if tx.scalar(_NAMESAKE, {"user_id": user.user_id, "page": row.page, "name": name, "id": id}):
        raise Conflict("You have a view %(name)s already.", field="name", name=repr(name))
    set_where(tx, saved_view, {"id": id}, name=name, shared=shared)


@in_transaction
def delete_view(hub: Hub, tx: Connection, user: SignedIn, id: str) -> None:
    """Delete an own view, or as an owner of the hub another user's shared one; raises NotFound."""
    row = find_row(tx, saved_view, {"id": id})
    if row is None or not may_delete(user, row):
        raise _unknown(id)
    delete_where(tx, saved_view, {"id": id})


def may_share(user: SignedIn) -> bool:
    return user.may("decide")


def may_delete(user: SignedIn, view: Any) -> bool:
    return view.user_id == user.user_id or (bool(view.shared) and user.may("people"))


def _own(tx: Connection, user: SignedIn, id: str) -> Any:
    row = find_row(tx, saved_view, {"id": id, "user_id": user.user_id}, lock=True)
    if row is None:
        raise _unknown(id)
    return row


def _unknown(id: str) -> NotFound:
    return NotFound("You have no view %(id)s.", id=repr(id[:20]))


def _checked(user: SignedIn, name: str, *, shared: bool) -> str:
    name = " ".join(name.split())
    if not name:
        raise Semantic("Enter a name for the view.", field="name")
    if len(name) > LONGEST_NAME:
        raise Semantic(
            "The name is longer than %(longest)s characters.", field="name", longest=LONGEST_NAME
        )
    if shared and not may_share(user):
        raise Forbidden("Your role does not allow to share views with the team.")
    return name
