"""Marks: the databases that a test runs on, the processes that it starts, and the order of tests.

A test whose subject is SQL (`_SQL`, or the mark `databases`) runs on SQLite and on PostgreSQL.
Every other test runs on one of both, chosen by a checksum of its name; `make test-all` runs both.

`browser`, `process` and `crash` tests run last: what the many others find is known sooner.
A test that uses a browser is one of the first kind; one of a module that starts processes is of
the second; modules whose tests kill processes say so themselves.
"""

from __future__ import annotations

from zlib import crc32

import pytest

from tests.databases import left_out
from tests.depth import ALL

_BROWSER = {"page", "context", "browser", "chromium", "served"}
_STARTING = {"CONTEXT", "CRMHUB", "FORKED", "Forked", "Popen", "serving", "subprocess"}
# Their subject is SQL, or what several connections do at once.
_SQL = (
    "tests/database/",
    "tests/identity/",
    "tests/queue/",
    "tests/records/",
    "tests/api/http/test_idempotency.py",
    "tests/api/test_search_limits.py",
    "tests/helpers/test_dispatch.py",
    "tests/test_databases.py",
)
_KINDS = ("sqlite", "postgresql")
_LAST = ("browser", "process", "crash")


class Marks:
    """Hooks that mark and order what was collected."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run a test on the databases that its mark, its subject or its name chooses."""
        given = {
            name.strip()
            for mark in metafunc.definition.iter_markers("parametrize")
            for name in (mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0])
        }
        kinds = dict.fromkeys(map(_available, _kinds(metafunc.definition)))
        for name in ("database_url", "own_url", "served"):
            if name in metafunc.fixturenames and name not in given:
                metafunc.definition.add_marker(
                    pytest.mark.parametrize(name, list(kinds), indirect=True)
                )

    # Before pytest itself leaves out what -m does not name.
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Mark what starts a browser or processes, and put it last."""
        for item in items:
            for name in _started(item):
                item.add_marker(name)
        items.sort(key=_rank)


def _kinds(test: pytest.Item) -> tuple[str, ...]:
    if mark := test.get_closest_marker("databases"):
        return mark.args
    if ALL or test.nodeid.startswith(_SQL):
        return _KINDS
    return (_KINDS[crc32(test.nodeid.encode()) % 2],)


def _available(kind: str) -> str:
    """Return the database to run on: SQLite where there is no other."""
    return "sqlite" if left_out(kind) else kind


def _started(item: pytest.Item) -> set[str]:
    assert isinstance(item, pytest.Function)
    if _BROWSER & set(item.fixturenames):
        return {"browser"}
    return {"process"} if _STARTING & set(vars(item.module)) else set()


def _rank(item: pytest.Item) -> int:
    return max((n for n, name in enumerate(_LAST, 1) if item.get_closest_marker(name)), default=0)
