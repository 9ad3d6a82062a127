"""Leaves to `make test-all` the tests of the fakes, but for their command, and further set-ups."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.depth import ALL

_FURTHER = ("TestHubSpotInVersion3", "TestHubSpotWithMarks", "TestPipedriveFindsByText")
_FAKES = Path(__file__).parent / "fakes"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [] if ALL else [item for item in items if _is_further(item)]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def _is_further(item: pytest.Item) -> bool:
    if item.parent and item.parent.name in _FURTHER:
        return True
    return _FAKES in item.path.parents and item.path.name != "test_command.py"
