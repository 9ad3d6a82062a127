"""A real `crmhub serve` for tests, and requests to it byte by byte."""

from __future__ import annotations

import http.client
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.places import free_port
from tests.cli.conftest import environment
from tests.preparations import make_haste
from tests.processes import FORKED, Forked, Program

_PATIENCE = 120


def soon(condition, seconds=_PATIENCE):
    """Wait until the condition holds, and fail when it does not in time."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < seconds
        time.sleep(0.05)


@dataclass
class Server:
    """A running service.

    `log` is the file of what it writes on standard error, `temporary` its TMPDIR.
    """

    process: subprocess.Popen[str] | Program
    port: int
    log: Path
    temporary: Path

    def answer(self, method="GET", path="/healthz", body=None, headers=()):
        """Return status, headers and body of a request of its own connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE)
        try:
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def answers(self) -> bool:
        """Return whether the service is there."""
        try:
            return self.answer()[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def raw(self, *parts: bytes, pause: float = 0.1) -> bytes:
        """Return the answer to a request sent in parts; it must ask to close the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=_PATIENCE) as connection:
            for part in parts:
                connection.sendall(part)
                time.sleep(pause)
            answer = b""
            while data := connection.recv(65536):
                answer += data
            return answer

    def children(self) -> list[int]:
        """Return the ids of the processes that work: those that serve, and the worker."""
        return [pid for child in _children(self.process.pid) for pid in _children(child) or [child]]

    def limit_files(self, largest: int) -> None:
        """Let no file of the service grow beyond so many bytes, as on a full disk; -1 ends that."""
        hard = resource.RLIM_INFINITY
        for pid in (self.process.pid, *self.children()):
            with suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (largest, hard))

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=_PATIENCE)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    # A thread or all of the process may end meanwhile.
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                found += map(int, (task / "children").read_text().split())
    return found


_LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
os.execv(sys.argv[2], sys.argv[2:])
"""


@contextmanager
def serving(
    root: Path,
    *args: str,
    program: Sequence[str] | Forked = FORKED,
    port: int | None = None,
    stderr: int | None = None,
    largest_file: int | None = None,
    **settings: str,
) -> Iterator[Server]:
    """Start the service in `root`, wait until it says that it is ready, and end it afterwards.

    It listens on `port`. `program` is the command line to use, which is forked or a program of its
    own. `stderr` is a file descriptor to write on instead of the log, and is closed. No file of a
    program of its own grows beyond `largest_file` bytes.
    """
    port = port or free_port()
    arguments = ["serve", *args, "--port", str(port)]
    command = [] if isinstance(program, Forked) else [*program, *arguments]
    if largest_file is not None:
        assert command, "a forked command line has no limit"
        command = [sys.executable, "-c", _LIMITED, str(largest_file), *command]
    log = root / "serve.log"
    log.touch()
    # Removed here: a service that is killed leaves its files behind.
    temporary = TemporaryDirectory(prefix="crmhub-tests-")
    env = environment(**settings) | {"TMPDIR": temporary.name}
    process: subprocess.Popen[str] | Program
    with open(log if stderr is None else stderr, "w") as errors:
        if isinstance(program, Forked):
            process = program.start(
                *arguments, cwd=root, env=env, stdout=subprocess.PIPE, stderr=errors
            )
        else:
            process = subprocess.Popen(
                command,
                cwd=root,
                env=env,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                process_group=0,
            )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == f"crmhub is ready at http://127.0.0.1:{port}\n", line + log.read_text()
        yield Server(process, port, log, Path(temporary.name))
    finally:
        # The whole group: a supervisor that was killed has left its server processes.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        temporary.cleanup()


# A service that starts its worker at once, and another one as soon as it dies.
HASTY = Forked(make_haste)
