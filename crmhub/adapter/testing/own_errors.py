"""Tests of errors that a CRM reports in its own way, and of limits other than those of calls."""

from __future__ import annotations

import pytest

from crmhub.adapter import ContactWrite, LacksRight, Throttled
from crmhub.adapter.testing.base import assert_readable, new_mark
from crmhub.adapter.testing.connection import Connection
from crmhub.adapter.testing.crm import HttpCrm, MeteredCrm
from crmhub.adapter.testing.faults import Held, says
from crmhub.adapter.testing.operation import Operation
from crmhub.adapter.testing.proxy import FaultProxy
from crmhub.adapter.testing.reads import Get
from crmhub.adapter.testing.several_leads import at_once
from crmhub.adapter.testing.wire import WireTests, for_each_operation

_MORE = 2
_QUOTATION = "{request}"


class OwnErrorTests(WireTests):
    def test_an_error_of_this_crm_says_where_it_quotes(self) -> None:
        said = [body for *_, body in (*self.own_errors, *self.token_errors)]
        named = any(_QUOTATION in str(body) for body in said)
        assert named or not said, f"write {_QUOTATION} into a message, to see that it is masked"

    @pytest.mark.usefixtures("impatient")
    @for_each_operation
    def test_an_error_of_this_crm_is_recognized(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, operation: type[Operation]
    ) -> None:
        if not self.own_errors:
            pytest.skip("the test class names no own_errors: statuses tell all")
        for error, status, body in self.own_errors:
            ready = self._ready(connection, crm, proxy, operation)
            before, saved = ready.state(), len(connection.saved)
            proxy.inject(says(status, body), times=None)
            for raised in self._errors(ready, connection.adapter()):
                assert isinstance(raised, error), f"{raised!r} for {body}"
                assert issubclass(error, LacksRight) or not isinstance(raised, LacksRight)
                assert_readable(raised, connection)
            assert ready.state() == before
            if issubclass(error, LacksRight):
                assert len(connection.saved) == saved, "it renews a token that is valid"
            if issubclass(error, Throttled):
                paused = [budget.paused for budget in connection.budgets.values()]
                assert any(paused) or not paused, "it pauses no budget"
                for budget in connection.budgets.values():
                    budget.paused.clear()

    @for_each_operation
    def test_a_budget_counts_what_requests_cost(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, operation: type[Operation]
    ) -> None:
        if not isinstance(crm, MeteredCrm):
            pytest.skip("the fake CRM has no `spent`: it counts calls")
        ready = self._ready(connection, crm, proxy, operation)
        adapter, spent = connection.adapter(), crm.spent
        before = {lane: budget.taken for lane, budget in connection.budgets.items()}
        ready.call(adapter)
        taken = [one.taken - before.get(lane, 0) for lane, one in connection.budgets.items()]
        assert max(taken, default=0) >= crm.spent - spent

    def test_a_budget_counts_what_a_full_batch_costs(
        self, connection: Connection, crm: HttpCrm
    ) -> None:
        self.announced("write_contacts")
        if not isinstance(crm, MeteredCrm):
            pytest.skip("the fake CRM has no `spent`: it counts calls")
        people = [self.person() for _ in range(self.adapter_class.batch_size)]
        adapter, spent = connection.adapter(), crm.spent
        before = {lane: budget.taken for lane, budget in connection.budgets.items()}
        adapter.write_contacts([ContactWrite("", one, new_mark()) for one in people])
        taken = [one.taken - before.get(lane, 0) for lane, one in connection.budgets.items()]
        assert max(taken, default=0) >= crm.spent - spent, "pass `cost` for what a batch costs"

    def test_no_more_calls_than_allowed_are_made_at_the_same_time(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy
    ) -> None:
        if not self.at_once:
            pytest.skip("the test class names no at_once: the CRM takes any number of calls")
        adapters = [connection.adapter() for _ in range(2)]
        ready = Get(self, crm, adapters[0])
        held = Held(self.at_once)
        proxy.inject(held, times=None)
        calls = range(self.at_once + _MORE)
        got = at_once([lambda i=i: ready.call(adapters[i % 2]) for i in calls])  # type: ignore[misc]
        assert got == [ready.expected] * len(calls)
        assert held.running <= self.at_once
