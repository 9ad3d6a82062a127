"""What operators watch: counts and latencies of all processes of a service, for Prometheus.

Whoever counts gives words of the hub's own: helpers, operations, adapters, outcomes; never an id,
an address or a value. `prometheus_client` is loaded by the first count, so that a command which
counts nothing does not pay for it.
"""

from __future__ import annotations

import fcntl
import itertools
import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from crmhub import __version__

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Histogram
    from prometheus_client.metrics import MetricWrapperBase
    from prometheus_client.metrics_core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# prometheus_client's own name for where processes count together.
_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
_PREFIX = "crmhub-metrics-"
_YOUNG_S = 60
# More combinations of labels than these are counted as "other".
_MOST = {"counter": 1000, "histogram": 250}
# What they take at most, in bytes. It is written before it is mapped into memory: a page that
# finds no room on the disk later would kill the process.
_ROOM = {"counter": 1 << 20, "histogram": 2 << 20}
# A helper answers within 25 s, a call of the worker ends within 30 s.
_REQUEST_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25)
_ATTEMPT_S = (0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_log = logging.getLogger("crmhub.metrics")

M = TypeVar("M", bound="MetricWrapperBase")


@dataclass(frozen=True, slots=True)
class Gauge:
    """What is so at this moment: a value for each value of `label`, or one for "" without it."""

    name: str
    help: str
    values: Mapping[str, float]
    label: str = ""


def accepted(helper: str) -> None:
    """Count an action that was written down."""
    _meters().accepted.of(helper).inc()


def ended(helper: str, outcome: str) -> None:
    """Count an action that is done, refused, dead or discarded."""
    _meters().ended.of(helper, outcome).inc()


def attempted(adapter: str, outcome: str, seconds: float) -> None:
    """Count a try of an action, by the word that the journal keeps of it."""
    _meters().attempts.of(adapter, outcome).observe(seconds)


def alert_sent(outcome: str) -> None:
    """Count a try to send an alert: taken or failed."""
    _meters().alerts.of(outcome).inc()


def helper_answered(helper: str, status: str) -> None:
    """Count an answer to a bot."""
    _meters().helper_answers.of(helper, status).inc()


def answered(operation: str, seconds: float, *, resource: str = "", status: str = "") -> None:
    """Record how long a request took; with `resource`, count it for the public API."""
    meters = _meters()
    meters.requests.of(operation).observe(seconds)
    if resource:
        meters.api_requests.of(resource, operation, status).inc()


def start() -> None:
    """Do what the first count would have to wait for."""
    _meters()


def registry() -> CollectorRegistry:
    """Return what has been counted by this process, or all that count together with it."""
    return _meters().registry


def text(gauges: Iterable[Gauge] = ()) -> bytes:
    """Return what has been counted, and `gauges`, in Prometheus' text format."""
    from prometheus_client import CollectorRegistry, generate_latest

    now = CollectorRegistry(auto_describe=False)
    now.register(_Told(gauges))
    return generate_latest(registry()) + generate_latest(now)


@contextmanager
def shared() -> Iterator[None]:
    """Let the processes that are begun in the block count together.

    They do so in the files of a directory, which is removed afterwards; and with it those of
    services that were killed before they could.
    """
    import shutil
    import tempfile

    try:
        directory = tempfile.mkdtemp(prefix=_PREFIX)
    except OSError as exc:
        # Leads matter more than their numbers.
        _log.warning("/metrics tells of one process at a time: %s; set TMPDIR.", exc)
        yield
        return
    os.environ[_DIRECTORY] = directory
    # Says that somebody counts there: to other services, and to systemd-tmpfiles, which else
    # removes what is old in /tmp (https://systemd.io/TEMPORARY_DIRECTORIES/).
    held = os.open(directory, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_SH)
    _remove_forsaken(Path(directory).parent)
    try:
        yield
    finally:
        del os.environ[_DIRECTORY]
        os.close(held)
        shutil.rmtree(directory, ignore_errors=True)


def _remove_forsaken(parent: Path) -> None:
    import shutil

    for directory in parent.glob(f"{_PREFIX}*"):
        # Another user's, locked, or gone meanwhile.
        with suppress(OSError):
            held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found = os.fstat(held)
                # A younger one may be about to be locked.
                if found.st_uid == os.getuid() and time.time() - found.st_mtime > _YOUNG_S:
                    shutil.rmtree(directory)
            finally:
                os.close(held)


class _Labelled(Generic[M]):
    """A metric whose combinations of labels are found without prometheus_client's lock."""

    def __init__(self, metric: M, most: int) -> None:
        self._metric = metric
        self._most = most
        self._known: dict[tuple[str, ...], M] = {}

    def of(self, *labels: str) -> M:
        child = self._known.get(labels)
        return child if child is not None else self._new(labels)

    def _new(self, labels: tuple[str, ...]) -> M:
        if len(self._known) >= self._most:
            labels = ("other",) * len(labels)
        try:
            child = self._known[labels] = self._metric.labels(*labels)
        except OSError:
            # No file can be opened for it now. Leads matter more than their numbers.
            return cast(M, _UNCOUNTED)
        return child


class _Uncounted:
    def inc(self) -> None: ...

    def observe(self, amount: float) -> None: ...


_UNCOUNTED = _Uncounted()


class _Meters:
    def __init__(self) -> None:
        import prometheus_client as prometheus
        from prometheus_client import values

        # Series of times at which counters began, which only single processes would have.
        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = prometheus.CollectorRegistry()
        directory = os.environ.get(_DIRECTORY)
        mine: CollectorRegistry | None = self.registry
        values.ValueClass = values.MutexValue
        if directory:
            # What this process counts is read from its files, like what the others count.
            self.registry.register(_Files(Path(directory)))
            mine = None
            try:
                number = _free_number(Path(directory))
                values.ValueClass = values.MultiProcessValue(  # type: ignore[no-untyped-call]
                    lambda: number
                )
            except OSError as exc:
                _log.warning("/metrics leaves out this process: %s (in %s).", exc, directory)

        def counter(name: str, help: str, *labels: str) -> _Labelled[Counter]:
            metric = prometheus.Counter(f"crmhub_{name}", help, labels, registry=mine)
            return _Labelled(metric, _MOST["counter"])

        def histogram(
            name: str, help: str, *labels: str, buckets: tuple[float, ...]
        ) -> _Labelled[Histogram]:
            metric = prometheus.Histogram(
                f"crmhub_{name}", help, labels, registry=mine, buckets=buckets
            )
            return _Labelled(metric, _MOST["histogram"])

        self.accepted = counter("actions_accepted_total", "Actions written down.", "helper")
        self.ended = counter(
            "actions_ended_total",
            "Actions done, refused, dead or discarded.",
            "helper",
            "outcome",
        )
        self.attempts = histogram(
            "attempt_duration_seconds",
            "Tries of actions.",
            "adapter",
            "outcome",
            buckets=_ATTEMPT_S,
        )
        self.alerts = counter("alert_tries_total", "Tries to send an alert.", "outcome")
        self.helper_answers = counter(
            "helper_answers_total", "Answers to bots.", "helper", "status"
        )
        self.api_requests = counter(
            "api_requests_total",
            "Requests to the public API.",
            "resource",
            "operation",
            "status",
        )
        self.requests = histogram(
            "http_request_duration_seconds", "HTTP requests.", "operation", buckets=_REQUEST_S
        )
        self.registry.register(_Told([_BUILD]))


class _Files:
    """Gives prometheus_client the sum of what the processes of a directory have counted."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.multiprocess import MultiProcessCollector

        files = [str(file) for file in self._directory.glob("*.db")]
        merged: Iterable[Metric] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]
        return merged


class _Told:
    """Gives gauges to prometheus_client."""

    def __init__(self, gauges: Iterable[Gauge]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.metrics_core import GaugeMetricFamily

        for gauge in self._gauges:
            labels = [gauge.label] if gauge.label else []
            family = GaugeMetricFamily(f"crmhub_{gauge.name}", gauge.help, labels=labels)
            for value, number in gauge.values.items():
                family.add_metric([value] if gauge.label else [], number)
            yield family


_BUILD = Gauge("build_info", "The version that runs.", {__version__: 1}, label="version")
_lock = threading.Lock()
_opened: _Meters | None = None


def _meters() -> _Meters:
    global _opened
    if _opened is None:
        with _lock:
            if _opened is None:
                _opened = _Meters()
    return _opened


def _free_number(directory: Path) -> int:
    """Return the number of the files in which no living process counts; raises OSError.

    Who follows a dead process goes on where that ended: counters never fall, and there are never
    more files than there were processes at once, however often they die.
    """
    for number in itertools.count():
        # Held until this process ends, however that comes about.
        lock = os.open(directory / f"{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            os.close(lock)
    for kind, room in _ROOM.items():
        file = directory / f"{kind}_{number}.db"
        if not file.exists():
            # Whole at once: another process may be reading what there is.
            new = file.with_suffix(".new")
            new.write_bytes(bytes(room))
            new.rename(file)
    return number
