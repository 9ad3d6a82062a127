"""Whom a conversation is about: one acquaintance for each, one person behind several."""

from __future__ import annotations

from typing import Any

import pytest

from crmhub.errors import NotFound
from crmhub.hub import Hub
from crmhub.identity import bindings, chats, resolution
from crmhub.identity.bindings import Binding
from tests.clients import Client
from tests.queue.working import change, rows


def _meet(
    hub: Hub, client: Client, token: str, crm_id: str = "", email: str = "", phone: str = ""
) -> Binding:
    """Let a conversation be about somebody, who is this contact of the CRM."""

    def work(tx: Any) -> Binding:
        met = resolution.resolve_binding(tx, client.account, token=token, email=email, phone=phone)
        if crm_id:
            resolution.set_contact(tx, client.account, met.binding.hub_id, crm_id=crm_id, values={})
        return met.binding

    return hub.database.transact(work)


def _of_token(hub: Hub, client: Client, token: str) -> Binding | None:
    with hub.database.reading() as connection:
        return bindings.of_token(connection, client.account, token)


def _of(hub: Hub, client: Client, contact_id: str) -> Binding | None:
    with hub.database.reading() as connection:
        return bindings.of_contact(connection, client.account, contact_id)


def _last_chat(hub: Hub, client: Client, crm_id: str) -> int:
    with hub.database.reading() as connection:
        return chats.last_chat(connection, client.account, crm_id)


def _rows(hub: Hub, client: Client) -> list[Any]:
    with hub.database.reading() as connection:
        return connection.rows(
            "select crm_id, contact_token, email, phone from binding"
            " where account_id = :id order by crm_id, contact_token",
            {"id": client.account.id},
        )


def test_a_token_leads_to_its_contact(hub: Hub, client: Client) -> None:
    _meet(hub, client, "t", "1")
    bound = _of_token(hub, client, "t")
    assert bound is not None
    assert bound.crm_id == "1"
    assert _of_token(hub, client, "T") is None


def test_meeting_again_adds_no_row_and_forgets_nothing(hub: Hub, client: Client) -> None:
    _meet(hub, client, "t", "1", email="ann@x.org")
    _meet(hub, client, "t", "1", phone="+12025550100")
    assert _rows(hub, client) == [("1", "t", "ann@x.org", "+12025550100")]


def test_a_token_that_moves_leaves_its_old_contact_its_hub_id(hub: Hub, client: Client) -> None:
    ann = _meet(hub, client, "t", "1", email="ann@x.org")
    ben = _meet(hub, client, "t", "2", email="ben@x.org")
    bound = _of_token(hub, client, "t")
    assert (bound and bound.hub_id) == ben.hub_id != ann.hub_id
    old = _of(hub, client, ann.hub_id)
    assert old is not None
    assert (old.crm_id, old.free) == ("1", True)
    assert _meet(hub, client, "t", "1", email="ann@x.org").hub_id == ann.hub_id
    assert [row[:2] for row in _rows(hub, client)] == [("1", "t"), ("2", None)]


def test_a_contact_may_have_several_conversations(hub: Hub, client: Client) -> None:
    persons = {_meet(hub, client, token, "1", email="ann@x.org").person for token in ("t", "u")}
    assert len(persons) == 1
    assert [row[:2] for row in _rows(hub, client)] == [("1", "t"), ("1", "u")]


def test_an_unknown_phone_or_email_is_another_person(hub: Hub, client: Client) -> None:
    by_phone = _meet(hub, client, "t", phone="+12025550100")
    assert _meet(hub, client, "u", phone="+12025550100").person == by_phone.person
    assert _meet(hub, client, "v", phone="+12025550199").person != by_phone.person
    assert _meet(hub, client, "w", email="ann@x.org").person != by_phone.person


def test_who_turn_out_to_be_one_contact_are_one_person(hub: Hub, client: Client) -> None:
    _meet(hub, client, "t", "1", email="ann@x.org")
    _meet(hub, client, "u", "1", email="ann@work.org")
    persons = {_of_token(hub, client, token).person for token in ("t", "u")}  # type: ignore[union-attr]
    assert len(persons) == 1


@pytest.mark.parametrize(
    ("email", "phone", "stored", "settled"),
    [
        ("ann@x.org", "", {"email": "ann@x.org"}, True),
        ("ann@x.org", "", {"phone": "+12025550100"}, False),
        ("bea@x.org", "+12025550100", {"phone": "+12025550100", "email": "ann@x.org"}, False),
        ("", "+12025550100", {"phone": "+12025550100", "email": "ann@x.org"}, False),
        ("", "+12025550100", {"phone": "+12025550100"}, False),
    ],
)
def test_whose_email_a_lead_has_stored_is_its_contact_too(
    hub: Hub, client: Client, email: str, phone: str, stored: dict[str, str], settled: bool
) -> None:
    bound = _meet(hub, client, "t", "1", email="ann@x.org", phone="+12025550100")
    _meet(hub, client, "u", email=email, phone=phone)
    # As it was before the other one was known to the CRM.
    change(hub, client, "crm_id = null where contact_token = 'u'", "binding")
    _settle_others(hub, client, bound, stored)
    assert [row[:2] for row in _rows(hub, client) if row[0]] == [
        ("1", token) for token in ("t", "u") if token == "t" or settled
    ]


def test_whose_phone_alone_a_lead_has_stored_is_its_contact_too(hub: Hub, client: Client) -> None:
    bound = _meet(hub, client, "t", phone="+12025550100")
    _meet(hub, client, "u", phone="+12025550100")
    _settle_others(hub, client, bound, {"phone": "+12025550100"})
    (of_other,) = [row[:2] for row in _rows(hub, client) if row[0]]
    assert of_other == ("1", "u")


def _settle_others(hub: Hub, client: Client, bound: Binding, stored: dict[str, str]) -> None:
    hub.database.transact(
        lambda tx: resolution.set_contact_of_others(
            tx, client.account, bound.hub_id, crm_id="1", values=stored
        )
    )


def test_the_crms_own_id_is_passed_on_and_a_made_up_hub_id_is_not(
    hub: Hub, client: Client, other: Client
) -> None:
    assert _of(hub, client, "17") is None
    of_other = _meet(hub, other, "t", "1").hub_id
    for hub_id in ("hub-1", "hub-", of_other):
        with pytest.raises(NotFound):
            _of(hub, client, hub_id)


def test_the_last_chat_is_the_newest_of_all_conversations(hub: Hub, client: Client) -> None:
    assert _last_chat(hub, client, "1") == 0
    _meet(hub, client, "t", "1")
    first = _last_chat(hub, client, "1")
    _meet(hub, client, "u", "1")
    assert _last_chat(hub, client, "1") >= first > 0


def test_a_chat_costs_no_more_for_a_contact_of_many_conversations(hub: Hub, client: Client) -> None:
    _meet(hub, client, "t", "1", email="ann@x.org")
    bound = _meet(hub, client, "u", "1", email="ann@x.org")
    change(hub, client, "last_chat_at = 0", "binding")
    hub.database.transact(lambda tx: chats.note_chat(tx, client.account, bound))
    chatted = rows(hub, client, "contact_token, last_chat_at > 0", "binding")
    assert sorted((token, bool(now)) for token, now in chatted) == [("t", False), ("u", True)]
    assert _last_chat(hub, client, "1") > 0


def test_a_chat_of_a_contact_without_a_conversation_is_noted(hub: Hub, client: Client) -> None:
    chats.note_chat_of_contact(hub.database, client.account, "1")
    assert _last_chat(hub, client, "1") > 0
    assert _rows(hub, client) == [("1", None, None, None)]


def test_what_was_said_is_remembered_until_the_crm_knows_better(hub: Hub, client: Client) -> None:
    bound = _meet(hub, client, "t")
    account = client.account
    hub.database.transact(lambda tx: resolution.keep_values(tx, account, bound, {"city": "Rome"}))
    hub.database.transact(
        lambda tx: resolution.set_contact(
            tx, account, bound.hub_id, crm_id="1", values={"city": "Bari"}
        )
    )
    hub.database.transact(
        lambda tx: resolution.keep_values(tx, account, _of(hub, client, "1"), {"city": "Oslo"})  # type: ignore[arg-type]
    )
    found = _of(hub, client, bound.hub_id)
    assert found is not None
    assert found.last_values == {"city": "Bari"}
