"""From an account to its CRM: the adapter made ready, and its failures told to callers."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Protocol, TypeVar

import sqlalchemy as sa

from crmhub import adapter as contract
from crmhub import errors
from crmhub.accounts.accounts import Account
from crmhub.accounts.connections import open_credentials, seal_credentials
from crmhub.adapter import Adapter, AdapterError, BadConfig, Budget, Context, configured
from crmhub.database import tables
from crmhub.database.statements import Statement, param, params
from crmhub.helpers.deadlines import is_queued, patience, remaining, within
from crmhub.helpers.mapped_adapter import Translated
from crmhub.helpers.own_records import OwnRecords
from crmhub.hub import Hub
from crmhub.secrets import SealBroken

T = TypeVar("T")

_SOON = 5
_LATER = 60
_CHECK_S = 20.0
_log = logging.getLogger("crmhub.actions")

_connection = tables.connection.c
_IS_CONNECTION = sa.and_(
    _connection.account_id == param("account_id"), _connection.id == param("id")
)
_CREDENTIALS = Statement(sa.select(_connection.credentials).where(_IS_CONNECTION))
_SAVE_CREDENTIALS = Statement(
    sa.update(tables.connection).where(_IS_CONNECTION).values(params("credentials"))
)

AWAY = (
    contract.BadConfig,
    contract.Denied,
    contract.Throttled,
    contract.Unavailable,
    contract.Uncertain,
)
"""What leaves what was last known as the best answer."""


class Broken(contract.Unavailable):
    """The adapter has a bug; that says nothing of its CRM."""


def connect(hub: Hub, account: Account, *, anew: bool = False) -> Adapter:
    """Return the account's adapter, ready to be called in the hub's names; nobody is called yet.

    It is the same one for as long as nothing of the account changes, so that it may remember
    what its CRM told; with `anew` it is one that remembers nothing. Raises BadConfig when the
    adapter is not installed or cannot work with what is stored.
    """

    def make() -> Adapter:
        made = _made(hub, account, _Stored(hub, account))
        field_map = account.connection.field_map
        return Translated(made, field_map) if field_map else made

    return make() if anew else hub.connected.get(account, make)


class _Credentials(Protocol):
    """Where an adapter's credentials are kept."""

    def load(self) -> Mapping[str, str]:
        """Return those that are kept now; raises BadConfig."""

    def save(self, rotated: Mapping[str, str]) -> None:
        """Keep these in their place."""


def _made(hub: Hub, account: Account, kept: _Credentials) -> Adapter:
    connection = account.connection
    adapter = hub.registry.load(connection.adapter)

    def load_credentials() -> dict[str, str]:
        return configured(adapter, connection.settings, kept.load())[1]

    settings, credentials = configured(adapter, connection.settings, kept.load())

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

    return adapter(
        Context(
            client_id=account.client_id,
            region=account.switches.region,
            settings=settings,
            credentials=credentials,
            store=OwnRecords(hub.records, account),
            session=hub.egress,
            budget=budget,
            # Apart from the hub's own: it may hold one of the same name around this very call.
            lease=lambda key, seconds: lease(hub, account, f"adapter {key}", seconds),
            remaining=remaining,
            load_credentials=load_credentials,
            save_credentials=kept.save,
        )
    )


def lease(hub: Hub, account: Account, key: str, seconds: float) -> AbstractContextManager[None]:
    """Let nobody else of this connection hold `key`, in any process, for so many seconds at most.

    Raises NotYet when it cannot be had while the present call may last.
    """
    connection_id = account.connection.id
    return hub.leases.hold(account.id, connection_id, key, seconds=seconds, patience=remaining())


class _Stored:
    """The credentials that the database has for the account's connection."""

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
        row = self._of | {"credentials": sealed}
        self._hub.database.transact(lambda tx: tx.run(_SAVE_CREDENTIALS, row))
        self._hub.directory.forget(self._account.id)


class _InMemory:
    """Credentials that are stored nowhere yet."""

    def __init__(self, credentials: Mapping[str, str]) -> None:
        self.credentials = credentials

    def load(self) -> Mapping[str, str]:
        return self.credentials

    def save(self, rotated: Mapping[str, str]) -> None:
        self.credentials = dict(rotated)


@contextmanager
def as_hub_errors(account: Account) -> Iterator[None]:
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


@contextmanager
def sound() -> Iterator[None]:
    """Raise Broken for whatever an adapter raises that is no error of the contract."""
    try:
        yield
    except (AdapterError, errors.HubError):
        raise
    # A bug of an adapter breaks the accounts that use it, and nothing of the hub.
    except Exception as exc:
        raise Broken(f"Its adapter failed with {noted(exc)}, which is a bug of its own.") from exc


def noted(exc: Exception) -> str:
    """Return the name of an adapter's bug; the log tells where it is."""
    # Where it happened and no word of what was in it: that may be personal.
    frame = traceback.extract_tb(exc.__traceback__)[-1]
    word = type(exc).__name__
    _log.error("An adapter failed with %s at %s:%s.", word, frame.filename, frame.lineno)
    return word


def check(hub: Hub, account: Account) -> str:
    """Talk to the account's CRM and return what is wrong in words, "" when all is well."""
    return in_words(_asked(lambda: connect(hub, account)))


def ask(hub: Hub, account: Account, question: Callable[[Adapter], T]) -> T:
    """Return what the account's CRM answers an operator; raises the adapter's errors."""
    with within(_CHECK_S), sound():
        return question(connect(hub, account))


def try_out(
    hub: Hub, account: Account, credentials: Mapping[str, str] | None
) -> tuple[AdapterError | None, Mapping[str, str] | None]:
    """Ask a CRM that is not stored as the account's, with these credentials; return what is wrong.

    Returns the credentials beside it: the CRM may have given others for them, and a new refresh
    token is the only one that works from then on. None stands for the stored ones of the account,
    where the adapter then keeps what it is given.
    """
    if credentials is None:
        return _asked(lambda: _made(hub, account, _Stored(hub, account))), None
    kept = _InMemory(credentials)
    return _asked(lambda: _made(hub, account, kept)), kept.credentials


def in_words(wrong: AdapterError | None) -> str:
    """Return what a CRM said when it was asked, "" when all is well."""
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
