"""Set up the webhooks of CRMs for copies, renew them before they end, and remove them.

A connection with a copy has a row in `crm_watch` if its adapter can set webhooks up. A worker calls
the adapter daily, and earlier where the webhooks end earlier or the last call failed.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from crmhub.accounts import accounts
from crmhub.accounts.accounts import Account
from crmhub.adapter import AdapterError, BadConfig, features
from crmhub.crm.connection import connect, sound
from crmhub.crm.deadlines import within
from crmhub.database.claims import Queue, build_claim, new_lease
from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.rows import delete_where, find_row, set_where, upsert_row
from crmhub.database.several_accounts import AvailableRows
from crmhub.database.statements import Statement, param
from crmhub.database.tables import crm_watch
from crmhub.errors import HubError, Unavailable
from crmhub.hub import Hub
from crmhub.translatable import translatable

WEBHOOK_PATH = "/crm-changes"
_THREADS, _POLL_S = 2, 5.0
_CALL_S, _LEASE_MS = 30.0, 120_000
_DAY_MS = 86_400_000
_FIRST_WAIT_MS, _LONGEST_WAIT_MS = 5_000, 3_600_000
_SHORTEST_MS = 60_000
# After so many attempts to remove them, in 1.4 hours, webhooks are left to the CRM, which drops
# those whose address refuses them.
_MOST_REMOVALS = 10
_log = logging.getLogger("crmhub.copies")

_WATCHES = Queue(crm_watch, ("on", "ending"), "run_at")
_w = crm_watch.c
_DUE = AvailableRows(
    lambda only: (
        sa.select(_w.account_id)
        .where(_WATCHES.is_unfinished(crm_watch), _w.run_at <= param("now"), only(crm_watch))
        .order_by(_w.run_at)
        .limit(param("limit"))
    )
)
_CLAIM = build_claim(_WATCHES, returning=list(_w))
_MOVED = Statement(
    sa.update(crm_watch)
    .where(_w.base != param("base"), _w.state == "on", _w.run_at > param("now"))
    .values(run_at=param("now"))
)


@dataclass(frozen=True, slots=True)
class WatchState:
    """The webhooks of an account's CRM; times are in ms since 1970.

    `address`: where the CRM sends them, "" if the adapter reads none. `by_hub`: whether the adapter
    can set them up. `set_at`: when it last did, None if never. `until`: when they end, None if
    never. `problem`: why the hub does not set them up, or why the last attempt failed; else "".
    """

    address: str
    by_hub: bool
    set_at: int | None = None
    until: int | None = None
    problem: str = ""


def webhook_signature(hub: Hub, client_id: str, connection_id: int) -> str:
    """Return the part of the address for the CRM's webhooks that nobody can guess.

    It is known without the database, so forged addresses cost none of its work.
    """
    return f"{connection_id}-{hub.signature('crm webhooks', f'{client_id}/{connection_id}')}"


def webhook_address(hub: Hub, account: Account) -> str:
    """Return the address for the CRM's webhooks; "" if the adapter cannot read them."""
    if "events" not in _features(hub, account):
        return ""
    return _address(hub, account)


def watch_state(hub: Hub, account: Account) -> WatchState:
    address, by_hub = webhook_address(hub, account), "watch" in _features(hub, account)
    with hub.database.reading() as db:
        row = find_row(db, crm_watch, account.connection_key)
    if row is None or not by_hub:
        return WatchState(address, by_hub)
    problem = row.failure
    if not _is_public(hub):
        problem = translatable(
            "The hub needs a public https address (CRMHUB_PUBLIC_URL) to set them up."
        )
    return WatchState(address, by_hub, row.set_at, row.until, problem)


def describe(state: WatchState) -> str:
    """Return a sentence for operators; "" if the adapter reads no webhooks."""
    if not state.address:
        return ""
    by_hand = f"The CRM may send webhooks to {state.address}"
    if not state.by_hub:
        return by_hand
    if state.problem:
        return f"Webhooks are not set up: {state.problem} {by_hand}"
    if state.set_at is None:
        return "A worker sets up the CRM's webhooks."
    return "The hub has set up the CRM's webhooks, and renews them."


def begin(hub: Hub, tx: Connection, account: Account) -> None:
    """Let a worker set up the CRM's webhooks, if the adapter can; again, if it did before."""
    if "watch" in _features(hub, account):
        new = {"base": "", "set_at": None, "until": None}
        upsert_row(tx, crm_watch, account.connection_key, _again("on"), new)


def renew(tx: Connection, account: Account) -> None:
    """Let a worker set the webhooks up anew at once, since the connection has changed."""
    set_where(tx, crm_watch, account.connection_key | {"state": "on"}, **_again("on"))


def end(tx: Connection, account: Account) -> None:
    """Let a worker remove the CRM's webhooks."""
    set_where(tx, crm_watch, account.connection_key, **_again("ending"))


class Watching:
    """Calls the CRMs in threads of its own, so that a slow CRM delays no copy."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def run(self, stopping: threading.Event) -> None:
        has_moved = True
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="watching") as pool:
            while not stopping.wait(_POLL_S):
                try:
                    with self._hub.database.across_accounts():
                        if has_moved:
                            move(self._hub)
                            has_moved = False
                        found = due(self._hub.database, 10 * _THREADS)
                except Unavailable as exc:
                    _log.warning("No webhooks can be set up: %s", exc.message)
                    continue
                for each in [pool.submit(self._watch, one) for one in found]:
                    each.result()

    def _watch(self, account_id: int) -> None:
        try:
            watch_next(self._hub, account_id)
        except Unavailable as exc:
            _log.warning("Webhooks were not set up: %s", exc.message)
        # A bug must not end the webhooks of other accounts.
        except Exception:
            _log.exception("Webhooks were not set up because of a bug.")


def move(hub: Hub) -> None:
    """Let all webhooks be set up at the hub's public address that go to a former one."""
    if _is_public(hub):
        values = {"base": hub.settings.public_url, "now": now_ms()}
        hub.database.transact(lambda tx: tx.run(_MOVED, values))


def due(database: Database, limit: int) -> list[int]:
    """Return the ids of accounts whose webhooks are to be set up, renewed or removed."""
    return [row.account_id for row in _DUE.read(database, {"now": now_ms(), "limit": limit})]


def watch_next(hub: Hub, account_id: int) -> bool:
    """Set up, renew or remove an account's webhooks; return whether that was due."""
    with hub.database.for_account(account_id):
        now = now_ms()
        lease = {"until": now + _LEASE_MS, "lease": new_lease()}
        values = {"account_id": account_id, "now": now, "limit": 1}
        claimed = hub.database.transact(lambda tx: tx.rows(_CLAIM, values | lease))
        for row in claimed:
            _attempt(hub, row)
        return bool(claimed)


def _attempt(hub: Hub, row: Any) -> None:
    with hub.database.reading() as db:
        account = accounts.load_on(db, row.account_id, row.connection_id, hub.plans)
    try:
        # Raises BadConfig where the adapter is not installed; it may be later.
        if "watch" not in features(hub.registry.load(account.connection.adapter)):
            _finish(hub, row)
        elif row.state == "ending":
            with within(_CALL_S, queued=True), sound():
                connect(hub, account).unwatch(_address(hub, account))
            _finish(hub, row)
        elif account.disabled or not _is_public(hub):
            _finish(hub, row, run_at=now_ms() + _DAY_MS)
        else:
            with within(_CALL_S, queued=True), sound():
                until = connect(hub, account).watch(_address(hub, account))
            _finish(
                hub, row, base=hub.settings.public_url, set_at=now_ms(), until=until,
                run_at=_renew_at(until), failures=0, failure="",
            )  # fmt: skip
    except Unavailable:
        raise
    except (AdapterError, HubError) as exc:
        _log.warning("The webhooks of a CRM are not set up: %s", exc.message)
        failures = row.failures + 1
        if row.state == "ending" and failures >= _MOST_REMOVALS:
            _finish(hub, row)
            return
        wait_ms = min(_FIRST_WAIT_MS << min(failures - 1, 10), _LONGEST_WAIT_MS)
        wait_ms = max(wait_ms, round(1000 * (getattr(exc, "retry_after", None) or 0.0)))
        _finish(
            hub, row, run_at=now_ms() + wait_ms, failures=failures, failure=exc.message[:500]
        )  # fmt: skip


def _renew_at(until: int | None) -> int:
    """Daily, since a CRM may drop webhooks, and after half of the time that is left."""
    now = now_ms()
    half = _DAY_MS if until is None else (until - now) // 2
    return now + max(_SHORTEST_MS, min(half, _DAY_MS))


def _finish(hub: Hub, row: Any, **values: Any) -> None:
    """Store an outcome, or delete the row without values, unless it has changed meanwhile."""
    of = {name: getattr(row, name) for name in ("account_id", "connection_id", "lease")}

    def write(tx: Connection) -> None:
        if values:
            set_where(tx, crm_watch, of, lease=None, **values)
        else:
            delete_where(tx, crm_watch, of)

    hub.database.transact(write)


def _again(state: str) -> dict[str, Any]:
    return {"state": state, "run_at": now_ms(), "lease": None, "failures": 0, "failure": ""}


def _address(hub: Hub, account: Account) -> str:
    base = hub.settings.public_url or "http(s)://THIS-SERVICE"
    signature = webhook_signature(hub, account.client_id, account.connection.id)
    return f"{base}{WEBHOOK_PATH}/{account.client_id}/{signature}"


def _is_public(hub: Hub) -> bool:
    return (hub.settings.public_url or "").startswith("https://")


def _features(hub: Hub, account: Account) -> frozenset[str]:
    try:
        return features(hub.registry.load(account.connection.adapter))
    except BadConfig:
        return frozenset()
