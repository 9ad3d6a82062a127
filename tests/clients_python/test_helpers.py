"""The webhook helpers through the client, of a served hub."""

from __future__ import annotations

from typing import Any

import pytest

from crmhub_client import Hub, NotFoundError, SemanticError, UnauthorizedError
from tests.cli.conftest import CommandLine
from tests.clients_python.callers import Caller, Network

pytestmark = pytest.mark.process


@pytest.fixture
def ids(account: dict[str, Any]) -> dict[str, str]:
    """The webhook ids of the account, as `hub.helpers` takes them."""
    return {"generated_id": account["generatedId"], "portal_id": account["portalId"]}


def test_a_conversation_is_held(caller: Caller, hub: Hub, ids: dict[str, str]) -> None:
    caller.network = Network("lost", "503")
    lead = caller.call(
        lambda hub: hub.helpers(**ids).create_lead("c-1", "Ada Lovelace", "ada@example.com")
    )
    assert lead.status in ("created", "queued")
    told = caller.call(
        lambda hub: hub.helpers(**ids).set_properties("c-1", {"city": "London", "shoe_size": 7})
    )
    assert told.contact_id == lead.contact_id
    got = caller.call(
        lambda hub: hub.helpers(**ids).get_properties("c-1", ["firstname", "reason", "nope"])
    )
    assert got.properties == {"firstname": "Ada", "reason": "", "nope": ""}
    assert got.missing == ("reason", "nope")
    deal = {"dealname": "First order", "amount": 12}
    made = caller.call(lambda hub: hub.helpers(**ids).create_deal(lead.contact_id, deal))
    ticket = caller.call(
        lambda hub: hub.helpers(**ids).create_ticket(lead.contact_id, {"subject": "Help"})
    )
    [contact] = hub.contacts.all(include=["associations"])
    assert contact.properties["city"] == "London"
    assert hub.deals.get(int(made.deal_id)).properties["amount"] == "12"
    assert hub.tickets.count() == 1
    assert hub.tickets.get(int(ticket.ticket_id)).properties["subject"] == "Help"


def test_a_conversation_leaves_a_note_a_task_and_an_owner(
    caller: Caller, installation: CommandLine, ids: dict[str, str]
) -> None:
    team = ("team", "set", caller.client_id, "Sales", "--member", "ana@x.org")
    installation(*team)
    said = [{"from": "Ada", "text": "Are you open?"}]
    lead = caller.call(
        lambda hub: hub.helpers(**ids).create_lead(
            "c-2", "Ada", "ada@x.org", note=said, team="Sales"
        )
    )
    assert (lead.status, lead.owner_id, lead.value) == ("created", "ana@x.org", 1)
    assert lead.note_id
    note = caller.call(lambda hub: hub.helpers(**ids).add_note("c-2", "Called.", author="Bob"))
    task = caller.call(
        lambda hub: hub.helpers(**ids).create_task(lead.contact_id, {"subject": "Call"})
    )
    owner = caller.call(lambda hub: hub.helpers(**ids).assign_owner(lead.contact_id))
    assert note.note_id
    assert task.task_id
    assert (owner.owner_id, owner.status) == ("ana@x.org", "unchanged")


def test_workflows_and_numbers_are_told(caller: Caller, ids: dict[str, str]) -> None:
    told = caller.call(lambda hub: hub.helpers(**ids).get_type("+12025550188"))
    assert (told.workflow_id, told.stale) == ("", False)
    assert told.reason
    for given in (ids, {}):
        drawn = caller.call(lambda hub, given=given: hub.helpers(**given).get_random_int(3, 5))
        assert drawn.value in (3, 4, 5)


def test_without_ids_the_key_names_the_account(caller: Caller, ids: dict[str, str]) -> None:
    caller.call(lambda hub: hub.helpers(**ids).create_lead("c-1", "Ada", "ada@example.com"))
    told = caller.call(lambda hub: hub.helpers().get_properties("c-1", ["email"]))
    assert told.properties == {"email": "ada@example.com"}
    sent = caller.network.requests
    assert ["service-apikey" in each.headers for each in sent] == [False, True]
    for helper, arguments in [("create_lead", ("c", "n", "e")), ("create_deal", ("1", {}))]:
        with pytest.raises(ValueError, match="_id="):
            caller.call(lambda hub, h=helper, a=arguments: getattr(hub.helpers(), h)(*a))


def test_a_secret_is_sent(
    caller: Caller, installation: CommandLine, account: dict[str, Any], ids: dict[str, str]
) -> None:
    installation("account", "set", caller.client_id, "require_secret=true")
    lead = ("c-1", "Ada", "ada@example.com")
    with pytest.raises(UnauthorizedError):
        caller.call(lambda hub: hub.helpers(**ids).create_lead(*lead))
    secret = account["webhookSecret"]
    told = caller.call(lambda hub: hub.helpers(secret=secret, **ids).create_lead(*lead))
    assert told.status in ("created", "queued")


@pytest.mark.parametrize("soft", ["false", "true"])
def test_hard_and_soft_errors_raise_alike(
    caller: Caller, installation: CommandLine, ids: dict[str, str], soft: str
) -> None:
    installation("account", "set", caller.client_id, f"soft_errors={soft}")
    with pytest.raises(SemanticError) as refused:
        caller.call(lambda hub: hub.helpers(**ids).create_lead("c-1", "", "ada@example.com"))
    assert (refused.value.status, refused.value.category) == (422, "SemanticError")
    assert "name" in refused.value.message
    with pytest.raises(NotFoundError):
        caller.call(lambda hub: hub.helpers(**ids).create_deal("12345", {"dealname": "D"}))
