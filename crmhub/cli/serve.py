"""`crmhub serve`: run the HTTP service in several processes under a supervisor."""

from __future__ import annotations

import errno
import gc
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

import rich_click as click

if TYPE_CHECKING:
    from crmhub.settings import Settings

# Enough for thousands of threads, each with a connection and a call to a CRM.
_DESCRIPTORS = 65_536
# A server process needs this time to end after it has killed its own processes.
_LATE_SECONDS = 2


@click.command()
@click.option("--host", metavar="ADDRESS", help="Listen on this address. [setting: host]")
@click.option("--port", type=click.IntRange(1, 65535), help="Listen on this port. [setting: port]")
@click.option("--workers", type=click.IntRange(1, 256), help="Server processes. [setting: workers]")
@click.option(
    "--threads",
    type=click.IntRange(1, 4096),
    help="Concurrent requests of each process. [setting: threads]",
)
@click.option(
    "--worker/--no-worker",
    "with_worker",
    default=True,
    show_default=True,
    help="Also run a worker; without it, run `crmhub worker`.",
)
def serve(with_worker: bool, **options: str | int | None) -> None:
    """Run the service: the API, the helpers, the console and a worker.

    SIGTERM, SIGHUP or Ctrl-C stops it after the current requests. A SQLite database is migrated
    first. On a full disk, only reads are answered until there is space.
    """
    # Imported modules stay in memory; collecting garbage among them takes a fifth of the start.
    gc.disable()
    try:
        _serve(with_worker, options)
    finally:
        gc.enable()


def _serve(with_worker: bool, options: Mapping[str, str | int | None]) -> None:
    from crmhub import logs, metrics
    from crmhub.accounts.plans import load_plans
    from crmhub.cli.open_hub import make_ready, warn_of_disk
    from crmhub.server import worker_process
    from crmhub.settings import Settings

    for name, value in options.items():
        if value is not None:
            # The server processes read their settings from the environment.
            os.environ[f"CRMHUB_{name.upper()}"] = str(value)
    settings = Settings.load()
    # Otherwise an invalid file would show only as a server process that dies at its start.
    load_plans(settings.plans)
    make_ready(settings)
    address = _free_address(settings.host, settings.port)
    logs.configure(settings.log_level)
    warn_of_disk(settings)
    worker = worker_process.keep_worker() if with_worker else nullcontext(lambda: None)
    with metrics.shared(), worker as stop_worker:
        _run(settings, address, stop_worker)


def _free_address(host: str, port: int) -> str:
    """Return the IP address of `host`; raise ClickException if nothing can listen on it.

    The server processes share the port, so they would not notice another service.
    """
    try:
        candidates = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as exc:
        raise click.ClickException(
            f"The host {host} cannot be resolved ({exc.strerror}). Give an address of this machine."
        ) from exc
    # A name may have several addresses; clients expect IPv4 behind `localhost`.
    family, kind, protocol, _, address = min(candidates, key=lambda info: info[0] != socket.AF_INET)
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as exc:
            reasons = {
                errno.EADDRINUSE: (
                    f"Port {port} on {host} is taken: something listens there already. "
                    "Stop it, or choose another port with --port."
                ),
                errno.EACCES: (
                    f"Port {port} needs rights that this user lacks; choose one from 1024 on."
                ),
                errno.EADDRNOTAVAIL: (
                    f"{host} is no address of this machine; 0.0.0.0 stands for all it has."
                ),
            }
            other = f"Cannot listen on {host}, port {port}: {exc.strerror}."
            raise click.ClickException(reasons.get(exc.errno or 0, other)) from exc
    return str(address[0])


def _run(settings: Settings, address: str, stop_worker: Callable[[], None]) -> None:
    # Imported before the fork, so that all server processes share the modules.
    import crmhub.app  # noqa: F401
    from crmhub.server import http_server, processes
    from crmhub.server.supervisor import Supervisor

    # Each request needs its connection, and perhaps one to a CRM.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        most = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    os.register_at_fork(after_in_child=processes.reset_signal_handlers)
    supervisor = Supervisor(lambda: http_server.serve(settings, address), settings.workers)
    supervisor.handle(signal.SIGTERM, signal.SIGINT)
    # Stop when the terminal is closed, except under nohup.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        supervisor.handle(signal.SIGHUP)
    # Garbage collection writes to each object, and so would copy the shared memory.
    gc.freeze()
    try:
        supervisor.start_missing()
        gc.enable()
        announcing = partial(processes.announce, settings, address)
        threading.Thread(target=announcing, daemon=True).start()
        supervisor.run()
    finally:
        # At the same time, so that the stop takes less time and the worker starts no more calls.
        stop_worker()
        supervisor.stop(http_server.GRACE_SECONDS + _LATE_SECONDS)
