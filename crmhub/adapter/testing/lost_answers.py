"""Tests of calls that are made again after an answer was lost."""

from __future__ import annotations

import time
from dataclasses import replace

from crmhub.adapter import AdapterError, Conflict, NotYet, Saved, Throttled, Unavailable, Uncertain
from crmhub.adapter.testing import faults
from crmhub.adapter.testing.base import HOURS, either, for_each
from crmhub.adapter.testing.connection import Connection
from crmhub.adapter.testing.crm import HttpCrm
from crmhub.adapter.testing.judging import met
from crmhub.adapter.testing.proxy import Exchange, Fault, FaultProxy
from crmhub.adapter.testing.wire import WireTests
from crmhub.adapter.testing.writes import (
    WRITES_NEW,
    Create,
    CreateDeal,
    CreatesLinked,
    CreateTicket,
    UpsertNew,
    WriteNew,
)
from crmhub.adapter.upserts import upsert_contact


class LostAnswerTests(WireTests):
    @for_each("call", {"a deal": CreateDeal, "a ticket": CreateTicket})
    @for_each("fault", {"written": faults.reset_after, "not written": faults.reset_before})
    def test_what_lost_its_answer_is_made_once_when_it_is_tried_again(
        self,
        connection: Connection,
        crm: HttpCrm,
        proxy: FaultProxy,
        call: type[CreatesLinked],
        fault: Fault,
    ) -> None:
        self.announced("find_marked")
        self._is_made_once(connection, crm, proxy, call, fault)

    @for_each("call", WRITES_NEW)
    @for_each("fault", {"written": faults.reset_after, "not written": faults.reset_before})
    def test_a_new_record_of_each_kind_that_lost_its_answer_is_made_once(
        self,
        connection: Connection,
        crm: HttpCrm,
        proxy: FaultProxy,
        call: type[WriteNew],
        fault: Fault,
    ) -> None:
        self.announced("write")
        self._is_made_once(connection, crm, proxy, call, fault)

    def _is_made_once(
        self,
        connection: Connection,
        crm: HttpCrm,
        proxy: FaultProxy,
        call: type[CreatesLinked | WriteNew],
        fault: Fault,
    ) -> None:
        for nth in range(self._requests(connection, crm, proxy, call)):
            ready = self._ready(connection, crm, proxy, call)
            assert isinstance(ready, CreatesLinked | WriteNew)
            adapter, before = connection.adapter(), ready.state()
            proxy.inject(fault, skip=nth)
            saved = either(AdapterError, lambda: ready.call(adapter))  # noqa: B023
            if isinstance(saved, Uncertain):
                saved = ready.find_or_call(adapter)
            elif isinstance(saved, Unavailable):
                saved = ready.call(adapter)
            assert isinstance(saved, Saved)
            after = ready.state()
            assert ready.effect(before, after) == "whole"
            assert ready.is_right(replace(saved, outcome="created"), before, after)

    @for_each("call", {"a deal": CreateDeal, "a ticket": CreateTicket, "a lead": UpsertNew})
    def test_a_write_that_lands_after_its_answer_was_lost_is_made_once(
        self,
        connection: Connection,
        crm: HttpCrm,
        proxy: FaultProxy,
        call: type[CreatesLinked | UpsertNew],
    ) -> None:
        if issubclass(call, CreatesLinked):
            self.announced("find_marked")
        for nth in range(self._requests(connection, crm, proxy, call)):
            ready = self._ready(connection, crm, proxy, call)
            assert isinstance(ready, CreatesLinked | UpsertNew)
            adapter, before = connection.adapter(), ready.state()
            held = faults.HeldBack(proxy)
            proxy.inject(held, skip=nth)
            if not isinstance(either(AdapterError, lambda: ready.call(adapter)), Uncertain):  # noqa: B023
                continue
            now_ms = int(time.time() * 1000)
            saved = either(NotYet, lambda: ready.repeat(adapter, written_ms=now_ms))  # noqa: B023
            held.land()
            if isinstance(saved, NotYet):
                assert ready.effect(before, ready.state()) != "none", "it did not land"
                # When the hub tries again, no write is under way any more.
                long_ago = now_ms - int((saved.retry_after + HOURS) * 1000)
                ready.repeat(adapter, written_ms=long_ago)
            assert ready.effect(before, ready.state()) == "whole", (
                "it landed late, and is there twice: see under_way_s and may_land_for"
            )

    def test_a_lead_that_lost_its_answer_makes_one_contact_when_it_is_tried_again(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy
    ) -> None:
        for nth in range(self._requests(connection, crm, proxy, UpsertNew)):
            ready = self._ready(connection, crm, proxy, UpsertNew)
            before = ready.state()
            proxy.inject(faults.reset_after, skip=nth)
            lost = either(AdapterError, lambda: ready.call(connection.adapter()))  # noqa: B023
            doubt = ready.since_ms if isinstance(lost, Uncertain) else 0
            again = self.lead(ready.new, mark=ready.mark, tried_ms=doubt, written_ms=doubt)
            saved = upsert_contact(connection.adapter(), again)
            assert ready.effect(before, ready.state()) == "whole"
            assert saved.id in ready.state().contacts

    def test_a_create_that_breaks_because_another_took_its_email_leads_to_the_other(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy
    ) -> None:
        """Some CRMs answer 500 to the second of two creates of one email at the same time."""
        for nth in range(self._requests(connection, crm, proxy, Create)):
            ready = self._ready(connection, crm, proxy, Create)

            def holders() -> list[str]:
                email = ready.new["email"]  # noqa: B023
                return [id for id, one in crm.contacts().items() if one["email"] == email]

            def taken(exchange: Exchange) -> None:
                if not holders():
                    crm.add_contact(ready.new)  # noqa: B023
                exchange.reply(faults.made(500, {"message": "duplicate key value"}))

            proxy.inject(taken, skip=nth)
            said = either(AdapterError, lambda: ready.call(connection.adapter()))  # noqa: B023
            if not met(proxy):
                continue
            retried = isinstance(said, Conflict | Throttled | Unavailable | Uncertain)
            assert retried, f"it said {said!r}: the lead is lost"
            [holder] = holders()
            again = self.lead(ready.new, mark=ready.mark, tried_ms=ready.since_ms, written_ms=1)
            assert upsert_contact(connection.adapter(), again).id == holder
            assert holders() == [holder]
