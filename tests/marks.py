"""What a test starts, and on which databases it runs: marks, and the order that follows from them.

`browser`, `process` and `crash` tests run last: what the many others find is known sooner.
A test that uses a browser is one of the first kind; one of a module that starts processes is of
the second; modules whose tests kill processes say so themselves.
"""

from __future__ import annotations

import pytest

from tests.databases import left_out

_BROWSER = {"page", "context", "browser", "chromium", "served"}
_STARTING = {"CRMHUB", "FORKED", "Forked", "Popen", "serving", "subprocess"}
_LAST = ("browser", "process", "crash")


class Marks:
    """Hooks that mark and order what was collected."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Let a test that is marked with `databases` run on those alone."""
        mark = metafunc.definition.get_closest_marker("databases")
        given = {one.args[0] for one in metafunc.definition.iter_markers("parametrize")}
        for name in ("database_url", "own_url", "served"):
            if mark and name in metafunc.fixturenames and name not in given:
                kinds = dict.fromkeys(_kind(kind) for kind in mark.args)
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


def _kind(kind: str) -> str:
    """Return the database to run on: SQLite where there is no other."""
    return "sqlite" if left_out(kind) else kind


def _started(item: pytest.Item) -> set[str]:
    assert isinstance(item, pytest.Function)
    if _BROWSER & set(item.fixturenames):
        return {"browser"}
    return {"process"} if _STARTING & set(vars(item.module)) else set()


def _rank(item: pytest.Item) -> int:
    return max((n for n, name in enumerate(_LAST, 1) if item.get_closest_marker(name)), default=0)
