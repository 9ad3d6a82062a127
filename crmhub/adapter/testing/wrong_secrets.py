from __future__ import annotations

import re

import pytest

from crmhub.adapter import AdapterError, BadConfig, Denied, LacksRight, Throttled
from crmhub.adapter.testing.base import assert_readable
from crmhub.adapter.testing.connection import Connection, SharedTexts
from crmhub.adapter.testing.crm import HttpCrm
from crmhub.adapter.testing.proxy import FaultProxy
from crmhub.adapter.testing.wire import WireTests


class WrongSecretTests(WireTests):
    @pytest.mark.usefixtures("impatient")
    def test_a_wrong_secret_is_told_from_a_missing_right(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy
    ) -> None:
        """Test that each operation raises Denied or BadConfig, and never LacksRight.

        Some CRMs answer 403, 400 or 200 to a wrong secret. All calls must wait until it is
        corrected: after LacksRight only some would, and after Rejected they would be lost.
        """
        lies: list[str] = []
        operations = self._operations(connection, crm, proxy)
        kept = [setting.name for setting in self.adapter_class.settings if setting.kept]
        for name, wrong in self._wrong(connection).items():
            denied = False
            for operation in operations:
                ready = self._ready(connection, crm, proxy, operation)
                right = dict(connection.credentials)
                before, saved = ready.state(), len(connection.saved)
                connection.credentials = {**right, **dict.fromkeys(kept, ""), name: wrong}
                connection.shared = SharedTexts()
                said: list[object] = []
                errors: list[AdapterError] = []
                try:
                    errors = self._errors(ready, connection.adapter())
                except AssertionError as exc:
                    said.append(exc)
                connection.credentials = right
                for error in errors:
                    assert_readable(error, connection)
                    refused = isinstance(error, Denied | BadConfig)
                    # Some CRMs answer nobody after several wrong passwords.
                    throttled = denied and isinstance(error, Throttled)
                    if isinstance(error, LacksRight) or not (refused or throttled):
                        said.append(repr(error))
                    denied |= refused
                called = "; ".join(proxy.shown(last=1))
                lies += [f"{operation.name} with a wrong {name}: {one} ({called})" for one in said]
                assert ready.state() == before
                assert len(connection.saved) == saved, "it stores what is no token"
        assert not lies, "\n".join(["it must be Denied or BadConfig:", *lies])

    def _wrong(self, connection: Connection) -> dict[str, str]:
        wrong = {
            name: _another(connection.credentials[name])
            for name, secret in self.credentials.items()
            # A secret that ends with the address of the fake has no part that could be wrong.
            if not re.search(r"\{\w+\}/?$", secret)
        }
        wrong.update(self.wrong_secrets)
        wrong = {name: text for name, text in wrong.items() if text}
        if not wrong:
            pytest.skip("the test class signs in with no secret")
        return wrong


def _another(secret: str) -> str:
    """Return another secret of the same form: its last word begins with another character."""
    return re.sub(
        r"([^\W_])([^\W_]*[\W_]*)\Z",
        lambda word: f"{'1' if word[1] == '0' else '0'}{word[2]}",
        secret,
    )
