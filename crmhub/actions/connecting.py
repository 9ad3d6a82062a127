"""From an account to its CRM: the adapter made ready, and its failures told to callers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from crmhub import adapter as contract
from crmhub import errors
from crmhub.accounts.accounts import Account
from crmhub.accounts.connections import open_credentials, seal_credentials
from crmhub.actions.hub import Hub
from crmhub.actions.store import OwnRecords
from crmhub.adapter import Adapter, BadConfig, Context, configured
from crmhub.secrets import SealBroken

_SOON = 5
_LATER = 60


def connect(hub: Hub, account: Account) -> Adapter:
    """Return the account's adapter, ready to be called; nobody is called yet.

    Raises BadConfig when the adapter is not installed or cannot work with what is stored.
    """
    connection = account.connection
    adapter = hub.registry.load(connection.adapter)
    try:
        opened = open_credentials(hub.vault, account)
    except SealBroken as exc:
        raise BadConfig(str(exc)) from exc
    settings, credentials = configured(adapter, connection.settings, opened)
    return adapter(
        Context(
            client_id=account.client_id,
            region=account.switches.region,
            settings=settings,
            credentials=credentials,
            store=OwnRecords(hub.records, account),
            save_credentials=lambda rotated: _save_credentials(hub, account, rotated),
        )
    )


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
        connect(hub, account).check()
    except contract.Unsupported as exc:
        return f"{exc.message} Its settings are complete."
    except contract.AdapterError as exc:
        return exc.message
    return ""
