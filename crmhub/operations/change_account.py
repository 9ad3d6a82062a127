"""What operators change about accounts: each change with its entry in the audit log.

The command line and the admin API both come here. What is read is read from the database, not
from what this process remembers, so that an operator sees what they have just done elsewhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from crmhub import audit
from crmhub.accounts import accounts, admin_tokens, changes, keys, webhook_ids
from crmhub.accounts.accounts import Account, ConnectionInfo
from crmhub.accounts.admin_tokens import IssuedToken
from crmhub.accounts.connections import configure, open_credentials, proposed
from crmhub.accounts.keys import IssuedKey
from crmhub.accounts.webhook_ids import Rotatable, WebhookId
from crmhub.adapter import Adapter, AdapterError, BadConfig, Unsupported
from crmhub.audit import SET, Author
from crmhub.database.connection import Connection, now_ms
from crmhub.errors import Conflict, Semantic
from crmhub.helpers.crm_connection import check, in_words, try_out
from crmhub.hub import Hub
from crmhub.operations import switch_crm
from crmhub.operations.switch_crm import Decision, Former
from crmhub.records.search.filters import iso
from crmhub.secrets import SealBroken

# Leases and budgets of a connection that is not stored yet; stored ones count from 1.
_NOT_STORED = 0
_LONGEST_KEPT_MS = 3650 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Detail:
    """An account with the ids it is called by, the newest of each purpose first.

    `secrets` are the names of the credentials that are stored, None when they cannot be opened.
    `former` are the CRMs it has left where something is unfinished.
    """

    account: Account
    ids: tuple[WebhookId, ...]
    secrets: tuple[str, ...] | None
    former: tuple[Former, ...]


def find(hub: Hub, client_id: str) -> Account:
    """Return the account, disabled or not; raises NotFound."""
    with hub.database.reading() as db:
        return accounts.load(db, client_id, hub.plans)


def detail(hub: Hub, client_id: str) -> Detail:
    """Return the account with what belongs to it; raises NotFound."""
    account = find(hub, client_id)
    with hub.database.reading() as db:
        ids = webhook_ids.webhook_ids(db, account.id)
        former = switch_crm.former(db, account)
    return Detail(account, tuple(ids), _names_of_secrets(hub, account), tuple(former))


def _names_of_secrets(hub: Hub, account: Account) -> tuple[str, ...] | None:
    """Return which secrets an operator has given; what the adapter keeps itself is not theirs."""
    try:
        stored = open_credentials(hub.vault, account)
        kept = {
            one.name for one in hub.registry.load(account.connection.adapter).settings if one.kept
        }
    except SealBroken:
        return None
    except BadConfig:
        kept = set()
    return tuple(sorted(stored.keys() - kept))


# --- accounts ----------------------------------------------------------------------------------


def change(
    hub: Hub,
    client_id: str,
    values: Mapping[str, Any],
    *,
    by: Author,
    disabled: bool | None = None,
    under: str = "",
) -> Account:
    """Set switches, `name`, `plan` and `portal_alias`, or disable and enable; return the account.

    Raises NotFound, Semantic naming every fault (switches with `under` before their name), and
    Conflict for an alias of another account.
    """
    account_id = find(hub, client_id).id

    def work(tx: Connection) -> Account:
        before = facts(tx, changes.locked(tx, account_id, hub.plans))
        changed = changes.set_switches(tx, account_id, values, hub.plans, under=under)
        if disabled is not None and disabled != changed.disabled:
            (changes.disable if disabled else changes.enable)(tx, account_id)
            changed = replace(changed, disabled=disabled)
        audit.note(
            tx,
            by,
            "change",
            "account",
            client_id,
            account_id=account_id,
            before=before,
            after=facts(tx, changed),
        )
        return changed

    changed = hub.database.transact(work)
    hub.directory.forget(account_id)
    return changed


def facts(db: Connection, account: Account) -> dict[str, Any]:
    """Return what `change` changes, by the names it takes."""
    aliases = [
        one.value for one in webhook_ids.webhook_ids(db, account.id) if one.purpose == "alias"
    ]
    return {
        "name": account.name,
        "plan": account.plan.name,
        "disabled": account.disabled,
        **asdict(account.switches),
        "portal_alias": "".join(aliases),
    }


# --- their CRM ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Crm:
    """Which CRM an account is to use.

    On the adapter it has already, what is not named stays, and an empty value removes; with
    `whole` the settings are all there are. With `guarded` a secret that stays is sent to no other
    address than before: whoever may set a connection need not be one who may know its secrets.
    """

    adapter: str
    settings: Mapping[str, str]
    credentials: Mapping[str, str]
    whole: bool = False
    guarded: bool = False


def seen(account: Account) -> str:
    """Return what tells the account's CRM and its settings from every other."""
    # Without the credentials: an adapter renews them by itself.
    connection = account.connection
    text = f"{connection.id} {json.dumps(dict(connection.settings), sort_keys=True)}"
    return hashlib.sha256(text.encode()).hexdigest()


def set_crm(
    hub: Hub,
    client_id: str,
    crm: Crm,
    *,
    by: Author,
    ask: bool,
    queued: Decision | None = None,
    in_place_of: str | None = None,
) -> Account:
    """Set the account's CRM and return the account; another adapter starts afresh.

    With `ask` the CRM is asked before anything is saved. `queued` says what becomes of what is
    queued for a CRM that the account leaves. `in_place_of` is the `seen` of the account that the
    choice was made from. Raises NotFound, Semantic with every fault or with what the CRM says is
    wrong, and Conflict when something is queued and nothing is said of it, or when another CRM or
    other settings than those seen are there.
    """
    account = find(hub, client_id)
    _demand_seen(account, in_place_of)
    if crm.adapter != account.connection.adapter:
        with hub.database.reading() as db:
            switch_crm.demand(account, switch_crm.queued(db, account), queued)
    adapter = adapter_class(hub, crm.adapter)
    grown = None
    if ask:
        wrong, grown = _tried(hub, account, crm)
        # An adapter that cannot ask has found nothing wrong.
        if wrong is not None and not isinstance(wrong, Unsupported):
            raise Semantic(f"Nothing was saved, for the check failed: {wrong.message}")

    def work(tx: Connection) -> Account:
        before = changes.locked(tx, account.id, hub.plans)
        _demand_seen(before, in_place_of)
        _guard(hub, before, crm)
        after = configure(
            tx,
            account.id,
            name=crm.adapter,
            adapter=adapter,
            settings=_settings(before, crm),
            credentials=crm.credentials,
            vault=hub.vault,
            plans=hub.plans,
            grown=grown,
        )
        was, became = connections(hub, before, after)
        if after.connection.id != before.connection.id:
            became |= _decided(hub, tx, before, after, queued)
        audit.note(
            tx,
            by,
            "change",
            "connection",
            str(after.connection.id),
            account_id=account.id,
            before=was,
            after=became,
        )
        return after

    changed = hub.database.transact(work)
    hub.directory.forget(account.id)
    return changed


def _demand_seen(account: Account, in_place_of: str | None) -> None:
    if in_place_of is not None and in_place_of != seen(account):
        raise Conflict(
            "The account's CRM was changed by somebody else meanwhile, and nothing was saved."
            " Look at theirs, or save once more to replace it."
        )


def _decided(
    hub: Hub, tx: Connection, before: Account, after: Account, decision: Decision | None
) -> dict[str, Any]:
    """See to what is queued for the CRM that is left; return what the audit log says of it."""
    count = switch_crm.queued(tx, before)
    switch_crm.demand(before, count, decision)
    if decision == "drop":
        switch_crm.drop(tx, hub.database, before, after)
    if decision == "move":
        hub.database.after_commit(lambda: _moved(hub, before, after))
    return {"queued": {str(decision): count}} if count else {}


def _moved(hub: Hub, before: Account, after: Account) -> None:
    switch_crm.move(hub.database, before, after)


def check_crm(hub: Hub, client_id: str, crm: Crm | None = None) -> str:
    """Return what is wrong with an account's CRM in words, "" when all is well.

    With `crm`, of what it would be then; nothing is saved. Raises NotFound and Semantic.
    """
    account = find(hub, client_id)
    return check(hub, account) if crm is None else in_words(_tried(hub, account, crm)[0])


def _tried(
    hub: Hub, account: Account, crm: Crm
) -> tuple[AdapterError | None, Mapping[str, str] | None]:
    """Return what the CRM says is wrong, and the credentials as they are after it was asked.

    These are None where they are the stored ones, which the adapter has kept itself.
    """
    _guard(hub, account, crm)
    settings, credentials = proposed(
        account,
        name=crm.adapter,
        adapter=adapter_class(hub, crm.adapter),
        settings=_settings(account, crm),
        credentials=crm.credentials,
        vault=hub.vault,
    )
    same = crm.adapter == account.connection.adapter
    connection = ConnectionInfo(
        account.connection.id if same else _NOT_STORED, crm.adapter, settings, ""
    )
    candidate = replace(account, connection=connection)
    # A refresh token that the CRM replaces now may be the one that the account lives by.
    stored = same and not crm.credentials
    return try_out(hub, candidate, None if stored else credentials)


def _guard(hub: Hub, account: Account, crm: Crm) -> None:
    """Raise Semantic when a secret that stays would be sent to another address than before."""
    if not crm.guarded or crm.adapter != account.connection.adapter:
        return
    stay = [name for name in _names_of_secrets(hub, account) or () if name not in crm.credentials]
    before, after = account.connection.settings, _settings(account, crm)
    for one in adapter_class(hub, crm.adapter).settings:
        was, becomes = (given.get(one.name) or one.default for given in (before, after))
        # What the address was that is a secret, nobody needs to be told.
        other = bool(crm.credentials.get(one.name)) if one.secret else was != becomes
        if one.type == "url" and stay and other:
            raise Semantic(
                f"{'secrets' if one.secret else 'settings'}.{one.name}: it is another address than"
                f" before, to which stored secrets are not sent; send {', '.join(stay)} anew, or"
                " null to remove it"
            )


def _settings(account: Account, crm: Crm) -> dict[str, str]:
    if crm.whole and account.connection.adapter == crm.adapter:
        return {**dict.fromkeys(account.connection.settings, ""), **crm.settings}
    return dict(crm.settings)


def adapter_class(hub: Hub, name: str) -> type[Adapter]:
    """Return the adapter of this name; raises Semantic when it is not installed or broken."""
    try:
        return hub.registry.load(name)
    except BadConfig as exc:
        raise Semantic(f"adapter: {exc.message}") from exc


def connections(hub: Hub, before: Account, after: Account) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both connections as the audit log tells them."""
    old, new = credentials_of(hub, before), credentials_of(hub, after)
    same = before.connection.id == after.connection.id
    anew = {name for name in new if same and name in old and old[name] != new[name]}
    return (
        {
            "adapter": before.connection.adapter,
            "settings": dict(before.connection.settings),
            "secrets": dict.fromkeys(sorted(old), SET),
        },
        {
            "adapter": after.connection.adapter,
            "settings": dict(after.connection.settings),
            "secrets": {name: f"{SET} anew" if name in anew else SET for name in sorted(new)},
        },
    )


def credentials_of(hub: Hub, account: Account) -> dict[str, str]:
    """Return the stored credentials that operators have given; none where they cannot be opened."""
    try:
        stored = open_credentials(hub.vault, account)
    except SealBroken:
        return {}
    names = _names_of_secrets(hub, account) or ()
    return {name: stored[name] for name in names}


# --- their keys and ids ------------------------------------------------------------------------


def create_key(
    hub: Hub,
    client_id: str,
    *,
    scopes: Sequence[str],
    expires_at: int | None,
    by: Author,
    key_id: str | None = None,
) -> IssuedKey:
    """Make an API key and return it; raises what `keys.create` raises, and NotFound."""
    account = find(hub, client_id)

    def work(tx: Connection) -> IssuedKey:
        issued = keys.create(tx, account.id, scopes=scopes, expires_at=expires_at, key_id=key_id)
        after = {"scopes": list(issued.scopes), "expiresAt": _moment(issued.expires_at)}
        audit.note(tx, by, "create", "key", issued.key_id, account_id=account.id, after=after)
        return issued

    return hub.database.transact(work)


def revoke_key(hub: Hub, client_id: str, key_id: str, *, by: Author) -> None:
    """End an API key; again is no error. Raises NotFound."""
    account = find(hub, client_id)

    def work(tx: Connection) -> None:
        if keys.revoke(tx, account.id, key_id):
            audit.note(tx, by, "revoke", "key", key_id, account_id=account.id)

    hub.database.transact(work)
    hub.directory.forget(account.id)


def rotate(
    hub: Hub, client_id: str, what: Rotatable, *, keep_ms: int, by: Author
) -> tuple[str, int]:
    """Return a fresh webhook id or secret, and when older ones end: after `keep_ms`.

    Raises NotFound, and Semantic for more than ten years.
    """
    account = find(hub, client_id)
    if keep_ms > _LONGEST_KEPT_MS:
        raise Semantic("The old one can stay valid for 3650d at most.")

    def work(tx: Connection) -> tuple[str, int]:
        old = [one.value for one in webhook_ids.webhook_ids(tx, account.id) if one.purpose == what]
        until = now_ms() + keep_ms
        value = webhook_ids.rotate(tx, account.id, what, keep_ms=keep_ms)
        audit.note(
            tx,
            by,
            "rotate",
            "webhookId",
            what,
            account_id=account.id,
            before={"id": audit.beginning(old[0]) if old else SET},
            after={
                "id": audit.beginning(value) if old else f"{SET} anew",
                "oldValidUntil": _moment(until),
            },
        )
        return value, until

    rotated = hub.database.transact(work)
    hub.directory.forget(account.id)
    return rotated


# --- the operator's own ------------------------------------------------------------------------


def create_token(
    hub: Hub, name: str, *, scopes: Sequence[str], expires_at: int | None, by: Author
) -> IssuedToken:
    """Make a token of the admin API and return it; raises Semantic."""

    def work(tx: Connection) -> IssuedToken:
        issued = admin_tokens.create(tx, name, scopes=scopes, expires_at=expires_at)
        after = {
            "name": issued.name,
            "scopes": list(issued.scopes),
            "expiresAt": _moment(issued.expires_at),
        }
        audit.note(tx, by, "create", "token", issued.token_id, after=after)
        return issued

    return hub.database.transact(work)


def revoke_token(hub: Hub, token_id: str, *, by: Author) -> None:
    """End a token of the admin API; again is no error. Raises NotFound."""

    def work(tx: Connection) -> None:
        if admin_tokens.revoke(tx, token_id):
            audit.note(tx, by, "revoke", "token", token_id)

    hub.database.transact(work)


def _moment(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else iso(milliseconds)
