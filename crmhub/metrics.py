"""Prometheus metrics: counters and durations, summed over all processes of a service.

Labels are the hub's own words, never an id, an address or a property value. `prometheus_client` is
imported by the first count, so that other commands start faster.
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
from typing import TYPE_CHECKING, Any, TypeVar, cast

from crmhub import __version__

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics import MetricWrapperBase
    from prometheus_client.metrics_core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
_PREFIX = "crmhub-metrics-"
_MIN_AGE_S = 60
# Label combinations; further ones are counted as "other".
_MAX_LABELS = {"counter": 1000, "histogram": 250}
# Bytes, written in full before mapping: a full disk would kill the process later.
_FILE_SIZES = {"counter": 1 << 20, "histogram": 2 << 20}
# A helper answers within 25 s, a call of the worker ends within 30 s.
_REQUEST_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25)
_ATTEMPT_S = (0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
# By name: help, labels, and the buckets of a histogram.
_METRICS: Mapping[str, tuple[str, tuple[str, ...], tuple[float, ...]]] = {
    "actions_accepted_total": ("Actions written down.", ("helper",), ()),
    "actions_ended_total": ("Actions done, refused, dead or discarded.", ("helper", "outcome"), ()),
    "attempt_duration_seconds": ("Tries of actions.", ("adapter", "outcome"), _ATTEMPT_S),
    "event_delivery_duration_seconds": ("Tries to deliver events.", ("outcome",), _ATTEMPT_S),
    "alert_tries_total": ("Tries to send an alert.", ("outcome",), ()),
    "helper_answers_total": ("Answers to bots.", ("helper", "status"), ()),
    "api_requests_total": ("Requests to the public API.", ("resource", "operation", "status"), ()),
    "http_request_duration_seconds": ("HTTP requests.", ("operation",), _REQUEST_S),
}
_log = logging.getLogger("crmhub.metrics")

M = TypeVar("M", bound="MetricWrapperBase")


@dataclass(frozen=True, slots=True)
class Gauge:
    """One number for each value of its label; without a label, one under the key ""."""

    name: str
    help: str
    values: Mapping[str, float]
    label: str = ""


def accepted(helper: str) -> None:
    _part("actions_accepted_total")[(helper,)].inc()


def ended(helper: str, outcome: str) -> None:
    """`outcome`: done, refused, failed or discarded."""
    _part("actions_ended_total")[helper, outcome].inc()


def attempted(adapter: str, outcome: str, seconds: float) -> None:
    _part("attempt_duration_seconds")[adapter, outcome].observe(seconds)


def alert_sent(outcome: str) -> None:
    """`outcome` is "taken" or "failed"."""
    _part("alert_tries_total")[(outcome,)].inc()


def event_sent(outcome: str, seconds: float) -> None:
    """`outcome` is "delivered" or "failed"."""
    _part("event_delivery_duration_seconds")[(outcome,)].observe(seconds)


def helper_answered(helper: str, status: str) -> None:
    """`status`: the HTTP status code, or its class such as "4xx"."""
    _part("helper_answers_total")[helper, status].inc()


def answered(operation: str, seconds: float, *, resource: str = "", status: str = "") -> None:
    """A request with a `resource` also counts for the public API. `status`: such as "2xx"."""
    _part("http_request_duration_seconds")[(operation,)].observe(seconds)
    if resource:
        _part("api_requests_total")[resource, operation, status].inc()


def start() -> None:
    """The first request then does not have to create the metrics."""
    _meters()


def registry() -> CollectorRegistry:
    """In a block of `shared`, the sums over all processes."""
    return _meters().registry


def text(gauges: Iterable[Gauge] = ()) -> bytes:
    """In Prometheus' text format."""
    from prometheus_client import CollectorRegistry, generate_latest

    now = CollectorRegistry(auto_describe=False)
    now.register(_Gauges(gauges))
    return generate_latest(registry()) + generate_latest(now)


@contextmanager
def shared() -> Iterator[None]:
    """Sum the metrics of all processes that are started in the block.

    The counts are in files of a temporary directory. At the end it is removed, and so are the
    directories of services that were killed.
    """
    import shutil
    import tempfile

    try:
        directory = tempfile.mkdtemp(prefix=_PREFIX)
    except OSError as exc:
        # Serve without shared metrics: leads matter more.
        _log.warning("/metrics tells of one process at a time: %s; set TMPDIR.", exc)
        yield
        return
    os.environ[_DIRECTORY] = directory
    # The lock keeps the directory from other services and from systemd-tmpfiles
    # (https://systemd.io/TEMPORARY_DIRECTORIES/).
    held = os.open(directory, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_SH)
    _remove_abandoned(Path(directory).parent)
    try:
        yield
    finally:
        del os.environ[_DIRECTORY]
        os.close(held)
        shutil.rmtree(directory, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    import shutil

    for directory in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found = os.fstat(held)
                # A new directory may not be locked by its owner yet.
                if found.st_uid == os.getuid() and time.time() - found.st_mtime > _MIN_AGE_S:
                    shutil.rmtree(directory)
            finally:
                os.close(held)


class _Labelled(dict[tuple[str, ...], M]):
    """Parts by label values, found here without a lock of prometheus_client."""

    def __init__(self, metric: M, most: int) -> None:
        self._metric = metric
        self._most = most

    def __missing__(self, labels: tuple[str, ...]) -> M:
        if len(self) >= self._most:
            labels = ("other",) * len(labels)
        try:
            part = self[labels] = self._metric.labels(*labels)
        except OSError:
            # No file can be opened for the metric; serving leads matters more than counting.
            return cast(M, _UNCOUNTED)
        return part


class _Uncounted:
    def inc(self) -> None: ...

    def observe(self, amount: float) -> None: ...


_UNCOUNTED = _Uncounted()


class _Meters:
    def __init__(self) -> None:
        import prometheus_client as prometheus
        from prometheus_client import values

        # Turn off the series of creation times, which multi-process mode does not have.
        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = prometheus.CollectorRegistry()
        directory = os.environ.get(_DIRECTORY)
        mine: CollectorRegistry | None = self.registry
        values.ValueClass = values.MutexValue
        if directory:
            # This process's own counts are read from its files, too.
            self.registry.register(_Files(Path(directory)))
            mine = None
            try:
                number = _free_number(Path(directory))
                values.ValueClass = values.MultiProcessValue(  # type: ignore[no-untyped-call]
                    lambda: number
                )
            except OSError as exc:
                _log.warning("/metrics leaves out this process: %s (in %s).", exc, directory)

        self.parts: dict[str, _Labelled[Any]] = {}
        for name, (help, labels, buckets) in _METRICS.items():
            kind = "histogram" if buckets else "counter"
            metric: Any = (
                prometheus.Histogram(f"crmhub_{name}", help, labels, registry=mine, buckets=buckets)
                if buckets
                else prometheus.Counter(f"crmhub_{name}", help, labels, registry=mine)
            )
            self.parts[name] = _Labelled(metric, _MAX_LABELS[kind])
        self.registry.register(_Gauges([_BUILD]))


class _Files:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.multiprocess import MultiProcessCollector

        files = [str(file) for file in self._directory.glob("*.db")]
        merged: Iterable[Metric] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]
        return merged


class _Gauges:
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
_instance: _Meters | None = None


def _part(name: str) -> _Labelled[Any]:
    return _meters().parts[name]


def _meters() -> _Meters:
    global _instance
    if _instance is None:
        with _lock:
            if _instance is None:
                _instance = _Meters()
    return _instance


def _free_number(directory: Path) -> int:
    """Choose and lock the number in the names of this process's metrics files.

    The files of an ended process are continued, so counters never decrease. Raises OSError.
    """
    for number in itertools.count():
        # The lock is held until this process ends, also by a crash.
        lock = os.open(directory / f"{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            os.close(lock)
    for kind, room in _FILE_SIZES.items():
        file = directory / f"{kind}_{number}.db"
        if not file.exists():
            # Renamed when complete, because another process may read it.
            new = file.with_suffix(".new")
            new.write_bytes(bytes(room))
            new.rename(file)
    return number
