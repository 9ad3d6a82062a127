"""Operators' and integrators' work with event subscriptions; each change is in the audit log.

Addresses appear there without their path, which may contain a secret.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from crmhub import audit
from crmhub.accounts.directory import Caller
from crmhub.audit import Author
from crmhub.database.connection import Connection, now_ms
from crmhub.database.rows import delete_where
from crmhub.database.tables import event_delivery, event_subscription
from crmhub.durations import iso
from crmhub.errors import Internal, Semantic
from crmhub.events import deliveries, messages, sending, subscriptions
from crmhub.events.event_types import TEST, check_scopes, check_types
from crmhub.events.sending import Attempt
from crmhub.events.subscriptions import Subscription
from crmhub.hub import Hub, in_transaction
from crmhub.operators.form_versions import require_version, version_of
from crmhub.properties import catalogue
from crmhub.secrets import SealBroken
from crmhub.translatable import translatable

_LONGEST_URL = 2048
_OBJECT: audit.Object = "eventSubscription"


@dataclass(frozen=True, slots=True)
class NewSubscription:
    subscription: Subscription
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TestResult:
    __test__ = False

    event_id: str
    attempt: Attempt
    duration_ms: int


def add(
    hub: Hub,
    client_id: str,
    *,
    url: str,
    types: Sequence[str] = (),
    by: Author,
    url_is_checked: bool = False,
) -> NewSubscription:
    """Subscribe an account to events, and return the subscription with its secret.

    `url_is_checked`: the caller has called `check_url`. With an API key as author the subscription
    ends with this key. Raises NotFound, and Semantic if the URL or a type is invalid, or the
    account has 20 subscriptions already.
    """
    chosen = check_types(types)
    if not url_is_checked:
        check_url(hub, url)

    def store(tx: Connection) -> NewSubscription:
        account_id = hub.load_account(client_id).id
        key_id = by.id if by.kind == "key" else None
        made, secret = subscriptions.add(
            tx, hub.vault, account_id, url=url, types=chosen, key_id=key_id
        )
        audit.note(tx, by, "create", _OBJECT, made.id, account_id=account_id, after=_loggable(made))
        hub.forget_after_commit(account_id)
        return NewSubscription(made, secret)

    return hub.database.transact(store)


def listed(hub: Hub, client_id: str) -> list[Subscription]:
    account_id = hub.load_account(client_id).id
    with hub.database.reading() as db:
        return subscriptions.listed(db, account_id)


def find(hub: Hub, client_id: str, subscription_id: str) -> Subscription:
    account_id = hub.load_account(client_id).id
    with hub.database.reading() as db:
        return subscriptions.find(db, account_id, subscription_id)


def change(
    hub: Hub,
    client_id: str,
    subscription_id: str,
    *,
    url: str | None = None,
    types: Sequence[str] | None = None,
    state: Literal["active", "disabled"] | None = None,
    by: Author,
    caller: Caller | None = None,
    expected: str | None = None,
) -> Subscription:
    """Set the URL, the types or the state of a subscription; None leaves a value unchanged.

    With the state "disabled", events that were not delivered yet fail; they can be replayed.
    `caller`: an API key; if it sets the address or types, or activates, the subscription ends with
    it. `expected`: the `target_version` that was seen; None skips this comparison. Raises NotFound,
    Semantic if a value is invalid, Forbidden if the key lacks a scope of the types, and Conflict if
    `expected` differs.
    """
    chosen = None if types is None else check_types(types)
    if url is not None:
        check_url(hub, url)
    if state not in (None, "active", "disabled"):
        raise Semantic(
            "state: %(state)s cannot be set; set active or disabled.", state=repr(str(state)[:60])
        )

    def store(tx: Connection) -> Subscription:
        account_id = hub.load_account(client_id).id
        before, after = subscriptions.change(
            tx, account_id, subscription_id, url=url, types=chosen, state=state, caller=caller
        )
        require_version(target_version(before), expected, translatable("The subscription was"))
        was, became = _loggable(before), _loggable(after)
        if before.url != after.url and was["url"] == became["url"]:
            became["url"] += " (another path)"
        audit.note(
            tx,
            by,
            "change",
            _OBJECT,
            subscription_id,
            account_id=account_id,
            before=was,
            after=became,
        )
        hub.forget_after_commit(account_id)
        return after

    return hub.database.transact(store)


def target_version(subscription: Subscription) -> str:
    return version_of([subscription.url, list(subscription.types)])


@in_transaction
def remove(hub: Hub, tx: Connection, client_id: str, subscription_id: str, *, by: Author) -> None:
    """Remove a subscription with its deliveries."""
    account_id = hub.load_account(client_id).id
    catalogue.change(tx, account_id)
    gone = subscriptions.find(tx, account_id, subscription_id)
    of_subscription = {"account_id": account_id, "subscription_id": subscription_id}
    delete_where(tx, event_delivery, of_subscription)
    delete_where(tx, event_subscription, {"account_id": account_id, "id": subscription_id})
    subscriptions.store_routes(tx, account_id)
    audit.note(
        tx, by, "remove", _OBJECT, subscription_id, account_id=account_id, before=_loggable(gone)
    )
    hub.forget_after_commit(account_id)


def test(hub: Hub, client_id: str, subscription_id: str) -> TestResult:
    """Send a message `subscription.test` to a subscription's address, and wait up to 10 s.

    It counts neither as success nor as failure of the subscription. Raises NotFound, and Internal
    if the secret cannot be decrypted.
    """
    account = hub.load_account(client_id)
    with hub.database.reading() as db:
        row = subscriptions.find_row(db, account.id, subscription_id)
    try:
        secret = subscriptions.open_secret(hub.vault, row)
    except SealBroken as exc:
        raise Internal(str(exc)) from exc
    now = now_ms()
    event_id = messages.new_id(now)
    body = messages.body(
        id=event_id,
        type=TEST,
        created_at=now,
        client_id=client_id,
        data=json.dumps({"id": subscription_id, "properties": {}, "changed": [], "previous": {}}),
    )
    began = time.monotonic()
    attempt = sending.send(hub.egress, row.url, secret, event_id, body)
    return TestResult(event_id, attempt, round((time.monotonic() - began) * 1000))


@in_transaction
def replay(
    hub: Hub,
    tx: Connection,
    client_id: str,
    subscription_id: str,
    *,
    event_ids: Sequence[str] = (),
    since: int | None = None,
    until: int | None = None,
    by: Author,
    caller: Caller | None = None,
) -> int:
    """Deliver these events again, or those from `since` to before `until` (ms since 1970; now).

    Returns the number of events that were not waiting; each keeps its id. Raises NotFound,
    Semantic if the period is empty or the subscription is not active, and Forbidden if `caller`
    lacks a scope of the types.
    """
    if bool(event_ids) == (since is not None) or (until is not None and since is None):
        raise Semantic("since: send either a period (since, until) or eventIds.")
    until = now_ms() + 1 if until is None else until
    if since is not None and since >= until:
        raise Semantic("since: it must lie before until.")
    account_id = hub.load_account(client_id).id
    found = subscriptions.find(tx, account_id, subscription_id)
    if caller is not None:
        check_scopes(found.types, caller.scopes)
    if found.state != "active":
        raise Semantic(
            "The subscription is %(state)s; activate it first.", state=found.state.replace("_", " ")
        )
    period = {} if since is None else {"since": since, "until": until}
    count = deliveries.replay(tx, account_id, subscription_id, event_ids=event_ids, **period)
    after = {**{name: iso(at) for name, at in period.items()}, "events": count}
    audit.note(tx, by, "replay", _OBJECT, subscription_id, account_id=account_id, after=after)
    return count


def list_deliveries(
    hub: Hub,
    client_id: str,
    subscription_id: str,
    *,
    state: deliveries.State | None = None,
    after: Sequence[Any] | None = None,
    limit: int = 50,
) -> list[Any]:
    """Return deliveries, the newest first, after (created_at, event_id); raises NotFound."""
    account_id = hub.load_account(client_id).id
    with hub.database.reading() as db:
        subscriptions.find(db, account_id, subscription_id)
        before: Any = tuple(after) if after else None
        return deliveries.listed(
            db, account_id, subscription_id, state=state, before=before, limit=limit
        )


def check_url(hub: Hub, url: str) -> None:
    """Raise Semantic if events cannot be sent to this URL; its host name is resolved."""
    if len(url) > _LONGEST_URL:
        raise Semantic("url: it is longer than %(longest)s characters.", longest=_LONGEST_URL)
    if fault := hub.egress.fault(url):
        raise Semantic("url: %(fault)s.", fault=fault)


def _loggable(subscription: Subscription) -> dict[str, Any]:
    parts = urlsplit(subscription.url)
    return {
        "url": f"{parts.scheme}://{parts.netloc}",
        "types": list(subscription.types),
        "state": subscription.state,
    }
