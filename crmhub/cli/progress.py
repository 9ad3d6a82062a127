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
    began = time.monotonic()

    def rate(so_far: int) -> float:
        return (so_far - done) / max(time.monotonic() - began, 1e-3)

    if not sys.stderr.isatty():
        reported_at = began

        def print_line(so_far: int) -> None:
            nonlocal reported_at
            if time.monotonic() - reported_at < _REPORT_EVERY_S:
                return
            reported_at, speed = time.monotonic(), rate(so_far)
            left = f"{(total - so_far) / speed:,.0f} s left" if speed else "time left unknown"
            click.echo(f"{so_far:,} of {total:,} {of}, {speed:,.0f} a second, {left}", err=True)

        yield print_line
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
        yield lambda so_far: bar.update(task, completed=so_far, rate=f"{rate(so_far):,.0f}")
