"""A plugin of pytest for the runs of `benchmarks.mutants`, which names a folder in the environment.

Without a file `plan` in it, each process writes what its tests call there. With one, the tests that
the plan names run first, and a test that takes longer than its `limit_s` fails.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

FOLDER = "CRMHUB_MUTANT_RUNS"
HANGS = "a defect makes this test hang"
_folder = Path(os.environ.get(FOLDER, ""))
_plan: dict[str, Any] = {}
_runs: dict[str, dict[str, Any]] = {}


def function_at(path: Path, line: int) -> str:
    """Return the name of the function that begins at a line, the same for all of a run."""
    return f"{path.parent.name}/{path.name}:{line}"


def pytest_configure() -> None:
    """Read the plan, if there is one."""
    if (_folder / "plan").is_file():
        _plan.update(json.loads((_folder / "plan").read_text()))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests of the plan come first, in its order."""
    ranks = {test: rank for rank, test in reversed([*enumerate(_plan.get("first", ()))])}
    items.sort(key=lambda item: ranks.get(item.nodeid, len(ranks)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note what a test and its fixtures call of the adapters, unless there is a plan."""
    if _plan:
        return (yield)
    calls: set[tuple[str, int]] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and "/adapters/" in code.co_filename:
            calls.add((code.co_filename, code.co_firstlineno))

    threading.settrace(note)
    sys.settrace(note)
    began = time.monotonic()
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)
        _runs[item.nodeid] = {
            "calls": sorted({function_at(Path(path), line) for path, line in calls}),
            "took_s": time.monotonic() - began,
        }


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Fail a test that takes longer than the plan allows."""

    def fail(*_: object) -> None:
        pytest.fail(HANGS)

    signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, _plan.get("limit_s", 0))
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def pytest_sessionfinish() -> None:
    """Write what the tests of this process called."""
    if not _plan:
        (_folder / f"{os.getpid()}.json").write_text(json.dumps(_runs))
