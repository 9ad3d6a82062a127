"""Set or test the CRM of an account: its adapter, settings and secrets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from crmhub import audit
from crmhub.accounts import changes
from crmhub.accounts.accounts import Account, ConnectionInfo
from crmhub.adapter import (
    Adapter,
    AdapterError,
    BadConfig,
    Denied,
    Unreachable,
    Unsupported,
)
from crmhub.audit import SET, Author
from crmhub.crm import past_connections, watching
from crmhub.crm.connection import check, in_words, try_out
from crmhub.crm.stored_connections import (
    configure,
    note_settings,
    note_test,
    open_credentials,
    proposed,
)
from crmhub.database.connection import Connection
from crmhub.database.drivers import Unwritable
from crmhub.errors import Semantic
from crmhub.hub import Hub, in_transaction
from crmhub.operators.crm import copy_crm, switch_crm
from crmhub.operators.crm.switch_crm import Decision
from crmhub.operators.form_versions import require_version, version_of
from crmhub.secrets import SealBroken
from crmhub.translatable import join_texts, translatable

# The id of a connection that is only tested, for its leases and budgets; stored ids start at 1.
_NOT_STORED = 0


@dataclass(frozen=True, slots=True)
class Crm:
    """The CRM that an account shall use: the adapter's name, the settings and the secrets.

    If the account has this adapter already, settings and secrets that are not given keep their
    stored values; "" removes one. `whole`: `settings` replaces all stored settings. `guarded`:
    stored secrets may not be sent to a new address, since the caller may not know them. `past`: a
    former connection of the account (`LAST`: the last one) whose stored values count as the
    account's own. `crm_account`: the account in the CRM to which the secrets belong, "" if unknown.
    """

    adapter: str
    settings: Mapping[str, str]
    credentials: Mapping[str, str]
    whole: bool = False
    guarded: bool = False
    past: int | None = None
    crm_account: str = ""


LAST = 0
"""As `Crm.past`: the last connection to that CRM. Stored ids start at 1."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What a connection test found wrong, and the setting that causes it, or ""."""

    message: str
    setting: str = ""


def fingerprint(account: Account) -> str:
    """Of the connection and its settings, without the credentials."""
    # An adapter renews credentials by itself.
    return version_of([account.connection.id, dict(account.connection.settings)])


def set_crm(
    hub: Hub,
    client_id: str,
    crm: Crm,
    *,
    by: Author,
    test: bool,
    queued: Decision | None = None,
    expected: str | None = None,
    extra_writes: Callable[[Connection], None] | None = None,
) -> Account:
    """`test`: nothing is saved if a connection test fails. `extra_writes` belongs to the saving.

    `queued` decides about the actions queued for a former CRM. `expected`: the `fingerprint` of the
    account that the caller saw; None skips this comparison. Raises NotFound; Semantic if the
    settings are invalid or the test fails; Conflict if actions are queued and `queued` is None, or
    if `expected` differs.
    """
    account = hub.load_account(client_id)
    require_changeable(hub, account, crm, queued, expected)
    load_adapter(hub, crm.adapter)
    renewed, tested = None, False
    if test:
        error, renewed = _test(hub, account, crm)
        tested = error is None
        # An adapter without a test has found no error.
        if error is not None and not isinstance(error, Unsupported):
            fault = _fault(load_adapter(hub, crm.adapter), crm, error)
            raise Semantic(
                "Not saved. %(reason)s",
                fields=[(fault.setting, fault.message)] if fault.setting else (),
                reason=fault.message,
            )
    return _store(hub, account.id, crm, by, queued, expected, renewed, extra_writes, tested=tested)


@in_transaction
def _store(
    hub: Hub,
    tx: Connection,
    account_id: int,
    crm: Crm,
    by: Author,
    queued: Decision | None,
    expected: str | None,
    renewed: Mapping[str, str] | None,
    extra_writes: Callable[[Connection], None] | None,
    *,
    tested: bool,
) -> Account:
    before = changes.locked(tx, account_id, hub.plans)
    _require_unchanged(before, expected)
    if extra_writes is not None:
        extra_writes(tx)
    base = _base(tx, before, crm)
    _require_own_secrets(hub, base, crm)
    after = configure(
        tx,
        account_id,
        **_proposal(hub, base, crm),
        vault=hub.vault,
        plans=hub.plans,
        grown=renewed,
        past=None if base is before else base.connection,
        crm_account=crm.crm_account,
    )
    note_settings(tx, account_id, after.connection.id, tested=tested)
    watching.renew(tx, after)
    old, new = audit_facts(hub, before, after)
    if after.connection.id != before.connection.id:
        if before.switches.mirror:
            copy_crm.change_crm(hub, tx, before, after)
        count = switch_crm.count_queued(tx, before)
        switch_crm.require_decision(before, count, queued)
        if queued == "drop":
            switch_crm.drop(tx, hub.database, before, after)
        if queued == "move":
            hub.database.after_commit(partial(switch_crm.move, hub.database, before, after))
        if count:
            new["queued"] = {str(queued): count}
    elif before.switches.mirror:
        copy_crm.require_same_crm(hub, tx, before, after)
    changed, values = str(after.connection.id), {"before": old, "after": new}
    audit.note(tx, by, "change", "connection", changed, account_id=account_id, **values)
    hub.forget_after_commit(account_id)
    return after


def _base(db: Connection, account: Account, crm: Crm) -> Account:
    if crm.past is None:
        return account
    if crm.adapter == account.connection.adapter:
        raise Semantic(
            "restore: the account uses %(adapter)s now; leave it out", adapter=crm.adapter
        )
    wanted = [
        past.id
        for past in past_connections.kept(db, account.id)
        if past.adapter == crm.adapter and crm.past in (past.id, LAST)
    ]
    if not wanted:
        raise Semantic(
            "restore: no settings of a former connection to %(adapter)s are kept; they"
            " are deleted after 30 days",
            adapter=crm.adapter,
        )
    return replace(account, connection=past_connections.load_kept(db, account.id, wanted[0]))


def base_of(hub: Hub, account: Account, crm: Crm) -> Account:
    """Return the account with the connection that completes `crm`; raises Semantic."""
    with hub.database.reading() as db:
        return _base(db, account, crm)


def require_changeable(
    hub: Hub, account: Account, crm: Crm, queued: Decision | None, expected: str | None
) -> None:
    """Raise Conflict if actions are queued, undecided, or the `fingerprint` is not `expected`."""
    _require_unchanged(account, expected)
    if crm.adapter != account.connection.adapter:
        with hub.database.reading() as db:
            switch_crm.require_decision(account, switch_crm.count_queued(db, account), queued)


def _require_unchanged(account: Account, expected: str | None) -> None:
    require_version(fingerprint(account), expected, translatable("The account's CRM was"))


def check_crm(hub: Hub, client_id: str, crm: Crm | None = None) -> Fault | None:
    """Test the connection to the account's CRM, or to `crm`.

    A result for the stored settings is stored. Raises NotFound, and Semantic for invalid settings.
    """
    account = hub.load_account(client_id)
    error = check(hub, account) if crm is None else _test(hub, account, crm)[0]
    is_stored = crm is None or _is_stored(hub, account, crm)
    if is_stored and not isinstance(error, Unsupported):
        # The result is told even if the database takes no writes.
        with suppress(Unwritable):
            message = "" if error is None else error.message
            hub.database.transact(
                lambda tx: note_test(tx, account.id, account.connection.id, message)
            )
    if error is None:
        return None
    if crm is None:
        return Fault(in_words(error))
    return _fault(load_adapter(hub, crm.adapter), crm, error)


def _is_stored(hub: Hub, account: Account, crm: Crm) -> bool:
    if crm.adapter != account.connection.adapter or crm.credentials or crm.past:
        return False
    stored = account.connection.settings
    given = {**stored, **_complete_settings(account, crm)}
    defaults = {one.name: one.default for one in load_adapter(hub, crm.adapter).settings}
    return all(
        (stored.get(name) or default) == (given.get(name) or default)
        for name, default in defaults.items()
    )


def _fault(adapter: type[Adapter], crm: Crm, error: AdapterError) -> Fault:
    """The address causes an error before any answer, if the adapter has only one.

    A secret causes a refusal of the credentials, if it is the only one that was given.
    """
    message = in_words(error)
    urls = [one for one in adapter.settings if one.type == "url" and not one.secret]
    if isinstance(error, Unreachable | BadConfig) and len(urls) == 1:
        label = urls[0].label
        label = label if label[1:2].isupper() else label[:1].lower() + label[1:]
        if isinstance(error, Unreachable):
            hint = translatable("Check the %(label)s.", label=label)
            message = join_texts(" ", (message, hint))
        return Fault(message, urls[0].name)
    given = [name for name, value in crm.credentials.items() if value]
    if isinstance(error, Denied) and len(given) == 1:
        return Fault(message, given[0])
    return Fault(message)


def _test(
    hub: Hub, account: Account, crm: Crm
) -> tuple[AdapterError | None, Mapping[str, str] | None]:
    """Return (error or None, credentials, including those that the adapter renewed).

    The credentials are None if stored ones were used: the adapter then stores renewed ones itself.
    """
    base = base_of(hub, account, crm)
    settings, credentials = resolve(hub, base, crm)
    has_stored = crm.adapter == base.connection.adapter
    connection_id = base.connection.id if has_stored else _NOT_STORED
    candidate = replace(
        account, connection=ConnectionInfo(connection_id, crm.adapter, settings, "")
    )
    # If the CRM replaces the refresh token now, the account needs the new one.
    uses_stored = has_stored and not crm.credentials
    return try_out(hub, candidate, None if uses_stored else credentials)


def resolve(hub: Hub, base: Account, crm: Crm) -> tuple[dict[str, str], dict[str, str]]:
    """The (settings, credentials) that `set_crm` would store; raises Semantic."""
    resolved = proposed(base, **_proposal(hub, base, crm), vault=hub.vault)
    _require_own_secrets(hub, base, crm)
    return resolved


def settings_of(base: Account, crm: Crm) -> dict[str, str]:
    """As `set_crm` would store them, unchecked."""
    stored = base.connection.settings if base.connection.adapter == crm.adapter else {}
    return {**stored, **_complete_settings(base, crm)}


def _require_own_secrets(hub: Hub, account: Account, crm: Crm) -> None:
    """Raise Semantic if a `guarded` change would send a stored secret to another address."""
    if not crm.guarded or crm.adapter != account.connection.adapter:
        return
    stored = [name for name in secret_names(hub, account) or () if name not in crm.credentials]
    before, after = account.connection.settings, settings_of(account, crm)
    for setting in load_adapter(hub, crm.adapter).settings:
        if setting.type != "url" or not stored:
            continue
        # A secret address is not compared, so that nobody learns whether it is the stored one.
        old, new = (given.get(setting.name) or setting.default for given in (before, after))
        if bool(crm.credentials.get(setting.name)) if setting.secret else old != new:
            where = "secrets" if setting.secret else "settings"
            reason = translatable(
                "it is another address than before, to which stored secrets are not sent; send"
                " %(names)s again, or null to remove it",
                names=", ".join(stored),
            )
            labels = ", ".join(
                one.label for one in load_adapter(hub, crm.adapter).settings if one.name in stored
            )
            shown = translatable("For another address, enter again: %(labels)s.", labels=labels)
            raise Semantic(
                "%(where)s.%(name)s: %(reason)s",
                fields=[(setting.name, shown)],
                where=where,
                name=setting.name,
                reason=reason,
            )


def _proposal(hub: Hub, account: Account, crm: Crm) -> dict[str, Any]:
    """The arguments for `proposed` and `configure`."""
    return {
        "name": crm.adapter,
        "adapter": load_adapter(hub, crm.adapter),
        "settings": _complete_settings(account, crm),
        "credentials": crm.credentials,
    }


def _complete_settings(account: Account, crm: Crm) -> dict[str, str]:
    if crm.whole and account.connection.adapter == crm.adapter:
        return {**dict.fromkeys(account.connection.settings, ""), **crm.settings}
    return dict(crm.settings)


def load_adapter(hub: Hub, name: str) -> type[Adapter]:
    """Raises Semantic if it is missing or cannot be loaded."""
    try:
        return hub.registry.load(name)
    except BadConfig as exc:
        raise Semantic("adapter: %(reason)s", reason=exc.message) from exc


# --- secrets of which operators may learn the names -----------------------------------------------


def secret_names(hub: Hub, account: Account) -> tuple[str, ...] | None:
    """Return the sorted names of the operator's secrets; None if they cannot be decrypted."""
    stored = stored_secrets(hub, account)
    return None if stored is None else tuple(sorted(stored))


def stored_secrets(hub: Hub, account: Account) -> dict[str, str] | None:
    """Return the operator's secrets by name; None if they cannot be decrypted."""
    try:
        stored = open_credentials(hub.vault, account)
    except SealBroken:
        return None
    # The adapter's own credentials, such as an access token, are not an operator's.
    with suppress(BadConfig):
        for setting in hub.registry.load(account.connection.adapter).settings:
            if setting.kept:
                stored.pop(setting.name, None)
    return stored


def audit_facts(hub: Hub, before: Account, after: Account) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the old and the new connection for the audit log, without the secrets' values."""
    old, new = stored_secrets(hub, before) or {}, stored_secrets(hub, after) or {}
    same = before.connection.id == after.connection.id
    replaced = {name for name in new if same and name in old and old[name] != new[name]}
    return (
        {
            "adapter": before.connection.adapter,
            "settings": dict(before.connection.settings),
            "secrets": dict.fromkeys(sorted(old), SET),
        },
        {
            "adapter": after.connection.adapter,
            "settings": dict(after.connection.settings),
            "secrets": {name: f"{SET} anew" if name in replaced else SET for name in sorted(new)},
        },
    )
