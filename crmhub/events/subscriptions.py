"""Event subscriptions in the database: create, read, change and delete them.

Each change increments the version of the account's catalogue, so that every process uses the
changed subscriptions for its next write of a record.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import sqlalchemy as sa

from crmhub.accounts import keys
from crmhub.accounts.directory import Caller
from crmhub.accounts.event_routes import EventRoute, dump_routes
from crmhub.database import rows, tables
from crmhub.database.connection import Connection
from crmhub.database.rows import insert_row, set_where
from crmhub.database.statements import Statement, one_of, param
from crmhub.database.tables import event_delivery, event_subscription
from crmhub.errors import NotFound, Semantic
from crmhub.events.event_types import check_scopes
from crmhub.properties import catalogue
from crmhub.secrets import BASE36, Vault, WebhookSecret, parse_webhook_secret, token

State = Literal["active", "disabled", "ended", "switched_off"]
STATES: tuple[State, ...] = get_args(State)
MAX_SUBSCRIPTIONS = 20
"""The most subscriptions that an account may have."""
_SECRET_BYTES = 32
_ID_BITS = 96
_COLUMN = "secret"
_NO_FAILURES = {"failures": 0, "failing_since": None, "paused_until": 0}
DISABLED = "The subscription was disabled."

_s, _d = event_subscription.c, event_delivery.c
_OF_ACCOUNT = _s.account_id == param("account_id")
_LIST = Statement(sa.select(event_subscription).where(_OF_ACCOUNT).order_by(_s.created_at, _s.id))
_FAIL_QUEUED = Statement(
    sa.update(event_delivery)
    .where(
        _d.account_id == param("account_id"),
        _d.subscription_id == param("id"),
        one_of(_d.state, "queued"),
    )
    .values(
        state=sa.literal_column("'failed'"),
        lease=sa.null(),
        reason=param("reason"),
        finished_at=param("now"),
    )
)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription of an account to events, without its secret.

    `state` is "active", "disabled" (by a person, or since its key has ended), "ended" (its address
    answered 410) or "switched_off" (every call of 5 days has failed). `reason` says why, or what
    was wrong with the last call. `failures`: calls that have failed since the last success, the
    first at `failing_since`. `key_id`: the API key with which it ends, None if an operator made it.
    Times are in ms since 1970.
    """

    account_id: int
    id: str
    url: str
    types: tuple[str, ...]
    state: State
    reason: str
    failures: int
    failing_since: int | None
    created_at: int
    changed_at: int
    key_id: str | None


def add(
    tx: Connection,
    vault: Vault,
    account_id: int,
    *,
    url: str,
    types: Sequence[str],
    key_id: str | None = None,
) -> tuple[Subscription, str]:
    """Store a new active subscription; return it and its secret, which is never shown again.

    `key_id`: its API key, None for an operator's. Raises Semantic above 20 subscriptions.
    """
    catalogue.change(tx, account_id)
    if len(listed(tx, account_id)) >= MAX_SUBSCRIPTIONS:
        raise Semantic(
            f"An account has at most {MAX_SUBSCRIPTIONS} event subscriptions; remove one first."
        )
    id = f"sub_{token(_ID_BITS, BASE36)}"
    secret = f"whsec_{base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()}"
    now = tx.now_ms()
    row = {
        "account_id": account_id,
        "id": id,
        "url": url,
        "types": " ".join(types),
        "secret": vault.seal(secret, account_id=account_id, column=_COLUMN),
        "key_id": key_id,
        "state": "active",
        "reason": "",
        "created_at": now,
        "changed_at": now,
    }
    insert_row(tx, event_subscription, row | _NO_FAILURES)
    store_routes(tx, account_id)
    return find(tx, account_id, id), secret


def listed(db: Connection, account_id: int) -> list[Subscription]:
    """Return the subscriptions of an account, the oldest first."""
    return [subscription_of(row) for row in db.rows(_LIST, {"account_id": account_id})]


def find(db: Connection, account_id: int, id: str) -> Subscription:
    """Return a subscription; raises NotFound."""
    return subscription_of(find_row(db, account_id, id))


def find_row(db: Connection, account_id: int, id: str, *, lock: bool = False) -> Any:
    """Return the row of a subscription, locked with `lock`; raises NotFound."""
    key = {"account_id": account_id, "id": id[:100]}
    row = rows.find_row(db, event_subscription, key, lock=lock)
    if row is None:
        raise NotFound(f"There is no event subscription {id[:60]!r}.")
    return row


def open_secret(vault: Vault, row: Any) -> WebhookSecret:
    """Return a subscription's signing secret; raises SealBroken."""
    return parse_webhook_secret(vault.open(row.secret, account_id=row.account_id, column=_COLUMN))


def change(
    tx: Connection,
    account_id: int,
    id: str,
    *,
    url: str | None = None,
    types: Sequence[str] | None = None,
    state: State | None = None,
    reason: str = "",
    caller: Caller | None = None,
) -> tuple[Subscription, Subscription]:
    """Set values of a subscription; return it before and after the change.

    The count of failed calls begins again. If the subscription is no longer active, its queued
    deliveries fail with `reason`. `caller` is the API key that makes the change: by a new address,
    new types or an activation the subscription becomes this key's. An operator's activation frees
    it from a key that has ended. Raises NotFound, and Forbidden if the key lacks a scope of the
    types.
    """
    catalogue.change(tx, account_id)
    before = subscription_of(find_row(tx, account_id, id, lock=True))
    key = {"account_id": account_id, "id": id}
    now = tx.now_ms()
    after = state or before.state
    key_id = before.key_id
    if caller is not None and (url is not None or types is not None or state == "active"):
        check_scopes(before.types if types is None else types, caller.scopes)
        key_id = caller.key_id
    elif state == "active" and key_id is not None and not keys.is_valid(tx, account_id, key_id):
        key_id = None
    row = {
        "url": before.url if url is None else url,
        "types": " ".join(before.types if types is None else types),
        "state": after,
        "reason": "" if after == "active" else reason or before.reason,
        "key_id": key_id,
        "changed_at": now,
    }
    set_where(tx, event_subscription, key, **row, **_NO_FAILURES)
    if after != "active":
        tx.run(_FAIL_QUEUED, key | {"reason": reason or DISABLED, "now": now})
    store_routes(tx, account_id)
    return before, find(tx, account_id, id)


def end(tx: Connection, account_id: int, id: str, state: State, reason: str) -> None:
    """Set a subscription, if it is still active, to another state; its queued deliveries fail."""
    catalogue.change(tx, account_id)
    row = rows.find_row(tx, event_subscription, {"account_id": account_id, "id": id}, lock=True)
    if row is not None and row.state == "active":
        change(tx, account_id, id, state=state, reason=reason)


def end_of_key(tx: Connection, account_id: int, key_id: str, how: str) -> list[Subscription]:
    """Disable the active subscriptions of an API key that has ended (`how`); return them."""
    ended = [
        each for each in listed(tx, account_id) if each.key_id == key_id and each.state == "active"
    ]
    reason = f"Its API key {key_id} {how}. Activate the subscription with another key."
    for each in ended:
        end(tx, account_id, each.id, "disabled", reason)
    return ended


def subscription_of(row: Any) -> Subscription:
    names = [field.name for field in fields(Subscription) if field.name != "types"]
    return Subscription(
        types=tuple(row.types.split()), **{name: getattr(row, name) for name in names}
    )


def store_routes(tx: Connection, account_id: int) -> None:
    routes = [
        EventRoute(each.id, frozenset(each.types))
        for each in listed(tx, account_id)
        if each.state == "active"
    ]
    set_where(tx, tables.account, {"id": account_id}, event_routes=dump_routes(routes))
