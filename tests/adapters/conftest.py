"""Leaves the tests of the fakes to `make test-all`, but for those of their command."""

from __future__ import annotations

import pytest

from tests.depth import ALL


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [] if ALL else [item for item in items if _is_of_a_fake(item)]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def _is_of_a_fake(item: pytest.Item) -> bool:
    return item.path.parent.name in ("fake", "fakes") and item.path.name != "test_command.py"
