"""The rotation of an account: fair, whoever draws at once, and faithful where it is sticky."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import flask
import pytest
from sqlalchemy.event import listen

from crmhub.accounts.accounts import Account
from crmhub.accounts.changes import open_account, set_switches
from crmhub.accounts.plans import BUILT_IN
from crmhub.database.connection import Connection, Database
from crmhub.errors import Semantic
from crmhub.helpers import random_int as rotation
from crmhub.helpers import sticky_assignments
from crmhub.helpers.random_int import LARGEST, LARGEST_BAG, int_of_account
from crmhub.hub import Hub
from crmhub.identity import resolution
from tests.api.helpers.helper_calls import switch
from tests.clients import Client, open_client
from tests.databases import sqlite_database
from tests.helpers.drawers import draw_at_once, draw_in_processes
from tests.made_docs import DOCS

DAY = 86_400
SWITCHED = ["round_robin", "shuffle_bag", "weighted:5,3,1", "random+sticky", "round_robin+sticky"]


class Drawing:
    """Draws numbers of a fresh account, whose rotation can be changed."""

    def __init__(self, database: Database, account: Account) -> None:
        self.database = database
        self.account = account

    def rotate(self, text: str) -> Drawing:
        switches = self.account.switches.changed({"rotation": text})
        self.account = replace(self.account, switches=switches)
        return self

    def one(self, contact_id: str = "", /, *, of: tuple[int, int] = (1, 3), token: str = "") -> int:
        return int_of_account(
            self.database,
            self.account,
            smallest=of[0],
            largest=of[1],
            contact_id=contact_id,
            contact_token=token,
        )

    def some(self, times: int, of: tuple[int, int] = (1, 3)) -> list[int]:
        return [self.one(of=of) for _ in range(times)]

    def rows(self, table: str) -> int:
        with self.database.reading() as connection:
            n: int = connection.scalar(
                f"select count(*) from {table} where account_id = :id", {"id": self.account.id}
            )
        return n

    def in_transaction(self, work: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return self.database.transact(lambda tx: work(tx, self.account, *args, **options))


@pytest.fixture
def drawing(hub: Hub, client: Client) -> Drawing:
    return Drawing(hub.database, client.account)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is sent to a database from now on."""
    sent: list[str] = []
    send = Connection._send

    def noted(self: Connection, sql: str, params: Any = None) -> Any:
        sent.append(sql)
        return send(self, sql, params)

    monkeypatch.setattr(Connection, "_send", noted)
    return sent


def chi_squared(drawn: Sequence[int], expected: dict[int, float]) -> float:
    """Return how far the numbers drawn are from their expected shares."""
    seen = Counter(drawn)
    assert set(seen) <= set(expected)
    return sum(
        (seen[number] - share * len(drawn)) ** 2 / (share * len(drawn))
        for number, share in expected.items()
    )


# The notation.


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("random", "random"),
        (" Round_Robin ", "round_robin"),
        ("SHUFFLE_BAG + sticky", "shuffle_bag+sticky"),
        ("weighted: 5, 03, 0", "weighted:5,3,0"),
        ("weighted:100", "weighted:100"),
        ("weighted:1,2+sticky", "weighted:1,2+sticky"),
        ("sticky", "random+sticky"),
    ],
)
def test_a_rotation_is_kept_in_one_notation(drawing: Drawing, said: str, kept: str) -> None:
    assert drawing.rotate(said).account.switches.rotation == kept
    assert drawing.rotate(kept).account.switches.rotation == kept


NO_ROTATIONS = [
    ("", "give random, round_robin, shuffle_bag or weighted:5,3,1"),
    ("spin", "give random, round_robin"),
    ("round_robin:", "only weighted takes weights"),
    ("round_robin+", "with +sticky behind it"),
    ("round_robin+sticky+sticky", "with +sticky behind it"),
    ("sticky+random", "with +sticky behind it"),
    ("shuffle_bag:3", "only weighted takes weights"),
    *((f"weighted{rest}", "weights, each a whole number from 0 to 100") for rest in ("", ":")),
    *((f"weighted:{rest}", "such as weighted:5,3,1") for rest in ("1,", "-1", "½", "1.5", "x")),
    ("weighted:101", "from 0 to 100"),
    ("weighted:" + "1," * 100 + "1", "give up to 100 weights"),
    ("weighted:0,0", "at least one weight must be above 0"),
]


def test_what_is_no_rotation_is_refused_with_the_remedy(drawing: Drawing) -> None:
    for said, remedy in NO_ROTATIONS:
        with pytest.raises(Semantic) as caught:
            drawing.rotate(said)
        assert caught.value.message.startswith("rotation: "), said
        assert remedy in caught.value.message, said


def test_every_rotation_of_the_page_for_bot_builders_can_be_set(drawing: Drawing) -> None:
    said = re.findall(r"`rotation=([^`]*)`", (DOCS / "bots" / "owners.md").read_text())
    assert len(said) == 5
    assert [drawing.rotate(each).account.switches.rotation for each in said] == said


# Fairness, one caller.


def test_random_gives_each_number_its_chance(drawing: Drawing) -> None:
    drawn = drawing.rotate("random").some(4000, of=(-2, 7))
    # 9 degrees of freedom: beyond 60 once in a billion runs.
    assert chi_squared(drawn, dict.fromkeys(range(-2, 8), 0.1)) < 60


def test_random_asks_the_database_nothing(drawing: Drawing, statements: list[str]) -> None:
    drawing.rotate("random").one("contact-1")
    assert statements == []


@pytest.mark.parametrize("rotation", ["round_robin", "shuffle_bag", "weighted:5,3,1"])
def test_a_draw_is_a_transaction_of_one_statement(
    drawing: Drawing, statements: list[str], rotation: str
) -> None:
    drawing.rotate(rotation).one()
    statements.clear()
    drawing.one()
    *begin, _, commit = statements
    # On PostgreSQL BEGIN belongs to the first of them.
    assert begin in (["BEGIN IMMEDIATE"], [])
    assert commit == "COMMIT"


def test_round_robin_goes_round_from_the_smallest(drawing: Drawing) -> None:
    assert drawing.rotate("round_robin").some(7, of=(-1, 1)) == [-1, 0, 1, -1, 0, 1, -1]


def test_round_robin_takes_the_largest_range(drawing: Drawing) -> None:
    drawing.rotate("round_robin")
    assert drawing.some(2, of=(-LARGEST, LARGEST)) == [-LARGEST, 1 - LARGEST]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_a_shuffle_bag_gives_every_number_once_in_each_round(drawing: Drawing, size: int) -> None:
    drawn = drawing.rotate("shuffle_bag").some(size * 12, of=(5, 4 + size))
    rounds = [drawn[n : n + size] for n in range(0, len(drawn), size)]
    assert all(sorted(each) == list(range(5, 5 + size)) for each in rounds)
    assert size == 1 or all(one != other for one, other in pairwise(drawn))


def test_a_shuffle_bag_has_a_new_order_in_each_round(drawing: Drawing) -> None:
    drawn = drawing.rotate("shuffle_bag").some(50, of=(1, 10))
    assert len({tuple(drawn[n : n + 10]) for n in range(0, 50, 10)}) == 5


def test_a_shuffle_bag_begins_with_each_number_as_often() -> None:
    first = [rotation._bag(seed, 1, 5)[0] for seed in range(2000)]
    # 4 degrees of freedom: beyond 45 once in a hundred million; these seeds are always the same.
    assert chi_squared(first, dict.fromkeys(range(5), 0.2)) < 45


@pytest.mark.parametrize(
    "weights", [(5, 3, 1), (1, 0, 2), (10, 10), (1, 1, 1, 1), (100, 1, 50), (7,)]
)
def test_weighted_gives_each_its_share_in_every_cycle(
    drawing: Drawing, weights: tuple[int, ...]
) -> None:
    drawing.rotate(f"weighted:{','.join(map(str, weights))}")
    of, total = (1, len(weights)), sum(weights)
    drawn = drawing.some(total // 2, of) + drawing.some(total, of)
    shares = {n: weight for n, weight in enumerate(weights, 1) if weight}
    # Any stretch of that length holds the shares, wherever it begins.
    assert Counter(drawn[-total:]) == Counter(drawn[:total]) == shares


def test_weighted_is_spread_evenly(drawing: Drawing) -> None:
    assert drawing.rotate("weighted:5,3,1").some(9) == [1, 2, 1, 1, 2, 3, 1, 2, 1]
    assert drawing.rotate("weighted:2,2").some(4, of=(1, 2)) == [1, 2, 1, 2]


# Ranges and changes.


def test_ranges_and_accounts_have_turns_of_their_own(
    drawing: Drawing, hub: Hub, other: Client
) -> None:
    drawing.rotate("round_robin")
    assert (drawing.one(), drawing.one(of=(1, 4)), drawing.one(of=(0, 3))) == (1, 1, 0)
    assert Drawing(hub.database, other.account).rotate("round_robin").one() == 1
    assert (drawing.one(), drawing.one(of=(1, 4))) == (2, 2)


def test_another_strategy_starts_at_its_beginning(drawing: Drawing) -> None:
    drawing.rotate("round_robin").some(2)
    assert sorted(drawing.rotate("shuffle_bag").some(3)) == [1, 2, 3]
    assert drawing.rotate("weighted:1,1,1").some(2) == [1, 2]
    assert drawing.rotate("weighted:0,1,1").some(2) == [2, 3]
    assert drawing.rotate("round_robin").one() == 1
    assert drawing.rotate("round_robin+sticky").one() == 2


@pytest.mark.parametrize("of", [(1, 2), (1, 4), (-LARGEST, LARGEST)])
def test_a_range_of_another_size_than_the_weights_is_refused(
    drawing: Drawing, of: tuple[int, int]
) -> None:
    with pytest.raises(Semantic, match=r"has 3 weights \(weighted:5,3,1\); send a range of that"):
        drawing.rotate("weighted:5,3,1+sticky").one("contact-1", of=of)


def test_a_shuffle_bag_has_a_largest_size(drawing: Drawing) -> None:
    drawing.rotate("shuffle_bag")
    assert 1 <= drawing.one(of=(1, LARGEST_BAG)) <= LARGEST_BAG
    with pytest.raises(Semantic, match="at most 10000; send a smaller range, or have"):
        drawing.one(of=(0, LARGEST_BAG))


@pytest.mark.parametrize("text", SWITCHED)
def test_an_empty_range_is_refused_whatever_the_rotation(drawing: Drawing, text: str) -> None:
    with pytest.raises(Semantic, match="min: 2 is greater than max, 1"):
        drawing.rotate(text).one("contact-1", of=(2, 1))


def test_an_account_has_no_more_ranges_than_are_kept(
    drawing: Drawing, monkeypatch: pytest.MonkeyPatch, time_machine: Any
) -> None:
    monkeypatch.setattr(rotation, "MOST_RANGES", 5)
    drawing.rotate("round_robin")
    time_machine.move_to("2030-01-01T00:00:00Z", tick=False)
    for n in range(10):
        time_machine.shift(1)
        assert (drawing.one(of=(1, 100)), drawing.one(of=(0, n))) == (n + 1, 0)
        assert drawing.rows("rotation") <= 6


# Sticky.


@pytest.mark.parametrize("text", ["random", "round_robin", "shuffle_bag", "weighted:5,3,1"])
def test_a_contact_that_returns_gets_its_number_again(drawing: Drawing, text: str) -> None:
    drawing.rotate(f"{text}+sticky")
    first = {f"contact-{n}": drawing.one(f"contact-{n}") for n in range(9)}
    drawing.some(4)
    again = {contact: drawing.one(contact) for contact in reversed(first)}
    assert again == first


def test_who_returns_takes_nobodys_turn(drawing: Drawing) -> None:
    drawing.rotate("round_robin+sticky")
    drawn = [drawing.one(contact) for contact in ("a", "a", "b", "a", "b", "c", "d")]
    assert drawn == [1, 1, 2, 1, 2, 3, 1]


def test_without_a_contact_nothing_is_kept(drawing: Drawing) -> None:
    drawing.rotate("round_robin+sticky")
    assert [drawing.one("", token="  ") for _ in range(4)] == [1, 2, 3, 1]
    assert drawing.rows("kept_number") == 0


def test_without_sticky_a_contact_is_nobody_special(drawing: Drawing) -> None:
    drawing.rotate("round_robin")
    assert [drawing.one("a", token="{{token}}") for _ in range(4)] == [1, 2, 3, 1]


def test_an_id_that_is_not_filled_in_is_no_contact(drawing: Drawing) -> None:
    drawing.rotate("round_robin+sticky")
    with pytest.raises(Semantic, match=r"contactId: the builder sent \{\{contactId\}\}"):
        drawing.one("{{contactId}}", token="t")
    with pytest.raises(Semantic, match="contactToken: the builder sent %token%"):
        drawing.one(token="%token%")


def test_id_and_token_are_one_contact_once_they_came_together(drawing: Drawing) -> None:
    drawing.rotate("round_robin+sticky")
    assert drawing.one("a", token="t") == 1
    assert (drawing.one(token="t"), drawing.one("a"), drawing.one("t")) == (1, 1, 2)


def test_the_person_behind_another_conversation_is_known(drawing: Drawing) -> None:
    meet, ann = resolution.resolve_binding, {"email": "ann@example.com", "phone": ""}
    drawing.rotate("round_robin+sticky")
    assert drawing.one(token="before the lead") == 1
    resolved = drawing.in_transaction(meet, token="before the lead", **ann)
    assert drawing.one(token="before the lead") == 1
    drawing.in_transaction(meet, token="a year later", **ann)
    assert (drawing.one(token="a year later"), drawing.one(resolved.binding.hub_id)) == (1, 1)
    assert (drawing.one(token="others"), drawing.one("hub-never-issued")) == (2, 3)


def test_an_id_of_the_crm_and_the_hubs_own_are_one_contact(drawing: Drawing) -> None:
    drawing.rotate("round_robin+sticky")
    resolved = drawing.in_transaction(
        resolution.resolve_binding, token="t", email="b@example.com", phone=""
    )
    assert drawing.one(resolved.binding.hub_id) == 1
    drawing.in_transaction(
        resolution.set_contact, resolved.binding.hub_id, crm_id="4711", values={}
    )
    assert (drawing.one("4711"), drawing.one("4712")) == (1, 2)


def test_a_number_outside_a_changed_range_is_drawn_anew_and_others_stay(drawing: Drawing) -> None:
    drawing.rotate("round_robin+sticky")
    team = {contact: drawing.one(contact, of=(1, 4)) for contact in "abcd"}
    assert {contact: drawing.one(contact, of=(1, 5)) for contact in "abcd"} == team
    assert {contact: drawing.one(contact, of=(1, 3)) for contact in "abcd"} == team | {"d": 1}
    assert {contact: drawing.one(contact, of=(1, 4)) for contact in "abcd"} == team


def test_a_weight_of_nothing_sends_ones_contacts_to_the_others(drawing: Drawing) -> None:
    drawing.rotate("weighted:1,1,1+sticky")
    assert [drawing.one(contact) for contact in "abc"] == [1, 2, 3]
    drawing.rotate("weighted:1,0,1+sticky")
    assert [drawing.one(contact) for contact in "abca"] == [1, 1, 3, 1]


def test_a_range_from_another_number_on_is_another_matter(drawing: Drawing) -> None:
    drawing.rotate("round_robin+sticky")
    assert drawing.one("a", of=(2, 9)) == 2
    assert drawing.one("b", of=(2, 9)) == 3
    assert (drawing.one("b", of=(1, 9)), drawing.one("b", of=(2, 9))) == (1, 3)


def test_a_number_is_kept_for_90_days_after_the_last_visit(
    drawing: Drawing, time_machine: Any
) -> None:
    drawing.rotate("round_robin+sticky")
    time_machine.move_to("2030-01-01T00:00:00Z", tick=False)
    assert drawing.one("a") == 1
    for _ in range(3):
        time_machine.shift(89 * DAY)
        assert drawing.one("a") == 1
    time_machine.shift(91 * DAY)
    assert drawing.one("a") == 2


def test_what_is_kept_no_longer_is_deleted(
    drawing: Drawing, monkeypatch: pytest.MonkeyPatch, time_machine: Any
) -> None:
    monkeypatch.setattr(sticky_assignments, "_SWEEP", 1)
    monkeypatch.setattr(sticky_assignments, "MOST_KEPT", 5)
    drawing.rotate("random+sticky")
    time_machine.move_to("2030-01-01T00:00:00Z", tick=False)
    for n in range(8):
        drawing.one(f"contact-{n}")
        time_machine.shift(1)
    assert drawing.rows("kept_number") == 5
    time_machine.shift(91 * DAY)
    drawing.one("new")
    assert drawing.rows("kept_number") == 1


def test_a_return_within_a_day_writes_nothing(drawing: Drawing, statements: list[str]) -> None:
    drawing.rotate("round_robin+sticky").one("a", token="t")
    statements.clear()
    drawing.one("a", token="t")
    assert statements
    assert all(sql.casefold().startswith("select") for sql in statements)


def test_neither_ids_nor_tokens_are_stored(drawing: Drawing) -> None:
    drawing.rotate("round_robin+sticky").one("+12025550123", token="ann@example.com")
    with drawing.database.reading() as connection:
        stored = repr(connection.rows("select * from kept_number"))
    assert "12025550123" not in stored
    assert "ann@example.com" not in stored


# Many at once.


@pytest.fixture
def rotating(app: flask.Flask) -> Callable[[str], Drawing]:
    """Opens accounts whose rotation is stored, so that other processes see it."""

    def rotate(text: str) -> Drawing:
        client = open_client(app)
        switch(app, client, rotation=text)
        return Drawing(app.extensions["crmhub"].database, client.account)

    return rotate


def in_two_processes(drawing: Drawing, **options: Any) -> list[int]:
    url = drawing.database.url.render_as_string(hide_password=False)
    given = {"database_url": url, "client_id": drawing.account.client_id, **options}
    return draw_in_processes(2, **given)


@pytest.mark.parametrize(
    ("text", "largest", "share"),
    [
        ("round_robin", 4, dict.fromkeys((1, 2, 3, 4), 50)),
        ("shuffle_bag", 5, dict.fromkeys((1, 2, 3, 4, 5), 40)),
        ("weighted:5,3,2", 3, {1: 100, 2: 60, 3: 40}),
    ],
)
def test_two_processes_at_once_share_exactly(
    rotating: Callable[[str], Drawing], text: str, largest: int, share: dict[int, int]
) -> None:
    drawn = in_two_processes(rotating(text), largest=largest, threads=4, times=25)
    assert Counter(drawn) == share


def test_sixteen_threads_at_once_share_exactly(rotating: Callable[[str], Drawing]) -> None:
    drawing = rotating("round_robin")
    client_id = drawing.account.client_id
    drawn = draw_at_once(drawing.database, client_id, largest=4, threads=16, times=25)
    assert Counter(drawn) == dict.fromkeys((1, 2, 3, 4), 100)


def test_threads_of_one_process_wait_in_line_and_not_for_sqlite(tmp_path: Path) -> None:
    database = Database(sqlite_database(tmp_path))
    # Whoever finds another one writing is refused at once.
    listen(database._engine, "connect", lambda one, _: one.execute("PRAGMA busy_timeout = 0"))
    opened, _ = database.transact(partial(open_account, name="Acme", plans=BUILT_IN))
    database.transact(lambda tx: set_switches(tx, opened.id, {"rotation": "sticky"}, BUILT_IN))
    drawn = draw_at_once(database, opened.client_id, largest=4, threads=16, times=25, contacts=25)
    database.close()
    assert all(len(set(drawn[n::25])) == 1 for n in range(25))


def test_a_new_contact_that_comes_many_times_at_once_gets_one_number(
    rotating: Callable[[str], Drawing],
) -> None:
    drawing = rotating("round_robin+sticky")
    drawn = in_two_processes(drawing, largest=10, threads=4, times=10, contacts=10)
    visits = [drawn[n : n + 10] for n in range(0, len(drawn), 10)]
    assert all(each == visits[0] for each in visits)
    assert sorted(visits[0]) == list(range(1, 11))
