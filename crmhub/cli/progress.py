"""How far a long command is: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import rich_click as click

_TOLD_EVERY_S = 10.0


@contextmanager
def progress(of: str, *, total: int, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Lend a function that is told how many `of` are done, and tells it on standard error.

    With the number come the rate and the time left; `done` were done before this command.
    """
    if not sys.stderr.isatty():
        yield _Lines(of, total, done).tell
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{of}, {{task.fields[rate]}} a second,"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(stderr=True),
    )
    with bar:
        task = bar.add_task("", total=total, completed=done, rate="-")
        began = time.monotonic()

        def tell(so_far: int) -> None:
            rate = (so_far - done) / max(time.monotonic() - began, 1e-3)
            bar.update(task, completed=so_far, rate=f"{rate:,.0f}")

        yield tell


class _Lines:
    def __init__(self, of: str, total: int, done: int) -> None:
        self._of = of
        self._total = total
        self._before = done
        self._began = self._told = time.monotonic()

    def tell(self, done: int) -> None:
        now = time.monotonic()
        if now - self._told < _TOLD_EVERY_S:
            return
        self._told = now
        rate = (done - self._before) / (now - self._began)
        left = f"{(self._total - done) / rate:,.0f} s left" if rate else "time left unknown"
        click.echo(
            f"{done:,} of {self._total:,} {self._of}, {rate:,.0f} a second, {left}", err=True
        )
