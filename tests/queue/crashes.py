"""Processes that die in the midst of what they do, at one boundary after the other.

A boundary lies behind each statement that may have changed something for good, and behind each
call over HTTP that may have: what lies between two of them is lost with the process anyway.
With `make test-all` one lies before and behind every statement and every call.
Who dies there leaves what a SIGKILL leaves.
"""

from __future__ import annotations

import json
import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import flask

from crmhub.database.connection import Connection
from crmhub.egress import Egress
from crmhub.hub import Hub
from tests.depth import ALL

_DIED = 77
# Outside a transaction these change nothing.
_PASSING = ("select", "begin", "rollback", "set", "reset")


@dataclass(frozen=True)
class End:
    """How a process ended: dead at a boundary, which it names, or else with an answer."""

    died: str
    answer: Any = None


def ends(app: flask.Flask, prepare: Callable[[], Callable[[], Any]]) -> Iterator[End]:
    """Yield how what `prepare` returns ends in a process that dies at the first boundary.

    Then in one that dies at the second, and so on, each time after `prepare`, until one answers.
    That one dies with its answer: what it has not committed is lost. No thread of this process
    may be at the hub.
    """
    number, died = 0, "nowhere yet"
    while died:
        number += 1
        end = _ended(app, prepare(), number)
        died = end.died
        yield end


def _ended(app: flask.Flask, act: Callable[[], Any], number: int) -> End:
    hub: Hub = app.extensions["crmhub"]
    # A connection to SQLite does not outlive a fork.
    hub.database.close()
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Of the threads that serve a CRM: the child has none of them, and needs none.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        app.extensions["crmhub"] = Hub.open(hub.settings)
        _live(act, _Boundaries(number, writing))
    os.close(writing)
    with os.fdopen(reading) as pipe:
        told = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, _DIED), told
    return End(told) if code else End("", json.loads(told))


def _live(act: Callable[[], Any], boundaries: _Boundaries) -> NoReturn:
    try:
        for name in ("_send", "_message", "_send_many"):
            boundaries.watch(Connection, name, _statement)
        boundaries.watch(Egress, "send", _call)
        boundaries.end(json.dumps(act()), code=0)
    # Whatever it is, it must not go on as a second run of all tests.
    except BaseException:
        boundaries.end(traceback.format_exc(), code=1)


@dataclass
class _Boundaries:
    left: int
    writing: int

    def watch(self, owner: type, name: str, told: Callable[[Any, Any], tuple[str, bool]]) -> None:
        """Let each call of a method be a boundary where `told` says that it may last."""
        call = getattr(owner, name)

        def watched(this: Any, what: Any, *args: Any, **more: Any) -> Any:
            words, lasts = told(this, what)
            if ALL:
                self._reached(f"before {words}")
            result = call(this, what, *args, **more)
            if ALL or lasts:
                self._reached(f"behind {words}")
            return result

        setattr(owner, name, watched)

    def _reached(self, words: str) -> None:
        self.left -= 1
        if not self.left:
            self.end(words, code=_DIED)

    def end(self, told: str, *, code: int) -> NoReturn:
        os.write(self.writing, told.encode())
        os._exit(code)


def _statement(connection: Connection, sql: str) -> tuple[str, bool]:
    word = sql.split(maxsplit=1)[0].lower().rstrip(";")
    alone = not connection._database.in_transaction and word not in _PASSING
    # Whoever took a turn and died has made one call less than allowed, which changes nothing.
    return sql[:200], word == "commit" or (alone and " budget " not in sql)


def _call(_: Egress, request: Any) -> tuple[str, bool]:
    return f"{request.method} {request.path_url}", request.method != "GET"
