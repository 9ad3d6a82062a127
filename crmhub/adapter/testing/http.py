"""All conformance tests for an adapter that uses HTTP."""

from __future__ import annotations

from crmhub.adapter.testing.every_fault import EveryFaultTests
from crmhub.adapter.testing.hostile import HostileTests
from crmhub.adapter.testing.lost_answers import LostAnswerTests
from crmhub.adapter.testing.outgoing import OutgoingTests
from crmhub.adapter.testing.own_errors import OwnErrorTests
from crmhub.adapter.testing.tokens import TokenTests
from crmhub.adapter.testing.wrong_secrets import WrongSecretTests


class SignInTests(
    HostileTests, LostAnswerTests, OutgoingTests, TokenTests, WrongSecretTests, OwnErrorTests
):
    """All tests of `HttpAdapterTests` but those of every operation under every fault.

    For a second way to sign in to a CRM whose adapter passes `HttpAdapterTests` with the first.
    """


class HttpAdapterTests(EveryFaultTests, SignInTests):
    """All conformance tests for an adapter that uses HTTP.

    The fixture `crm` must yield a CRM with a `url` (`HttpCrm`).
    """
