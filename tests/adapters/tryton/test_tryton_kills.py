"""Nothing is lost, and nothing made twice, while the hub is killed and Tryton fails."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from adapters.tryton import TrytonAdapter
from benchmarks.bots import Bots, lost_and_twice, states, until_empty
from benchmarks.faults import killing
from benchmarks.places import BENCHMARKS, Place, place
from crmhub.accounts.changes import IssuedIds
from crmhub.crm.stored_connections import configure
from crmhub.operators.accounts.open_account import open_account
from tests.adapters.tryton.tryton_crm import SECRETS, SETTINGS, TrytonCrm
from tests.databases import POSTGRES

KILLS = 10
AWAY_S, LOCKED_S = 8.0, 25.0
_BOTS, _PAUSE_S = 3, 0.5
_PATIENCE_S = 1800.0


@dataclass
class Storm:
    """Bots that send a lead each, and a deal where the lead was answered, until they shall end."""

    bots: Bots
    leads: set[str] = field(default_factory=set)
    deals: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    @contextmanager
    def blowing(self) -> Iterator[None]:
        """Let the bots send while the block runs."""
        ended = threading.Event()
        with ThreadPoolExecutor(_BOTS) as pool:
            senders = [pool.submit(self._send, ended) for _ in range(_BOTS)]
            try:
                yield
            finally:
                ended.set()
            for sender in senders:
                sender.result()

    def _send(self, ended: threading.Event) -> None:
        while not ended.wait(_PAUSE_S):
            number = next(self._numbers)
            email, deal = f"bot{number}@example.org", f"Deal {number}"
            told = self.bots.create_lead(f"chat-{number}", name=f"Ann Lee{number}", email=email)
            (self.leads if told.accepted else self.doubtful).add(email)
            if told.accepted and told.body.get("contactId"):
                answer = self.bots.create_deal(told.contact_id, dealname=deal, amount="12.5")
                (self.deals if answer.accepted else self.doubtful).add(deal)


@dataclass
class Held:
    """The records of a Tryton, as `lost_and_twice` reads them."""

    crm: TrytonCrm

    def records(self, kind: str) -> list[dict[str, Any]]:
        if kind == "contacts":
            return [{"properties": one} for one in self.crm.contacts().values()]
        names = self.crm.sql.execute("select description from sale_opportunity").fetchall()
        return [{"properties": {"dealname": name}} for (name,) in names]


def _account(here: Place, crm: TrytonCrm) -> IssuedIds:
    hub = here.hub()
    account, ids = open_account(hub, name="acme", client_id="acme", plan="unlimited", by=BENCHMARKS)
    own = {"base_url": crm.url, "database": crm.tryton.database}
    hub.database.transact(
        lambda tx: configure(
            tx,
            account.id,
            name="tryton",
            adapter=TrytonAdapter,
            settings={**SETTINGS, **own},
            credentials=SECRETS,
            vault=hub.vault,
            plans=hub.plans,
        )
    )
    hub.close()
    return ids


@contextmanager
def _locked(crm: TrytonCrm, *tables: str) -> Iterator[None]:
    """Hold locks that let Tryton read these tables, and let its writes wait."""
    with crm.tryton.sql() as connection, connection.transaction():
        for table in tables:
            connection.execute(f"lock table {table} in exclusive mode")
        yield


@pytest.mark.crash
def test_nothing_is_lost_or_made_twice(tryton_crm: TrytonCrm) -> None:
    crm = tryton_crm
    with place(False, POSTGRES) as here:
        ids = _account(here, crm)
        with here.server(workers=2, threads=8) as service:
            storm = Storm(Bots(service.address, ids))
            with storm.blowing(), killing(service, KILLS):
                pass
            with storm.blowing():
                crm.tryton.stop()
                time.sleep(AWAY_S)
                crm.tryton.start()
            with storm.blowing(), _locked(crm, "party_party", "sale_opportunity"):
                time.sleep(LOCKED_S)
            under_way_s = TrytonAdapter.under_way_s
            until_empty(here.url, patience=_PATIENCE_S, hurry=True, longer_than=under_way_s)
        assert set(states(here.url)) == {"done"}
    found = lost_and_twice(Held(crm), "contacts", "email", storm.leads, maybe=storm.doubtful)
    found |= lost_and_twice(Held(crm), "deals", "dealname", storm.deals, maybe=storm.doubtful)
    told = f"{len(storm.leads)} leads, {len(storm.deals)} deals, answers {storm.bots.statuses()}"
    logging.getLogger(__name__).info("%s: %s", told, found)
    assert not any(found.values()), f"{told}: {found}"
    assert min(len(storm.leads), len(storm.deals)) > KILLS
