"""Coroutines in tests: Playwright leaves a running event loop in the thread of the tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

_T = TypeVar("_T")


def apart(work: Callable[[], _T]) -> _T:
    """Return the result of `work`, which runs in a thread without an event loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def run(main: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of a coroutine."""
    return apart(lambda: asyncio.run(main))
