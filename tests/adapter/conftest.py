"""Which of the tests of this directory run.

`make test-all` runs the conformance tests on the skeleton of a new adapter and on the RPC example,
with each value of each parameter once, but not each with all others; and on the honest adapter of
the small CRM, with those that must catch a liar, and one case of every other. Each liar must be
caught. `make test` runs the tests of `_ALWAYS` instead.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.adapter.liars import CAUGHT_BY
from tests.depth import ALL

_OF_THE_KIT = ("test_kit.py", "test_rpc.py", "test_skeleton.py")
_ALWAYS = (
    "test_a_liar_of_each_kind_is_caught",
    "test_a_standard_test_is_not_overridden_without_a_reason",
    "test_the_proxy_harms_what_it_is_told_to_and_nothing_else",
)
_BY_VALUE = ("TestAcme", "TestRoster")
_CATCHING = {test for tests in CAUGHT_BY.values() for test in tests}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [] if ALL else [item for item in items if _is_of_the_kit(item)]
    items[:] = _sampled([item for item in items if item not in left_out])
    config.hook.pytest_deselected(items=left_out)


def _is_of_the_kit(item: pytest.Item) -> bool:
    return item.path.name in _OF_THE_KIT and item.name not in _ALWAYS


def _sampled(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    seen: set[object] = set()
    for item in items:
        where = item.nodeid.rpartition("::")[0].rpartition("::")[2]
        if where not in ("TestSmallAdapter", *_BY_VALUE) or not isinstance(item, pytest.Function):
            yield item
            continue
        name = (where, item.originalname)
        new = {name} | (_values(item, name) if where in _BY_VALUE else set())
        if new - seen or item.name in _CATCHING:
            yield item
        seen |= new


def _values(item: pytest.Function, name: tuple[str, str]) -> set[object]:
    """Return the values of the test's parameters, each with the test's name."""
    callspec = getattr(item, "callspec", None)
    params = callspec.params if callspec else {}
    # Not each value has a hash, but a value that comes again is the same object.
    return {(name, param, id(value)) for param, value in params.items()}
