from __future__ import annotations

from crmhub.adapter.testing.behaviour import AdapterTests
from crmhub.adapter.testing.every_fault import EveryFaultTests
from crmhub.adapter.testing.hostile import HostileTests
from crmhub.adapter.testing.lost_answers import LostAnswerTests
from crmhub.adapter.testing.outgoing import OutgoingTests
from crmhub.adapter.testing.own_errors import OwnErrorTests
from crmhub.adapter.testing.telling import CheckTests
from crmhub.adapter.testing.tokens import TokenTests
from crmhub.adapter.testing.wrong_secrets import WrongSecretTests


class SignInTests(CheckTests, TokenTests, WrongSecretTests, OwnErrorTests):
    """Tests of the connection check, tokens, wrong secrets and the CRM's own errors.

    For a second way to sign in to a CRM whose adapter passes `HttpAdapterTests` with the first.
    """


class HttpAdapterTests(
    AdapterTests, EveryFaultTests, HostileTests, LostAnswerTests, OutgoingTests, SignInTests
):
    """All conformance tests for an adapter that uses HTTP.

    The fixture `crm` must yield a CRM with a `url` (`HttpCrm`).
    """
