"""`crmhub worker`: works off the journal, beside the service or on another machine."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace

import rich_click as click

_THREADS = 16


@click.command()
@click.option(
    "--threads",
    type=click.IntRange(1, 1024),
    default=_THREADS,
    show_default=True,
    help="Calls to CRMs that are under way at a time.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65535),
    help="Tell Prometheus on this port what this worker does; `crmhub serve` tells it of its own.",
)
@click.option(
    "--metrics-host",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="Listen for Prometheus on this address.",
)
@click.option("--of", "supervisor", type=int, hidden=True, help="End with this process.")
def worker(
    threads: int, metrics_port: int | None, metrics_host: str, supervisor: int | None
) -> None:
    """Work off what helpers left in the journal; any number of workers may run.

    `crmhub serve` runs one by itself, unless told --no-worker. SIGTERM, SIGHUP or Ctrl-C
    stops after the calls under way.
    """
    from crmhub import logs
    from crmhub.cli.open_hub import make_ready, warn_of_disk
    from crmhub.hub import Hub
    from crmhub.settings import Settings
    from crmhub.worker import Worker

    settings = Settings.load()
    make_ready(settings)
    logs.configure(settings.log_level)
    if supervisor is None:
        warn_of_disk(settings)
    if metrics_port is not None:
        _tell(metrics_host, metrics_port)
    hub = Hub.open(replace(settings, threads=threads))
    working = Worker(hub, threads=threads)
    ends = [signal.SIGTERM, signal.SIGINT]
    # Begun by `nohup`, it passes over a hangup.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        ends.append(signal.SIGHUP)
    for number in ends:
        # In a thread of its own: the one that is interrupted may hold the lock that `stop` needs.
        signal.signal(number, lambda *_: threading.Thread(target=working.stop).start())
    if supervisor is not None:
        # Ctrl-C and a hangup reach every process of a terminal, but the supervisor alone is to act
        # on them.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        threading.Thread(target=_end_with, args=(supervisor,), daemon=True).start()
    else:
        click.echo(f"crmhub works off the journal with {threads} threads.")
    try:
        working.run()
    finally:
        hub.close()


def _tell(host: str, port: int) -> None:
    """Serve the metrics of this process; raises ClickException when that address cannot be had."""
    from prometheus_client import start_http_server

    from crmhub import metrics

    try:
        start_http_server(port, host, metrics.registry())
    except OSError as exc:
        raise click.ClickException(
            f"Cannot listen for Prometheus on {host}, port {port}: {exc.strerror};"
            " choose another with --metrics-host and --metrics-port."
        ) from exc


def _end_with(supervisor: int) -> None:
    """Stop when the process that began this one is gone."""
    while os.getppid() == supervisor:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)
