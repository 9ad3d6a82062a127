"""A batch of contacts is split, and one write's failure is no other's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crmhub.adapter import (
    AdapterError,
    Conflict,
    ContactWrite,
    Problem,
    Rejected,
    Saved,
    Unavailable,
)
from crmhub.adapter.batches import Action, Results, groups_that_fit, write_batches
from tests.loops import for_each

BAD = Rejected([Problem("vip", "is neither")])
WRITES = [
    ContactWrite("", {"city": "rome"}, mark="m"),
    ContactWrite("7", {"city": "oslo"}),
    ContactWrite("8", {"vip": "?"}),
    ContactWrite("", {"city": "bern"}),
]


def fit(properties: Mapping[str, str]) -> dict[str, str]:
    if "vip" in properties:
        raise BAD
    return {name: value.title() for name, value in properties.items()}


def test_updates_go_before_creates_and_a_misfit_alone_is_refused() -> None:
    sent: list[tuple[Action, dict[int, ContactWrite]]] = []

    def send(action: Action, items: Mapping[int, ContactWrite], results: Results) -> None:
        sent.append((action, dict(items)))
        results.update({index: Saved(str(index), "updated") for index in items if index != 3})

    results = write_batches(WRITES, fit=fit, send=send)
    assert results == [Saved("0", "updated"), Saved("1", "updated"), BAD, None]
    assert sent == [
        ("update", {1: ContactWrite("7", {"city": "Oslo"})}),
        (
            "create",
            {
                0: ContactWrite("", {"city": "Rome"}, mark="m"),
                3: ContactWrite("", {"city": "Bern"}),
            },
        ),
    ]


@for_each(("error", "rest"), [(Conflict("taken"), None), (Unavailable("down"), "the error")])
def test_an_error_of_a_batch_is_no_result_that_was_there_before(
    error: AdapterError, rest: str | None
) -> None:
    def send(action: Action, items: Mapping[int, ContactWrite], results: Results) -> None:
        if action == "create":
            results[0] = Saved("0", "created")
            raise error

    results = write_batches(WRITES, fit=fit, send=send)
    assert results == [Saved("0", "created"), None, BAD, error if rest else None]


def test_a_write_whose_definitions_cannot_be_read_holds_no_other_up() -> None:
    down = Unavailable("the owners are not told")

    def fit_or_fail(properties: Mapping[str, str]) -> dict[str, str]:
        if properties["city"] == "oslo":
            raise down
        return dict(properties)

    def send(action: Action, items: Mapping[int, ContactWrite], results: Results) -> None:
        results.update({index: Saved(str(index), "created") for index in items})

    writes = [WRITES[0], WRITES[1]]
    assert write_batches(writes, fit=fit_or_fail, send=send) == [Saved("0", "created"), down]


def test_nothing_is_sent_for_nothing() -> None:
    def send(action: Action, items: Mapping[int, ContactWrite], results: Results) -> None:
        raise AssertionError(action)

    assert write_batches([], fit=fit, send=send) == []


@for_each(
    ("sizes", "groups"),
    [
        ([], []),
        ([9], [[9]]),
        ([1, 1, 1], [[1, 1, 1]]),
        ([1, 2, 1, 3, 9, 1], [[1, 2], [1], [3], [9], [1]]),
    ],
)
def test_groups_are_as_large_as_fits(sizes: list[int], groups: list[list[int]]) -> None:
    def fits(group: Sequence[int]) -> bool:
        return sum(group) <= 3

    assert [list(group) for group in groups_that_fit(sizes, fits)] == groups
