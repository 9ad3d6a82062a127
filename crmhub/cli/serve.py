"""`crmhub serve`: the HTTP service, in several processes under one supervisor."""

from __future__ import annotations

import gc
import logging
import os
import resource
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import rich_click as click

if TYPE_CHECKING:
    from crmhub.settings import Settings

# After SIGTERM, requests under way get this long; a helper call may take 25 s.
_GRACE_SECONDS = 30
_IDLE_SECONDS = 5
# Longer than proxies keep a connection that nobody uses (nginx, AWS: 60 s): a call that one sends
# while the hub is closing it would be lost.
_IDLE_CONNECTION_MS = 75_000
# Others are kept in the kernel's queue, up to this many: what overflows comes a second later.
_BACKLOG = 4096
# Thousands of threads, each with a connection, a call and a share of the rest, stay below.
_DESCRIPTORS = 65_536


@click.command()
@click.option("--host", metavar="ADDRESS", help="Listen on this address. [setting: host]")
@click.option("--port", type=click.IntRange(1, 65535), help="Listen on this port. [setting: port]")
@click.option("--workers", type=click.IntRange(1, 256), help="Server processes. [setting: workers]")
@click.option(
    "--threads",
    type=click.IntRange(1, 4096),
    help="Requests that a process works on at a time. [setting: threads]",
)
@click.option(
    "--worker/--no-worker",
    "with_worker",
    default=True,
    show_default=True,
    help="Work off the journal, too; without it run `crmhub worker`.",
)
def serve(with_worker: bool, **options: str | int | None) -> None:
    """Serve the API and the helpers; SIGTERM, SIGHUP or Ctrl-C stops after the requests under way.

    A SQLite database is migrated first. Where its disk is full, reads are answered until there is
    room.
    """
    # What is imported stays: to look for garbage among it takes a fifth of the start.
    gc.disable()
    try:
        _serve(with_worker, options)
    finally:
        gc.enable()


def _serve(with_worker: bool, options: Mapping[str, str | int | None]) -> None:
    from crmhub import logs, metrics
    from crmhub.cli.open_hub import make_ready, warn_of_disk
    from crmhub.server import sockets, worker_process
    from crmhub.settings import Settings

    kept = sockets.given()
    if kept is not None:
        host, port = kept.getsockname()[:2]
        options = {**options, "host": host, "port": port}
    for name, value in options.items():
        if value is not None:
            # The server processes read their settings themselves: this is how options get there.
            os.environ[f"CRMHUB_{name.upper()}"] = str(value)
    settings = Settings.load()
    _check_plans(settings)
    make_ready(settings)
    address = settings.host if kept else sockets.free_address(settings.host, settings.port)
    logs.configure(settings.log_level)
    warn_of_disk(settings)
    worker = worker_process.beside() if with_worker else nullcontext(lambda: None)
    with metrics.shared(), worker as stop_worker:
        _run(settings, address, kept, stop_worker)


def _check_plans(settings: Settings) -> None:
    # A fault here would show as a server process that dies at its start.
    from crmhub.accounts.plans import load_plans

    load_plans(settings.plans)


def _run(
    settings: Settings,
    address: str,
    kept: socket.socket | None,
    stop_worker: Callable[[], None],
) -> None:
    from granian.constants import HTTPModes, Interfaces
    from granian.http import HTTP1Settings
    from granian.log import LogLevels
    from granian.server import Server

    # The server processes are forked, and find their imports done once for all of them.
    import crmhub.app  # noqa: F401
    from crmhub.bounds import MAX_HEAD_BYTES
    from crmhub.server import processes, sockets

    _allow_descriptors()
    server = Server(
        "crmhub.server.processes:load",
        factory=True,
        interface=Interfaces.WSGI,
        address=address,
        port=settings.port,
        workers=settings.workers,
        blocking_threads=processes.room(settings),
        blocking_threads_idle_timeout=_IDLE_SECONDS,
        backpressure=processes.room(settings),
        backlog=_BACKLOG,
        http=HTTPModes.http1,
        # Each connection may hold so much; with granian's 400 kB, some hundred fill the memory.
        http1_settings=HTTP1Settings(
            header_read_timeout=_IDLE_CONNECTION_MS, max_buffer_size=MAX_HEAD_BYTES
        ),
        respawn_failed_workers=True,
        workers_kill_timeout=_GRACE_SECONDS,
        log_level=LogLevels.error,
        log_dictconfig=_to_our_log(),
    )
    if kept is not None:
        sockets.use(server, kept, _BACKLOG)
    server.respawned_wrks = processes.Replaced()
    stop_servers: Callable[[int], None] = server.shutdown

    def shutdown(exit_code: int = 0) -> None:
        # At the same time: one after the other would take longer than anybody waits, and until
        # then the worker would begin further calls.
        stop_worker()
        stop_servers(exit_code)

    server.shutdown = shutdown  # type: ignore[method-assign]
    # granian would reload, and a service in a terminal that is closed go on unseen; nohup's may.
    hangup = signal.getsignal(signal.SIGHUP)
    if hangup is signal.SIG_DFL:
        hangup = server.signal_handler_interrupt
    server.on_startup(lambda: signal.signal(signal.SIGHUP, hangup))
    # Only from here on: its advice on numbers of threads and workers fits other services.
    server.on_startup(lambda: logging.getLogger("_granian").setLevel(logging.WARNING))
    server.on_startup(gc.enable)
    server.on_startup(lambda: processes.announce(settings, address))
    os.register_at_fork(after_in_child=processes.forget_supervisors_signals)
    server.serve()


def _allow_descriptors() -> None:
    """Let each server process open as many files as the system lets it, not the usual 1,024.

    A connection takes one, and so does the call to a CRM that it may wait for.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        most = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def _to_our_log() -> dict[str, Any]:
    """Return a logging configuration that leaves granian's lines to the log of the service."""
    return {
        "formatters": {},
        "handlers": {},
        "loggers": {
            "_granian": {"handlers": [], "propagate": True},
            "granian.access": {"handlers": [], "propagate": True},
        },
    }
