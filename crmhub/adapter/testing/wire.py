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
)
from crmhub.adapter.testing.behaviour import AdapterTests
from crmhub.adapter.testing.connection import Connection
from crmhub.adapter.testing.crm import HttpCrm
from crmhub.adapter.testing.operations import (
    Operation,
    operations_of,
    state_of,
)
from crmhub.adapter.testing.proxy import FaultProxy


class WireTests(AdapterTests):
    """Tests that see each request; the fixture `crm` yields a CRM that has a `url`."""

    settings: Mapping[str, str] = {"base_url": "{url}"}
    _sent: ClassVar[Mapping[type[Operation], int]] = {}

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
        """Return a call that is ready to be made, and let what is sent from now on be counted."""
        proxy.clear()
        if connection.outgoing.calls == 0:
            # Where a token is to be had first, it is not the call that gets it.
            connection.adapter().find_contact(email=self.person()["email"])
        ready = operation(self, crm, connection.adapter())
        proxy.clear()
        return ready

    def _requests(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, operation: type[Operation]
    ) -> int:
        """Return how many requests a call sends when all is well; found out once for a class."""
        known = vars(type(self)).get("_sent", {})
        if operation not in known:
            ready = self._ready(connection, crm, proxy, operation)
            ready.call(connection.adapter())
            type(self)._sent = {**known, operation: len(proxy.requests)}
        return self._sent[operation]

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
