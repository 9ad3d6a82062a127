"""Both OpenAPI documents pass the recommended rules of Redocly CLI and Spectral."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.generated.conftest import DOCUMENTS, Served, run

# The tests start processes, so they run with the other slow ones (`tests/marks.py`).
assert subprocess


@pytest.mark.parametrize("name", DOCUMENTS)
def test_redocly_finds_nothing(
    npm_programs: Path, described: Served, tmp_path: Path, name: str
) -> None:
    document = described.documents / f"{name}.json"
    options = ["--extends", "recommended", "--format", "json", document]
    found = json.loads(run([npm_programs / "redocly", "lint", *options], tmp_path))
    assert (found["totals"], found["problems"]) == (
        {"errors": 0, "warnings": 0, "ignored": 0},
        [],
    )


@pytest.mark.parametrize("name", DOCUMENTS)
def test_spectral_finds_nothing(
    npm_programs: Path, described: Served, tmp_path: Path, name: str
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text('extends: ["spectral:oas"]\n')
    document = described.documents / f"{name}.json"
    options = ["--ruleset", rules, "--fail-severity", "hint", "--format", "json", document]
    printed = run([npm_programs / "spectral", "lint", *options], tmp_path)
    assert json.loads(printed.partition("]")[0] + "]") == []
