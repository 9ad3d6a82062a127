"""The HTTP server of a server process: granian, with the bounds that the hub needs."""

from __future__ import annotations

import logging
import signal
from typing import Any

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server import Server

from crmhub.bounds import MAX_HEAD_BYTES
from crmhub.server import processes
from crmhub.settings import Settings

# After SIGTERM, requests under way get this long; a helper call may take 25 s.
GRACE_SECONDS = 30
_IDLE_SECONDS = 5
# Longer than proxies keep a connection that nobody uses (nginx, AWS: 60 s): a call that one sends
# while the hub is closing it would be lost.
_IDLE_CONNECTION_MS = 75_000
# Others are kept in the kernel's queue, up to this many: what overflows comes a second later.
_BACKLOG = 4096


def serve(settings: Settings, address: str) -> None:
    """Serve until SIGTERM or SIGINT; exits with 1 when the process below, which serves, ends.

    granian runs the application in a process below this one. It has a single one here, which the
    hub's supervisor replaces: granian itself would give up on all of them when one was killed
    twice within 5.5 s. They share the port by SO_REUSEPORT.
    """
    processes.end_with_parent()
    server = Server(
        "crmhub.server.processes:load",
        factory=True,
        interface=Interfaces.WSGI,
        address=address,
        port=settings.port,
        workers=1,
        blocking_threads=processes.room(settings),
        blocking_threads_idle_timeout=_IDLE_SECONDS,
        backpressure=processes.room(settings),
        backlog=_BACKLOG,
        http=HTTPModes.http1,
        # Each connection may hold so much; with granian's 400 kB, some hundred fill the memory.
        http1_settings=HTTP1Settings(
            header_read_timeout=_IDLE_CONNECTION_MS, max_buffer_size=MAX_HEAD_BYTES
        ),
        workers_kill_timeout=GRACE_SECONDS,
        log_level=LogLevels.error,
        log_dictconfig=_to_our_log(),
    )
    # granian would reload; the supervisor alone acts on a hangup.
    server.on_startup(lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    # Only from here on: its advice on numbers of threads and workers fits other services.
    server.on_startup(lambda: logging.getLogger("_granian").setLevel(logging.WARNING))
    server.serve()


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
