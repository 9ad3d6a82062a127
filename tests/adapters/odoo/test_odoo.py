"""Odoo's adapter owes what every adapter owes, over both of Odoo's interfaces."""

# ruff: noqa: RUF012 (class attributes as an author would write them)

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from adapters.odoo import OdooAdapter
from crmhub.adapter import Denied, LacksRight, Unavailable
from crmhub.adapter.testing import HttpAdapterTests, SignInTests
from crmhub.adapter.testing.proxy import Request
from tests.adapters.odoo.odoo_crm import JSON_2, JSON_RPC, KEY, OdooCrm
from tests.depth import ALL


def told(name: str, message: str = "it is about {request}") -> dict[str, object]:
    return {"name": name, "message": message, "arguments": [], "debug": "Traceback: {request}"}


def error(name: str, message: str = "it is about {request}") -> dict[str, object]:
    data = {"code": 200, "message": "Odoo Server Error", "data": told(name, message)}
    return {"jsonrpc": "2.0", "id": 1, "error": data}


_Second: Any = HttpAdapterTests if ALL else SignInTests
_NO_BLANKS = {
    "test_false_and_zero_are_values": "Odoo stores 0 and false for no value; the adapter reads them"
    " as blank"
}


class _OnOdoo:
    adapter_class = OdooAdapter
    credentials = KEY
    choice = ("x_status", "customer")
    read_only = "create_date"
    owner = "hubspot_owner_id"
    default_owner = "2"
    every_request = ALL
    at_once = 4
    typed = {
        "text": "comment",
        "number": "x_score",
        "currency": "x_budget",
        "date": "x_birthday",
        "datetime": "x_visited",
        "bool": "x_newsletter",
        "enumeration": "x_status",
    }


class TestOdooByJsonRpc(_OnOdoo, _Second):  # type: ignore[misc]
    xfail = _NO_BLANKS if ALL else {}
    settings = {"base_url": "{url}", **JSON_RPC, "tickets": "helpdesk.ticket"}
    own_errors = (
        (Denied, 200, error("odoo.exceptions.AccessDenied")),
        (LacksRight, 200, error("odoo.exceptions.AccessError")),
        (Unavailable, 200, error("psycopg2.errors.SerializationFailure")),
        (Unavailable, 200, error("builtins.ZeroDivisionError")),
    )
    token_errors = (
        (Denied, 200, {"jsonrpc": "2.0", "id": 1, "result": False}),
        (Unavailable, 200, error("psycopg2.OperationalError")),
    )

    def procedure(self, request: Request) -> object:
        return str(json.loads(request.body)["params"]["args"][3:5])

    @pytest.fixture
    def crm(self) -> Iterator[OdooCrm]:
        with OdooCrm(version=17) as crm:
            yield crm


class TestOdooByJson2(_OnOdoo, HttpAdapterTests):
    xfail = _NO_BLANKS
    settings = {"base_url": "{url}", **JSON_2, "tickets": "project.task", "project": "1"}
    own_errors = (
        (Denied, 401, told("werkzeug.exceptions.Unauthorized", "Invalid apikey {request}")),
        (LacksRight, 403, told("odoo.exceptions.AccessError")),
        (Unavailable, 409, told("odoo.exceptions.LockError")),
        (Unavailable, 500, told("builtins.ZeroDivisionError")),
    )

    @pytest.fixture
    def crm(self) -> Iterator[OdooCrm]:
        with OdooCrm(version=19, tickets="project.task") as crm:
            yield crm
