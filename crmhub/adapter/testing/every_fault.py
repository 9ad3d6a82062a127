from __future__ import annotations

from zlib import crc32

import pytest

from crmhub.adapter import AdapterError
from crmhub.adapter.testing.connection import CALL_S, Connection, SharedTexts
from crmhub.adapter.testing.crm import HttpCrm
from crmhub.adapter.testing.faults import Harm, harms, says
from crmhub.adapter.testing.judging import JudgingTests, met
from crmhub.adapter.testing.operation import Operation
from crmhub.adapter.testing.proxy import FaultProxy

_SHOWN = 3
_TEST = "test_calls_that_meet_a_fault_tell_the_truth"
_FAMILIES = harms()


class EveryFaultTests(JudgingTests):
    @pytest.mark.usefixtures("impatient")
    @pytest.mark.parametrize("family", _FAMILIES)
    def test_calls_that_meet_a_fault_tell_the_truth(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, family: str
    ) -> None:
        """`xfail` may name the fault in place of its family."""
        lies: list[str] = []
        for harm in _FAMILIES[family]:
            found = self._lies(connection, crm, proxy, harm)
            if reason := self.xfail.get(f"{_TEST}[{harm.name}]"):
                found = [] if found else [f"it tells the truth, and was expected not to: {reason}"]
            lies += [f"{harm.name}: {lie}" for lie in found]
            self.empty(crm)
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
        """Apply the fault to each request and all that follow, then to that one only.

        What would be the same, or has no result, is left out. Without `every_request` it is one
        request, which differs between faults. Return a message for each wrong result.
        """
        lies: list[str] = []
        for operation in self._operations(connection, crm, proxy):
            sends = self._requests(connection, crm, proxy, operation)
            drawn, alone = divmod(crc32(f"{harm.name} {operation.name}".encode()), 2)
            lasts = not alone or operation.returns_nothing
            for nth in range(sends) if self.every_request else (drawn % sends,):
                for lasting in (True, False) if self.every_request else (lasts,):
                    try:
                        ready = self._ready(connection, crm, proxy, operation)
                    except AdapterError as exc:
                        lies.append(f"{operation.name} fails after the fault is over: {exc!r}")
                        # It remembers something wrong, which the next calls need not find.
                        connection.shared = SharedTexts()
                        ready = self._ready(connection, crm, proxy, operation)
                    proxy.inject(harm.fault, skip=nth, times=None if lasting else 1)
                    with connection.within(CALL_S):
                        lie = self._judged(connection, proxy, ready, harm)
                    where = f"from request {nth + 1} on" if lasting else f"at request {nth + 1}"
                    if lie:
                        harmed = [f"    {one}" for one in proxy.shown(harm=harm.name)[:_SHOWN]]
                        lies.append("\n".join([f"{operation.name}, {where}: {lie}", *harmed]))
                    if operation.returns_nothing or met(proxy) < 2:
                        break
        return lies

    def _judged(
        self, connection: Connection, proxy: FaultProxy, operation: Operation, harm: Harm
    ) -> str:
        try:
            self._judge(connection, proxy, operation, harm)
        except AssertionError as exc:
            return str(exc).partition("\n")[0]
        # Any other exception is a bug of the adapter, and is reported like a wrong result.
        except Exception as exc:
            return f"{type(exc).__name__} came out, which is no error of the contract: {exc}"
        return ""
