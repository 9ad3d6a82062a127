"""Leaves the tests of the kit to `make test-all`, but for those of `_ALWAYS`."""

from __future__ import annotations

import pytest

from tests.depth import ALL

_OF_THE_KIT = ("test_kit.py", "test_rpc.py", "test_skeleton.py")
_ALWAYS = (
    "test_a_liar_of_each_kind_is_caught",
    "test_a_standard_test_is_not_overridden_without_a_reason",
    "test_the_proxy_harms_what_it_is_told_to_and_nothing_else",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [] if ALL else [item for item in items if _is_of_the_kit(item)]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def _is_of_the_kit(item: pytest.Item) -> bool:
    return item.path.name in _OF_THE_KIT and item.name not in _ALWAYS
