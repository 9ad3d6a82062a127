"""Nothing that a dependency keeps to itself is touched."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_OURS = ("crmhub", "adapters")
# Documented in spite of their names: by Python, Werkzeug ("Context Locals") and marshmallow
# ("Custom fields").
_PUBLIC = {
    "_exit",
    "_fields",
    "_replace",
    "_asdict",
    "_make",
    "_get_current_object",
    "_deserialize",
    # Known to type checkers alone.
    "_typeshed",
}


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in _PUBLIC


def _defined(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a module gives to functions, classes, variables and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and _is_set_on_self(node):
            yield node.attr


def _is_set_on_self(node: ast.Attribute) -> bool:
    owner = node.value
    by_us = isinstance(owner, ast.Name) and owner.id in ("self", "cls")
    return by_us and isinstance(node.ctx, ast.Store)


def _of_others(tree: ast.AST, ours: set[str]) -> Iterator[str]:
    """Yield each use of a private name that none of our modules defines, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom):
            modules = (node.module or "").split(".")
            names = [*modules, *(each.name for each in node.names)]
        elif isinstance(node, ast.Import):
            names = [part for each in node.names for part in each.name.split(".")]
        elif isinstance(node, ast.Call) and _is_getattr(node):
            names = [arg.value for arg in node.args[1:2] if isinstance(arg, ast.Constant)]
        else:
            continue
        for name in names:
            if _is_private(str(name)) and name not in ours:
                yield f"{node.lineno}: {ast.unparse(node)}"


def _is_getattr(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in ("getattr", "setattr", "hasattr")


def test_no_private_attribute_of_a_dependency_is_touched() -> None:
    files = [file for name in _OURS for file in (_ROOT / name).rglob("*.py")]
    trees = {file: ast.parse(file.read_text(encoding="utf-8")) for file in files}
    ours = {name for tree in trees.values() for name in _defined(tree)}
    found = [
        f"{file.relative_to(_ROOT)}:{use}"
        for file, tree in trees.items()
        for use in _of_others(tree, ours)
    ]
    assert len(files) > 100
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "server._sfd = 3",
        "from granian import _granian",
        "from granian._granian import SocketHolder",
        "import granian._granian",
        "getattr(view, '_apidoc', {})",
        "self._docs.clear()",
    ],
)
def test_private_names_of_others_are_seen(line: str) -> None:
    assert [*_of_others(ast.parse(line), {"_ours"})]


@pytest.mark.parametrize(
    "line", ["self._ours = 1", "row._replace(id=1)", "thing.__class__", "os._exit(0)", "_ = x.y"]
)
def test_our_own_and_documented_names_are_let_be(line: str) -> None:
    assert not [*_of_others(ast.parse(line), {"_ours"})]
