"""What the tests of an adapter that calls its CRM over HTTP are given: a proxy in between."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from typing import ClassVar

import pytest

from crmhub.adapter.contract import (
    Adapter,
    AdapterError,
    Unsupported,
)
from crmhub.adapter.testing.behaviour import AdapterTests
from crmhub.adapter.testing.connection import Connection
from crmhub.adapter.testing.crm import HttpCrm
from crmhub.adapter.testing.operations import (
    CreatesLinked,
    Operation,
    operations_of,
    state_of,
)
from crmhub.adapter.testing.proxy import FaultProxy


class WireTests(AdapterTests):
    """Tests that see each request; the fixture `crm` yields a CRM that has a `url`."""

    settings: Mapping[str, str] = {"base_url": "{url}"}
    _sent: ClassVar[Mapping[type[Operation], int | None]] = {}

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Let the calls that this adapter can be asked for meet each fault."""
        assert metafunc.cls is not None
        if "operation" in metafunc.fixturenames:
            calls = operations_of(metafunc.cls.adapter_class)
            metafunc.parametrize("operation", calls, ids=[one.name for one in calls])

    @pytest.fixture
    def proxy(self, crm: HttpCrm) -> Iterator[FaultProxy]:
        """What stands between the adapter and its CRM."""
        with FaultProxy(crm.url, state=lambda: state_of(self, crm)) as proxy:
            yield proxy

    @pytest.fixture
    def url(self, proxy: FaultProxy) -> str:
        """Where the adapter is sent."""
        return proxy.url

    @pytest.fixture
    def impatient(self, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let nobody sleep: the time is taken off what remains of the call."""
        real, callers = time.sleep, threading.current_thread()

        def sleep(seconds: float) -> None:
            own = threading.current_thread() is callers
            connection.sleep(seconds) if own else real(seconds)

        monkeypatch.setattr(time, "sleep", sleep)

    def _ready(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, operation: type[Operation]
    ) -> Operation:
        """Return a call that is ready to be made, and let what is sent from now on be counted.

        Skips the test when the CRM lacks what is to be created.
        """
        self._requests(connection, crm, proxy, operation)
        return self._prepared(connection, crm, proxy, operation)

    def _requests(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, operation: type[Operation]
    ) -> int:
        """Return how many requests a call sends when all is well.

        Skips the test when the CRM lacks what is to be created.
        """
        sends = self._known(connection, crm, proxy, operation)
        if sends is None:
            pytest.skip(f"{self.adapter_class.title} cannot do this: {operation.name}")
        return sends

    def _operations(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy
    ) -> list[type[Operation]]:
        """Return the calls that the adapter can be asked for, without those the CRM lacks."""
        calls = operations_of(self.adapter_class)
        return [one for one in calls if self._known(connection, crm, proxy, one) is not None]

    def _known(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, operation: type[Operation]
    ) -> int | None:
        """Return how many requests a call sends, None where the CRM lacks what it creates.

        Found out once for a class.
        """
        known = vars(type(self)).get("_sent", {})
        if operation not in known:
            ready = self._prepared(connection, crm, proxy, operation)
            sends: int | None
            try:
                ready.call(connection.adapter())
                sends = len(proxy.requests)
            except Unsupported:
                if not issubclass(operation, CreatesLinked):
                    raise
                sends = None
            type(self)._sent = {**known, operation: sends}
        return self._sent[operation]

    def _prepared(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, operation: type[Operation]
    ) -> Operation:
        proxy.clear()
        if connection.outgoing.calls == 0:
            # Where a token is to be had first, it is not the call that gets it.
            connection.adapter().find_contact(email=self.person()["email"])
        ready = operation(self, crm, connection.adapter())
        proxy.clear()
        return ready

    def _errors(self, operation: Operation, adapter: Adapter) -> list[AdapterError]:
        """Make a call that must fail and return its error; of several leads, each one's."""
        try:
            result = operation.call(adapter)
        except AdapterError as exc:
            return [exc]
        if isinstance(result, list) and result:
            errors = [one for one in result if isinstance(one, AdapterError)]
            assert len(errors) == len(result), "it answered, and should have failed"
            return errors
        raise AssertionError(f"it answered {result!r}, and should have failed")
