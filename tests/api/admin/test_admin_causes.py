"""/admin/v1/causes: why actions fail, a dry run, and what fixes all actions of one cause."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import flask
import pytest

from adapters.fakes.hubspot.fake import FakeHubSpot
from crmhub.hub import Hub
from tests.admin import Admin
from tests.api.refusals import refused
from tests.clients import Client
from tests.operators.test_failure_groups import fail_deals
from tests.queue.working import states, work_off

Json = Any


@pytest.fixture
def failed(app: flask.Flask) -> Iterator[Client]:
    """An account with two failed deals for one cause."""
    with FakeHubSpot() as crm:
        yield fail_deals(app, crm, "wrong", "gone")


def cause_of(admin: Admin, client: Client) -> Json:
    query = {"account": client.account.client_id}
    answer = admin.get("/causes", query_string=query)
    assert answer.status_code == 200, answer.text
    [cause] = answer.get_json()["results"]
    return cause


def test_a_cause_is_listed_forecast_and_fixed(admin: Admin, hub: Hub, failed: Client) -> None:
    cause = cause_of(admin, failed)
    assert (cause["helper"], cause["property"], cause["error"], cause["adapter"]) == (
        "createDeal",
        "dealstage",
        "Rejected",
        "hubspot",
    )
    assert (cause["message"], cause["actions"], cause["accounts"]) == (
        "dealstage: the CRM has no such stage",
        {"failed": 2},
        1,
    )
    account = {"account": failed.account.client_id}
    for when, found in (("24h", [cause]), ("..2000-01-01", [])):
        answer = admin.get("/causes", query_string=account | {"when": when})
        assert answer.get_json()["results"] == found
    refused(admin.get("/causes?when=soon"), 400, "when: must be today")
    body = account | {"to": "closedwon", "values": {"gone": "no such"}}
    told = admin.post(f"/causes/{cause['cause']}/preview", json=body).get_json()
    assert (told["succeed"], told["fail"]) == (1, {"dealstage: the CRM has no such stage": 1})
    body = account | {"how": "correct", "to": "closedwon"}
    fix = admin.post(f"/causes/{cause['cause']}/fix", json=body).get_json()
    assert (fix["state"], fix["total"], fix["changed"]) == ("done", 2, 2)
    work_off(hub, failed)
    fix = admin.get(f"/fixes/{fix['fixId']}").get_json()
    assert (fix["done"], fix["failed"], fix["waiting"]) == (2, 0, 0)
    assert states(hub, failed) == ["done"] * 3


def test_a_fix_says_what_it_needs(admin: Admin, failed: Client) -> None:
    path = f"/causes/{cause_of(admin, failed)['cause']}/fix"
    account = {"account": failed.account.client_id}
    for body, message in (
        ({"how": "correct"}, "choose a new value"),
        ({"how": "discard"}, "reason: say why"),
    ):
        refused(admin.post(path, json=account | body), 422, message)
    assert admin.post(path, json={"how": "wait"}).status_code == 400
    assert admin.get("/fixes/none").status_code == 404
    assert admin.post("/causes/none/preview", json={}).status_code == 404
