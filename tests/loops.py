"""Many values that take one path, in one test."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def for_each(
    names: str | tuple[str, ...], values: Iterable[Any], *, fresh: str = ""
) -> Callable[[Any], Any]:
    """Run a test for each of `values`, as `pytest.mark.parametrize` does, but as one case.

    A failure names the value. Between two values, the fixture named `fresh` is reset; no other
    fixture may keep anything of one value for the next.
    """
    names = (names,) if isinstance(names, str) else names
    rows = [(value,) if len(names) == 1 else tuple(value) for value in values]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            for i, row in enumerate(rows):
                if i and fresh:
                    fixtures[fresh].reset()
                given = dict(zip(names, row, strict=True))
                try:
                    test(**fixtures, **given)
                # Each failure is raised again, with the value.
                except (Exception, pytest.fail.Exception) as exc:
                    exc.add_note(f"with {given!r:.500}")
                    raise

        signature = inspect.signature(test)
        left = [one for name, one in signature.parameters.items() if name not in names]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate
