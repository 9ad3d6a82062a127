"""Actions are found by what an operator has of a person: email, name, phone, token or id."""

from __future__ import annotations

import pytest

from crmhub.operators.actions.action_queries import Wanted, listed
from tests.api.helpers.helper_calls import SET_PROPERTIES, known
from tests.queue.working import rows


@pytest.fixture
def ann(client):
    """Two calls about Ann, and one about Bob; returns Ann's contact id."""
    token = client.account.client_id
    known(client, f"{token}-bob", name="Bob Straße", email=f"bob@{client.account.client_id}.org")
    email = f"ann.lee@{client.account.client_id}.org"
    contact_id = known(
        client, f"{token}-ann", name="Ann Álvarez", email=email, phone="+12025550134"
    )
    client.helper(SET_PROPERTIES, {"contactToken": f"{token}-ann", "props": {"city": "Rome"}})
    return contact_id


def found(hub, client, text, *, everywhere=False, **more):
    """Return the helpers of the account's actions that a search finds, sorted."""
    account = None if everywhere else client.account
    actions = listed(hub.database, Wanted(account=account, search=text, **more))
    return sorted(one.kind for one in actions if one.account_id == client.account.id)


ANNS = ["createLead", "setProperties"]


@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("ann.lee@{client_id}", ANNS),
        ("ANN.LEE@{client_id}.org", ANNS),
        ("lee@{client_id}", []),
        ("ÁLVAREZ", ANNS),
        ("alv", ANNS),
        ("alvarez áńn", ANNS),
        ("lvarez ann", ANNS),
        ("strasse", ["createLead"]),
        ("Ann Lee", []),
        ("+1 (202) 555-0134", ANNS),
        ("2025550134", ANNS),
        ("01 34", ANNS),
        ("134", []),
        ("0135", []),
        ("0134 ann", []),
        ("{client_id}-ann", ANNS),
        ("{client_id}-", [*ANNS, "createLead"]),
        ("firstname", []),
        ("%", []),
        ("\U0010ffff", []),
    ],
)
def test_a_person_is_found(hub, client, ann, text, kinds, everywhere):
    text = text.format(client_id=client.account.client_id)
    assert found(hub, client, text, everywhere=everywhere) == sorted(kinds)


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_contact_is_found_by_both_of_its_ids(hub, client, ann, everywhere):
    hub_id = rows(hub, client, "hub_id")[-1][0]
    for id in (ann, hub_id):
        assert found(hub, client, id, everywhere=everywhere) == ANNS


def test_an_action_is_found_by_the_beginning_of_its_id(hub, client, ann):
    id = rows(hub, client, "id")[-1][0]
    for text in (id, id[:20]):
        assert [one.id for one in listed(hub.database, Wanted(search=text))] == [id]
    assert len(found(hub, client, "act-0")) == 3


def test_a_search_stays_in_its_account_and_other_filters_hold(hub, client, other, ann):
    assert found(hub, other, f"{client.account.client_id}-ann") == []
    email = f"ann.lee@{client.account.client_id}"
    assert found(hub, client, email, kinds=("createLead",)) == ["createLead"]
    assert found(hub, client, "álvarez", states=("dead",)) == []


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_whole_email_is_a_filter(hub, client, other, ann, everywhere):
    def kinds(email):
        account = None if everywhere else client.account
        return sorted(one.kind for one in listed(hub.database, Wanted(account, email=email)))

    email = f"Ann.Lee@{client.account.client_id}.org"
    assert kinds(email) == ANNS
    assert kinds(email[:-1]) == []
    assert listed(hub.database, Wanted(other.account, email=email)) == []


def test_letters_with_a_stroke_are_found_without_it(hub, client):
    token = client.account.client_id
    known(client, f"{token}-1", name="Nguyễn Đức Łukasz Sørensen")
    for text in ("nguyen duc", "lukasz", "SORENSEN"):
        assert found(hub, client, text) == ["createLead"], text


def test_names_are_looked_for_in_the_newest_actions_alone(hub, client, ann, monkeypatch):
    monkeypatch.setattr("crmhub.operators.actions.action_search.MOST_NAMES", 2)
    assert found(hub, client, "álvarez") == ANNS
    assert found(hub, client, "bob straße") == []
