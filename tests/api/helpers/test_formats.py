"""The forms of answers, which an account or a call chooses: flat, for Chatfuel, for Manychat."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import pytest

from crmhub.accounts.switches import Switches
from crmhub.api.helpers.answers import FORMATS
from crmhub.hub import Hub
from crmhub.operators.accounts import change_account
from tests.api.refusals import refused
from tests.clients import TESTS, Client

# What calls look like; what they store is tested on each database by test_helpers_create_lead.py.
pytestmark = pytest.mark.databases("sqlite")

LEAD = {"contactToken": "chat-17", "name": "Ada Lovelace", "email": "ada@example.com"}
CREATE, READ = "/chatbot/createLead/{generated}", "/chatbot/getProperties/{generated}"


def choose(client: Client, hub: Hub, **values: str) -> None:
    change_account.change(hub, client.account.client_id, values, by=TESTS)


def fields(answer: Any) -> dict[str, Any]:
    """Return what Manychat would store; None clears a field."""
    assert answer.json["version"] == "v2"
    assert list(answer.json["content"]) == ["messages", "actions", "quick_replies"]
    actions = answer.json["content"]["actions"]
    assert len(actions) <= 5
    stored = {}
    for each in actions:
        name = {True: "set_field_value", False: "unset_field_value"}["value" in each]
        assert each["action"] == name
        stored[each["field_name"]] = each.get("value")
    return stored


def test_every_form_of_the_switch_is_known() -> None:
    assert get_args(get_type_hints(Switches)["answer_format"]) == tuple(FORMATS)


def test_the_account_chooses_the_form_and_a_call_another(client: Client, hub: Hub) -> None:
    assert client.helper(CREATE, LEAD).json["status"] == "created"
    choose(client, hub, answer_format="chatfuel")
    assert list(client.helper(CREATE, LEAD).json) == ["set_attributes"]
    assert client.helper(f"{CREATE}?format=flat", LEAD).json["status"] == "unchanged"
    assert "contactId" in fields(client.helper(f"{CREATE}?format=manychat", LEAD))
    choose(client, hub, answer_format="manychat")
    assert fields(client.helper(CREATE, LEAD))["status"] == "unchanged"
    assert fields(client.helper("/crm-api-interface/getRandomInt/{portal}", {"min": 1, "max": 1}))
    choose(client, hub, answer_format="flat")
    assert client.helper(CREATE, LEAD).json["status"] == "unchanged"


def test_manychat_stores_what_a_helper_is_called_for(client: Client) -> None:
    lead = client.helper(f"{CREATE}?format=manychat", LEAD)
    stored = fields(lead)
    assert list(stored) == ["contactId", "status", "message", "refused", "actionId"]
    assert stored["status"] == "created"
    assert stored["refused"] is None
    deal = {"contactId": stored["contactId"], "properties": {"dealname": "A first order"}}
    made = client.helper("/crm-api-interface/createDeal/{portal}?format=manychat", deal)
    assert list(fields(made))[:3] == ["dealId", "contactId", "status"]
    asked = {"contactToken": "chat-17", "props": ["firstname", "city", "email"]}
    read = fields(client.helper(f"{READ}?format=manychat", asked))
    assert list(read) == ["firstname", "city", "email", "status", "message"]
    assert (read["firstname"], read["city"]) == ("Ada", None)
    drawn = client.helper("/crm-api-interface/getRandomInt?format=manychat", {"min": 7, "max": 7})
    assert (fields(drawn)["value"], fields(drawn)["text"]) == (7, "7")


def test_a_call_may_name_the_fields_of_manychat(client: Client) -> None:
    path = f"{CREATE}?format=manychat&fields="
    assert list(fields(client.helper(f"{path}contactId, status", LEAD))) == ["contactId", "status"]
    assert fields(client.helper(f"{path}nothing,properties", LEAD)) == {}
    assert "at most 5" in refused(client.helper(f"{path}a,b,c,d,e,f", LEAD), 400)
    six = client.helper(f"{CREATE}?fields=a,b,c,d,e,f", LEAD)
    assert six.json["status"] == "unchanged"


def test_an_answer_for_manychat_names_the_channel_of_the_bot(client: Client, hub: Hub) -> None:
    for channel in ("instagram", "whatsapp", "telegram", "Instagram"):
        answer = client.helper(f"{CREATE}?format=manychat&channel={channel}", LEAD)
        content = answer.json["content"]
        assert content["type"] == channel.lower()
        assert ("quick_replies" in content) == (content["type"] == "instagram")
        assert content["actions"][0]["field_name"] == "contactId"
    for query in ("", "&channel=", "&channel=messenger"):
        answer = client.helper(f"{CREATE}?format=manychat{query}", LEAD)
        assert "type" not in answer.json["content"]
    unknown = client.helper(f"{CREATE}?format=manychat&channel=fax", LEAD)
    assert "messenger, instagram, whatsapp, telegram" in refused(unknown, 400)
    assert client.helper(f"{CREATE}?channel=fax", LEAD).json["status"] == "unchanged"
    choose(client, hub, answer_format="manychat")
    answer = client.helper(f"{CREATE}?channel=whatsapp", LEAD)
    assert answer.json["content"]["type"] == "whatsapp"
    drawn = "/crm-api-interface/getRandomInt?format=manychat&channel=telegram"
    assert client.helper(drawn, {"min": 1, "max": 1}).json["content"]["type"] == "telegram"


@pytest.mark.parametrize("name", FORMATS)
def test_a_hard_error_has_the_same_body_in_each_form(client: Client, hub: Hub, name: str) -> None:
    choose(client, hub, answer_format=name)
    assert "contactToken" in refused(client.helper(CREATE, {}), 400)
    refused(client.helper(f"{CREATE}?format=xml", LEAD), 400)


def test_a_soft_error_has_the_form_of_an_answer(client: Client, hub: Hub) -> None:
    choose(client, hub, soft_errors="true", answer_format="chatfuel")
    failed = client.helper(CREATE, {})
    assert failed.status_code == 200
    attributes = failed.json["set_attributes"]
    assert (attributes["status"], attributes["contactId"]) == ("error", "")
    assert attributes["category"] == "BadRequestError"
    stored = fields(client.helper(f"{CREATE}?format=manychat", {}))
    assert list(stored) == ["contactId", "status", "message", "category", "refused"]
    assert (stored["contactId"], stored["status"]) == (None, "error")
    unknown = client.helper(f"{CREATE}?format=xml", LEAD)
    assert "format" in unknown.json["set_attributes"]["message"]
    many = client.helper(f"{CREATE}?format=manychat&fields=a,b,c,d,e,f", LEAD)
    assert len(many.json["content"]["actions"]) <= 5


def test_a_repeated_call_has_the_form_of_its_repetition(client: Client) -> None:
    headers = {"Idempotency-Key": "k"}
    first = client.helper(CREATE, LEAD, headers=headers)
    again = client.helper(f"{CREATE}?format=manychat", LEAD, headers=headers)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert fields(again)["contactId"] == first.json["contactId"]


@pytest.mark.parametrize("value", ["Chatfuel", "xml", ""])
def test_another_form_is_refused(client: Client, hub: Hub, value: str) -> None:
    with pytest.raises(
        Exception, match=r"answer_format: .* is not one of flat, chatfuel, manychat"
    ):
        choose(client, hub, answer_format=value)
