"""Tests of adapters that renew their access tokens."""

from __future__ import annotations

import pytest

from crmhub.adapter import Adapter
from crmhub.adapter.testing.connection import Connection
from crmhub.adapter.testing.crm import HttpCrm
from crmhub.adapter.testing.faults import answers
from crmhub.adapter.testing.leads import at_once
from crmhub.adapter.testing.operations import Get
from crmhub.adapter.testing.proxy import FaultProxy
from crmhub.adapter.testing.wire import WireTests


class TokenTests(WireTests):
    """Tests with access tokens that expire while several threads and processes use them."""

    def _renewing(self, connection: Connection, crm: HttpCrm) -> tuple[list[Adapter], Get]:
        """Return two adapters of one connection, both with an access token, and a prepared call.

        The call is `get_contact` of an existing contact, and can be made with either adapter. Skip
        the test if the adapter uses no access tokens.
        """
        adapters = [connection.adapter()]
        ready = Get(self, crm, adapters[0])
        if not self._tokens(connection):
            pytest.skip(f"{self.adapter_class.title} renews no token in this set-up")
        adapters.append(connection.adapter())
        ready.call(adapters[1])
        return adapters, ready

    def _tokens(self, connection: Connection) -> set[str]:
        """Return the access tokens among the connection's stored credentials."""
        names = [setting.name for setting in self.adapter_class.settings if setting.kept]
        words = {word for name in names for word in connection.credentials[name].split()}
        return words & connection.secrets()

    def _expire(self, connection: Connection, proxy: FaultProxy) -> None:
        """Make the proxy answer 401 to later requests that contain a present access token.

        Requests with a renewed access token are forwarded.
        """
        old = self._tokens(connection)
        proxy.inject(
            answers(401, {"message": "expired"}),
            times=None,
            when=lambda request: any(token in str(request.headers) for token in old),
        )

    def test_a_token_that_expires_is_renewed_once_for_all(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy
    ) -> None:
        adapters, ready = self._renewing(connection, crm)
        renewed = len(connection.saved)
        self._expire(connection, proxy)
        got = at_once([lambda i=i: ready.call(adapters[i % 2]) for i in range(12)])  # type: ignore[misc]
        assert got == [ready.expected] * 12, "a call was lost"
        assert len(connection.saved) == renewed + 1

    def test_what_another_process_has_renewed_is_used(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy
    ) -> None:
        adapters, ready = self._renewing(connection, crm)
        renewed = len(connection.saved)
        for turn in (1, 2, 3):
            self._expire(connection, proxy)
            for adapter in adapters[:: 1 if turn % 2 else -1]:
                assert ready.call(adapter) == ready.expected
            assert len(connection.saved) == renewed + turn
