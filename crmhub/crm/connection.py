"""An account's connection to its CRM: the adapter, its credentials and its errors."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

import sqlalchemy as sa

from crmhub import adapter as contract
from crmhub import errors
from crmhub.accounts.accounts import Account
from crmhub.adapter import (
    Adapter,
    AdapterError,
    BadConfig,
    Context,
    NothingShared,
    Shared,
    configured,
    open_adapter,
)
from crmhub.crm.deadlines import copying, is_queued, patience, remaining, within
from crmhub.crm.definitions import CrmDefinitions
from crmhub.crm.own_records import OwnRecords
from crmhub.crm.stored_connections import open_credentials, seal_credentials
from crmhub.database import tables
from crmhub.database.rows import set_where
from crmhub.database.statements import Statement, equals
from crmhub.hub import Hub
from crmhub.secrets import SealBroken
from crmhub.translatable import join_texts, named, translatable

T = TypeVar("T")

_SOON = 5
_LATER = 60
_CHECK_S = 20.0
_log = logging.getLogger("crmhub.actions")

_CREDENTIALS = Statement(
    sa.select(tables.connection.c.credentials).where(*equals(tables.connection, "account_id", "id"))
)

AWAY = (
    contract.BadConfig,
    contract.Denied,
    contract.Throttled,
    contract.Unavailable,
    contract.Uncertain,
)
"""The errors of the CRM upon which helpers answer with the last known values."""


class Broken(contract.Unavailable):
    """The adapter has a bug. This does not mean that the CRM is unavailable."""


def connect(hub: Hub, account: Account, *, anew: bool = False) -> Adapter:
    """Return the account's adapter, which takes and returns the names that bots use for properties.

    Sends no request. The adapter and its caches are reused until the account changes; with `anew`,
    a new one reads all definitions again. Raises BadConfig if the adapter is not installed or
    rejects the stored settings.
    """

    def make() -> Adapter:
        shared = CrmDefinitions(hub.database, account.id, account.connection.id, anew=anew)
        return _made(hub, account, _Stored(hub, account), shared)

    return make() if anew else hub.connected.get(account, make)


def _made(
    hub: Hub, account: Account, kept: _Stored | _InMemory, shared: Shared | None = None
) -> Adapter:
    """Return a new adapter; without `shared`, it neither uses nor changes shared definitions."""
    connection = account.connection
    adapter = hub.registry.load(connection.adapter)

    settings, credentials = configured(adapter, connection.settings, kept.load())
    budgets = partial(
        hub.budgets.of,
        account.id,
        connection.id,
        patience=patience,
        queued=is_queued,
        copying=copying,
    )

    def adapter_lease(
        key: str, seconds: float, *, patience: float | None = None
    ) -> AbstractContextManager[None]:
        # With a prefix, since the hub may hold a lease of the same name around this call.
        return lease(hub, account, f"adapter {key}", seconds, patience)

    return open_adapter(
        adapter,
        Context(
            client_id=account.client_id,
            region=account.switches.region,
            language=account.switches.language,
            settings=settings,
            credentials=credentials,
            store=OwnRecords(hub.records, account),
            session=hub.egress,
            budget=budgets,
            lease=adapter_lease,
            remaining=remaining,
            load_credentials=lambda: configured(adapter, connection.settings, kept.load())[1],
            save_credentials=kept.save,
            shared=shared or NothingShared(),
        ),
        connection.field_map,
    )


def lease(
    hub: Hub, account: Account, key: str, seconds: float, most: float | None = None
) -> AbstractContextManager[None]:
    """Hold the lease `key` of the account's connection for `seconds`.

    Raises NotYet if another call holds it for `most` seconds, or until the current call's deadline.
    """
    connection_id = account.connection.id
    wait = remaining() if most is None else min(most, remaining())
    return hub.leases.hold(account.id, connection_id, key, seconds=seconds, patience=wait)


class _Stored:
    def __init__(self, hub: Hub, account: Account) -> None:
        self._hub = hub
        self._account = account
        self._of = {"account_id": account.id, "id": account.connection.id}

    def load(self) -> Mapping[str, str]:
        with self._hub.database.reading() as reading:
            sealed: str | None = reading.scalar(_CREDENTIALS, self._of)
        connection = replace(self._account.connection, credentials=sealed or "")
        try:
            return open_credentials(self._hub.vault, replace(self._account, connection=connection))
        except SealBroken as exc:
            raise BadConfig(str(exc)) from exc

    def save(self, rotated: Mapping[str, str]) -> None:
        sealed = seal_credentials(self._hub.vault, self._account.id, rotated)
        self._hub.database.transact(
            lambda tx: set_where(tx, tables.connection, self._of, credentials=sealed)
        )
        self._hub.directory.forget(self._account.id)


class _InMemory:
    """The credentials of a connection test, which are not stored."""

    def __init__(self, credentials: Mapping[str, str]) -> None:
        self.credentials = credentials

    def load(self) -> Mapping[str, str]:
        return self.credentials

    def save(self, rotated: Mapping[str, str]) -> None:
        self.credentials = dict(rotated)


@contextmanager
def as_hub_errors(account: Account) -> Iterator[None]:
    """Convert the adapter's errors that the block raises into errors for the callers of helpers.

    Errors about values and ids keep their meaning. Errors of the connection become a 503; its
    message says whether the operator must fix something.
    """
    name = account.connection.adapter
    try:
        yield
    except contract.NotFound as exc:
        raise errors.NotFound(exc.message) from exc
    except contract.Rejected as exc:
        reasons = join_texts("; ", [named(one.name, one.reason) for one in exc.problems])
        # The same in English, if the adapter gave no other message.
        raise errors.Semantic(reasons if reasons == exc.message else exc.message) from exc
    except contract.Unsupported as exc:
        raise errors.Semantic(exc.message) from exc
    except contract.Conflict as exc:
        raise errors.Conflict(exc.message) from exc
    except (contract.BadConfig, contract.Denied) as exc:
        raise errors.Unavailable(
            "This account's connection to its CRM (%(crm)s) does not work: %(reason)s The operator"
            " of this service must fix it.",
            crm=name,
            reason=exc.message,
            retry_after=_LATER,
        ) from exc
    except contract.Throttled as exc:
        raise errors.Unavailable(
            "The account's CRM (%(crm)s) wants fewer calls for now: %(reason)s",
            crm=name,
            reason=exc.message,
            retry_after=exc.retry_after,
        ) from exc
    except contract.Unavailable as exc:
        raise errors.Unavailable(
            "The account's CRM (%(crm)s) is unavailable; nothing was written: %(reason)s",
            crm=name,
            reason=exc.message,
            retry_after=exc.retry_after or _SOON,
        ) from exc
    except contract.Uncertain as exc:
        raise errors.Unavailable(
            "The account's CRM (%(crm)s) did not answer; whether it has written is not known:"
            " %(reason)s",
            crm=name,
            reason=exc.message,
            retry_after=_SOON,
        ) from exc


@contextmanager
def sound() -> Iterator[None]:
    """Convert exceptions of the block that the adapter contract does not define into Broken."""
    try:
        yield
    except (AdapterError, errors.HubError):
        raise
    # A bug of an adapter must affect only the accounts that use the adapter.
    except Exception as exc:
        raise Broken(
            translatable(
                "Its adapter failed with %(error)s, which is a bug of its own.", error=noted(exc)
            )
        ) from exc


def noted(exc: Exception) -> str:
    """Log where an adapter's bug raised `exc`; return the name of its class."""
    # Only the place, since the message may contain personal data.
    frame = traceback.extract_tb(exc.__traceback__)[-1]
    word = type(exc).__name__
    _log.error("An adapter failed with %s at %s:%s.", word, frame.filename, frame.lineno)
    return word


def check(hub: Hub, account: Account) -> AdapterError | None:
    return _asked(lambda: connect(hub, account))


def ask(hub: Hub, account: Account, question: Callable[[Adapter], T]) -> T:
    """Return the answer of the account's adapter to a question, within 20 s; raises its errors."""
    with within(_CHECK_S), sound():
        return question(connect(hub, account))


def try_out(
    hub: Hub, account: Account, credentials: Mapping[str, str] | None
) -> tuple[AdapterError | None, Mapping[str, str] | None]:
    """Test the account's connection to its CRM with settings or credentials that are not stored.

    `credentials`: the new ones; None for the stored ones. Return the error, or None, and the
    credentials to store: during the test the CRM may have replaced the refresh token, which makes
    the old one invalid. Without `credentials`, they are None, and a new refresh token is stored at
    once.
    """
    if credentials is None:
        return _asked(lambda: _made(hub, account, _Stored(hub, account))), None
    kept = _InMemory(credentials)
    return _asked(lambda: _made(hub, account, kept)), kept.credentials


def in_words(wrong: AdapterError | None) -> str:
    if isinstance(wrong, contract.Unsupported):
        return f"{wrong.message} Its settings are complete."
    return "" if wrong is None else wrong.message


def _asked(made: Callable[[], Adapter]) -> AdapterError | None:
    try:
        with within(_CHECK_S), sound():
            made().check()
    except AdapterError as exc:
        return exc
    return None
