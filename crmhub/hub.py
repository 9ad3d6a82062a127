from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from crmhub.accounts import accounts
from crmhub.accounts.accounts import Account
from crmhub.accounts.directory import Directory
from crmhub.accounts.plans import Plan, load_plans
from crmhub.adapter import Adapter
from crmhub.adapter.registry import Registry
from crmhub.database.connection import Connection, Database
from crmhub.queue.deferred_outcomes import Unwritten
from crmhub.queue.leases import Leases
from crmhub.queue.outages import Health
from crmhub.queue.slots import Shares, Slots
from crmhub.secrets import Vault, derive, sign
from crmhub.settings import Settings

if TYPE_CHECKING:
    from crmhub.accounts.limits import Limits
    from crmhub.egress import Egress
    from crmhub.queue.budgets import Budgets
    from crmhub.records.store import RecordStore
    from crmhub.users.openid import OpenId

P = ParamSpec("P")
T = TypeVar("T")
# More threads never use the database at the same time, since Python runs one at a time.
_BUSY_THREADS = 16
# Seconds after the limit of searches: for a process that hangs and cannot stop them.
_BACKSTOP_S = 30.0
_MOST_ADAPTERS = 1_000


class Connected:
    """The adapters of the accounts called last; after a change of its account one is made again."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[Account, Adapter]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, account: Account, make: Callable[[], Adapter]) -> Adapter:
        with self._lock:
            kept = self._kept.get(account.id)
            if kept is not None and (kept[0] is account or kept[0] == account):
                self._kept.move_to_end(account.id)
                return kept[1]
        made = make()
        with self._lock:
            self._kept[account.id] = (account, made)
            self._kept.move_to_end(account.id)
            if len(self._kept) > _MOST_ADAPTERS:
                self._kept.popitem(last=False)
        return made


class _RolledBack(Exception):
    """Rolls back the transaction of `Hub.rehearse`."""


@dataclass(frozen=True)
class Hub:
    """The objects that all parts of a process share, such as the database and the adapters.

    Members whose modules take long to import are created when they are first used: a command such
    as `crmhub account list` needs none. A process with threads calls `load` before it starts them.
    """

    settings: Settings
    database: Database
    vault: Vault
    plans: Mapping[str, Plan]
    directory: Directory
    registry: Registry
    leases: Leases
    connected: Connected
    unwritten: Unwritten
    health: Health
    slots: Slots
    shares: Shares

    @classmethod
    def open(cls, settings: Settings, *, serves: bool = False) -> Hub:
        """The database is connected when it is first used. `serves`: PostgreSQL cancels long
        statements. Raises SettingsError if the file of plans is invalid."""
        plans = load_plans(settings.plans)
        # A thread uses at most one connection. PostgreSQL allows 100 for all processes by default.
        threads = min(settings.threads, _BUSY_THREADS)
        longest = settings.search_timeout_s + _BACKSTOP_S if serves else None
        database = Database(settings.database_url, pool_size=threads + 4, statement_seconds=longest)
        return cls(
            settings=settings,
            database=database,
            vault=Vault(settings.encryption_keys),
            plans=plans,
            directory=Directory(database, plans),
            registry=Registry(),
            leases=Leases(database),
            connected=Connected(),
            unwritten=Unwritten(),
            health=Health(),
            slots=Slots(settings.threads),
            shares=Shares(settings.threads),
        )

    @cached_property
    def limits(self) -> Limits:
        from crmhub.accounts.limits import Limits

        return Limits(self.settings.redis_url, self.settings.workers)

    @cached_property
    def records(self) -> RecordStore:
        from crmhub.records.store import RecordStore

        return RecordStore(self.database, derive(self.settings.secret_key, "cursor"))

    @cached_property
    def egress(self) -> Egress:
        from crmhub.egress import Egress

        return Egress(
            allow=self.settings.egress_allow,
            development=self.settings.env == "development",
            pool_size=self.settings.threads,
        )

    @cached_property
    def budgets(self) -> Budgets:
        from crmhub.queue.budgets import Budgets

        return Budgets(self.database, self.settings.redis_url)

    @cached_property
    def openid(self) -> OpenId | None:
        from crmhub.users.openid import OpenId

        issuer, client_id = self.settings.oidc_issuer, self.settings.oidc_client_id
        if not issuer or not client_id or not self.settings.oidc_client_secret:
            return None
        return OpenId(self.egress, issuer, client_id, self.settings.oidc_client_secret)

    def load(self) -> Hub:
        """Create all members now, since two threads could create the same one twice."""
        _ = self.limits, self.records, self.egress, self.budgets, self.openid
        return self

    def load_account(self, client_id: str) -> Account:
        """Even if it is disabled; raises NotFound."""
        with self.database.reading() as db:
            return accounts.load(db, client_id, self.plans)

    def forget_after_commit(self, account_id: int) -> None:
        self.database.after_commit(partial(self.directory.forget, account_id))

    def signature(self, purpose: str, text: str) -> str:
        """Return a short signature, in hex, by which the hub knows its own texts again."""
        return sign(derive(self.settings.secret_key, purpose), text.encode()).hex()

    def rehearse(self, operation: Callable[[Connection], T]) -> T:
        """Return the operation's result after a rollback: its errors appear without its effects."""
        results: list[T] = []

        def run_and_undo(tx: Connection) -> None:
            results.append(operation(tx))
            raise _RolledBack

        with suppress(_RolledBack):
            self.database.transact(run_and_undo)
        return results[-1]

    def close(self) -> None:
        """Also store outcomes of attempts that are still in memory."""
        self.unwritten.close()
        self.directory.close()
        for member in ("egress", "budgets"):
            if member in vars(self):
                getattr(self, member).close()
        self.database.close()


def in_transaction(
    operation: Callable[Concatenate[Hub, Connection, P], T],
) -> Callable[Concatenate[Hub, P], T]:
    """Callers do not pass the transaction, the second argument. Runs again after a deadlock."""

    @wraps(operation)
    def run(hub: Hub, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return hub.database.transact(lambda tx: operation(hub, tx, *args, **kwargs))

    return run
