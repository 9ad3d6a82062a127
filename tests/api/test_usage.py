"""What the plan allows and what is used: `GET /usage`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import flask
import pytest

from crmhub.accounts import keys
from crmhub.hub import Hub
from crmhub.properties.kinds import DEALS
from tests.api.helpers.helper_calls import switch
from tests.clients import Client, open_client


def test_usage_counts_live_records_against_the_plans_quotas(app: flask.Flask) -> None:
    client = open_client(app, plan="free")
    for resource in ("contacts", "contacts", "deals", "tickets"):
        client.make(resource)
    client.delete(f"/contacts/{client.make()}")
    answer = client.get("/usage")
    assert answer.status_code == 200
    assert answer.json == {
        "plan": "free",
        "rateLimit": "100/10s",
        "keyRateLimit": None,
        "resources": {
            "contacts": {"used": 2, "limit": 1000},
            "deals": {"used": 1, "limit": 100},
            "companies": {"used": 0, "limit": 100},
            "tickets": {"used": 1, "limit": 100},
        },
    }


@pytest.mark.databases("sqlite", "postgresql")
def test_a_quota_counts_what_was_created_while_there_was_none(
    app: flask.Flask, client: Client
) -> None:
    hub: Hub = app.extensions["crmhub"]
    # Each thread counts in a row of its own while there is no quota.
    with ThreadPoolExecutor(4) as pool:
        made = [each.result() for each in [pool.submit(client.make, "deals") for _ in range(99)]]
    switch(app, client, plan="free")
    assert client.post("/deals", {"properties": {"dealname": "the last"}}).status_code == 201
    refused = client.post("/deals", {"properties": {"dealname": "one more"}})
    assert refused.status_code == 402
    assert "100 are stored" in refused.json["message"]  # type: ignore[index]
    client.delete(f"/deals/{made[0]}")
    assert client.post("/deals", {"properties": {"dealname": "again"}}).status_code == 201
    assert hub.records.counts(client.account)[DEALS.code] == 100


def test_a_plan_without_limits_says_so(client: Client) -> None:
    usage = client.get("/usage").json
    assert (usage["plan"], usage["rateLimit"]) == ("unlimited", None)
    assert [each["limit"] for each in usage["resources"].values()] == [None] * 4


@pytest.mark.parametrize("scope", ["tickets:read", "deals:write"])
def test_any_key_of_the_account_may_read_it(hub: Hub, client: Client, scope: str) -> None:
    account_id = client.account.id
    key = hub.database.transact(lambda tx: keys.create(tx, account_id, scopes=[scope]))
    headers = {"service-apikey": key.api_key}
    assert client.get("/usage", headers=headers).status_code == 200
    assert client.get("/usage", headers={"service-apikey": "x"}).status_code == 401
