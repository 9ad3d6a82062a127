"""The audit log: who changed what and when, with the values before and after.

An entry is written in the transaction of the change it tells of, so there is none without the
other. It holds no secret (a credential is `set`, of an id that opens something there is only the
beginning) and nothing of a person, so that erasing somebody leaves it as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import sqlalchemy as sa

from crmhub.database import tables
from crmhub.database.connection import Connection, now_ms
from crmhub.database.statements import Statement, param, params

Verb = Literal[
    "open", "change", "create", "revoke", "rotate", "enrol", "unenrol", "retry", "edit", "discard",
    "erase", "import", "export", "merge", "unmerge", "dismiss",
]  # fmt: skip
Object = Literal[
    "account", "connection", "fieldMap", "key", "webhookId", "token", "user", "workflow",
    "actions", "person", "records", "encryptionKey", "duplicate",
]  # fmt: skip
VERBS: tuple[str, ...] = get_args(Verb)
OBJECTS: tuple[str, ...] = get_args(Object)

AuthorKind = Literal["cli", "token", "user"]
AUTHOR_KINDS: tuple[AuthorKind, ...] = get_args(AuthorKind)

SET = "set"
"""What stands for a secret that is there."""
_SHOWN = 6

_audit = tables.audit.c
_NOTE = Statement(
    sa.insert(tables.audit)
    .values(
        params(
            "at", "author_kind", "author", "author_id", "verb", "object", "object_id",
            "account_id", "was", "became",
        )
    )
    # Without this, PostgreSQL would return the new id, which nobody reads.
    .inline()
)  # fmt: skip
_ENTRIES = (
    sa.select(tables.audit, sa.func.coalesce(tables.account.c.client_id, "").label("client_id"))
    .select_from(tables.audit)
    .outerjoin(tables.account, tables.account.c.id == _audit.account_id)
    .order_by(_audit.id.desc())
)
_FILTERS: Mapping[str, sa.ColumnElement[bool]] = {
    "account_id": _audit.account_id == param("account_id"),
    "object": _audit.object == param("object"),
    "verb": _audit.verb == param("verb"),
    "by": sa.or_(_audit.author == param("by"), _audit.author_id == param("by")),
    "since": _audit.at >= param("since"),
    "until": _audit.at < param("until"),
    "before_id": _audit.id < param("before_id"),
}


@dataclass(frozen=True, slots=True)
class Author:
    """Who changes something: a user of the operating system at the command line, the program that
    has an admin token, or a user of the console; of the latter two `id` holds the id."""

    kind: AuthorKind
    name: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A change. `client_id` is "" where it is of no account; `before` and `after` hold only what
    differs."""

    id: int
    at: int
    by: Author
    verb: str
    object: str
    object_id: str
    client_id: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries are meant; what is empty does not narrow. `by` is the name or the id of an
    author, `before_id` the id of the last entry of the page before."""

    account_id: int | None = None
    object: str = ""
    verb: str = ""
    by: str = ""
    newer_than_ms: int | None = None
    older_than_ms: int | None = None
    before_id: int | None = None


def note(
    tx: Connection,
    by: Author,
    verb: Verb,
    object: Object,
    object_id: str,
    *,
    account_id: int | None = None,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Write down a change in its own transaction; a `change` of nothing is none."""
    was, became = before or {}, after or {}
    names = [name for name in {**was, **became} if was.get(name) != became.get(name)]
    if verb == "change" and not names:
        return
    tx.run(
        _NOTE,
        {
            "at": now_ms(),
            "author_kind": by.kind,
            "author": by.name,
            "author_id": by.id,
            "verb": verb,
            "object": object,
            "object_id": object_id,
            "account_id": account_id,
            "was": json.dumps({name: was[name] for name in names if name in was}),
            "became": json.dumps({name: became[name] for name in names if name in became}),
        },
    )


def beginning(id: str) -> str:
    """Return of an id that opens something what tells it from others, and opens nothing."""
    return f"{id[:_SHOWN]}…"


def listed(db: Connection, wanted: Wanted, *, limit: int) -> list[Entry]:
    """Return the newest entries that are meant, up to `limit`."""
    given = {
        "account_id": wanted.account_id,
        "object": wanted.object or None,
        "verb": wanted.verb or None,
        "by": wanted.by or None,
        "since": _ago(wanted.newer_than_ms),
        "until": _ago(wanted.older_than_ms),
        "before_id": wanted.before_id,
    }
    values = {name: value for name, value in given.items() if value is not None}
    # Built per call: the filters that are given decide the conditions.
    page = Statement(_ENTRIES.where(*[_FILTERS[name] for name in values]).limit(param("limit")))
    return [
        Entry(
            id=row.id,
            at=row.at,
            by=Author(row.author_kind, row.author, row.author_id),
            verb=row.verb,
            object=row.object,
            object_id=row.object_id,
            client_id=row.client_id,
            before=json.loads(row.was),
            after=json.loads(row.became),
        )
        for row in db.rows(page, values | {"limit": limit})
    ]


def _ago(milliseconds: int | None) -> int | None:
    return None if milliseconds is None else max(0, now_ms() - milliseconds)
