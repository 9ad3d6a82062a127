"""Real processes that work side by side: a server that has loaded the hub forks each of them.

Loading it would take each process half a second of processor time.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

from crmhub.cli import main

CONTEXT = multiprocessing.get_context("forkserver")
"""What makes processes: each is forked from the server that has loaded the hub."""
CONTEXT.set_forkserver_preload(
    [
        "tests.helpers.drawers",
        "tests.queue.callers",
        "tests.preparations",
        "crmhub.app",
        "crmhub.cli.db",
        "crmhub.cli.serve",
        "crmhub.cli.worker",
        "crmhub.server.http_server",
        "crmhub.worker",
    ]
)


class Process:
    """A process that returns `work(pipe, **options)`, where `pipe` leads here.

    `work` is a function of a module. It sends "ready" when it is prepared, and begins when it
    receives "go".
    """

    def __init__(self, work: Callable[..., Any], /, **options: Any) -> None:
        self.pipe, theirs = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=_run, args=(work, theirs, options), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.is_alive()

    def kill(self) -> None:
        """End the process with SIGKILL."""
        self._process.kill()
        self._process.join()

    def result(self) -> Any:
        """Return what the work returned, once the process has ended."""
        result = self.pipe.recv()
        self._process.join()
        assert self._process.exitcode == 0
        return result


def start(*processes: Process) -> None:
    """Let processes begin together, once all of them are ready."""
    for process in processes:
        assert process.pipe.recv() == "ready"
    for process in processes:
        process.pipe.send("go")


def _run(work: Callable[..., Any], pipe: Connection, options: dict[str, Any]) -> None:
    pipe.send(work(pipe, **options))


class Program:
    """The command line as a process, with what the tests need of `subprocess.Popen[str]`.

    It leads a process group of its own. `stdout` and `stderr` are a file, PIPE or DEVNULL.
    """

    def __init__(
        self,
        args: tuple[str, ...],
        prepare: Callable[[], None] | None,
        *,
        cwd: Path,
        env: dict[str, str],
        stdout: IO[str] | int,
        stderr: IO[str] | int,
    ) -> None:
        self.stdout, out = _open(stdout)
        self.stderr, err = _open(stderr)
        self._process = CONTEXT.Process(target=_be, args=(args, prepare, cwd, env, out, err))
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid
        for end in (out, err):
            end.close()

    @property
    def returncode(self) -> int | None:
        """The exit code, or the number of the signal that killed the process as a negative one."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("crmhub", timeout or 0)
        return self._process.exitcode

    def communicate(self) -> tuple[str, str]:
        """Return what else is written to both pipes; the second one is small."""
        told = ["" if file is None else file.read() for file in (self.stdout, self.stderr)]
        self.wait()
        for file in (self.stdout, self.stderr):
            if file is not None:
                file.close()
        return told[0], told[1]

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        # The fork server may have seen its end, and not told it yet.
        with suppress(ProcessLookupError):
            if self._process.exitcode is None:
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Forked:
    """The command line, after the function `prepare` of a module has been called."""

    prepare: Callable[[], None] | None = None

    def start(
        self,
        *args: str,
        cwd: Path,
        env: dict[str, str],
        stdout: IO[str] | int = subprocess.DEVNULL,
        stderr: IO[str] | int = subprocess.DEVNULL,
    ) -> Program:
        return Program(args, self.prepare, cwd=cwd, env=env, stdout=stdout, stderr=stderr)

    def run(
        self, *args: str, cwd: Path, env: dict[str, str], stdout: IO[str] | int = subprocess.PIPE
    ) -> subprocess.CompletedProcess[str]:
        """Run a command until it ends."""
        program = self.start(*args, cwd=cwd, env=env, stdout=stdout, stderr=subprocess.PIPE)
        out, err = program.communicate()
        return subprocess.CompletedProcess(args, program.wait(), out, err)


FORKED = Forked()


def _open(target: IO[str] | int) -> tuple[IO[str] | None, Connection]:
    """Return what is read here, and what the process writes to: those may be sent to it."""
    if target == subprocess.PIPE:
        reader, writer = os.pipe()
        return os.fdopen(reader), Connection(writer, readable=False)
    if target == subprocess.DEVNULL:
        return None, Connection(os.open(os.devnull, os.O_WRONLY), readable=False)
    assert not isinstance(target, int)
    return None, Connection(os.dup(target.fileno()), readable=False)


def _be(
    args: tuple[str, ...],
    prepare: Callable[[], None] | None,
    cwd: Path,
    env: dict[str, str],
    out: Connection,
    err: Connection,
) -> None:
    os.setpgid(0, 0)
    for number, end in enumerate((out, err), 1):
        os.dup2(end.fileno(), number)
        end.close()
    # However the tests were begun.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    tempfile.tempdir = None
    sys.argv = ["crmhub", *args]
    if prepare is not None:
        prepare()
    main(prog_name="crmhub")
