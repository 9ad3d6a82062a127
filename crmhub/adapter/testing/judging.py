"""How the tests judge an operation that met a fault: by what it said, and by the CRM's records."""

from __future__ import annotations

from crmhub.adapter import (
    AdapterError,
    NotFound,
    Rejected,
    Throttled,
    Unavailable,
    Uncertain,
)
from crmhub.adapter.testing.base import assert_readable
from crmhub.adapter.testing.connection import Connection
from crmhub.adapter.testing.faults import Harm
from crmhub.adapter.testing.operation import Operation, State, difference
from crmhub.adapter.testing.proxy import FaultProxy
from crmhub.adapter.testing.wire import WireTests


class JudgingTests(WireTests):
    def _judge(
        self, connection: Connection, proxy: FaultProxy, operation: Operation, harm: Harm
    ) -> None:
        """The caller has already injected the fault `harm`."""
        before = operation.state()
        try:
            self._judge_call(connection, proxy, operation, before, harm)
        except AssertionError as exc:
            said, changed = str(exc).partition("\n")[0], difference(before, operation.state())
            raise AssertionError(f"{said} (changed in the CRM: {changed})") from exc

    def _judge_call(
        self,
        connection: Connection,
        proxy: FaultProxy,
        operation: Operation,
        before: State,
        harm: Harm,
    ) -> None:
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
            effect = operation.effect(before, after)
            assert effect in ("none", "whole"), f"its effect is {effect}"
        for request in proxy.requests:
            again = [other for other in proxy.requests if other.said == request.said]
            assert not request.wrote or len(again) == 1, "a write was sent twice"

    def _judge_error(
        self, proxy: FaultProxy, operation: Operation, before: State, error: AdapterError
    ) -> None:
        effect = operation.effect(before, operation.state())
        if isinstance(error, Throttled | Unavailable) and error.retry_after is not None:
            assert 0 <= error.retry_after <= 86_400
        if isinstance(error, Uncertain):
            assert not operation.reads, "a read leaves no doubt"
            # A record without its link may remain if the answer with its id was lost, or if the
            # request that deletes it failed.
            half = met(proxy) > 1 or any(request.wrote for request in proxy.requests)
            assert effect != "wrong", "it left behind what nobody asked for"
            assert effect != "part" or half, "half of it was left behind"
        else:
            assert effect == "none", f"it said {error!r}, and has written"
        if operation.may_find_none:
            assert not isinstance(error, NotFound), "a search that fails is not NotFound"

    def _judge_texts(self, connection: Connection, error: AdapterError, harm: Harm) -> None:
        assert_readable(error, connection)
        retried = isinstance(error, Throttled | Unavailable | Uncertain)
        assert retried or not harm.temporary, f"it said {error!r}, which nobody retries"
        if isinstance(error, Rejected) and harm.name.isdigit():
            # A status alone refuses the whole call; the hub would leave out what is blamed.
            assert not error.problems, "it blames a property that the CRM did not name"


def met(proxy: FaultProxy) -> int:
    return sum(request.fault for request in proxy.requests)
