"""Server processes are replaced whatever ends them, and end with the service."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crmhub.server import supervisor as supervising
from crmhub.server.supervisor import Supervisor
from tests import depth
from tests.server.servers import soon


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A file with a line for each process that began."""
    return tmp_path / "begun"


def _pids(begun: Path) -> list[int]:
    return [int(line) for line in begun.read_text().split()] if begun.exists() else []


def _noting(begun: Path, then: Callable[[], None]) -> Callable[[], None]:
    def serve() -> None:
        with begun.open("a") as file:
            file.write(f"{os.getpid()}\n")
        then()

    return serve


def _until_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        time.sleep(60)


@contextmanager
def running(serve: Callable[[], None], processes: int, grace: float = 60) -> Iterator[None]:
    supervisor = Supervisor(serve, processes)
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    try:
        yield
    finally:
        supervisor.end()
        thread.join()
        supervisor.stop(grace)


def test_a_killed_process_is_replaced_again_and_again(
    begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "_PAUSE", 0.1)
    times = 30 if depth.ALL else 4
    with running(_noting(begun, _until_sigterm), 2):
        for kills in range(times):
            soon(lambda kills=kills: len(_pids(begun)) == kills + 2)
            os.kill(_pids(begun)[-1], signal.SIGKILL)
        soon(lambda: len(_pids(begun)) == times + 2)


def test_one_that_ends_again_and_again_by_itself_gets_a_pause(
    begun: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervising, "_PAUSE", 3600.0)
    monkeypatch.setattr(supervising, "_SHORT_LIFE", 3600.0)
    with running(_noting(begun, lambda: None), 1):
        soon(lambda: "a new one starts in 3600 s" in caplog.text)
        assert len(_pids(begun)) == supervising._SHORT_LIVES


def test_one_that_cannot_be_started_is_tried_again(
    begun: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fork, failures = os.fork, iter([OSError(11, "Resource temporarily unavailable")])

    def failing_once() -> int:
        for failure in failures:
            raise failure
        return fork()

    monkeypatch.setattr(supervising, "_PAUSE", 0.1)
    monkeypatch.setattr(os, "fork", failing_once)
    with running(_noting(begun, _until_sigterm), 1):
        soon(lambda: len(_pids(begun)) == 1)
    assert "could not be started: Resource temporarily unavailable" in caplog.text


def test_one_that_does_not_end_in_time_is_killed(begun: Path) -> None:
    def deaf() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        begun.with_name("deaf").touch()
        while True:
            time.sleep(60)

    with running(_noting(begun, deaf), 1, grace=0.1):
        soon(begun.with_name("deaf").exists)
    (pid,) = _pids(begun)
    assert not Path(f"/proc/{pid}").exists()
