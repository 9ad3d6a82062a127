"""Which of the conformance tests run on the adapters of this directory.

All of them run on HubSpot's adapter and on `local`. On the skeleton of a new adapter, and on the
RPC example, each value of each parameter comes once, but not each with all others. On the honest
adapter of the small CRM run those that must catch a liar, and one case of every other.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.adapter.liars import CAUGHT_BY

_BY_VALUE = ("TestAcme", "TestRoster")
_CATCHING = {test for tests in CAUGHT_BY.values() for test in tests}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = _sampled(items)


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
