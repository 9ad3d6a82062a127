"""What makes a run cheaper and changes nothing that a test sees."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from werkzeug.routing import Rule

# Objects that may be made before the youngest of them are looked through; Python's own is 700.
_YOUNGEST = 10_000


class LastingItems:
    """A plugin that lets the garbage collector never look through the collected tests again.

    They are a million objects that live as long as the process. While they are made, none goes.
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


def compile_routes_once() -> None:
    """Let each app of this process reuse the functions that build the addresses of its routes.

    Werkzeug compiles two for each of some 240 routes, which is four fifths of the making of an
    app. They depend on the route's text alone: what differs between apps they take as arguments.
    """
    compiles: Callable[[Rule, bool], Any] = Rule._compile_builder
    compiled: dict[tuple[object, ...], Any] = {}

    def compile_builder(rule: Rule, append_unknown: bool = True) -> Any:
        if rule.defaults:
            return compiles(rule, append_unknown)
        key = (append_unknown, rule.rule, *rule._trace)
        if key not in compiled:
            compiled[key] = compiles(rule, append_unknown)
        return compiled[key]

    Rule._compile_builder = compile_builder  # type: ignore[method-assign]
