"""Fixtures of the tests of HTTP adapters: a proxy between the adapter and its CRM."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from typing import ClassVar

import pytest

from crmhub.adapter import Adapter, AdapterError, Unsupported
from crmhub.adapter.testing.behaviour import AdapterTests
from crmhub.adapter.testing.connection import Connection
from crmhub.adapter.testing.crm import HttpCrm
from crmhub.adapter.testing.operations import CreatesLinked, Operation, operations_of, state_of
from crmhub.adapter.testing.proxy import FaultProxy


class WireTests(AdapterTests):
    """Base of the tests that inspect every request; the fixture `crm` yields a CRM with a `url`."""

    settings: Mapping[str, str] = {"base_url": "{url}"}
    _sent: ClassVar[Mapping[type[Operation], int | None]] = {}

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each test with an argument `operation` once for each supported call."""
        assert metafunc.cls is not None
        if "operation" in metafunc.fixturenames:
            calls = operations_of(metafunc.cls.adapter_class)
            metafunc.parametrize("operation", calls, ids=[operation.name for operation in calls])

    @pytest.fixture
    def proxy(self, crm: HttpCrm) -> Iterator[FaultProxy]:
        """The proxy between the adapter and its CRM."""
        with FaultProxy(crm.url, state=lambda: state_of(self, crm)) as proxy:
            yield proxy

    @pytest.fixture
    def url(self, proxy: FaultProxy) -> str:
        """The base URL that the adapter calls: the proxy's."""
        return proxy.url

    @pytest.fixture
    def impatient(self, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
        """Replace `time.sleep`: it returns at once and shortens the time left for the call."""
        real, callers = time.sleep, threading.current_thread()

        def sleep(seconds: float) -> None:
            own = threading.current_thread() is callers
            connection.sleep(seconds) if own else real(seconds)

        monkeypatch.setattr(time, "sleep", sleep)

    def _ready(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, operation: type[Operation]
    ) -> Operation:
        """Return a prepared call, with an empty list of recorded requests.

        Skips the test if the CRM has no such kind of record.
        """
        self._requests(connection, crm, proxy, operation)
        return self._prepared(connection, crm, proxy, operation)

    def _requests(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, operation: type[Operation]
    ) -> int:
        """Return how many requests a call sends when nothing fails.

        Skips the test if the CRM has no such kind of record.
        """
        sends = self._known(connection, crm, proxy, operation)
        if sends is None:
            pytest.skip(f"{self.adapter_class.title} cannot do this: {operation.name}")
        return sends

    def _operations(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy
    ) -> list[type[Operation]]:
        """Return the supported calls, without those for kinds of records that the CRM lacks."""
        calls = operations_of(self.adapter_class)
        return [
            operation
            for operation in calls
            if self._known(connection, crm, proxy, operation) is not None
        ]

    def _known(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, operation: type[Operation]
    ) -> int | None:
        """Return how many requests a call sends, or None if the CRM has no such kind of record.

        The number is measured once for each test class.
        """
        counts = vars(type(self)).get("_sent", {})
        if operation not in counts:
            ready = self._prepared(connection, crm, proxy, operation)
            sends: int | None
            try:
                ready.call(connection.adapter())
                sends = len(proxy.requests)
            except Unsupported:
                if not issubclass(operation, CreatesLinked):
                    raise
                sends = None
            type(self)._sent = {**counts, operation: sends}
        return self._sent[operation]

    def _prepared(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, operation: type[Operation]
    ) -> Operation:
        proxy.clear()
        if connection.outgoing.calls == 0:
            # Get a token first, so that the call under test does not need one.
            connection.adapter().find_contact(email=self.person()["email"])
        ready = operation(self, crm, connection.adapter())
        proxy.clear()
        return ready

    def _errors(self, operation: Operation, adapter: Adapter) -> list[AdapterError]:
        """Make a call that must fail; return its error, or for several leads the error of each."""
        try:
            result = operation.call(adapter)
        except AdapterError as exc:
            return [exc]
        if isinstance(result, list) and result:
            errors = [outcome for outcome in result if isinstance(outcome, AdapterError)]
            assert len(errors) == len(result), "it answered, and should have failed"
            return errors
        raise AssertionError(f"it answered {result!r}, and should have failed")
