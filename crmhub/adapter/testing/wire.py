"""Fixtures for the tests of HTTP adapters: a proxy between the adapter and its CRM."""

from __future__ import annotations

import functools
import inspect
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import pytest

from crmhub.adapter import Adapter, AdapterError, Unsupported
from crmhub.adapter.testing.base import Base
from crmhub.adapter.testing.connection import Connection, SharedTexts
from crmhub.adapter.testing.crm import HostedCrm, HttpCrm
from crmhub.adapter.testing.operation import Operation, state_of
from crmhub.adapter.testing.operations import operations_of
from crmhub.adapter.testing.proxy import FaultProxy, Request
from crmhub.adapter.testing.writes import CreatesLinked, WriteNew

_SHOWN = 20


def for_each_operation(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test for each supported `operation`; they share fixtures, a failure names one."""

    @functools.wraps(test)
    def run(
        self: WireTests, connection: Connection, crm: HttpCrm, proxy: FaultProxy, **values: Any
    ) -> None:
        for operation in self._operations(connection, crm, proxy):
            try:
                test(self, connection, crm, proxy, operation=operation, **values)
            # Each failure is raised again, with the operation's name.
            except Exception as exc:
                exc.add_note(f"The operation was {operation.name}.")
                raise

    signature = inspect.signature(test)
    shown = [one for name, one in signature.parameters.items() if name != "operation"]
    run.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    return run


class WireTests(Base):
    """The fixture `crm` must yield a CRM with a `url` (`HttpCrm`)."""

    settings: Mapping[str, str] = {"base_url": "{url}"}
    _sent: ClassVar[Mapping[type[Operation], int | None]] = {}

    @pytest.fixture
    def proxy(self, crm: HttpCrm) -> Iterator[FaultProxy]:
        """The proxy between the adapter and its CRM; it records requests and injects faults."""
        more = crm.urls if isinstance(crm, HostedCrm) else {}
        with FaultProxy(crm.url, more=more, state=lambda: state_of(self, crm)) as proxy:
            yield proxy

    @pytest.fixture(autouse=True)
    def _quoting(
        self, connection: Connection, proxy: FaultProxy, request: pytest.FixtureRequest
    ) -> Iterator[None]:
        given = connection.secrets()
        proxy.secrets = connection.secrets_of_the_crm
        proxy.hidden = lambda: given | connection.secrets()
        yield
        shown = "\n".join(proxy.shown(last=_SHOWN))
        request.node.add_report_section("teardown", "requests to the CRM", shown)

    @pytest.fixture
    def url(self, proxy: FaultProxy) -> str:
        return proxy.url

    @pytest.fixture
    def urls(self, proxy: FaultProxy) -> Mapping[str, str]:
        return proxy.urls

    def procedure(self, request: Request) -> object:
        """Return method and path; override this for a CRM that names procedures in the body."""
        return request.said[:2]

    @pytest.fixture
    def impatient(self, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let `time.sleep` return at once, but reduce the time left for the current call."""
        real, callers = time.sleep, threading.current_thread()

        def sleep(seconds: float) -> None:
            own = threading.current_thread() is callers
            connection.sleep(seconds) if own else real(seconds)

        monkeypatch.setattr(time, "sleep", sleep)

    def _ready(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, operation: type[Operation]
    ) -> Operation:
        """Skip the test if the CRM lacks this kind of record, or no request is needed."""
        if not self._requests(connection, crm, proxy, operation):
            pytest.skip(f"{self.adapter_class.title} needs no request: {operation.name}")
        return self._prepared(connection, crm, proxy, operation)

    def _requests(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, operation: type[Operation]
    ) -> int:
        """Skip the test if the CRM lacks this kind of record; no fault occurs."""
        sends = self._known(connection, crm, proxy, operation)
        if sends is None:
            pytest.skip(f"{self.adapter_class.title} cannot do this: {operation.name}")
        return sends

    def _operations(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy
    ) -> list[type[Operation]]:
        """Leave out operations that create a kind of record which the CRM does not have."""
        calls = operations_of(self.adapter_class)
        return [operation for operation in calls if self._known(connection, crm, proxy, operation)]

    def _known(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, operation: type[Operation]
    ) -> int | None:
        """Return None if the CRM lacks this kind of record; measured once for each class."""
        counts = vars(type(self)).get("_sent", {})
        if operation not in counts:
            ready = self._prepared(connection, crm, proxy, operation)
            sends: int | None
            try:
                ready.call(connection.adapter())
                sends = len(proxy.requests)
                silent = f"{operation.name} calls nobody"
                assert sends or operation.may_be_constant, silent
            except Unsupported:
                if not issubclass(operation, CreatesLinked | WriteNew):
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
        if operation.reads_definitions:
            connection.shared = SharedTexts()
        proxy.clear()
        return ready

    def _errors(self, operation: Operation, adapter: Adapter) -> list[AdapterError]:
        """Return the error, or one for each lead; AssertionError if anything succeeds."""
        try:
            result = operation.call(adapter)
        except AdapterError as exc:
            return [exc]
        if isinstance(result, list) and result:
            errors = [outcome for outcome in result if isinstance(outcome, AdapterError)]
            assert len(errors) == len(result), "it answered, and should have failed"
            return errors
        raise AssertionError(f"it answered {result!r}, and should have failed")
