"""Read and change an account: name, plan, switches, API keys and webhook ids.

Accounts are read from the database, not from the cache, which may miss changes of other processes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from crmhub import audit
from crmhub.accounts import changes, keys, webhook_ids
from crmhub.accounts.accounts import Account
from crmhub.accounts.keys import IssuedKey
from crmhub.accounts.webhook_ids import Rotatable, WebhookId
from crmhub.audit import SET, Author
from crmhub.crm import past_connections
from crmhub.crm.past_connections import PastConnection
from crmhub.crm.watching import WatchState, watch_state
from crmhub.database.connection import Connection, now_ms
from crmhub.errors import Semantic
from crmhub.events import subscriptions
from crmhub.events.subscriptions import Subscription
from crmhub.hub import Hub, in_transaction
from crmhub.operators.crm import copy_crm, copy_plan, set_crm, switch_crm
from crmhub.operators.form_versions import require_version, version_of
from crmhub.records import copies
from crmhub.records.search.filters import iso
from crmhub.translatable import translatable

_LONGEST_KEPT_MS = 3650 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Detail:
    """`secrets`: their names, None if they cannot be decrypted.

    `former`: CRMs with unfinished actions. `past`: CRMs whose settings and secrets are kept.
    `watch`: the webhooks of the present CRM.
    """

    account: Account
    ids: tuple[WebhookId, ...]
    secrets: tuple[str, ...] | None
    former: tuple[Any, ...]
    past: tuple[PastConnection, ...]
    watch: WatchState


def detail(hub: Hub, client_id: str) -> Detail:
    account = hub.load_account(client_id)
    with hub.database.reading() as db:
        ids = webhook_ids.webhook_ids(db, account.id)
        former = switch_crm.former_crms(db, account)
        past = past_connections.kept(db, account.id)
    secrets = set_crm.secret_names(hub, account)
    watch = watch_state(hub, account)
    return Detail(account, tuple(ids), secrets, tuple(former), tuple(past), watch)


def change(
    hub: Hub, client_id: str, values: Mapping[str, Any], *, path: str = "", **options: Any
) -> Account:
    """Set values as `store` does, after the CRM was asked whether it has the chosen properties.

    Raises Semantic if it does not; see `copy_plan.require_known_properties`.
    """
    copy_plan.require_known_properties(hub, hub.load_account(client_id), values, path=path)
    return store(hub, client_id, values, path=path, **options)


@in_transaction
def store(
    hub: Hub,
    tx: Connection,
    client_id: str,
    values: Mapping[str, Any],
    *,
    by: Author,
    disabled: bool | None = None,
    path: str = "",
    shown: Collection[str] = (),
    expected: str | None = None,
) -> Account:
    """Set switches, `name`, `plan` and `portal_alias`; an empty `portal_alias` removes the alias.

    `path` precedes the name of a switch in messages. `expected`: the `settings_version` of the
    values named by `shown` that the caller saw; None skips this comparison. Raises NotFound;
    Semantic with all faults of the values; Conflict for another account's alias, or if `expected`
    differs.
    """
    account = changes.locked(tx, hub.load_account(client_id).id, hub.plans)
    before, id = changeable(tx, account), account.id
    version = version_of({name: before[name] for name in shown})
    require_version(version, expected, translatable("These settings were"))
    former = account.switches
    account = changes.set_switches(tx, id, values, hub.plans, under=path)
    if "mirror" in values and account.switches.mirror and copies.rows(tx, account):
        copy_crm.require_no_ending(tx, account)
    if account.switches.mirror != former.mirror:
        is_copied = copy_crm.switch(hub, tx, account, on=account.switches.mirror)
        # Until a worker has deleted the copy, its records are not the hub's own.
        account = changes.set_switches(tx, id, {"mirror": is_copied}, hub.plans)
    else:
        if account.switches.copied_properties != former.copied_properties:
            copies.define_again(tx, account)
            copies.hurry(tx, account)
        if account.switches.mirror_every_s < former.mirror_every_s:
            copies.hurry(tx, account)
    if disabled is not None and disabled != account.disabled:
        changes.set_disabled(tx, id, disabled)
        account = replace(account, disabled=disabled)
    after = changeable(tx, account)
    audit.note(tx, by, "change", "account", client_id, account_id=id, before=before, after=after)
    hub.forget_after_commit(id)
    return account


def settings_version(hub: Hub, account: Account, names: Collection[str]) -> str:
    with hub.database.reading() as db:
        present = changeable(db, account)
    return version_of({name: present[name] for name in names})


def changeable(db: Connection, account: Account) -> dict[str, Any]:
    ids = webhook_ids.webhook_ids(db, account.id)
    return {
        "name": account.name,
        "plan": account.plan.name,
        "disabled": account.disabled,
        **asdict(account.switches),
        "portal_alias": "".join(id.value for id in ids if id.purpose == "alias"),
    }


# --- API keys and webhook ids ------------------------------------------------------------------


def list_keys(hub: Hub, client_id: str) -> list[Any]:
    account = hub.load_account(client_id)
    with hub.database.reading() as db:
        return keys.list_keys(db, account.id)


@in_transaction
def create_key(
    hub: Hub,
    tx: Connection,
    client_id: str,
    *,
    by: Author,
    name: str = "",
    scopes: Sequence[str] = (),
    expires_at: int | None = None,
    key_id: str | None = None,
) -> IssuedKey:
    """Without `scopes` it has all; `key_id` None gives a random id; `expires_at`: ms since 1970.

    Raises NotFound, Semantic or BadRequest for an invalid value, and Conflict for an existing id.
    """
    id = hub.load_account(client_id).id
    issued = keys.create(tx, id, name=name, scopes=scopes, expires_at=expires_at, key_id=key_id)
    expiry = None if issued.expires_at is None else iso(issued.expires_at)
    after = {"name": issued.name, "scopes": list(issued.scopes), "expiresAt": expiry}
    audit.note(tx, by, "create", "key", issued.key_id, account_id=id, after=after)
    return issued


@in_transaction
def revoke_key(
    hub: Hub, tx: Connection, client_id: str, key_id: str, *, by: Author
) -> list[Subscription]:
    """Return the event subscriptions that this disabled; raises NotFound."""
    id = hub.load_account(client_id).id
    ended: list[Subscription] = []
    if keys.revoke(tx, id, key_id):
        ended = subscriptions.end_of_key(tx, id, key_id, "was revoked")
        after = {"disabledSubscriptions": [each.id for each in ended]} if ended else None
        audit.note(tx, by, "revoke", "key", key_id, account_id=id, after=after)
    hub.forget_after_commit(id)
    return ended


@in_transaction
def rotate(
    hub: Hub, tx: Connection, client_id: str, what: Rotatable, *, keep_ms: int, by: Author
) -> tuple[str, int]:
    """Return the new id or secret, and when older values expire (ms since 1970).

    Raises NotFound, and Semantic if `keep_ms` is longer than ten years.
    """
    id = hub.load_account(client_id).id
    if keep_ms > _LONGEST_KEPT_MS:
        raise Semantic("The old one can stay valid for 3650d at most.")
    old = [
        webhook_id.value
        for webhook_id in webhook_ids.webhook_ids(tx, id)
        if webhook_id.purpose == what
    ]
    until = now_ms() + keep_ms
    value = webhook_ids.rotate(tx, id, what, keep_ms=keep_ms)
    # A secret has no old id here, and the log shows nothing of it.
    before = {"id": audit.beginning(old[0]) if old else SET}
    after = {
        "id": audit.beginning(value) if old else f"{SET} anew",
        "oldValidUntil": iso(until),
    }
    audit.note(tx, by, "rotate", "webhookId", what, account_id=id, before=before, after=after)
    hub.forget_after_commit(id)
    return value, until
