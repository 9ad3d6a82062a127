"""Answers that are kept for a day, so that a request that is sent twice is carried out once.

An answer is kept in the transaction of what it tells of: a crash leaves both or neither.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from crmhub.database.connection import (
    Connection,
    Database,
    now_ms,
)
from crmhub.errors import Conflict, Semantic

KEPT_MS = 24 * 60 * 60 * 1000
_BATCH = 5_000


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
    row = tx.row(
        "select fingerprint, status, headers, body, shortened from idempotency"
        " where account_id = :account and key = :key and created_at > :since",
        {"account": account_id, "key": key, "since": now_ms() - KEPT_MS},
    )
    if row is not None:
        if row[0] != fingerprint:
            raise Semantic(
                "Idempotency-Key: was sent with another request before;"
                " repeat that one as it was, or choose a new key."
            )
        headers = tuple((name, value) for name, value in json.loads(row[2]))
        return Answer(row[1], headers, row[3], bool(row[4]))
    if not alone:
        raise StillRunning(
            "Idempotency-Key: the first request with this key is still running;"
            " repeat this one in a second."
        )
    return None


def _keep(tx: Connection, account_id: int, key: str, fingerprint: str, answer: Answer) -> None:
    tx.run(
        "insert into idempotency"
        " (account_id, key, fingerprint, status, headers, body, shortened, created_at)"
        " values (:account, :key, :fingerprint, :status, :headers, :body, :shortened, :now)"
        # What is there is older than a day.
        " on conflict (account_id, key) do update set fingerprint = excluded.fingerprint,"
        " status = excluded.status, headers = excluded.headers, body = excluded.body,"
        " shortened = excluded.shortened, created_at = excluded.created_at",
        {
            "account": account_id,
            "key": key,
            "fingerprint": fingerprint,
            "status": answer.status,
            "headers": json.dumps(answer.headers),
            "body": answer.body,
            "shortened": answer.shortened,
            "now": now_ms(),
        },
    )


def forget_old(database: Database, *, most: int = 1000) -> int:
    """Delete up to `most` answers that are older than 24 hours, and return how many went."""
    return database.transact(
        lambda tx: tx.run(
            "delete from idempotency where (account_id, key) in (select account_id, key"
            " from idempotency where created_at <= :before order by created_at limit :most)",
            {"before": now_ms() - KEPT_MS, "most": most},
        )
    )


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
    of = {"account": account_id}
    changed = 0
    for moment in sorted({created for _, created in records}):
        for key, body in tx.rows(
            "select key, body from idempotency where account_id = :account"
            " and body like :moment and status < 400",
            of | {"moment": f"%{moment}%"},
        ):
            try:
                answer = json.loads(body)
            except ValueError:
                continue
            told = {id for id, created in records if created == moment}
            blanked = _blanked(answer, told, moment)
            if blanked != answer:
                changed += tx.run(
                    "update idempotency set body = :body"
                    " where account_id = :account and key = :key",
                    of
                    | {
                        "key": key,
                        "body": json.dumps(blanked, ensure_ascii=False, separators=(",", ":")),
                    },
                )
    return changed + _forget_saying(tx, account_id, {text.casefold() for text in texts})


def _forget_saying(tx: Connection, account_id: int, texts: Collection[str]) -> int:
    """Delete what is kept under a key with one of the texts, and refusals that repeat one."""
    changed = 0
    last = ""
    while rows := tx.rows(
        "select key, case when status >= 400 then body else '' end from idempotency"
        " where account_id = :account and key > :last order by key limit :most",
        {"account": account_id, "last": last, "most": _BATCH},
    ):
        last = rows[-1][0]
        theirs = [
            (account_id, key)
            for key, refusal in rows
            if any(text in f"{key}\n{refusal}".casefold() for text in texts)
        ]
        changed += tx.delete("idempotency", {"account_id": "int", "key": "text"}, theirs)
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
