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

    from crmhub.server.bodies import BodyBuffer
    from crmhub.settings import Settings

# For incomplete and waiting requests, which each may need a thread (100 kB): granian cannot tell
# them apart, and complete requests would wait behind slow ones.
_WAITING_CONNECTIONS = 1280
_START_SECONDS = 60
# Constants of glibc's malloc.h.
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
_MAPPED_BYTES, _ARENAS = 256 * 1024, 2
# Seconds after SIGTERM for a request to arrive completely, and for the last answer to be sent.
_UNSENT_SECONDS, _SENDING_SECONDS = 1.0, 1.0


def connection_limit(settings: Settings) -> int:
    """At least half of the file descriptors remain for the database, CRMs and files."""
    limit = settings.threads + _WAITING_CONNECTIONS
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit if descriptors == resource.RLIM_INFINITY else min(limit, descriptors // 2)


def load() -> Flask:
    """The application's hub is closed when the process ends."""
    gc.disable()
    _limit_memory_use()
    from crmhub import logs, metrics
    from crmhub.app import create_app
    from crmhub.bounds import MAX_BODY_BYTES
    from crmhub.operators.processes import Presence
    from crmhub.server.bodies import BodyBuffer
    from crmhub.settings import Settings

    settings = Settings.load()
    logs.configure(settings.log_level)
    app = create_app(settings)
    metrics.start()
    app.extensions["crmhub"].database.keep_open()
    buffer = BodyBuffer(app.wsgi_app, MAX_BODY_BYTES, settings.threads)
    app.wsgi_app = buffer  # type: ignore[method-assign]
    hub = app.extensions["crmhub"]
    presence = Presence(hub.database, "server")

    def end() -> None:
        presence.stop()
        hub.close()

    # Not atexit, which multiprocessing's processes skip when they end.
    close = multiprocessing.util.Finalize(None, end, exitpriority=1)
    _exit_on_signal(buffer, close)
    stop_with_parent()
    presence.start()
    # The objects loaded so far live as long as the process; the collector need not check them.
    gc.freeze()
    gc.enable()
    return app


def _limit_memory_use() -> None:
    """glibc would raise its mapping threshold to 32 MB, and keep an arena for each thread."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
        mallopt(_M_ARENA_MAX, _ARENAS)


def reset_signal_handlers() -> None:
    """With the supervisor's handlers a forked process would ignore SIGTERM until granian sets its
    own. SIGINT and SIGHUP reach every process of a terminal, but only the supervisor may act on
    them."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _exit_on_signal(buffer: BodyBuffer, close: Callable[[], object]) -> None:
    """Exit after SIGTERM or SIGINT as soon as all complete requests are answered.

    granian would also wait for incomplete requests, which delays the next start.
    """
    signals, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)

    def wait_and_exit() -> None:
        while os.read(signals, 1)[0] not in (signal.SIGTERM, signal.SIGINT):
            pass
        time.sleep(_UNSENT_SECONDS)
        while not buffer.is_idle:
            time.sleep(0.1)
        time.sleep(_SENDING_SECONDS)
        close()
        os._exit(0)

    threading.Thread(target=wait_and_exit, daemon=True).start()


def stop_with_parent(pid: int = 0) -> None:
    """Stop this process when its parent has ended, so that the port becomes free.

    `pid`: the id of the parent, for a process that multiprocessing has not started.
    """
    parent = multiprocessing.parent_process()
    pid = pid or (parent and parent.pid) or 0

    def wait_and_stop() -> None:
        while os.getppid() == pid:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait_and_stop, daemon=True).start()


def announce(settings: Settings, address: str) -> None:
    """Wait until the service answers, and say so."""
    late_at, has_warned = time.monotonic() + _START_SECONDS, False
    host = local_host(address)
    while True:
        # Sleep first, so that this thread is idle while the server processes are forked.
        time.sleep(0.2)
        if answers(host, settings.port):
            print(f"crmhub is ready at {origin(host, settings.port)}", flush=True)  # noqa: T201
            return
        if not has_warned and time.monotonic() > late_at:
            has_warned = True
            print(  # noqa: T201
                f"crmhub does not answer at {origin(host, settings.port)} yet: see the log.",
                file=sys.stderr,
                flush=True,
            )


def answers(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def local_host(host: str) -> str:
    """Return the host at which this machine reaches a service that listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def origin(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
