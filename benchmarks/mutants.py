"""Plant defects in an adapter, one after another, and count those that its tests catch.

    python -m benchmarks.mutants pipedrive [--number 10] [--seed 1] [--only TEXT] [--kit-only]

Each defect is one change of one expression or statement of `adapters/NAME`, drawn at random: a
comparison turned around, a condition without its `not`, an error that is not raised, a result that
is not returned, an argument that is not given, a key under another name. The tests run in a copy
of the checkout and stop at the first failure; those that call the function of the defect come
first. A test that takes five times as long as the longest one without a defect, and a minute at
least, has failed: `hangs`. What survived is printed with its line: a few of these change nothing
that anyone could see, and the others are what a test is missing for.
The exit code is 1 if a defect survived. `--only adapter.py:123`, or another part of a printed line,
plants all defects with it in place of the drawn ones; it may be repeated. `--kit-only` leaves out
all but the conformance tests: that is what the author of a new adapter gets for nothing.

Tryton's adapter meets its essential tests. `CRMHUB_TEST_ALL=1` in the environment lets it meet all,
as `make test-tryton` does, but those in which processes die: they take minutes, and test the hub.
"""

from __future__ import annotations

import ast
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.mutant_runs import FOLDER, HANGS, function_at
from benchmarks.places import parser

_ROOT = Path(__file__).parents[1]
_TURNED = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: ">=",
    ast.LtE: ">",
    ast.Gt: "<=",
    ast.GtE: "<",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
# What people read: a change of it is for the eye, and no test's affair.
_TEXTS = ("label", "codes", "help", "hint", "guide", "title", "message", "reason", "placeholder")

_OPTIONS = ["-x", "-q", "--tb=line", "--no-header", "-p", "no:cacheprovider"]
_OPTIONS += ["-p", "benchmarks.mutant_runs", "-m", "not crash"]
# So many times as long as without a defect is endless; a short test may wait for the processor.
_FACTOR = 5
_LEAST_S = 60.0


@dataclass(frozen=True, slots=True)
class Defect:
    """A change of one place of a source: `was` stood there, and `text` stands there instead.

    `function` is the function or method around it, as `mutant_runs` names it.
    """

    path: Path
    line: int
    start: int
    was: str
    text: str
    function: str

    def __str__(self) -> str:
        return f"{self.path.name}:{self.line}: {self.was!r} -> {self.text!r}"

    def planted_in(self, source: str) -> str:
        """Return the source with this defect."""
        return source[: self.start] + self.text + source[self.start + len(self.was) :]


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("adapter", help="the name of a module or package in adapters/")
    command.add_argument("--number", type=int, default=10, help="of defects")
    command.add_argument("--seed", type=int, default=1, help="another one draws other defects")
    command.add_argument("--only", action="append", help="a part of a defect's line")
    command.add_argument("--kit-only", action="store_true", help="run the conformance tests alone")
    options = command.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "crmhub"
        _copy(copy)
        found = [defect for path in _sources(copy, options.adapter) for defect in defects(path)]
        if not found:
            sys.exit(f"adapters/ holds no module or package named {options.adapter}.")
        began = time.monotonic()
        tests = _Tests(copy, options.adapter, options.kit_only)
        if not tests.pass_without_defect():
            sys.exit(f"The tests fail without any defect:\n{tests.said}")
        print(f"{'passed':<9}{time.monotonic() - began:5.0f} s  without any defect", flush=True)
        if options.only:
            drawn = [one for one in found if any(text in str(one) for text in options.only)]
        else:
            drawn = random.Random(options.seed).sample(found, min(options.number, len(found)))
        survived = [defect for defect in drawn if not _is_caught(defect, tests)]
    print(
        f"{len(drawn) - len(survived)} of {len(drawn)} caught, drawn from {len(found)},"
        f" in {(time.monotonic() - began) / 60:.0f} min"
    )
    sys.exit(bool(survived))


def _copy(folder: Path) -> None:
    """Copy the files of the checkout, also those that are not committed."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(listing, cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=True)
    for name in filter(None, found.stdout.split("\0")):
        if (_ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(_ROOT / name, folder / name)
    # Without it, the tests of the adapter of Tryton would be left out.
    (folder / ".venv-tryton").symlink_to(_ROOT / ".venv-tryton")


def _sources(copy: Path, adapter: str) -> list[Path]:
    """Return the modules of an adapter, without its fake."""
    package = copy / "adapters" / adapter
    if package.is_dir():
        return sorted(package.glob("*.py"))
    return sorted((copy / "adapters").glob(f"{adapter}*.py"))


def defects(path: Path) -> Iterator[Defect]:
    """Yield every defect that can be planted in a module."""
    source = path.read_text()
    # Offsets of the syntax tree count bytes of UTF-8; the adapters' sources are read as such.
    lines = [0]
    for line in source.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))

    def at(line: int, column: int) -> int:
        return len(source.encode()[: lines[line - 1] + column].decode())

    tree = ast.parse(source)
    functions = {
        line: function_at(path, first)
        for first, last in _functions(tree)
        for line in range(first, last + 1)
    }
    for node in _visible(tree):
        for place, text in _changes(node):
            assert place.end_lineno is not None
            assert place.end_col_offset is not None
            start = at(place.lineno, place.col_offset)
            end = at(place.end_lineno, place.end_col_offset)
            function = functions.get(place.lineno, "")
            yield Defect(path, place.lineno, start, source[start:end], text, function)


def _functions(node: ast.AST) -> Iterator[tuple[int, int]]:
    """Yield the first and the last line of each function that stands in no other one."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            # A code object begins at its first decorator.
            first = min([child.lineno, *(one.lineno for one in child.decorator_list)])
            yield first, child.end_lineno or first
        else:
            yield from _functions(child)


def _visible(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below one, without annotations and without texts for people."""
    yield node
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST):
                continue
            if isinstance(child, ast.keyword) and child.arg in _TEXTS:
                continue
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue
            yield from _visible(child)


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Yield what may be planted at one node: the place, and what stands there instead."""
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            yield node, f"({ast.unparse(left)} {_TURNED[type(operator)]} {ast.unparse(right)})"
        case ast.BoolOp(op=operator, values=values):
            other = " and " if isinstance(operator, ast.Or) else " or "
            yield node, f"({other.join(f'({ast.unparse(value)})' for value in values)})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, f"({ast.unparse(operand)})"
        case ast.Raise():
            yield node, "pass"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield node, "return None"
        case ast.Call(func=function, args=arguments, keywords=keywords) if keywords:
            given = [*map(ast.unparse, arguments), *map(_argument, keywords[1:])]
            if keywords[0].arg not in (None, *_TEXTS):
                yield node, f"{ast.unparse(function)}({', '.join(given)})"
        case ast.Subscript(slice=ast.Constant(value=str(key)) as place):
            yield place, repr(f"{key}_")
        case ast.Dict(keys=keys):
            for name in keys:
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    yield name, repr(f"{name.value}_")


def _argument(keyword: ast.keyword) -> str:
    value = ast.unparse(keyword.value)
    return f"{keyword.arg}={value}" if keyword.arg else f"**{value}"


class _Tests:
    """The tests of one adapter in a copy of the checkout."""

    def __init__(self, copy: Path, adapter: str, kit_only: bool) -> None:
        """Take the copy, the adapter's name, and whether only the conformance tests run."""
        self.copy = copy
        where = copy / "tests" / "adapters" / adapter
        self.where = where / f"test_{adapter}.py" if kit_only else where
        self.folder = copy.parent / "runs"
        self.folder.mkdir()
        self.said = ""
        self.caught: list[str] = []
        self.limit_s: float | None = None
        self.calls: dict[str, dict[str, Any]] = {}

    def pass_without_defect(self) -> bool:
        """Run all; return whether they pass, and learn what each calls and how long it takes."""
        began = time.monotonic()
        passed = self._run("-n", "2")
        self.limit_s = _FACTOR * (time.monotonic() - began)
        for file in self.folder.glob("*.json"):
            self.calls |= json.loads(file.read_text())
        return passed

    def pass_(self, defect: Defect) -> bool:
        """Run them until one fails; return whether none did.

        First come those that call the function of the defect, of these first the ones that caught
        others. One that takes too long fails: a defect can make a loop endless.
        """
        near = [test for test, run in self.calls.items() if defect.function in run["calls"]]
        first = sorted(near, key=lambda test: (test not in self.caught, self.calls[test]["took_s"]))
        longest_s = max(run["took_s"] for run in self.calls.values())
        plan = {"first": first + self.caught, "limit_s": max(_FACTOR * longest_s, _LEAST_S)}
        (self.folder / "plan").write_text(json.dumps(plan))
        passed = self._run()
        self.caught += re.findall(r"^FAILED (.+?)(?: - .*)?$", self.said, re.MULTILINE)
        return passed

    def _run(self, *options: str) -> bool:
        run = subprocess.Popen(
            [sys.executable, "-m", "pytest", *_OPTIONS, *options, str(self.where)],
            cwd=self.copy,
            env={
                **os.environ,
                "PYTHONPATH": f"{self.copy}:{self.copy / 'clients' / 'python'}",
                FOLDER: str(self.folder),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            self.said = run.communicate(timeout=self.limit_s)[0][-4000:]
        except subprocess.TimeoutExpired:
            self.said = HANGS
        finally:
            # What hangs in a thread, or is left when this command ends.
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()
        return run.returncode == 0


def _is_caught(defect: Defect, tests: _Tests) -> bool:
    began = time.monotonic()
    source = defect.path.read_text()
    defect.path.write_text(defect.planted_in(source))
    try:
        survived = tests.pass_(defect)
    finally:
        defect.path.write_text(source)
    verdict = "SURVIVED" if survived else "hangs" if HANGS in tests.said else "caught"
    print(f"{verdict:<9}{time.monotonic() - began:5.0f} s  {defect}", flush=True)
    return not survived


if __name__ == "__main__":
    main()
