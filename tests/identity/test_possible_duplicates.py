"""Possible duplicates: a pair is listed once, closed by an operator, and merged or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import flask
import pytest

from crmhub.adapter import Unavailable
from crmhub.errors import Conflict, NotFound, Semantic
from crmhub.hub import Hub
from crmhub.identity import possible_duplicates
from tests.clients import Client
from tests.duplicates import (
    PHONE,
    dismiss,
    listed_pair,
    merge,
    pair_of,
    pairs,
    preview,
    two_contacts,
)
from tests.fakes import FAKE, FakeAdapter, FakeCrm, adapters, fake_client
from tests.fakes import connect as use
from tests.queue.outcomes import open_circuit
from tests.queue.working import change, rows
from tests.records.meanwhile import at_once


def test_the_same_pair_in_either_order_is_listed_once(hub: Hub, client: Client) -> None:
    first = listed_pair(hub, client, "9", "10")
    assert (first.one, first.other, first.shares, first.state) == ("10", "9", ("phone",), "open")
    again = listed_pair(hub, client, "10", "9")
    assert again == first
    more = listed_pair(hub, client, "10", "9", "name", "phone")
    assert (more.shares, more.found_at) == (("name", "phone"), first.found_at)
    assert pairs(hub, client) == [{"9", "10"}]


@pytest.mark.parametrize("ids", [("7", "7"), ("", "7"), ("7", "x" * 256)])
def test_what_is_no_pair_is_not_listed(hub: Hub, client: Client, ids: tuple[str, str]) -> None:
    with pytest.raises(NotFound):
        listed_pair(hub, client, *ids)
    assert pairs(hub, client, "") == []


def test_a_dismissed_pair_comes_back_only_when_it_shares_more(hub: Hub, client: Client) -> None:
    listed_pair(hub, client, "1", "2")
    closed = dismiss(hub, client, "2", "1")
    assert (closed.state, closed.decided_by) == ("dismissed", "tests")
    assert dismiss(hub, client, "1", "2") == closed
    assert listed_pair(hub, client, "1", "2") == closed
    change(hub, client, "found_at = 1", "possible_duplicate")
    opened = listed_pair(hub, client, "1", "2", "name")
    assert (opened.state, opened.shares) == ("open", ("name", "phone"))
    assert (opened.decided_at, opened.decided_by) == (0, "")
    assert opened.found_at > 1


def test_pairs_are_listed_by_state_the_newest_first_page_by_page(
    hub: Hub, client: Client, other: Client
) -> None:
    for n in range(6):
        listed_pair(hub, client, str(n), "z")
        change(hub, client, f"found_at = {n // 2} where one = '{n}'", "possible_duplicate")
    listed_pair(hub, other, "1", "z")
    dismiss(hub, client, "0", "z")
    seen: list[str] = []
    after = None
    with hub.database.reading() as db:
        while page := possible_duplicates.listed(
            db, client.account, state="open", after=after, limit=2
        ):
            seen += [pair.one for pair in page]
            after = (page[-1].found_at, *page[-1].ids)
        assert seen == ["5", "4", "3", "2", "1"]
        assert possible_duplicates.count_open(db, client.account) == 5
    assert pairs(hub, client, "dismissed") == [{"0", "z"}]
    assert len(pairs(hub, client, "")) == 6


def test_pairs_of_a_former_crm_are_out_of_sight(app: flask.Flask, hub: Hub, client: Client) -> None:
    listed_pair(hub, client, "1", "2")
    with adapters(app, FAKE):
        use(app, client, "fake", crm="x")
        assert pairs(hub, client, "") == []
        with pytest.raises(NotFound):
            dismiss(hub, client, "1", "2")


def test_two_that_find_a_pair_at_once_list_it_once(hub: Hub, client: Client) -> None:
    at_once(*(lambda: listed_pair(hub, client, "1", "2") for _ in range(6)))
    at_once(*(lambda i=i: listed_pair(hub, client, "1", "2", f"s{i}") for i in range(6)))
    assert pair_of(hub, client, "1", "2").shares == ("phone", *(f"s{i}" for i in range(6)))


# --- the preview -------------------------------------------------------------------------------


def test_a_preview_shows_both_values_and_which_wins(hub: Hub, client: Client) -> None:
    older, newer = two_contacts(hub, client, city="Rome")
    deal = client.make("deals")
    client.put(f"/deals/{deal}/associations/contacts/{newer}")
    found = preview(hub, client, newer, older)
    assert [side.id for side in found.sides] == [older, newer]
    assert [side.title for side in found.sides] == ["Ann", "Anne Lee"]
    shown = {value.name: (value.of[older], value.of[newer], value.winner) for value in found.values}
    assert shown == {
        "firstname": ("Ann", "Anne", older),
        "lastname": ("", "Lee", newer),
        "email": ("ann@x.org", "lee@x.org", older),
        "phone": (PHONE, PHONE, older),
        "city": ("", "Rome", newer),
    }
    assert [value.name for value in found.values if not value.differs] == ["phone"]
    assert found.moves == {"deals": 1, "conversations": 0, "enrolments": 0}
    assert client.get("/contacts").json["total"] == 2  # type: ignore[index]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"keep": "1"}, "keep: 1 is not in this pair"),
        ({"take": {"city": "1"}}, "take.city: 1 is not in this pair"),
        ({"take": {"nothing": ""}}, "take.nothing"),
    ],
)
def test_a_choice_that_cannot_be_is_told(
    hub: Hub, client: Client, how: dict[str, Any], words: str
) -> None:
    older, newer = two_contacts(hub, client)
    if "" in how.get("take", {}).values():
        how = {"take": {"nothing": older}}
    for call in (preview, merge):
        with pytest.raises(Semantic) as refused:
            call(hub, client, older, newer, **how)
        assert words in refused.value.message


def test_a_contact_that_was_deleted_is_told_and_its_pair_can_be_dismissed(
    hub: Hub, client: Client
) -> None:
    older, newer = two_contacts(hub, client)
    client.delete(f"/contacts/{newer}")
    found = preview(hub, client, older, newer)
    assert found.obstacle == f"Contact {newer} was deleted. Dismiss the pair."
    assert [(side.id, side.exists) for side in found.sides] == [(older, True), (newer, False)]
    with pytest.raises(Conflict):
        merge(hub, client, older, newer)
    assert dismiss(hub, client, older, newer).state == "dismissed"


def test_a_pair_that_nobody_listed_is_not_found(hub: Hub, client: Client, other: Client) -> None:
    ids = two_contacts(hub, other)
    for call in (preview, dismiss):
        with pytest.raises(NotFound):
            call(hub, client, *ids)


# --- another CRM -------------------------------------------------------------------------------


@pytest.fixture
def bot(app: flask.Flask) -> Iterator[tuple[Client, FakeCrm]]:
    """A caller whose account's CRM is a fake one, with two contacts that are listed."""
    with adapters(app, FAKE):
        client, crm = fake_client(app)
        crm.contacts |= {
            "c-1": {"firstname": "Ann", "phone": PHONE},
            "c-2": {"email": "b@x.org", "phone": PHONE},
        }
        listed_pair(app.extensions["crmhub"], client, "c-1", "c-2")
        yield client, crm


def test_another_crms_contacts_are_shown_with_their_pages(
    app: flask.Flask, bot: tuple[Client, FakeCrm]
) -> None:
    hub: Hub = app.extensions["crmhub"]
    client, crm = bot
    found = preview(hub, client, "c-1", "c-2")
    assert [side.url for side in found.sides] == [
        "https://crm.example.test/c-1",
        "https://crm.example.test/c-2",
    ]
    assert [side.title for side in found.sides] == ["Ann", "b@x.org"]
    assert found.obstacle == "These contacts are in Fake. Merge them there."
    assert (found.values, found.version) == ((), "")
    with pytest.raises(Conflict):
        merge(hub, client, "c-1", "c-2")
    del crm.contacts["c-2"]
    found = preview(hub, client, "c-1", "c-2")
    assert [side.exists for side in found.sides] == [True, False]
    assert found.obstacle == "Contact c-2 was deleted. Dismiss the pair."


def test_a_crm_that_is_away_leaves_the_pair_to_be_decided(
    app: flask.Flask, bot: tuple[Client, FakeCrm]
) -> None:
    hub: Hub = app.extensions["crmhub"]
    client, crm = bot
    crm.failure = Unavailable("no route")
    found = preview(hub, client, "c-1", "c-2")
    assert [side.error for side in found.sides] == ["no route", "no route"]
    open_circuit(hub, client.account, "out of order")
    crm.calls.clear()
    assert preview(hub, client, "c-1", "c-2").sides[0].error == "out of order"
    assert crm.calls == []
    closed = dismiss(hub, client, "c-1", "c-2", merged=True)
    assert (closed.state, closed.decided_by) == ("merged", "tests")


def test_a_pair_that_became_one_contact_in_its_crm_is_closed(
    app: flask.Flask, bot: tuple[Client, FakeCrm], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub: Hub = app.extensions["crmhub"]
    client, _ = bot
    get = FakeAdapter.get_contact
    monkeypatch.setattr(
        FakeAdapter, "get_contact", lambda self, _id, names: get(self, "c-2", names)
    )
    found = preview(hub, client, "c-1", "c-2")
    assert (found.pair.state, found.pair.kept_id, found.pair.decided_by) == ("merged", "c-2", "")
    assert pairs(hub, client) == []
    # The same person by both ids from then on: a lead that meets them again lists nothing.
    with pytest.raises(NotFound):
        listed_pair(hub, client, "c-2", "c-2")
    listed_pair(hub, client, "c-1", "c-2", "phone", "name")
    assert pairs(hub, client) == []
    with pytest.raises(Conflict):
        dismiss(hub, client, "c-1", "c-2")
    assert rows(hub, client, "undo", "possible_duplicate") == [(None,)]


def test_the_hubs_own_records_are_not_marked_as_merged(hub: Hub, client: Client) -> None:
    ids = two_contacts(hub, client)
    with pytest.raises(Conflict):
        dismiss(hub, client, *ids, merged=True)
    assert pair_of(hub, client, *ids).state == "open"
