"""What every use-case works with, built once for each process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crmhub.accounts.directory import Directory
from crmhub.accounts.limits import Limits
from crmhub.accounts.plans import Plan, load_plans
from crmhub.adapter.registry import Registry
from crmhub.db import Database
from crmhub.records.store import RecordStore
from crmhub.secrets import Vault, derive
from crmhub.settings import Settings


@dataclass(frozen=True, slots=True)
class Hub:
    """The parts of the hub, wired together. `Hub.open` makes one, `close` lets its files go."""

    settings: Settings
    database: Database
    vault: Vault
    plans: Mapping[str, Plan]
    directory: Directory
    limits: Limits
    records: RecordStore
    registry: Registry

    @classmethod
    def open(cls, settings: Settings) -> Hub:
        """Return a hub on the settings' database, which is first talked to when needed.

        Raises SettingsError for a faulty file of plans.
        """
        plans = load_plans(settings.plans)
        # A thread holds one connection at a time; a few more for what runs beside requests.
        database = Database(settings.database_url, pool_size=settings.threads + 4)
        return cls(
            settings=settings,
            database=database,
            vault=Vault(settings.encryption_keys),
            plans=plans,
            directory=Directory(database, plans),
            limits=Limits(settings.redis_url, settings.workers),
            records=RecordStore(database, derive(settings.secret_key, "cursor")),
            registry=Registry(),
        )

    def close(self) -> None:
        """Write what is still in memory and close the database's connections."""
        self.directory.close()
        self.database.close()
