"""Connections on which nothing moves make room for others."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from crmhub.cli import stalled
from crmhub.cli.stalled import close_stalled

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what stalls")
AFTER = 0.3


class Callers:
    """Four connections to a port of this process, which all have said something."""

    def __init__(self, stack: ExitStack) -> None:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.lines = []
        for _ in range(4):
            line = stack.enter_context(socket.create_connection(listening.getsockname()))
            self.lines.append(line)
            stack.enter_context(listening.accept()[0])
            line.sendall(b"POST")

    @property
    def closed(self) -> list[bool]:
        """Which of them were closed by the other end."""
        found = []
        for line in self.lines:
            line.setblocking(False)
            try:
                found.append(line.recv(1) == b"")
            except BlockingIOError:
                found.append(False)
        return found


@pytest.fixture
def callers() -> Iterator[Callers]:
    with ExitStack() as stack:
        yield Callers(stack)


def test_those_on_which_nothing_moves_are_closed(callers: Callers) -> None:
    time.sleep(AFTER + 0.1)
    callers.lines[2].sendall(b"goes on")
    assert close_stalled(7, list, after=AFTER) == 3
    assert callers.closed == [True, True, False, True]


def test_nothing_is_closed_before_half_of_the_room_is_taken(callers: Callers) -> None:
    time.sleep(AFTER + 0.1)
    assert close_stalled(8, list, after=AFTER) == 0
    assert callers.closed == [False] * 4


def test_a_request_that_is_worked_on_is_left_alone(callers: Callers) -> None:
    time.sleep(1.5)
    callers.lines[0].sendall(b"the rest")
    came = time.monotonic()
    time.sleep(AFTER + 0.1)
    assert close_stalled(7, lambda: [came], after=AFTER) == 3
    assert callers.closed == [False, True, True, True]


def test_this_process_keeps_its_locks_on_files(tmp_path: Path) -> None:
    with open(tmp_path / "locked", "w") as locked:
        fcntl.lockf(locked, fcntl.LOCK_EX)
        assert close_stalled(0, list) == 0
        assert not _lockable(tmp_path / "locked")


def test_a_file_that_takes_a_sockets_place_meanwhile_keeps_its_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(tmp_path / "locked", "w") as locked:
        fcntl.lockf(locked, fcntl.LOCK_EX)
        monkeypatch.setattr(stalled.stat, "S_ISSOCK", lambda mode: True)
        before = set(os.listdir("/proc/self/fd"))
        assert close_stalled(0, list) == 0
        assert not _lockable(tmp_path / "locked")
        for left in set(os.listdir("/proc/self/fd")) - before:
            with suppress(OSError):  # what the list itself was read with
                os.close(int(left))


def _lockable(file: Path) -> bool:
    """Whether another process may lock it."""
    trying = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    tried = subprocess.run([sys.executable, "-c", trying, str(file)], stderr=subprocess.DEVNULL)
    return tried.returncode == 0
