"""Regular expressions take time in proportion to the length of a text, whatever it is."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from time import process_time
from types import ModuleType
from typing import Any

import pytest

import adapters
import crmhub
from tests import depth

pytestmark = pytest.mark.databases("sqlite")

LONG, SHORT = (20_000, 500) if depth.ALL else (6_000, 150)
# A quadratic pattern takes 40 times as long for each of 40 times as many characters.
MOST_OVER_LINEAR = 20
# Shorter times than this are those of the call, not of the text.
CALL_S = 5e-6
ATOMS = (
    *"aA10 \n@.-+()\"'<>{}[]$%#|*/\\:;,=&_é“‘«·",
    *("a@", "@a", "a.", "1.", "1 ", "1,", "a-", '"a', "'a", "{{", "[[", "<<", "<a", '\\"', "+1"),
    *("http://", "%7B", "\u0301", "\u00a0", "a\u0301", "1e", "-1", "á", "\r\n", "a b "),
)
FUNCTIONS = ("search", "match", "fullmatch", "sub", "split", "findall")
# They read files of this installation or code, and no text of a caller.
NOT_OF_CALLERS = ("skeleton", "__main__", "migrations", "testing", "fakes", "fake")


def modules() -> Iterator[ModuleType]:
    for package in (crmhub, adapters):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not any(f".{part}" in found.name for part in NOT_OF_CALLERS):
                yield importlib.import_module(found.name)


def patterns() -> dict[re.Pattern[str], str]:
    """Return the compiled patterns of modules and classes, with the name of one of their places."""
    named: dict[re.Pattern[str], str] = {}

    def collect(place: str, value: Any) -> None:
        if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
            named.setdefault(value, place)
        elif isinstance(value, list | tuple | set | frozenset):
            for each in value:
                collect(place, each)
        elif isinstance(value, dict):
            for each in [*value, *value.values()]:
                collect(place, each)

    for module in modules():
        for name, pattern in inline_patterns(module):
            named.setdefault(pattern, f"{module.__name__}.{name}")
        for name, value in list(vars(module).items()):
            place = f"{module.__name__}.{name}"
            collect(place, value)
            if isinstance(value, type) and value.__module__ == module.__name__:
                for attribute in list(vars(value).values()):
                    collect(place, attribute)
    return named


def inline_patterns(module: ModuleType) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield the patterns that a module hands to functions of `re` as texts, with a name."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        function = node.func
        if ast.unparse(function.value) == "re" and function.attr in FUNCTIONS and node.args:
            given = node.args[0]
            if isinstance(given, ast.Constant) and isinstance(given.value, str):
                is_whole = function.attr.endswith("match")
                yield f"{'_' * is_whole}{given.value.replace('.', '·')}", re.compile(given.value)


def texts(pattern: re.Pattern[str], length: int) -> Iterator[tuple[str, str]]:
    """Yield texts that repeat signs, and words of the pattern itself, and end in another way."""
    own = re.findall(r"[A-Za-z]{2,}[^\w\s\\]{0,2}|[^\w\s]{2}", pattern.pattern)
    for atom in dict.fromkeys((*ATOMS, *own[:12])):
        repeated = (atom * length)[: length - 1]
        yield atom, f"{repeated}\x01"
        yield f"1{atom}", f"1{repeated}"


def is_searched(place: str) -> bool:
    """Return whether a pattern is looked for inside of texts, not only matched with whole ones."""
    module, _, name = place.rpartition(".")
    source = inspect.getsource(sys.modules[module])
    calls = rf"{re.escape(name)}(\[\w+\])?\.(search|sub|subn|finditer|findall|split)\("
    return not name.startswith("_") or re.search(calls, source) is not None


def seconds(pattern: re.Pattern[str], text: str, searched: bool) -> float:
    began = process_time()
    if searched:
        for _ in pattern.finditer(text):
            pass
    else:
        pattern.match(text)
    pattern.fullmatch(text)
    return process_time() - began


def is_over(pattern: re.Pattern[str], longer: str, shorter: str, searched: bool = True) -> bool:
    """Return whether the longer text takes more than 20 times its share of time."""
    most = LONG / SHORT * MOST_OVER_LINEAR
    if seconds(pattern, longer, searched) <= most * CALL_S:
        return False
    basis = max(CALL_S, min(seconds(pattern, shorter, searched) for _ in range(5)))
    return min(seconds(pattern, longer, searched) for _ in range(3)) > most * basis


def slow_shape(pattern: re.Pattern[str], searched: bool) -> str | None:
    """Return what a text repeats that makes the pattern slow, None if none of the texts does."""
    pairs = zip(texts(pattern, LONG), texts(pattern, SHORT), strict=True)
    return next(
        (shape for (shape, one), (_, other) in pairs if is_over(pattern, one, other, searched)),
        None,
    )


def test_no_text_makes_a_pattern_slow() -> None:
    found = patterns()
    assert len(found) > 100
    slow = {
        place: shape
        for pattern, place in found.items()
        if (shape := slow_shape(pattern, is_searched(place))) is not None
    }
    assert slow == {}


def test_the_test_of_patterns_finds_a_slow_one() -> None:
    quadratic = re.compile("a+b")
    # A busy processor may lengthen the short measurement once, hardly ten times.
    assert any(is_over(quadratic, "a" * LONG, "a" * SHORT) for _ in range(10))
    assert not is_over(re.compile("a"), "a" * LONG, "a" * SHORT)
