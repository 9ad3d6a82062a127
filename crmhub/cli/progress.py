"""Progress of a long command: a bar on a terminal, else a line of text every 10 seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import rich_click as click

_REPORT_EVERY_S = 10.0


@contextmanager
def progress(of: str, *, total: int, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Report the progress of the block on standard error, with the rate and the time left.

    The block calls the yielded function with the number of items processed so far; `of` is their
    noun. `done` were processed before the block.
    """
    if not sys.stderr.isatty():
        yield _Lines(of, total, done).report
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

        def report(so_far: int) -> None:
            rate = (so_far - done) / max(time.monotonic() - began, 1e-3)
            bar.update(task, completed=so_far, rate=f"{rate:,.0f}")

        yield report


class _Lines:
    def __init__(self, of: str, total: int, done: int) -> None:
        self._noun = of
        self._total = total
        self._initial = done
        self._started_at = self._reported_at = time.monotonic()

    def report(self, done: int) -> None:
        now = time.monotonic()
        if now - self._reported_at < _REPORT_EVERY_S:
            return
        self._reported_at = now
        rate = (done - self._initial) / (now - self._started_at)
        left = f"{(self._total - done) / rate:,.0f} s left" if rate else "time left unknown"
        click.echo(
            f"{done:,} of {self._total:,} {self._noun}, {rate:,.0f} a second, {left}", err=True
        )
