"""Idempotency keys: a request that is sent twice with the same key is carried out once.

The answer is stored for a day, in the transaction of the request's writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.expired import ANSWERS_MS
from crmhub.database.rows import delete_where, set_where, upsert_row
from crmhub.database.statements import Statement, in_list, param
from crmhub.database.tables import idempotency
from crmhub.errors import Conflict, Semantic

_BATCH = 5_000

_answer = idempotency.c
_OF_ACCOUNT = _answer.account_id == param("account_id")
_IS_ANSWER = sa.and_(_OF_ACCOUNT, _answer.key == param("key"))
_FIND = Statement(
    sa.select(
        _answer.fingerprint,
        _answer.status,
        _answer.headers,
        _answer.body,
        _answer.shortened,
        _answer.created_at,
    ).where(_IS_ANSWER, _answer.created_at > param("since"))
)
# The status of a request in progress outside of a transaction, and how long one may take.
_IN_PROGRESS, _LONGEST_MS = 0, 45_000


_MENTIONING = Statement(
    sa.select(_answer.key, _answer.body).where(
        _OF_ACCOUNT, _answer.body.like(param("pattern")), _answer.status < 400
    )
)
_REFUSALS = Statement(
    sa.select(
        _answer.key,
        sa.case((_answer.status >= 400, _answer.body), else_="").label("refusal"),
        sa.case((_answer.status == 207, _answer.body), else_="").label("partial"),
    )
    .where(_OF_ACCOUNT, _answer.key > param("after"))
    .order_by(_answer.key)
    .limit(param("limit"))
)
_DELETE = Statement(sa.delete(idempotency).where(_OF_ACCOUNT, in_list(_answer.key, "keys")))


class StillRunning(Conflict):
    """Retry after 1 s."""

    @property
    def headers(self) -> dict[str, str]:
        return {"Retry-After": "1"}


@dataclass(frozen=True, slots=True)
class Answer:
    """`shortened`: values that were too long to store must be read again from the database."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: str
    shortened: bool = False


def once(
    database: Database,
    account_id: int,
    key: str,
    fingerprint: str,
    answer_request: Callable[[], Answer],
) -> tuple[Answer, bool]:
    """Return the answer, and whether an earlier request stored it.

    Otherwise `answer_request` runs and its answer is stored, in one transaction. `fingerprint`: a
    digest of the whole request. Raises Semantic for a different request within 24 hours, and
    StillRunning.
    """

    def find_or_answer(tx: Connection) -> tuple[Answer, bool]:
        stored = _find_answer(tx, account_id, key, fingerprint)
        if stored is not None:
            return stored, True
        answer = answer_request()
        _store_answer(tx, account_id, key, fingerprint, answer)
        return answer, False

    return database.transact(find_or_answer)


def once_outside(
    database: Database,
    account_id: int,
    key: str,
    fingerprint: str,
    answer_request: Callable[[], Answer],
) -> tuple[Answer, bool]:
    """Like `once`, but no transaction is open while `answer_request` runs.

    If its process dies, the request is carried out again after 45 s, so it must repeat nothing
    itself. An answer that promises a later result (202) is not stored.
    """
    of = {"account_id": account_id, "key": key}

    def reserve(tx: Connection) -> Answer | None:
        stored = _find_answer(tx, account_id, key, fingerprint)
        if stored is None:
            _store_answer(tx, account_id, key, fingerprint, Answer(_IN_PROGRESS, (), ""))
        return stored

    if (stored := database.transact(reserve)) is not None:
        return stored, True
    answer: Answer | None = None
    try:
        answer = answer_request()
    finally:
        if answer is not None and answer.status != 202:
            kept = answer
            database.transact(lambda tx: _store_answer(tx, account_id, key, fingerprint, kept))
        else:
            database.transact(lambda tx: delete_where(tx, idempotency, of))
    return answer, False


def _find_answer(tx: Connection, account_id: int, key: str, fingerprint: str) -> Answer | None:
    """Without a stored answer, return None and lock the key until the transaction ends."""
    # Lock before reading: a request that has released its lock has stored its row.
    is_locked = tx.try_hold(f"idempotency/{account_id}/{key}")
    since = now_ms() - ANSWERS_MS
    row = tx.row(_FIND, {"account_id": account_id, "key": key, "since": since})
    if row is not None:
        if row.fingerprint != fingerprint:
            raise Semantic(
                "Idempotency-Key: was sent with another request before;"
                " repeat that one as it was, or choose a new key."
            )
        headers = tuple((name, value) for name, value in json.loads(row.headers))
        if row.status != _IN_PROGRESS:
            return Answer(row.status, headers, row.body, bool(row.shortened))
        is_locked = is_locked and row.created_at < now_ms() - _LONGEST_MS
    if not is_locked:
        raise StillRunning(
            "Idempotency-Key: the first request with this key is still running;"
            " repeat this one in a second."
        )
    return None


def _store_answer(
    tx: Connection, account_id: int, key: str, fingerprint: str, answer: Answer
) -> None:
    # An existing row with the same key is older than a day.
    upsert_row(
        tx,
        idempotency,
        {"account_id": account_id, "key": key},
        {
            "fingerprint": fingerprint,
            "status": answer.status,
            "headers": json.dumps(answer.headers),
            "body": answer.body,
            "shortened": answer.shortened,
            "created_at": now_ms(),
        },
    )


def erase(
    tx: Connection,
    account_id: int,
    *,
    records: Collection[tuple[int, str]],
    texts: Collection[str],
) -> int:
    """Erase the data of records from an account's stored answers; return the number of answers.

    `records`: pairs of id and creation time, as answers show them. Their answers stay without the
    data, so that requests are not carried out again. Answers are deleted if their key, or an error,
    contains one of `texts`.
    """
    changed = 0
    for moment in sorted({created for _, created in records}):
        for row in tx.rows(_MENTIONING, {"account_id": account_id, "pattern": f"%{moment}%"}):
            try:
                answer = json.loads(row.body)
            except ValueError:
                continue
            ids = {id for id, created in records if created == moment}
            redacted = _redact(answer, ids, moment)
            if redacted != answer:
                body = json.dumps(redacted, ensure_ascii=False, separators=(",", ":"))
                is_answer = {"account_id": account_id, "key": row.key}
                changed += set_where(tx, idempotency, is_answer, body=body)
    return changed + _delete_mentioning(tx, account_id, {text.casefold() for text in texts})


def _delete_mentioning(tx: Connection, account_id: int, texts: Collection[str]) -> int:
    """Error answers that contain one of `texts` are deleted, too; partial batches only lose the
    messages of such errors."""
    changed = 0
    page = {"account_id": account_id, "after": "", "limit": _BATCH}
    while rows := tx.rows(_REFUSALS, page):
        page["after"] = rows[-1].key
        changed += sum(_redact_errors(tx, account_id, row.key, row.partial, texts) for row in rows)
        keys = [
            row.key
            for row in rows
            if any(text in f"{row.key}\n{row.refusal}".casefold() for text in texts)
        ]
        if keys:
            changed += tx.run(_DELETE, {"account_id": account_id, "keys": keys})
    return changed


def _redact_errors(
    tx: Connection, account_id: int, key: str, body: str, texts: Collection[str]
) -> int:
    """`body` is "" for other answers. Return 1 if the answer was changed, else 0."""
    if not any(text in body.casefold() for text in texts):
        return 0
    answer = json.loads(body)
    mentions = [
        error
        for error in answer["errors"]
        if any(text in error["message"].casefold() for text in texts)
    ]
    for error in mentions:
        error["message"] = "This message was erased together with a person's data."
    if not mentions:
        return 0
    body = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    return set_where(tx, idempotency, {"account_id": account_id, "key": key}, body=body)


def _redact(value: Any, ids: Collection[int], moment: str) -> Any:
    """An object is an erased record's data if it contains one of `ids` and the time `moment`."""
    if isinstance(value, list):
        return [_redact(item, ids, moment) for item in value]
    if not isinstance(value, dict):
        return value
    plain = [item for item in value.values() if isinstance(item, str | int)]
    is_erased = moment in plain and any(str(id) in map(str, plain) for id in ids)
    return {
        name: {} if is_erased and isinstance(item, dict) else _redact(item, ids, moment)
        for name, item in value.items()
    }
