"""Tests of HTTP adapters against network faults and invalid responses.

Each operation of the adapter is executed with each fault at each of its requests. Then the result
is compared with the CRM's records.
"""

from __future__ import annotations

import socket
import threading
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from crmhub.adapter import (
    AdapterError,
    ContactWrite,
    Denied,
    NotFound,
    NotYet,
    Rejected,
    Saved,
    Throttled,
    Unavailable,
    Uncertain,
)
from crmhub.adapter.testing import faults
from crmhub.adapter.testing.base import HOURS, assert_readable, either, new_mark, phone_number
from crmhub.adapter.testing.connection import CALL_S, Connection
from crmhub.adapter.testing.crm import HttpCrm
from crmhub.adapter.testing.faults import Harm, answers, harms, says
from crmhub.adapter.testing.operations import (
    Create,
    CreateDeal,
    CreatesLinked,
    CreateTicket,
    Get,
    Operation,
    State,
    Update,
    UpsertKnown,
    UpsertNew,
)
from crmhub.adapter.testing.outgoing import OutgoingTests
from crmhub.adapter.testing.own_errors import OwnErrorTests
from crmhub.adapter.testing.proxy import Exchange, Fault, FaultProxy
from crmhub.adapter.testing.tokens import TokenTests
from crmhub.adapter.upserts import upsert_contact

_HOUR = 3600
# An adapter that allows each request the usual 10 s fails the test.
_LATE_S = 9.0
_HARMS = {harm.name: harm for harm in harms()}
_WAITS: dict[str, tuple[Callable[[], str | None], float | None]] = {
    "seconds": (lambda: str(_HOUR), _HOUR),
    "a date": (lambda: faults.http_date(time.time() + _HOUR), _HOUR),
    "nothing": (lambda: None, None),
    "nonsense": (lambda: "soon", None),
    "a negative number": (lambda: "-5", None),
    "a date of long ago": (lambda: faults.http_date(0), None),
}


class Canary:
    """A server at `url` that the adapter must not call.

    `heard` lists the first bytes of every connection that the server accepted.
    """

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
        """Stop the server."""
        self._listener.close()


class HttpAdapterTests(OutgoingTests, TokenTests, OwnErrorTests):
    """All conformance tests for an adapter that uses HTTP.

    The fixture `crm` must yield a CRM with a `url` (`HttpCrm`).
    """

    # Every operation under every fault.

    @pytest.mark.usefixtures("impatient")
    @pytest.mark.parametrize("harm", _HARMS.values(), ids=_HARMS.keys())
    def test_calls_that_meet_a_fault_tell_the_truth(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, harm: Harm
    ) -> None:
        lies = self._lies(connection, crm, proxy, harm)
        assert not lies, "\n".join(lies)

    @pytest.mark.usefixtures("impatient")
    def test_calls_that_meet_a_breakdown_of_this_crm_tell_the_truth(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy
    ) -> None:
        if not self.breakdowns:
            pytest.skip("the test class names no breakdowns: statuses tell all")
        lies: list[str] = []
        for i, (status, body) in enumerate(self.breakdowns):
            for when in ("", " after"):
                fault = says(status, body, after=bool(when))
                harm = Harm(f"breakdown {i + 1}{when}", fault)
                lies += [f"{harm.name}: {lie}" for lie in self._lies(connection, crm, proxy, harm)]
        assert not lies, "\n".join(lies)

    def _lies(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, harm: Harm
    ) -> list[str]:
        """Execute each operation with the fault `harm`; return a message for each wrong result.

        An operation is executed several times: for each of its requests, the fault is applied to
        this and all following requests, and then to this request only. If no other request
        followed, the second execution would be the same as the first, and is left out. So is that
        of a call without a result, which a second attempt at one request cannot falsify.
        """
        lies: list[str] = []
        for operation in self._operations(connection, crm, proxy):
            for nth in range(self._requests(connection, crm, proxy, operation)):
                for lasting in (True, False):
                    ready = self._ready(connection, crm, proxy, operation)
                    proxy.inject(harm.fault, skip=nth, times=None if lasting else 1)
                    with connection.within(CALL_S):
                        lie = self._judged(connection, proxy, ready, harm)
                    where = f"from request {nth + 1} on" if lasting else f"at request {nth + 1}"
                    lies += [f"{operation.name}, {where}: {lie}"] if lie else []
                    if operation.returns_nothing or _met(proxy) < 2:
                        break
        return lies

    def _judged(
        self, connection: Connection, proxy: FaultProxy, operation: Operation, harm: Harm
    ) -> str:
        """Execute an operation under a fault; return why its result is wrong, or `""`.

        The caller has already injected the fault `harm`.
        """
        try:
            self._judge(connection, proxy, operation, harm)
        except AssertionError as exc:
            return str(exc).partition("\n")[0]
        # Any other exception is a bug of the adapter, and is reported like a wrong result.
        except Exception as exc:
            return f"{type(exc).__name__} came out, which is no error of the contract: {exc}"
        return ""

    def _judge(
        self, connection: Connection, proxy: FaultProxy, operation: Operation, harm: Harm
    ) -> None:
        """Execute an operation under a fault; assert that its result agrees with the CRM's records.

        The caller has already injected the fault `harm`. The CRM's records are compared before and
        after the operation.
        """
        before = operation.state()
        try:
            result = operation.call(connection.adapter())
        except AdapterError as exc:
            self._judge_error(proxy, operation, before, exc)
            self._judge_texts(connection, exc, harm)
        else:
            after = operation.state()
            for outcome in result if isinstance(result, list) else ():
                if isinstance(outcome, AdapterError):
                    self._judge_texts(connection, outcome, harm)
            if operation.returns_nothing:
                assert harm.harmless or harm.silent, "all was said to be well"
            elif operation.may_find_none and harm.name.startswith(("404", "410")):
                assert result is None or operation.is_right(result, before, after)
            elif not (harm.silent and operation.is_deceived(result, before, after)):
                said = f"it answered {result!r}"
                assert operation.is_right(result, before, after), said
            assert operation.effect(before, after) in ("none", "whole")
        for request in proxy.requests:
            again = [other for other in proxy.requests if other.said == request.said]
            assert not request.wrote or len(again) == 1, "a write was sent twice"

    def _judge_error(
        self, proxy: FaultProxy, operation: Operation, before: State, error: AdapterError
    ) -> None:
        effect = operation.effect(before, operation.state())
        name = type(error).__name__
        if isinstance(error, Throttled | Unavailable) and error.retry_after is not None:
            assert 0 <= error.retry_after <= 86_400
        if isinstance(error, Uncertain):
            assert not operation.reads, "a read leaves no doubt"
            # A record without its link may remain if the answer with its id was lost, or if the
            # request that deletes it failed.
            half = _met(proxy) > 1 or any(request.wrote for request in proxy.requests)
            assert effect != "wrong", "it left behind what nobody asked for"
            assert effect != "part" or half, "half of it was left behind"
        else:
            assert effect == "none", f"it said {name}, and has written"
        if operation.may_find_none:
            assert not isinstance(error, NotFound), "a search that fails is not NotFound"

    def _judge_texts(self, connection: Connection, error: AdapterError, harm: Harm) -> None:
        assert_readable(error, connection)
        if isinstance(error, Rejected) and harm.name.isdigit():
            # A status alone refuses the whole call; the hub would leave out what is blamed.
            assert not error.problems, "it blames a property that the CRM did not name"

    @pytest.mark.usefixtures("impatient")
    @pytest.mark.parametrize("by", ["email", "phone"])
    def test_a_wrong_address_is_not_taken_for_nobody(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, by: str
    ) -> None:
        """Test that 404 means "no such contact" only where the CRM itself says that with 404.

        From an address that answers a search for nobody with a success, 404 means that the address
        is wrong: an adapter that finds nobody there makes each contact again.
        """
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

    # Batches of which the CRM refuses a part.

    def test_what_the_crm_says_of_one_write_of_a_batch_is_masked(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy
    ) -> None:
        """Test that the errors within a batch's answer hold no secret.

        `Http` masks what a failed answer says; the texts in a success go through `Http.mask`.
        """
        for outcome in self._refused_in_part(connection, crm, proxy, faults.quoted_everywhere):
            if isinstance(outcome, AdapterError):
                assert_readable(outcome, connection)

    def test_an_unknown_error_of_one_write_of_a_batch_is_no_outage(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy
    ) -> None:
        """Test that an error code which the adapter does not know is not taken for an outage.

        The hub would retry the write as long as the CRM is unavailable, and it is not. The error is
        Rejected, or Uncertain if the CRM may have written all the same.
        """
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
        """Write contacts of which the CRM may refuse some, with edited answers; return results."""
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

    # Errors by HTTP status.

    @pytest.mark.usefixtures("impatient")
    @pytest.mark.parametrize("status", [401, 403])
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
    @pytest.mark.parametrize("wait", _WAITS)
    def test_a_call_too_many_is_throttled_for_as_long_as_the_crm_says(
        self,
        connection: Connection,
        crm: HttpCrm,
        proxy: FaultProxy,
        operation: type[Operation],
        wait: str,
    ) -> None:
        text, seconds = _WAITS[wait]
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

    # Time and size.

    @pytest.mark.parametrize(
        "fault",
        [faults.dripping_head, faults.dripping_body, faults.stalled_after],
        ids=["a dripping head", "a dripping body", "a stall after the write"],
    )
    def test_a_call_ends_in_time(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, fault: Fault
    ) -> None:
        calls = self._operations(connection, crm, proxy)
        ready = [self._ready(connection, crm, proxy, call) for call in calls]
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

    def test_no_request_is_given_more_time_than_remains(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, operation: type[Operation]
    ) -> None:
        ready = self._ready(connection, crm, proxy, operation)
        connection.outgoing.timeouts.clear()
        with connection.within(CALL_S):
            ready.call(connection.adapter())
        assert all(0 < timeout <= CALL_S for timeout in connection.outgoing.timeouts)

    @pytest.mark.parametrize("write", [Create, Update, CreateDeal, CreateTicket, UpsertKnown])
    def test_a_write_whose_answer_does_not_come_in_time_is_uncertain(
        self,
        connection: Connection,
        crm: HttpCrm,
        proxy: FaultProxy,
        write: type[Operation],
    ) -> None:
        for nth in range(self._requests(connection, crm, proxy, write)):
            ready = self._ready(connection, crm, proxy, write)
            proxy.inject(faults.stalled_after, skip=nth)
            with connection.within(0.7):
                self._judge(connection, proxy, ready, Harm("stall", faults.stalled_after))

    @pytest.mark.parametrize("fault", [faults.huge, faults.bomb], ids=["huge", "compressed"])
    @pytest.mark.parametrize("call", [Get, Create])
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

    # After a lost answer.

    @pytest.mark.parametrize("call", [CreateDeal, CreateTicket])
    @pytest.mark.parametrize(
        "fault",
        [faults.reset_after, faults.reset_before],
        ids=["written", "not written"],
    )
    def test_what_lost_its_answer_is_made_once_when_it_is_tried_again(
        self,
        connection: Connection,
        crm: HttpCrm,
        proxy: FaultProxy,
        call: type[Operation],
        fault: Fault,
    ) -> None:
        self.announced("find_marked")
        for nth in range(self._requests(connection, crm, proxy, call)):
            ready = self._ready(connection, crm, proxy, call)
            assert isinstance(ready, CreatesLinked)
            adapter, before = connection.adapter(), ready.state()
            proxy.inject(fault, skip=nth)
            saved = either(AdapterError, lambda: ready.call(adapter))  # noqa: B023
            if isinstance(saved, Uncertain):
                saved = ready.find(adapter) or ready.call(adapter)
            elif isinstance(saved, Unavailable):
                saved = ready.call(adapter)
            assert isinstance(saved, Saved)
            after = ready.state()
            assert ready.effect(before, after) == "whole"
            assert ready.is_right(replace(saved, outcome="created"), before, after)

    @pytest.mark.parametrize("call", [CreateDeal, CreateTicket, UpsertNew])
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


def _met(proxy: FaultProxy) -> int:
    """Return how many requests met the injected fault."""
    return sum(request.fault for request in proxy.requests)
