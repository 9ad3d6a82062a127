"""The RPC example of docs/adapters.md passes the conformance tests."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from crmhub.adapter import Denied, LacksRight, Throttled
from crmhub.adapter.testing import HttpAdapterTests
from crmhub.adapter.testing.proxy import Request
from tests.adapter.rpc_adapter import RosterAdapter
from tests.adapter.rpc_crm import PASSWORD, USER, Roster


def error(code: str) -> dict[str, dict[str, str]]:
    return {"error": {"code": code, "message": "it is about {request}"}}


class Rpc(HttpAdapterTests):
    adapter_class = RosterAdapter
    settings = {"login_url": "{login}", "user": USER}  # noqa: RUF012
    credentials = {"password": PASSWORD}  # noqa: RUF012
    choice = ("status", "customer")
    read_only = "created"
    typed = {  # noqa: RUF012
        "enumeration": "status",
        "number": "score",
        "date": "birthday",
        "bool": "newsletter",
        "multi_enumeration": "interests",
    }
    breakdowns = ((200, error("Internal")),)
    own_errors = (
        (Denied, 200, error("SessionExpired")),
        (LacksRight, 401, error("MissingRight")),
        (Throttled, 200, error("Busy")),
        (Throttled, 200, error("OutOfCredits")),
    )
    token_errors = (
        (Denied, 200, error("AccessDenied")),
        (Throttled, 400, error("TooManyLogins")),
    )
    at_once = 4
    patience = 5.0

    def procedure(self, request: Request) -> object:
        return json.loads(request.body).get("method")

    @pytest.fixture
    def crm(self) -> Iterator[Roster]:
        with Roster() as crm:
            yield crm


class TestRoster(Rpc):
    """All of the tests."""
