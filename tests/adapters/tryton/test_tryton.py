"""Tryton's adapter owes what every adapter owes, on a real Tryton 8.2."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from adapters.tryton import TrytonAdapter
from crmhub.adapter import Denied, LacksRight
from crmhub.adapter.testing import Crm, FaultProxy, HttpAdapterTests
from crmhub.adapter.testing.proxy import Request
from tests.adapters.tryton.tryton_crm import SECRETS, SETTINGS, TrytonCrm

_FORBIDDEN = 'You are not allowed to access "Party". {request}'
_SINGLE_LINE = "Tryton refuses tabs and line breaks in a name; the adapter writes a blank"
_IDS_ONLY = "the only numbers of a party are ids of other records"


class TestTryton(HttpAdapterTests):
    adapter_class = TrytonAdapter
    settings = SETTINGS
    credentials = SECRETS
    read_only = "code_alnum"
    owner = "hubspot_owner_id"
    # The employee of the hub's user, whom Tryton fills in.
    default_owner = "1"
    typed = {"phone": "phone", "url": "website"}  # noqa: RUF012
    breakdowns = ((200, {"id": 1, "error": ["KeyError: {request}", ""]}),)
    own_errors = (
        (LacksRight, 200, {"id": 1, "error": ["UserError", [_FORBIDDEN, "Within groups:", None]]}),
    )
    token_errors = (
        (Denied, 200, {"id": 1, "error": ["LoginException", ["code", "{request}", "char"]]}),
    )
    xfail = {  # noqa: RUF012
        "test_a_value_comes_back_as_it_was_written[blanks inside]": _SINGLE_LINE,
        "test_a_line_break_comes_back_as_it_was_written": _SINGLE_LINE,
        "test_each_type_that_the_crm_writes_in_a_form_of_its_own_is_tested": _IDS_ONLY,
    }

    @pytest.fixture
    def crm(self, tryton_crm: TrytonCrm) -> TrytonCrm:
        return tryton_crm

    @pytest.fixture
    def urls(self, proxy: FaultProxy, crm: TrytonCrm) -> Mapping[str, str]:
        self.settings = {**SETTINGS, "database": crm.tryton.database}
        return proxy.urls

    def empty(self, crm: Crm) -> None:
        assert isinstance(crm, TrytonCrm)
        crm.empty()

    def procedure(self, request: Request) -> object:
        return json.loads(request.body).get("method")
