"""Run `pip install` and show its progress: `python tools/pip_install.py NAME PIP-OPTION…`.

NAME says what is installed. On a terminal one line shows the progress; elsewhere there is a line
for each step and for every 20 seconds. pip's own output is printed only if pip fails.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

_PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--progress-bar=off")
# pip prints one of these lines for each package that it finds.
_FOUND = re.compile(r"(?:Collecting|Processing|Requirement already satisfied:) ")
_IGNORED = re.compile(r"Ignoring \S+: markers ")
_INSTALLS = re.compile(r"Installing collected packages: ")
_LOCKED = re.compile(r"^[\w.-]+==", re.MULTILINE)
_REPORT_EVERY_S = 20.0
# The last lines of pip's output, which contain its errors.
_SHOWN_LINES = 30


class Progress:
    """The progress of pip, by the lines that pip prints.

    `total`: the number of packages, 0 if it is unknown.
    """

    def __init__(self, name: str, total: int, is_terminal: bool) -> None:
        self._name = name
        self._total = total
        self._is_terminal = is_terminal
        self._started_at = self._reported_at = time.monotonic()
        self._found = 0
        self._unpacked_before = _count_unpacked()
        self._unpacks = False
        self._shown = ""

    def read(self, line: str) -> None:
        """Take a line of pip's output into account."""
        if _FOUND.match(line):
            self._found += 1
        elif _IGNORED.match(line):
            self._total -= 1
        elif _INSTALLS.match(line):
            self._unpacks = True
            self._report(time.monotonic())

    def tick(self, now: float) -> None:
        """Show the progress at the time `now`, by `time.monotonic`, if it is due."""
        if self._is_terminal or now - self._reported_at >= _REPORT_EVERY_S:
            self._report(now)

    def end(self) -> None:
        """Print that everything is installed, and in how much time."""
        took = time.monotonic() - self._started_at
        self._print(f"Installed {self._name} in {took:.0f} s.", last=True)

    def clear(self) -> None:
        """Remove the line of progress from the terminal."""
        if self._is_terminal:
            self._print("", last=False)
            print("\r", end="", flush=True)

    def _report(self, now: float) -> None:
        self._reported_at = now
        took = f"{now - self._started_at:.0f} s"
        if self._total > 0:
            count = self._found
            if self._unpacks:
                # pip is silent while it unpacks, but each package adds a directory.
                count = _count_unpacked() - self._unpacked_before
            step = "unpacked" if self._unpacks else "downloaded"
            took = f"{step} {count} of {self._total}, {took}"
        self._print(f"Installing {self._name}: {took} ...", last=False)

    def _print(self, text: str, *, last: bool) -> None:
        if not self._is_terminal:
            print(text, flush=True)
            return
        if last or text != self._shown:
            print(f"\r{text.ljust(len(self._shown))}", end="\n" if last else "", flush=True)
        self._shown = text


def _count_unpacked() -> int:
    """Return the number of packages in this Python environment."""
    return len(list(Path(sysconfig.get_path("purelib")).glob("*.dist-info")))


def main(name: str, options: list[str]) -> int:
    """Run pip with these options; return its exit code."""
    locked = Path(options[options.index("-r") + 1]).read_text() if "-r" in options else ""
    progress = Progress(name, len(_LOCKED.findall(locked)), sys.stdout.isatty())
    lines: list[str] = []
    with subprocess.Popen(
        [sys.executable, *_PIP, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as pip:
        assert pip.stdout is not None
        for line in _lines(pip.stdout.fileno()):
            if line is None:
                progress.tick(time.monotonic())
            else:
                lines.append(line)
                progress.read(line)
    if pip.returncode == 0:
        progress.end()
        return 0
    progress.clear()
    print("\n".join(lines[-_SHOWN_LINES:]), file=sys.stderr)
    print(
        f"Installing {name} failed (see above). If the package index could not be reached,"
        " check the network and pip's configuration.",
        file=sys.stderr,
    )
    return pip.returncode


def _lines(output: int) -> Iterator[str | None]:
    """Yield the lines of a pipe, and None after each second and each line."""
    rest = b""
    while True:
        if select.select([output], [], [], 1.0)[0]:
            read = os.read(output, 65_536)
            if not read:
                yield from [rest.decode(errors="replace")] if rest else []
                return
            *whole, rest = (rest + read).split(b"\n")
            for line in whole:
                yield line.decode(errors="replace")
        yield None


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], sys.argv[2:]))
    except KeyboardInterrupt:
        # pip has got the same signal.
        print(file=sys.stderr)
        sys.exit(130)
