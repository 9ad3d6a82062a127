"""On SQLite, the statements of writes read the rows that they are about, not whole tables.

SQLite has no statistics of the tables, and a single writer: what a statement reads for nothing,
while it holds the write lock, holds up every other caller.
"""

from __future__ import annotations

from contextlib import closing

import pytest

from crmhub.database import rows
from crmhub.database.connection import Database
from crmhub.database.statements import Statement
from crmhub.database.tables import event_delivery
from crmhub.events import claiming as deliveries
from crmhub.events import outcomes
from crmhub.identity import corrections, merged_contacts
from crmhub.queue import claiming as actions

_OF_SUBSCRIPTION = "account_id=? AND subscription_id=?"
_DUE = f"event_delivery_due ({_OF_SUBSCRIPTION}"
_OF_SUBJECT = f"event_delivery_order ({_OF_SUBSCRIPTION} AND subject=?)"
_ONE = "sqlite_autoindex_event_delivery_1 (account_id=? AND event_id=? AND subscription_id=?)"
_HELD = ("account_id", "event_id", "subscription_id", "lease")


@pytest.mark.parametrize(
    ("statement", "places"),
    [
        (deliveries._DUE._of_all, [f"{_DUE})"]),
        (deliveries._CLAIM, [_ONE, f"{_DUE} AND run_at<?)", _OF_SUBJECT, _OF_SUBJECT]),
        (outcomes._POSTPONE_FOLLOWING, [_OF_SUBJECT]),
        (outcomes._QUEUE_FOLLOWING, [_OF_SUBJECT]),
        (outcomes._QUEUE_ALL, [f"{_DUE} AND run_at>?)"]),
        (rows._update(event_delivery, _HELD, ("run_at",)), [_ONE]),
    ],
)
def test_the_queue_of_events_is_read_by_its_own_indexes(
    sqlite_url: str, statement: Statement, places: list[str]
) -> None:
    assert [each for each in _indexes(sqlite_url, statement) if "event_delivery" in each] == places


def test_leases_of_actions_are_extended_by_the_index_of_the_queue(sqlite_url: str) -> None:
    assert _indexes(sqlite_url, actions._SPARE) == ["action_due (account_id=?)"]


@pytest.mark.parametrize("narrowed", ["", "of_kind", "of_other_kinds"])
def test_actions_are_claimed_by_the_indexes_of_the_queue_and_the_person(
    sqlite_url: str, narrowed: str
) -> None:
    assert _indexes(sqlite_url, actions._CLAIM[narrowed]) == [
        "sqlite_autoindex_action_1 (account_id=? AND id=?)",
        "action_due (account_id=? AND connection_id=? AND run_at<?)",
        "action_turn (account_id=? AND person=?)",
        "action_turn (account_id=? AND person=?)",
    ]


@pytest.mark.parametrize(
    ("statement", "places"),
    [
        (
            corrections._PERSON_ALIKE,
            [
                "sqlite_autoindex_binding_1 (account_id=? AND connection_id=? AND hub_id=?)",
                "binding_email (account_id=? AND connection_id=? AND email=?)",
                "sqlite_autoindex_binding_1 (account_id=? AND connection_id=? AND hub_id=?)",
                "binding_phone (account_id=? AND phone=? AND connection_id=?)",
            ],
        ),
        (
            merged_contacts._PERSONS_OF,
            ["binding_crm_id (account_id=? AND connection_id=? AND crm_id=?)"],
        ),
    ],
)
def test_bindings_of_a_person_are_found_by_their_values(
    sqlite_url: str, statement: Statement, places: list[str]
) -> None:
    assert [each for each in _indexes(sqlite_url, statement) if "binding" in each] == places


def _indexes(url: str, statement: Statement) -> list[str]:
    """Return the indexes through which SQLite finds the rows of a statement, in its order."""
    with closing(Database(url)) as database, database.reading() as connection:
        sql = statement.text("sqlite")
        plan = connection._driver.execute(f"explain query plan {sql}", _Anything()).fetchall()
    return [line.partition("INDEX ")[2] for *_, line in plan if "INDEX" in line]


class _Anything(dict[str, object]):
    """A value for every parameter: SQLite plans without looking at them."""

    def __missing__(self, _: str) -> object:
        return 0
