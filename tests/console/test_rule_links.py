"""From what the CRM refused to the rule of the field map that would fix it, and back."""

from __future__ import annotations

import html
import json
import re

import pytest

from crmhub.operators.crm import field_map_reading, map_fields
from tests.clients import TESTS
from tests.console.past import HOUR, put
from tests.console.test_fieldmap import fields
from tests.consoles import text_of

pytestmark = pytest.mark.databases("sqlite")

MESSAGE = "stage: there is no such stage; amount: is not a number; email: is no address; 3 more: x"


def failed(hub, account, *, kind="createDeal", outcome="Rejected", state="dead", message=MESSAGE):
    (action,) = put(hub, account, (2 * HOUR, HOUR, state), reason=message)
    request = {"contact_id": "1", "properties": {"stage": "won", "2nd; name": "x"}}
    values = (account.id, action, 1, 0, 5, outcome, message, "")
    columns = ("account_id", "action_id", "number", "began_at", "ms", "outcome", "message")
    types = dict.fromkeys((*columns, "correlation_id"), "text")

    def write(tx):
        tx.insert("action_try", types, [values])
        tx.run(
            "update action set kind = :kind, request = :request"
            " where account_id = :account and id = :id",
            {"kind": kind, "request": json.dumps(request), "account": account.id, "id": action},
        )

    hub.database.transact(write)
    return action


def links(page):
    found = re.findall(r'href="/console(/accounts/[^"]*field-map\?[^"]*)"', page.text)
    return [html.unescape(link) for link in found]


def test_a_failed_action_leads_to_the_rule_of_each_refused_property(hub, client, operator):
    rules = field_map_reading.read(
        {"deals": {"stage": {"values": {"won": "nonesuch"}}, "x": "amount"}}
    )
    map_fields.set_field_map(hub, client.account.client_id, rules, by=TESTS, test=False)
    action = failed(hub, client.account)
    page = operator.get(f"/activity/{action}")
    assert "Fix in the field map: stage , amount , email" in text_of(page)
    stage, amount, _ = links(page)
    shown = operator.get(stage)
    line = r'class="rule" open>\s*<summary>\s*<span class="rule-name"><code>stage'
    assert re.search(line, shown.text)
    assert 'id="f-deals.0.to"' in shown.text.partition(" autofocus")[0]
    assert "stage: there is no such stage" in text_of(shown)
    assert len(re.findall(r'<details class="rule" open', shown.text)) == 1 + 3, "and the templates"
    new = operator.get(amount)
    assert fields(new)["deals.2.name"] == "amount"


def test_a_saved_rule_leads_back_to_the_action(hub, client, operator):
    action = failed(hub, client.account)
    page = operator.get(links(operator.get(f"/activity/{action}"))[0])
    form = {**fields(page), "deals.0.to": "dealstage", "unchecked": "true"}
    path = f"/accounts/{client.account.client_id}/field-map"
    answer = operator.send(path, form, at=path)
    assert answer.headers["Location"] == f"/console/activity/{action}"
    assert "Retry the action now." in text_of(operator.get(f"/activity/{action}"))


@pytest.mark.parametrize(
    "how",
    [
        {"outcome": "Denied", "message": "HubSpot: refuses"},
        {"message": "the values are refused as a whole"},
        {"kind": "setProperties", "message": "email: is no address; phone: too short"},
    ],
)
def test_what_no_rule_can_fix_leads_nowhere(hub, client, operator, how):
    action = failed(hub, client.account, **how)
    assert "Fix in the field map" not in text_of(operator.get(f"/activity/{action}"))


def test_an_action_of_another_account_is_not_shown(hub, client, other, operator):
    action = failed(hub, other.account)
    path = f"/accounts/{client.account.client_id}/field-map?kind=deals&name=x&action={action}"
    assert action not in operator.get(path).text


@pytest.mark.parametrize(
    "query", ["kind=leads&name=x", "kind=deals", "name=%00&action=%00", "action=x"]
)
def test_an_address_that_names_no_rule_shows_the_page(client, operator, query):
    path = f"/accounts/{client.account.client_id}/field-map?{query}"
    assert operator.get(path).status_code == 200
