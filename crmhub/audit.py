"""The audit log: which author changed what and when, with the values before and after.

An entry is written in the transaction of its change. It contains no secrets (a credential is shown
as `set`, a secret id by its first characters) and no personal data, so that erasing a person leaves
the log unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

import sqlalchemy as sa

from crmhub.database import tables
from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.rows import insert_row
from crmhub.database.statements import Statement, in_list, param

Verb = Literal[
    "open", "change", "create", "revoke", "rotate", "enrol", "unenrol", "retry", "edit", "discard",
    "erase", "import", "export", "merge", "unmerge", "dismiss", "invite", "reset", "remove",
    "link", "unlink", "pick", "replay", "load", "compare",
    "test",
]  # fmt: skip
Object = Literal[
    "account", "connection", "fieldMap", "key", "webhookId", "token", "user", "workflow",
    "actions", "person", "records", "encryptionKey", "duplicate",
    "connectLink", "eventSubscription", "copy", "team", "alerts",
]  # fmt: skip
VERBS: tuple[str, ...] = get_args(Verb)
OBJECTS: tuple[str, ...] = get_args(Object)

AuthorKind = Literal["cli", "token", "user", "key"]
AUTHOR_KINDS: tuple[AuthorKind, ...] = get_args(AuthorKind)

SET = "set"
_SHOWN_CHARACTERS = 6

_audit = tables.audit.c
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
    "newer_than_ms": _audit.at >= param("newer_than_ms"),
    "older_than_ms": _audit.at < param("older_than_ms"),
    "from": _audit.at >= param("from"),
    "until": _audit.at < param("until"),
    "before_id": _audit.id < param("before_id"),
    "account_ids": in_list(_audit.account_id, "account_ids"),
    "without": sa.not_(in_list(_audit.object, "without")),
}


@dataclass(frozen=True, slots=True)
class Author:
    """`id`: of the token, console user or API key; "" at the command line."""

    kind: AuthorKind
    name: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """`at`: ms since 1970. `client_id`: "" for no account. Only values that differ."""

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
    """Filters; an empty one matches every entry.

    `by`: the name or id of the author. `at`: from the first time until before the second (ms since
    1970); 0 for no limit. `before_id`: the last entry of the previous page.
    `account_ids`: None for all entries. `without`: kinds of objects.
    """

    account_id: int | None = None
    object: str = ""
    verb: str = ""
    by: str = ""
    newer_than_ms: int | None = None
    older_than_ms: int | None = None
    at: tuple[int, int] = (0, 0)
    before_id: int | None = None
    account_ids: Collection[int] | None = None
    without: Sequence[str] = ()


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
    """Nothing is written for the verb `change` if no value differs."""
    was, became = before or {}, after or {}
    names = [name for name in {**was, **became} if was.get(name) != became.get(name)]
    if verb == "change" and not names:
        return
    insert_row(
        tx,
        tables.audit,
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


@contextmanager
def noting(
    database: Database,
    by: Author,
    verb: Verb,
    object: Object,
    object_id: str = "",
    *,
    account_id: int | None,
    after: Mapping[str, Any],
) -> Iterator[None]:
    """Write an entry when the block ends, also in the middle of it, with what `after` says then."""
    try:
        yield
    finally:
        database.transact(
            lambda tx: note(tx, by, verb, object, object_id, account_id=account_id, after=after)
        )


def beginning(id: str) -> str:
    """Six characters, enough to recognise the id."""
    return f"{id[:_SHOWN_CHARACTERS]}…"


def listed(db: Connection, wanted: Wanted, *, limit: int) -> list[Entry]:
    """The newest first."""
    given = {name: getattr(wanted, name, None) for name in _FILTERS}
    given["from"], given["until"] = (at or None for at in wanted.at)
    values = {name: value for name, value in given.items() if value not in (None, "", ())}
    for name in {"newer_than_ms", "older_than_ms"} & values.keys():
        values[name] = max(0, now_ms() - values[name])
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
