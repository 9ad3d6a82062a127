"""What runs in the processes of `crmhub serve`: the supervisor's announcement, the servers' app."""

from __future__ import annotations

import ctypes
import gc
import http.client
import multiprocessing
import multiprocessing.util
import os
import resource
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from flask import Flask

    from crmhub.server.bodies import WholeBodies
    from crmhub.settings import Settings

# Beside the requests that a process works on, it holds so many connections whose requests are
# not there as a whole yet, or wait for their turn. Each may need a thread (100 kB): with fewer of
# these, whole requests would wait behind slow ones where nobody can tell them apart.
_TAKEN_IN = 1280
_START_SECONDS = 60
# Of glibc's malloc.h.
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
_MAPPED_BYTES, _ARENAS = 256 * 1024, 2
# After SIGTERM: how long a request may take to come as a whole, and the last answer to be sent.
_UNSENT_SECONDS, _SENDING_SECONDS = 1.0, 1.0


def room(settings: Settings) -> int:
    """Return how many connections a server process holds at a time.

    Half of its descriptors are left to the database, to CRMs and to files.
    """
    wanted = settings.threads + _TAKEN_IN
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if descriptors == resource.RLIM_INFINITY else min(wanted, descriptors // 2)


def load() -> Flask:
    """Return the application of a server process; its hub is closed when the process ends."""
    gc.disable()
    _give_memory_back()
    from crmhub import logs, metrics
    from crmhub.app import create_app
    from crmhub.bounds import MAX_BODY_BYTES
    from crmhub.server.bodies import WholeBodies
    from crmhub.server.connections import Connections
    from crmhub.settings import Settings

    settings = Settings.load()
    logs.configure(settings.log_level)
    app = create_app(settings)
    metrics.start()
    app.extensions["crmhub"].database.keep_open()
    connections = Connections(
        settings.port,
        read_timeout=settings.read_timeout_s,
        per_address=settings.connections_per_address,
        room=room(settings),
        trusted=settings.trusted_proxies,
    )
    whole = WholeBodies(app.wsgi_app, MAX_BODY_BYTES, settings.threads, connections)
    app.wsgi_app = whole  # type: ignore[method-assign]
    # Not atexit: processes made by multiprocessing end without it.
    close = multiprocessing.util.Finalize(None, app.extensions["crmhub"].close, exitpriority=1)
    _end_without(whole, close)
    end_with_parent()
    connections.watch()
    # What is here now is here as long as the process: no collection need go through it.
    gc.freeze()
    gc.enable()
    return app


def _give_memory_back() -> None:
    """Let glibc give the memory of large answers back to the system, and share small pieces.

    Otherwise it raises its threshold for what is mapped by itself to 32 MB, and each of many
    threads keeps an arena with what it once needed (mallopt(3)).
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
        mallopt(_M_ARENA_MAX, _ARENAS)


def forget_supervisors_signals() -> None:
    """Give a process just forked signal handlers of its own, until granian sets its own ones.

    With the supervisor's, it would swallow the SIGTERM that ends it while it is starting. Ctrl-C
    and a hangup reach every process of a terminal, but the supervisor alone is to act on them.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _end_without(whole: WholeBodies, close: Callable[[], object]) -> None:
    """When this process is to end, let it not wait for requests whose end does not come.

    granian would, until it is killed, and other calls wait for the next start meanwhile.
    """
    signals, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)

    def end() -> None:
        while os.read(signals, 1)[0] not in (signal.SIGTERM, signal.SIGINT):
            pass
        time.sleep(_UNSENT_SECONDS)
        while not whole.idle:
            time.sleep(0.1)
        # The last answer is on its way.
        time.sleep(_SENDING_SECONDS)
        close()
        os._exit(0)

    threading.Thread(target=end, daemon=True).start()


def end_with_parent() -> None:
    """Stop this process when the one that began it is gone, lest it keep the port for ever."""
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    while parent is not None and os.getppid() == parent.pid:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


def announce(settings: Settings, address: str) -> None:
    """Print where the service is, as soon as it answers there."""
    threading.Thread(target=_announce, args=(settings, address), daemon=True).start()


def _announce(settings: Settings, address: str) -> None:
    late, told = time.monotonic() + _START_SECONDS, False
    host = reachable(address)
    while True:
        # First of all, so that this thread does nothing while the server processes are forked.
        time.sleep(0.2)
        if _answers(host, settings.port):
            print(f"crmhub is ready at {origin(host, settings.port)}", flush=True)  # noqa: T201
            return
        if not told and time.monotonic() > late:
            told = True
            print(  # noqa: T201
                f"crmhub does not answer at {origin(host, settings.port)} yet: see the log.",
                file=sys.stderr,
                flush=True,
            )


def _answers(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def reachable(host: str) -> str:
    """Return where a service that listens on `host` is called on this machine."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def origin(host: str, port: int) -> str:
    """Return the address of the service as a URL without path."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
