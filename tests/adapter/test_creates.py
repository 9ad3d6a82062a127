"""The record of an unanswered create is recognized by its values and its time."""

from __future__ import annotations

from crmhub.adapter import Saved
from crmhub.adapter.creates import Candidate, find_created
from tests.loops import for_each

SENT = {"dealname": "Big", "amount": "1200.50", "closedate": "2026-01-02T00:00:00Z", "tags": "a;b"}


def candidate(id: str, created: float, **values: str | None) -> Candidate:
    return Candidate(Saved(id, "created"), created, {**SENT, **values})


@for_each(
    "stored",
    [
        {"dealname": " big "},
        {"amount": "1200.5"},
        {"closedate": "2026-01-02T01:00:00+01:00"},
        {"tags": "b;a"},
        {"more": "x"},
    ],
)
def test_another_form_of_the_same_value_is_the_same(stored: dict[str, str]) -> None:
    assert find_created([candidate("1", 5, **stored)], SENT, since=5) == Saved("1", "created")


@for_each(
    "stored",
    [
        {"dealname": "Bigger"},
        {"amount": "1200"},
        {"closedate": "2026-01-03T00:00:00Z"},
        {"tags": "a;b;c"},
        {"amount": None},
    ],
)
def test_another_value_is_another_record(stored: dict[str, str | None]) -> None:
    assert find_created([candidate("1", 5, **stored)], SENT, since=5) is None


def test_a_blank_value_is_not_compared() -> None:
    found = find_created([candidate("1", 5, amount="7")], {**SENT, "amount": ""}, since=5)
    assert found == Saved("1", "created")


def test_the_oldest_since_then_is_it() -> None:
    candidates = [candidate("4", 9), candidate("3", 7), candidate("2", 7), candidate("1", 4)]
    assert find_created(candidates, SENT, since=5) == Saved("2", "created")
