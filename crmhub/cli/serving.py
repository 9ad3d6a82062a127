"""What runs in the processes of `crmhub serve`: the supervisor's announcement, the servers' app."""

from __future__ import annotations

import http.client
import multiprocessing.util
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flask import Flask

    from crmhub.settings import Settings

_START_SECONDS = 60


def load() -> Flask:
    """Return the application of a server process; its hub is closed when the process ends."""
    from crmhub import logs
    from crmhub.app import create_app
    from crmhub.settings import Settings

    settings = Settings.load()
    logs.configure(settings.log_level)
    app = create_app(settings)
    # Not atexit: processes made by multiprocessing end without it.
    multiprocessing.util.Finalize(None, app.extensions["crmhub"].close, exitpriority=1)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    return app


def _end_with(supervisor: int) -> None:
    """Stop this process when its supervisor is gone, lest it keep the port for ever."""
    while os.getppid() == supervisor:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


def announce(settings: Settings, address: str) -> None:
    """Print where the service is, as soon as it answers there."""
    threading.Thread(target=_announce, args=(settings, address), daemon=True).start()


def _announce(settings: Settings, address: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    host = reachable(address)
    while time.monotonic() < deadline:
        # First of all, so that this thread does nothing while the server processes are forked.
        time.sleep(0.2)
        if _answers(host, settings.port):
            print(f"crmhub is ready at {origin(host, settings.port)}", flush=True)  # noqa: T201
            return
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
