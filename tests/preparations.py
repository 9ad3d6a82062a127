"""What is changed in a process of `tests.processes.Forked` before the command line begins."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

from crmhub.csv import importing
from crmhub.server import processes, worker_process


def make_haste() -> None:
    """Let a service start its worker at once, and another one as soon as it dies."""
    worker_process._AFTER_SERVERS = worker_process._SHORTEST_LIFE = 0


def answer_late() -> None:
    """Let a service seem not to answer twice, and be told so at once."""
    answers, late = processes.answers, iter([False, False])
    processes._START_SECONDS = 0
    processes.answers = lambda *where: next(late, True) and answers(*where)


def import_in_small_steps() -> None:
    """Let steps be of 50 rows each, so that a kill or another import has many to come between."""
    importing._BATCH_ROWS = 50


def find_packages() -> None:
    """Let Python find what PYTHONPATH names, as where it is started with it."""
    sys.path += os.environ["PYTHONPATH"].split(os.pathsep)


def fill_disk() -> None:
    """Let Python fail as where /tmp and all that it tries instead are full."""

    def refuse(*args: Any, **more: Any) -> None:
        raise OSError(28, "No space left on device")

    tempfile.mkdtemp = refuse  # type: ignore[assignment]
