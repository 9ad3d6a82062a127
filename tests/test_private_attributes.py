"""Nothing that a dependency keeps to itself is touched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[1]
# Documented in spite of their names: by Python, Werkzeug ("Context Locals") and marshmallow
# ("Custom fields"); known to type checkers alone; and a word of MCP.
_PUBLIC = {"_exit", "_fields", "_replace", "_asdict", "_make", "_get_current_object"}
_PUBLIC |= {"_deserialize", "_typeshed", "_meta"}
# What modules give to functions, classes, variables and attributes.
_DEFINED = re.compile(
    r"(?:def|class) +(_\w+)|(?:self|cls)\.(_\w+)(?=(?:, [\w.]+)* *(?::|=(?!=)))"
    r"|^ *(_\w+)(?:, \w+)* *(?::|=(?!=))|, (_\w+) =|(?:for|as) (_\w+)\b",
    re.MULTILINE,
)
_USED = re.compile(
    r"[\w)\]]\.(_[a-z]\w*)|^ *(?:from|import) .*?\b(_[a-z]\w*)"
    r"|(?:get|set|has)attr\([^)\n]*[\"'](_[a-z]\w*)[\"']",
    re.MULTILINE,
)


def _names(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    return (name for found in pattern.finditer(text) for name in found.groups() if name)


def test_no_private_attribute_of_a_dependency_is_touched() -> None:
    files = [file for name in ("crmhub", "adapters") for file in (_ROOT / name).rglob("*.py")]
    texts = {str(file.relative_to(_ROOT)): file.read_text("utf-8") for file in files}
    ours = {name for text in texts.values() for name in _names(_DEFINED, text)} | _PUBLIC
    found = {f"{file}: {n}" for file, text in texts.items() for n in _names(_USED, text)}
    assert len(files) > 100
    assert sorted(one for one in found if one.partition(": ")[2] not in ours) == []


def test_private_names_of_others_are_seen() -> None:
    for line in (
        "server._sfd = 3",
        "from granian import _granian",
        "import granian._granian",
        "getattr(view, '_apidoc', {})",
        "self._docs.clear()",
    ):
        assert {*_names(_USED, line)} - {*_names(_DEFINED, line)}, line
