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

from crmhub.database.connection import Connection, now_ms

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
        "insert into audit (at, author_kind, author, author_id, verb, object, object_id,"
        " account_id, was, became) values (:at, :author_kind, :author, :author_id, :verb, :object,"
        " :object_id, :account, :was, :became)",
        {
            "at": now_ms(),
            "author_kind": by.kind,
            "author": by.name,
            "author_id": by.id,
            "verb": verb,
            "object": object,
            "object_id": object_id,
            "account": account_id,
            "was": json.dumps({name: was[name] for name in names if name in was}),
            "became": json.dumps({name: became[name] for name in names if name in became}),
        },
    )


def beginning(id: str) -> str:
    """Return of an id that opens something what tells it from others, and opens nothing."""
    return f"{id[:_SHOWN]}…"


def listed(db: Connection, wanted: Wanted, *, limit: int) -> list[Entry]:
    """Return the newest entries that are meant, up to `limit`."""
    conditions, params = ["1 = 1"], dict[str, Any](limit=limit)
    for condition, name, value in (
        ("e.account_id = :account", "account", wanted.account_id),
        ("e.object = :object", "object", wanted.object or None),
        ("e.verb = :verb", "verb", wanted.verb or None),
        (":by in (e.author, e.author_id)", "by", wanted.by or None),
        ("e.at >= :since", "since", _ago(wanted.newer_than_ms)),
        ("e.at < :until", "until", _ago(wanted.older_than_ms)),
        ("e.id < :before", "before", wanted.before_id),
    ):
        if value is not None:
            conditions.append(condition)
            params[name] = value
    rows = db.rows(
        "select e.id, e.at, e.author_kind, e.author, e.author_id, e.verb, e.object, e.object_id,"
        " coalesce(a.client_id, ''), e.was, e.became from audit e"
        f" left join account a on a.id = e.account_id where {' and '.join(conditions)}"
        " order by e.id desc limit :limit",
        params,
    )
    return [
        Entry(
            id=row[0],
            at=row[1],
            by=Author(*row[2:5]),
            verb=row[5],
            object=row[6],
            object_id=row[7],
            client_id=row[8],
            before=json.loads(row[9]),
            after=json.loads(row[10]),
        )
        for row in rows
    ]


def _ago(milliseconds: int | None) -> int | None:
    return None if milliseconds is None else max(0, now_ms() - milliseconds)
