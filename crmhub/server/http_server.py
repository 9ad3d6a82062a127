from __future__ import annotations

import logging
import signal

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server import Server

from crmhub.bounds import MAX_HEAD_BYTES
from crmhub.server import processes
from crmhub.settings import Settings

# Time for requests in progress after SIGTERM; a helper call may take 25 s.
GRACE_SECONDS = 30
_IDLE_SECONDS = 5
# Longer than proxies keep an idle connection (nginx, AWS: 60 s), or a call could be lost.
_IDLE_CONNECTION_MS = 75_000
# Length of the kernel's queue of new connections; beyond it, callers retry after a second.
_BACKLOG = 4096


def serve(settings: Settings, address: str) -> None:
    """Serve HTTP requests on `address` (an IP address) until SIGTERM or SIGINT.

    granian runs the app in one child. If it ends, this process exits with code 1 and the supervisor
    replaces it: granian itself would stop for good if a child was killed twice within 5.5 s. Server
    processes share the port by SO_REUSEPORT.
    """
    processes.stop_with_parent()
    server = Server(
        "crmhub.server.processes:load",
        factory=True,
        interface=Interfaces.WSGI,
        address=address,
        port=settings.port,
        workers=1,
        blocking_threads=processes.connection_limit(settings),
        blocking_threads_idle_timeout=_IDLE_SECONDS,
        backpressure=processes.connection_limit(settings),
        backlog=_BACKLOG,
        http=HTTPModes.http1,
        # Buffer of each connection; with granian's 400 kB some hundred connections fill the memory.
        http1_settings=HTTP1Settings(
            header_read_timeout=_IDLE_CONNECTION_MS, max_buffer_size=MAX_HEAD_BYTES
        ),
        workers_kill_timeout=GRACE_SECONDS,
        log_level=LogLevels.error,
        log_dictconfig={
            "formatters": {},
            "handlers": {},
            "loggers": {
                name: {"handlers": [], "propagate": True} for name in ("_granian", "granian.access")
            },
        },
    )
    # On a hangup granian would reload; only the supervisor may act on it.
    server.on_startup(lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    # Not earlier, because granian's warnings about numbers of threads do not fit this service.
    server.on_startup(lambda: logging.getLogger("_granian").setLevel(logging.WARNING))
    server.serve()
