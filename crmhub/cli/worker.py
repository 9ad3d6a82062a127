"""`crmhub worker`: process the actions in the journal, on any machine that has the database."""

from __future__ import annotations

import signal
import threading
from dataclasses import replace

import rich_click as click

_THREADS = 16


@click.command()
@click.option(
    "--threads",
    type=click.IntRange(1, 1024),
    default=_THREADS,
    show_default=True,
    help="Concurrent calls to CRMs.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65535),
    help="Serve this worker's metrics here; `crmhub serve` includes those of its own worker.",
)
@click.option(
    "--metrics-host",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="Serve the metrics on this address.",
)
@click.option("--of", "supervisor", type=int, hidden=True, help="Stop when this process ends.")
def worker(
    threads: int, metrics_port: int | None, metrics_host: str, supervisor: int | None
) -> None:
    """Process the actions in the journal. Any number of workers may run.

    `crmhub serve` runs a worker itself, unless --no-worker is given. SIGTERM, SIGHUP or Ctrl-C
    stops after the calls in progress.
    """
    from crmhub import logs
    from crmhub.cli.open_hub import make_ready, warn_of_disk
    from crmhub.hub import Hub
    from crmhub.operators.processes import Presence
    from crmhub.server import processes
    from crmhub.settings import Settings
    from crmhub.worker import Worker

    settings = Settings.load()
    make_ready(settings)
    logs.configure(settings.log_level)
    if supervisor is None:
        warn_of_disk(settings)
    if metrics_port is not None:
        _serve_metrics(metrics_host, metrics_port)
    hub = Hub.open(replace(settings, threads=threads)).load()
    journal_worker = Worker(hub, threads=threads)
    stop_signals = [signal.SIGTERM, signal.SIGINT]
    # Under `nohup`, SIGHUP is ignored.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        stop_signals.append(signal.SIGHUP)
    for number in stop_signals:
        # In a separate thread: the interrupted thread may hold the lock that `stop` needs.
        signal.signal(number, lambda *_: threading.Thread(target=journal_worker.stop).start())
    if supervisor is not None:
        # Ctrl-C and SIGHUP reach every process of a terminal, but only the supervisor handles them.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        processes.stop_with_parent(supervisor)
    else:
        click.echo(f"crmhub processes the journal with {threads} threads.")
    presence = Presence(hub.database, "worker")
    presence.start()
    try:
        journal_worker.run()
    finally:
        presence.stop()
        hub.close()


def _serve_metrics(host: str, port: int) -> None:
    from prometheus_client import start_http_server

    from crmhub import metrics

    try:
        start_http_server(port, host, metrics.registry())
    except OSError as exc:
        raise click.ClickException(
            f"Cannot listen for Prometheus on {host}, port {port}: {exc.strerror};"
            " choose another with --metrics-host and --metrics-port."
        ) from exc
