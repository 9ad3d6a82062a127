"""Answers that are kept for a day, so that a request that is sent twice is carried out once.

An answer is kept in the transaction of what it tells of: a crash leaves both or neither.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.expired import find_expired
from crmhub.database.statements import Insert, Statement, in_list, param, params
from crmhub.database.tables import idempotency
from crmhub.errors import Conflict, Semantic

KEPT_MS = 24 * 60 * 60 * 1000
_BATCH = 5_000

_answer = idempotency.c
_KEY_COLUMNS = ("account_id", "key")
_VALUE_COLUMNS = ("fingerprint", "status", "headers", "body", "shortened", "created_at")
_OF_ACCOUNT = _answer.account_id == param("account_id")
_IS_ANSWER = sa.and_(_OF_ACCOUNT, _answer.key == param("key"))
_FIND = Statement(
    sa.select(
        _answer.fingerprint, _answer.status, _answer.headers, _answer.body, _answer.shortened
    ).where(_IS_ANSWER, _answer.created_at > param("since"))
)


def _build_store(insert: Insert) -> sa.Insert:
    statement = insert(idempotency).values(params(*_KEY_COLUMNS, *_VALUE_COLUMNS))
    values = {name: statement.excluded[name] for name in _VALUE_COLUMNS}
    # A row in the way is older than a day.
    upsert: sa.Insert = statement.on_conflict_do_update(index_elements=_KEY_COLUMNS, set_=values)
    return upsert


_STORE = Statement(_build_store)
_MENTIONING = Statement(
    sa.select(_answer.key, _answer.body).where(
        _OF_ACCOUNT, _answer.body.like(param("pattern")), _answer.status < 400
    )
)
_SET_BODY = Statement(sa.update(idempotency).where(_IS_ANSWER).values(params("body")))
_REFUSALS = Statement(
    sa.select(
        _answer.key,
        sa.case((_answer.status >= 400, _answer.body), else_="").label("refusal"),
    )
    .where(_OF_ACCOUNT, _answer.key > param("after"))
    .order_by(_answer.key)
    .limit(param("limit"))
)
_DELETE = Statement(sa.delete(idempotency).where(_OF_ACCOUNT, in_list(_answer.key, "keys")))


class StillRunning(Conflict):
    """The first request with this key has no answer yet; it is asked for again in a second."""

    @property
    def headers(self) -> dict[str, str]:
        return {"Retry-After": "1"}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it was given: its status, its headers in order, its body (UTF-8).

    Where it is `shortened`, the body lacks values: too long to be kept, they are read again.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: str
    shortened: bool = False


def once(
    database: Database, account_id: int, key: str, fingerprint: str, work: Callable[[], Answer]
) -> tuple[Answer, bool]:
    """Return the answer to the account's first request with this key, and whether it is an old one.

    The first request is answered by `work`; all that it does with the database is one
    transaction with keeping its answer, so an exception from it undoes both. `fingerprint`
    stands for the whole request. Raises Semantic when it is not that of the first request within
    24 hours, StillRunning while another transaction is at that one.
    """

    def look_or_work(tx: Connection) -> tuple[Answer, bool]:
        kept = _kept(tx, account_id, key, fingerprint)
        if kept is not None:
            return kept, True
        answer = work()
        _keep(tx, account_id, key, fingerprint, answer)
        return answer, False

    return database.transact(look_or_work)


def _kept(tx: Connection, account_id: int, key: str, fingerprint: str) -> Answer | None:
    """Return what was kept; None: until the transaction ends nobody else begins with the key."""
    # First the lock, then the look: what ended between the two has left its row.
    alone = tx.try_hold(f"idempotency/{account_id}/{key}")
    since = now_ms() - KEPT_MS
    row = tx.row(_FIND, {"account_id": account_id, "key": key, "since": since})
    if row is not None:
        if row.fingerprint != fingerprint:
            raise Semantic(
                "Idempotency-Key: was sent with another request before;"
                " repeat that one as it was, or choose a new key."
            )
        headers = tuple((name, value) for name, value in json.loads(row.headers))
        return Answer(row.status, headers, row.body, bool(row.shortened))
    if not alone:
        raise StillRunning(
            "Idempotency-Key: the first request with this key is still running;"
            " repeat this one in a second."
        )
    return None


def _keep(tx: Connection, account_id: int, key: str, fingerprint: str, answer: Answer) -> None:
    tx.run(
        _STORE,
        {
            "account_id": account_id,
            "key": key,
            "fingerprint": fingerprint,
            "status": answer.status,
            "headers": json.dumps(answer.headers),
            "body": answer.body,
            "shortened": answer.shortened,
            "created_at": now_ms(),
        },
    )


def forget_old(database: Database, *, most: int = 1000) -> int:
    """Delete up to `most` answers that are older than 24 hours; return how many."""
    old = find_expired(database, _answer.created_at, before=now_ms() - KEPT_MS, most=most)
    types = {"account_id": "int", "key": "text", "created_at": "bigint"}
    return database.transact(lambda tx: tx.delete(idempotency.name, types, old))


def erase(
    tx: Connection,
    account_id: int,
    *,
    records: Collection[tuple[int, str]],
    texts: Collection[str],
) -> int:
    """Take records out of the answers that an account's requests were given; return how many.

    Of `records` the id and the time of creation, as answers write it, are named: whatever an
    answer says of such a record is blanked. The answer stays, so that its request is not carried
    out anew. A refusal that repeats one of `texts` goes, since its request wrote nothing, and so
    does what was kept under a key with one of them.
    """
    changed = 0
    for moment in sorted({created for _, created in records}):
        for row in tx.rows(_MENTIONING, {"account_id": account_id, "pattern": f"%{moment}%"}):
            try:
                answer = json.loads(row.body)
            except ValueError:
                continue
            told = {id for id, created in records if created == moment}
            blanked = _blanked(answer, told, moment)
            if blanked != answer:
                body = json.dumps(blanked, ensure_ascii=False, separators=(",", ":"))
                changed += tx.run(
                    _SET_BODY, {"account_id": account_id, "key": row.key, "body": body}
                )
    return changed + _forget_saying(tx, account_id, {text.casefold() for text in texts})


def _forget_saying(tx: Connection, account_id: int, texts: Collection[str]) -> int:
    """Delete what is kept under a key with one of the texts, and refusals that repeat one."""
    changed = 0
    page = {"account_id": account_id, "after": "", "limit": _BATCH}
    while rows := tx.rows(_REFUSALS, page):
        page["after"] = rows[-1].key
        theirs = [
            row.key
            for row in rows
            if any(text in f"{row.key}\n{row.refusal}".casefold() for text in texts)
        ]
        if theirs:
            changed += tx.run(_DELETE, {"account_id": account_id, "keys": theirs})
    return changed


def _blanked(value: Any, ids: Collection[int], moment: str) -> Any:
    """Return a JSON value without what stands in an object with one of the ids and this time."""
    if isinstance(value, list):
        return [_blanked(each, ids, moment) for each in value]
    if not isinstance(value, dict):
        return value
    plain = [each for each in value.values() if isinstance(each, str | int)]
    theirs = moment in plain and any(str(id) in map(str, plain) for id in ids)
    return {
        name: {} if theirs and isinstance(each, dict) else _blanked(each, ids, moment)
        for name, each in value.items()
    }
