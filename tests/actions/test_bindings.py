"""Whom a conversation is about: one row for a person, one person for a token."""

from __future__ import annotations

from typing import Any

import pytest

from crmhub.actions import bindings
from crmhub.actions.hub import Hub
from crmhub.errors import NotFound
from tests.clients import Client


def _bind(hub: Hub, client: Client, token: str, crm_id: str, **known: str) -> None:
    given = {"email": "", "phone": "", **known}
    bindings.bind(hub.database, client.account, token=token, crm_id=crm_id, **given)


def _rows(hub: Hub, client: Client) -> list[Any]:
    with hub.database.reading() as connection:
        return connection.rows(
            "select crm_id, contact_token, email, phone from binding"
            " where account_id = :id order by crm_id, contact_token",
            {"id": client.account.id},
        )


def test_a_token_leads_to_its_contact(hub: Hub, client: Client) -> None:
    _bind(hub, client, "t", "1")
    assert bindings.of_token(hub.database, client.account, "t") == "1"
    assert bindings.of_token(hub.database, client.account, "T") == ""


def test_binding_again_adds_no_row_and_forgets_nothing(hub: Hub, client: Client) -> None:
    _bind(hub, client, "t", "1", email="ann@x.org")
    _bind(hub, client, "t", "1", phone="+12025550100")
    assert _rows(hub, client) == [("1", "t", "ann@x.org", "+12025550100")]


def test_a_token_that_moves_leaves_its_old_contact_its_hub_id(hub: Hub, client: Client) -> None:
    _bind(hub, client, "t", "1")
    with hub.database.reading() as connection:
        hub_id = connection.scalar(
            "select hub_id from binding where account_id = :id", {"id": client.account.id}
        )
    _bind(hub, client, "t", "2")
    assert bindings.of_token(hub.database, client.account, "t") == "2"
    assert bindings.crm_id(hub.database, client.account, hub_id) == "1"
    _bind(hub, client, "t", "1")
    assert [row[:2] for row in _rows(hub, client)] == [("1", "t"), ("2", None)]


def test_a_contact_may_have_several_conversations(hub: Hub, client: Client) -> None:
    for token in ("t", "u"):
        _bind(hub, client, token, "1")
    assert [row[:2] for row in _rows(hub, client)] == [("1", "t"), ("1", "u")]


def test_the_crms_own_id_is_passed_on_and_a_made_up_hub_id_is_not(
    hub: Hub, client: Client, other: Client
) -> None:
    assert bindings.crm_id(hub.database, client.account, "17") == "17"
    _bind(hub, other, "t", "1")
    with hub.database.reading() as connection:
        of_other = connection.scalar(
            "select hub_id from binding where account_id = :id", {"id": other.account.id}
        )
    for hub_id in ("hub-1", "hub-", of_other):
        with pytest.raises(NotFound):
            bindings.crm_id(hub.database, client.account, hub_id)


def test_the_last_chat_is_the_newest_of_all_conversations(hub: Hub, client: Client) -> None:
    assert bindings.last_chat(hub.database, client.account, "1") == 0
    _bind(hub, client, "t", "1")
    first = bindings.last_chat(hub.database, client.account, "1")
    _bind(hub, client, "u", "1")
    assert bindings.last_chat(hub.database, client.account, "1") >= first > 0


def test_a_chat_of_a_contact_without_a_conversation_is_noted(hub: Hub, client: Client) -> None:
    bindings.chatted(hub.database, client.account, "1")
    assert bindings.last_chat(hub.database, client.account, "1") > 0
    assert _rows(hub, client) == [("1", None, None, None)]
