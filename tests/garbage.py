"""The garbage collector passes over the collected tests, which live as long as the process."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

# Objects that may be made before the youngest of them are looked through; Python's own is 700.
_YOUNGEST = 10_000


class LastingItems:
    """A plugin that collects tests without looking for garbage, and then sets them aside.

    They are a million objects; while they are made, none goes.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Iterator[None]:
        """Collect the tests without looking for garbage."""
        gc.disable()
        try:
            return (yield)
        finally:
            gc.enable()

    def pytest_collection_finish(self) -> None:
        """Set aside what is there when the first test begins."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(_YOUNGEST, *gc.get_threshold()[1:])
