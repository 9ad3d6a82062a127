"""From an account to its CRM: the adapter made ready, and its failures told to callers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from crmhub import adapter as contract
from crmhub import errors
from crmhub.accounts.accounts import Account, ConnectionInfo
from crmhub.accounts.connections import open_credentials, seal_credentials
from crmhub.actions.deadlines import is_queued, patience, remaining, within
from crmhub.actions.hub import Hub
from crmhub.actions.store import OwnRecords
from crmhub.adapter import Adapter, BadConfig, Budget, Context, configured
from crmhub.secrets import SealBroken

_SOON = 5
_LATER = 60
_CHECK_S = 20.0


def connect(hub: Hub, account: Account) -> Adapter:
    """Return the account's adapter, ready to be called; nobody is called yet.

    It is the same one for as long as nothing of the account changes, so that it may remember
    what its CRM told. Raises BadConfig when the adapter is not installed or cannot work with
    what is stored.
    """
    return hub.connected.get(account, lambda: _made(hub, account))


def _made(hub: Hub, account: Account) -> Adapter:
    connection = account.connection
    adapter = hub.registry.load(connection.adapter)
    settings, credentials = configured(adapter, connection.settings, _opened(hub, account))

    def budget(lane: str, *, calls: int, seconds: float) -> Budget:
        return hub.budgets.of(
            account.id,
            connection.id,
            lane,
            calls=calls,
            seconds=seconds,
            patience=patience,
            queued=is_queued,
        )

    def load_credentials() -> dict[str, str]:
        stored = replace(account, connection=_stored(hub, account))
        return configured(adapter, connection.settings, _opened(hub, stored))[1]

    return adapter(
        Context(
            client_id=account.client_id,
            region=account.switches.region,
            settings=settings,
            credentials=credentials,
            store=OwnRecords(hub.records, account),
            session=hub.egress,
            budget=budget,
            lease=lambda key, seconds: lease(hub, account, key, seconds),
            remaining=remaining,
            load_credentials=load_credentials,
            save_credentials=lambda rotated: _save_credentials(hub, account, rotated),
        )
    )


def lease(hub: Hub, account: Account, key: str, seconds: float) -> AbstractContextManager[None]:
    """Let nobody else of this connection hold `key`, in any process, for so many seconds at most.

    Raises NotYet when it cannot be had while the present call may last.
    """
    connection_id = account.connection.id
    return hub.leases.hold(account.id, connection_id, key, seconds=seconds, patience=remaining())


def _opened(hub: Hub, account: Account) -> dict[str, str]:
    try:
        return open_credentials(hub.vault, account)
    except SealBroken as exc:
        raise BadConfig(str(exc)) from exc


def _stored(hub: Hub, account: Account) -> ConnectionInfo:
    """Return the connection with the credentials that the database holds now."""
    with hub.database.reading() as reading:
        sealed: str | None = reading.scalar(
            "select credentials from connection where account_id = :account and id = :connection",
            {"account": account.id, "connection": account.connection.id},
        )
    return replace(account.connection, credentials=sealed or "")


def _save_credentials(hub: Hub, account: Account, credentials: Mapping[str, str]) -> None:
    sealed = seal_credentials(hub.vault, account.id, credentials)
    of = {"account": account.id, "connection": account.connection.id, "sealed": sealed}
    hub.database.transact(
        lambda tx: tx.run(
            "update connection set credentials = :sealed"
            " where account_id = :account and id = :connection",
            of,
        )
    )
    hub.directory.forget(account.id)


@contextmanager
def told(account: Account) -> Iterator[None]:
    """Turn an adapter's errors into those that callers of the helpers are told.

    The caller can mend values and ids, not the connection: that is a 503, in words that let the
    operator find it.
    """
    name = account.connection.adapter
    try:
        yield
    except contract.NotFound as exc:
        raise errors.NotFound(exc.message) from exc
    except (contract.Rejected, contract.Unsupported) as exc:
        raise errors.Semantic(exc.message) from exc
    except contract.Conflict as exc:
        raise errors.Conflict(exc.message) from exc
    except (contract.BadConfig, contract.Denied) as exc:
        raise errors.Unavailable(
            f"This account's connection to its CRM ({name}) does not work:"
            f" {exc.message} The operator of this service must mend it.",
            retry_after=_LATER,
        ) from exc
    except contract.Throttled as exc:
        raise errors.Unavailable(
            f"The account's CRM ({name}) wants fewer calls for now: {exc.message}",
            retry_after=exc.retry_after,
        ) from exc
    except contract.Unavailable as exc:
        raise errors.Unavailable(
            f"The account's CRM ({name}) is away; nothing was written: {exc.message}",
            retry_after=exc.retry_after or _SOON,
        ) from exc
    except contract.Uncertain as exc:
        raise errors.Unavailable(
            f"The account's CRM ({name}) did not answer;"
            f" whether it has written is not known: {exc.message}",
            retry_after=_SOON,
        ) from exc


def check(hub: Hub, account: Account) -> str:
    """Talk to the account's CRM and return what is wrong in words, "" when all is well."""
    try:
        with within(_CHECK_S):
            connect(hub, account).check()
    except contract.Unsupported as exc:
        return f"{exc.message} Its settings are complete."
    except contract.AdapterError as exc:
        return exc.message
    return ""
