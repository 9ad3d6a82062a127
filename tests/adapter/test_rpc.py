"""The RPC example of docs/adapters.md passes the conformance tests."""

# ruff: noqa: RUF012 (class attributes as an author would write them)

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from crmhub.adapter import Denied, LacksRight, Throttled
from crmhub.adapter.testing import HttpAdapterTests
from crmhub.adapter.testing.proxy import Request
from tests.adapter.rpc_adapter import RosterAdapter
from tests.adapter.rpc_crm import PASSWORD, USER, Roster
from tests.adapter.rpc_liars import CAUGHT_BY

pytest_plugins = ["pytester"]


def error(code: str) -> dict[str, dict[str, str]]:
    return {"error": {"code": code, "message": "it is about {request}"}}


class Rpc(HttpAdapterTests):
    adapter_class = RosterAdapter
    settings = {"login_url": "{login}", "user": USER}
    credentials = {"password": PASSWORD}
    choice = ("status", "customer")
    read_only = "created"
    typed = {
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


@pytest.fixture
def _no_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading plugins takes most of an inner run."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.mark.usefixtures("_no_plugins")
def test_a_liar_is_caught(pytester: pytest.Pytester) -> None:
    lines = ["from tests.adapter import rpc_liars, test_rpc"]
    for liar in CAUGHT_BY:
        lines += [f"class Test{liar.__name__}(test_rpc.Rpc):"]
        lines += [f"    adapter_class = rpc_liars.{liar.__name__}"]
    path = pytester.makepyfile("\n".join(lines))
    names = [
        f"{path}::Test{liar.__name__}::{test}" for liar in CAUGHT_BY for test in CAUGHT_BY[liar]
    ]
    quiet = ("-q", "-p", "no:unraisableexception")
    passed, skipped, failed = pytester.inline_run(*quiet, *names).listoutcomes()
    assert [report.nodeid for report in (*passed, *skipped)] == []
    assert len(failed) == len(names)
