"""Real processes that work side by side: a server that has loaded the hub forks each of them.

Loading it would take each process half a second of processor time.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.helpers.drawers", "tests.journal.callers"])


class Process:
    """A process that returns `work(pipe, **options)`, where `pipe` leads here.

    `work` is a function of a module. It sends "ready" when it is prepared, and begins when it
    receives "go".
    """

    def __init__(self, work: Callable[..., Any], /, **options: Any) -> None:
        self.pipe, theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_run, args=(work, theirs, options), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.is_alive()

    def kill(self) -> None:
        """End the process with SIGKILL."""
        self._process.kill()
        self._process.join()

    def result(self) -> Any:
        """Return what the work returned, once the process has ended."""
        result = self.pipe.recv()
        self._process.join()
        assert self._process.exitcode == 0
        return result


def start(*processes: Process) -> None:
    """Let processes begin together, once all of them are ready."""
    for process in processes:
        assert process.pipe.recv() == "ready"
    for process in processes:
        process.pipe.send("go")


def _run(work: Callable[..., Any], pipe: Connection, options: dict[str, Any]) -> None:
    pipe.send(work(pipe, **options))
