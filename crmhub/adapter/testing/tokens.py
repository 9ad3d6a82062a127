from __future__ import annotations

from urllib.parse import unquote_plus

import pytest

from crmhub.adapter import Adapter, Denied, LacksRight, Throttled
from crmhub.adapter.testing.base import assert_readable
from crmhub.adapter.testing.connection import Connection
from crmhub.adapter.testing.crm import HttpCrm
from crmhub.adapter.testing.faults import says
from crmhub.adapter.testing.proxy import FaultProxy
from crmhub.adapter.testing.reads import Get
from crmhub.adapter.testing.several_leads import at_once
from crmhub.adapter.testing.wire import WireTests


class TokenTests(WireTests):
    def _renewing(self, connection: Connection, crm: HttpCrm) -> tuple[list[Adapter], Get]:
        """Skip the test if the adapter uses no access tokens; the call is `get_contact`."""
        adapters = [connection.adapter()]
        ready = Get(self, crm, adapters[0])
        if not self._tokens(connection):
            pytest.skip(f"{self.adapter_class.title} renews no token in this set-up")
        adapters.append(connection.adapter())
        ready.call(adapters[1])
        return adapters, ready

    def _tokens(self, connection: Connection) -> set[str]:
        names = [setting.name for setting in self.adapter_class.settings if setting.kept]
        words = {word for name in names for word in connection.credentials[name].split()}
        return words & connection.secrets()

    def _expire(self, connection: Connection, proxy: FaultProxy) -> None:
        """Refuse later requests with a present token, as the CRM does if known, else with 401."""
        old = self._tokens(connection)
        own = [(status, body) for error, status, body in self.own_errors if error is Denied]
        status, body = own[0] if own else (401, {"message": "expired"})
        proxy.inject(
            says(status, body),
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

    def test_a_new_process_does_not_sign_in_again(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy
    ) -> None:
        """Test that a token or session is stored: no further adapter sends the credentials."""
        first = connection.adapter()
        ready = Get(self, crm, first)
        sent: list[set[str]] = []
        for adapter in (first, connection.adapter()):
            proxy.clear()
            assert ready.call(adapter) == ready.expected
            sent.append(self._sent_credentials(connection, proxy))
        assert sent[1] <= sent[0], "it sends credentials that the process before did not need"

    def _sent_credentials(self, connection: Connection, proxy: FaultProxy) -> set[str]:
        requests = [unquote_plus(request.quoted) for request in proxy.requests]
        return {
            name
            for name, secret in connection.credentials.items()
            if secret and any(secret in request for request in requests)
        }

    @pytest.mark.usefixtures("impatient")
    def test_an_error_of_the_token_endpoint_is_recognized(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy
    ) -> None:
        if not self.token_errors:
            pytest.skip("the test class names no token_errors")
        ready = Get(self, crm, connection.adapter())
        before = dict(connection.credentials)
        kept = [setting.name for setting in self.adapter_class.settings if setting.kept]
        for error, status, body in self.token_errors:
            connection.credentials = {**before, **dict.fromkeys(kept, "")}
            saved = len(connection.saved)
            proxy.inject(says(status, body), times=None)
            [raised] = self._errors(ready, connection.adapter())
            assert isinstance(raised, error), f"{raised!r} for {body}"
            assert issubclass(error, LacksRight) or not isinstance(raised, LacksRight)
            assert_readable(raised, connection)
            assert len(connection.saved) == saved, "it stores what is no token"
            if isinstance(raised, Throttled):
                assert len(proxy.requests) == 1, "it asks again at once"
