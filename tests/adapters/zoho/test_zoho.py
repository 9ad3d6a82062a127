"""Zoho's adapter owes what every adapter owes."""

# ruff: noqa: RUF012 (class attributes as an author would write them)

from __future__ import annotations

from collections.abc import Iterator

import pytest

from adapters.zoho import ZohoAdapter
from crmhub.adapter import BadConfig, Denied, LacksRight, Throttled, Unavailable
from crmhub.adapter.testing import HttpAdapterTests
from tests.adapters.zoho.zoho_crm import SECRETS, ZohoCrm
from tests.depth import ALL

NONE_IS_204 = "Zoho answers a query that finds nothing with an empty 204"


def error(code: str) -> dict[str, object]:
    return {"code": code, "details": {}, "message": "about {request}", "status": "error"}


class TestZoho(HttpAdapterTests):
    adapter_class = ZohoAdapter
    settings = {"accounts_url": "{url}", "mark_field": "crmhub_mark"}
    credentials = SECRETS
    choice = ("Status", "customer")
    read_only = "Created_Time"
    owner = "hubspot_owner_id"
    default_owner = "5725767000000000001"
    every_request = ALL
    wrong_secrets = {"webhook_token": ""}
    typed = {
        "enumeration": "Status",
        "multi_enumeration": "Interests",
        "number": "Score",
        "currency": "Revenue",
        "bool": "Email_Opt_Out",
        "date": "Date_of_Birth",
        "datetime": "Last_Visit",
        "text": "Description",
        "url": "Homepage",
        "phone": "mobilephone",
    }
    breakdowns = ((200, {"data": [error("INTERNAL_ERROR")]}),)
    own_errors = (
        (Denied, 401, error("INVALID_TOKEN")),
        (Denied, 401, error("AUTHENTICATION_FAILURE")),
        (LacksRight, 401, error("OAUTH_SCOPE_MISMATCH")),
        (LacksRight, 401, {"data": [error("OAUTH_SCOPE_MISMATCH")]}),
        (LacksRight, 403, error("NO_PERMISSION")),
        (LacksRight, 400, {"data": [error("AUTHORIZATION_FAILED")]}),
        (BadConfig, 404, error("INVALID_URL_PATTERN")),
        (Throttled, 429, error("TOO_MANY_REQUESTS")),
        (Throttled, 429, error("RATE_LIMIT_EXCEEDED")),
    )
    token_errors = (
        (Denied, 200, {"error": "invalid_client", "error_description": "{request}"}),
        (Denied, 200, {"error": "invalid_code"}),
        (Unavailable, 200, {"error": "server_error"}),
        (
            Throttled,
            400,
            {
                "error": "Access Denied",
                "error_description": "You have made too many requests: {request}",
                "status": "failure",
            },
        ),
    )
    at_once = 10
    paging = r"(?: limit |per_page=)([0-9]+)"
    xfail = {"test_calls_that_meet_a_fault_tell_the_truth[204]": NONE_IS_204}

    @pytest.fixture
    def crm(self) -> Iterator[ZohoCrm]:
        with ZohoCrm(mark="crmhub_mark") as crm:
            yield crm
