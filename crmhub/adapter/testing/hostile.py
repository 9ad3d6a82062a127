"""Tests of HTTP adapters against invalid, slow and endless responses, by what goes wrong."""

from __future__ import annotations

import socket
import threading
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import pytest

from crmhub.adapter import (
    AdapterError,
    ContactWrite,
    Denied,
    Saved,
    Throttled,
    Unavailable,
)
from crmhub.adapter.testing import faults
from crmhub.adapter.testing.base import assert_readable, either, for_each, new_mark, phone_number
from crmhub.adapter.testing.connection import CALL_S, Connection, SharedTexts
from crmhub.adapter.testing.crm import HttpCrm
from crmhub.adapter.testing.faults import Harm, answers
from crmhub.adapter.testing.judging import JudgingTests
from crmhub.adapter.testing.operation import Operation
from crmhub.adapter.testing.proxy import Exchange, Fault, FaultProxy
from crmhub.adapter.testing.reads import Get
from crmhub.adapter.testing.wire import for_each_operation
from crmhub.adapter.testing.writes import Create, CreateDeal, CreateTicket, Update, UpsertKnown

_HOUR = 3600
# An adapter that allows each request the usual 10 s fails the test.
_LATE_S = 9.0
_WAITS: dict[str, tuple[Callable[[], str | None], float | None]] = {
    "seconds": (lambda: str(_HOUR), _HOUR),
    "a date": (lambda: faults.http_date(time.time() + _HOUR), _HOUR),
    "nothing": (lambda: None, None),
    "nonsense": (lambda: "soon", None),
    "a negative number": (lambda: "-5", None),
    "a date of long ago": (lambda: faults.http_date(0), None),
}
_WRITES: tuple[type[Operation], ...] = (Create, Update, CreateDeal, CreateTicket, UpsertKnown)
_SLOW: dict[str, Fault] = {
    "a dripping head": faults.dripping_head,
    "a dripping body": faults.dripping_body,
    "a stall after the write": faults.stalled_after,
}


class Canary:
    """A server that must not be called; `heard`: the first bytes of every connection."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                with peer:
                    peer.settimeout(1.0)
                    self.heard.append(peer.recv(65_536))

    def close(self) -> None:
        self._listener.close()


class HostileTests(JudgingTests):
    @pytest.mark.usefixtures("impatient")
    @for_each("by", {"email": "email", "phone": "phone"})
    def test_a_wrong_address_is_not_taken_for_nobody(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, by: str
    ) -> None:
        """Only where the CRM answers nobody with 404 it means that; else the address is wrong."""
        adapter = connection.adapter()
        adapter.find_contact(email=self.person()["email"])

        def find() -> object:
            nobody = self.person()["email"] if by == "email" else phone_number()
            return adapter.find_contact(**{by: nobody})

        proxy.clear()
        assert find() is None
        statuses = [request.status for request in proxy.requests]
        for nth, status in enumerate(statuses):
            if 200 <= status < 300:
                proxy.inject(answers(404, {"message": "no such address"}), skip=nth)
                found = either(AdapterError, find)
                assert isinstance(found, AdapterError), (
                    f"request {nth + 1} of a search by {by} was answered 404, and it found nobody;"
                    f" the CRM answers {status} when there is nobody, so raise Unavailable or"
                    " BadConfig"
                )

    def test_what_the_crm_says_of_one_write_of_a_batch_is_masked(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy
    ) -> None:
        """`Http` masks failed answers; the texts in a success go through `Http.mask`."""
        for outcome in self._refused_in_part(connection, crm, proxy, faults.quoted_everywhere):
            if isinstance(outcome, AdapterError):
                assert_readable(outcome, connection)

    def test_an_unknown_error_of_one_write_of_a_batch_is_no_outage(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy
    ) -> None:
        """The error is Rejected or Uncertain: the hub would retry a CRM that is available."""
        for outcome in self._refused_in_part(connection, crm, proxy, faults.unknown_codes):
            assert not isinstance(outcome, Unavailable | Throttled), (
                f"{outcome!r}: the CRM refuses this write alone; raise Rejected or Uncertain"
            )

    def _refused_in_part(
        self,
        connection: Connection,
        crm: HttpCrm,
        proxy: FaultProxy,
        edit: Callable[[object, Exchange], object],
    ) -> list[Saved | AdapterError | None]:
        self.announced("write_contacts")
        taken = self.person()
        adapter, id = connection.adapter(), crm.add_contact(taken)
        adapter.find_contact(email=taken["email"])
        refused = [{"email": "this is no email"}, {self.text: "long" * 20_000}, taken]
        if self.choice is not None:
            refused.append({self.choice[0]: "no such option"})
        creates = [self.person(), *(self.person(**one) for one in refused)]
        writes = [ContactWrite("", one, new_mark()) for one in creates]
        writes += [ContactWrite(id, one) for one in refused[:2]]
        proxy.inject(faults.edits(edit), times=None)
        return adapter.write_contacts(writes)

    @pytest.mark.usefixtures("impatient")
    @for_each("status", {"401": 401, "403": 403})
    @for_each_operation
    def test_credentials_that_are_refused_are_denied(
        self,
        connection: Connection,
        crm: HttpCrm,
        proxy: FaultProxy,
        operation: type[Operation],
        status: int,
    ) -> None:
        ready = self._ready(connection, crm, proxy, operation)
        proxy.inject(answers(status, {"message": "no"}), times=None)
        errors = self._errors(ready, connection.adapter())
        assert all(isinstance(error, Denied) for error in errors), errors
        for request in proxy.requests:
            assert [sent.said for sent in proxy.requests].count(request.said) <= 2 * len(errors)

    @pytest.mark.usefixtures("impatient")
    @for_each("wait", _WAITS)
    @for_each_operation
    def test_a_call_too_many_is_throttled_for_as_long_as_the_crm_says(
        self,
        connection: Connection,
        crm: HttpCrm,
        proxy: FaultProxy,
        operation: type[Operation],
        wait: tuple[Callable[[], str | None], float | None],
    ) -> None:
        text, seconds = wait
        ready = self._ready(connection, crm, proxy, operation)
        before = ready.state()
        header = text()
        headers = {} if header is None else {"Retry_After": header}
        proxy.inject(answers(429, {"message": "slow down"}, **headers), times=None)
        with connection.within(CALL_S):
            errors = self._errors(ready, connection.adapter())
        for error in errors:
            assert isinstance(error, Throttled), error
            assert 0 <= error.retry_after <= 86_400
            assert seconds is None or abs(error.retry_after - seconds) < 60
        assert ready.state() == before
        if seconds is not None:
            assert len(proxy.requests) <= len(errors), "it did not wait"

    @pytest.mark.usefixtures("impatient")
    @for_each_operation
    def test_a_call_too_many_is_sent_again_when_the_wait_is_over_or_not_at_all(
        self,
        connection: Connection,
        crm: HttpCrm,
        proxy: FaultProxy,
        operation: type[Operation],
    ) -> None:
        ready = self._ready(connection, crm, proxy, operation)
        before = ready.state()
        proxy.inject(answers(429, {"message": "slow down"}, Retry_After="3"))
        with connection.within(CALL_S):
            result = either(Throttled, lambda: ready.call(connection.adapter()))
            if isinstance(result, Throttled):
                assert 2 <= result.retry_after <= 4
            else:
                assert ready.is_right(result, before, ready.state())
                assert len(proxy.requests) == 1 or connection.slept >= 3, "it did not wait"

    @pytest.mark.usefixtures("impatient")
    @for_each_operation
    def test_a_redirect_leads_nowhere(
        self,
        connection: Connection,
        crm: HttpCrm,
        proxy: FaultProxy,
        operation: type[Operation],
    ) -> None:
        canary = Canary()
        try:
            for status in (301, 303, 307):
                ready = self._ready(connection, crm, proxy, operation)
                proxy.inject(answers(status, None, Location=f"{canary.url}/x"), times=None)
                with connection.within(CALL_S):
                    self._errors(ready, connection.adapter())
        finally:
            canary.close()
        assert canary.heard == [], "it followed a redirect to another host"

    @for_each("fault", _SLOW)
    def test_a_call_ends_in_time(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, fault: Fault
    ) -> None:
        calls = self._operations(connection, crm, proxy)
        ready = [self._ready(connection, crm, proxy, call) for call in calls]
        # Preparing the calls has read definitions, which some of the calls would find.
        connection.shared = SharedTexts()
        adapters = [connection.adapter() for _ in ready]
        proxy.inject(fault, times=None)
        ended: dict[str, str] = {}

        def call(i: int) -> None:
            try:
                self._errors(ready[i], adapters[i])
                ended[ready[i].name] = ""
            # An exception is reported below, since the thread would lose it.
            except BaseException as exc:
                ended[ready[i].name] = f"{exc!r}"

        threads = [threading.Thread(target=call, args=(i,), daemon=True) for i in range(len(ready))]
        with connection.within(1.0):
            for thread in threads:
                thread.start()
            latest = time.monotonic() + _LATE_S
            for thread in threads:
                thread.join(max(0.0, latest - time.monotonic()))
        late = {operation.name for operation in ready} - ended.keys()
        assert not late, "they took no heed of the time that remained"
        assert {name: said for name, said in ended.items() if said} == {}

    @for_each_operation
    def test_no_request_is_given_more_time_than_remains(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, operation: type[Operation]
    ) -> None:
        ready = self._ready(connection, crm, proxy, operation)
        connection.outgoing.timeouts.clear()
        with connection.within(CALL_S):
            ready.call(connection.adapter())
        assert all(0 < timeout <= CALL_S for timeout in connection.outgoing.timeouts)

    @for_each("write", {one.name: one for one in _WRITES})
    def test_a_write_whose_answer_does_not_come_in_time_is_uncertain(
        self,
        connection: Connection,
        crm: HttpCrm,
        proxy: FaultProxy,
        write: type[Operation],
    ) -> None:
        sends = self._requests(connection, crm, proxy, write)
        for nth in range(sends) if self.every_request else (sends - 1,):
            ready = self._ready(connection, crm, proxy, write)
            proxy.inject(faults.stalled_after, skip=nth)
            with connection.within(0.7):
                self._judge(connection, proxy, ready, Harm("stall", faults.stalled_after))

    @for_each("fault", {"huge": faults.huge, "compressed": faults.bomb})
    @for_each("call", {"a read": Get, "a write": Create})
    def test_an_answer_that_is_much_too_long_is_not_read_whole(
        self,
        connection: Connection,
        crm: HttpCrm,
        proxy: FaultProxy,
        call: type[Operation],
        fault: Fault,
    ) -> None:
        ready = self._ready(connection, crm, proxy, call)
        adapter = connection.adapter()
        faults.compressed()
        proxy.inject(fault, times=None)
        tracemalloc.start()
        try:
            self._errors(ready, adapter)
            assert tracemalloc.get_traced_memory()[1] < 40 << 20, "it was read whole"
        finally:
            tracemalloc.stop()
