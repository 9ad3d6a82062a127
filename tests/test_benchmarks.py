"""The benchmarks that nobody runs every day still run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.floor import cases
from tests.databases import POSTGRES

ROOT = Path(__file__).parents[1]


def _printed(module: str, *options: str) -> list[str]:
    run = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *options],
        cwd=ROOT,
        env={**os.environ, "CRMHUB_TEST_POSTGRES": POSTGRES},
        capture_output=True,
        text=True,
    )
    # Short, and the reason last: where a report is cut, that is what must be left.
    assert run.returncode == 0, f"…{run.stdout[-500:]}\n{run.stderr[-3000:]}"
    return run.stdout.splitlines()


def test_the_hub_and_a_schema_made_by_hand_find_the_same(postgresql_url: str) -> None:
    size = ["--records", "1500", "--others", "100", "--accounts", "2"]
    short = ["--rounds", "1", "--http-rounds", "1", "--http-seconds", "0.1"]
    lines = _printed("million", *size, *short, "--workers", "1", "--connections", "2")
    for case in cases():
        of_case = [line for line in lines if line.startswith((f"{case.name}  ", f"{case.name}, "))]
        # Its total, and its pages under four sorts.
        assert len(of_case) == 1 + 4, case.name
    assert any(line.startswith("memory of the server processes") for line in lines)


def test_growth_is_told_for_each_size(postgresql_url: str) -> None:
    heads, *rows = _printed("growth", "--sizes", "200,400", "--rounds", "5")
    assert heads.split()[-2:] == ["200", "400"]
    assert len(rows) == 3


def test_each_total_and_page_on_sqlite_is_told() -> None:
    lines = _printed("sqlite", "--records", "1000", "--rounds", "1")
    for case in cases():
        # Its total and pages under four sorts.
        assert len([line for line in lines if line.startswith(f"{case.name}, ")]) == 4, case.name
    assert lines[-1].startswith("over (totals: 60 ms, pages: 5 ms): ")


def test_what_a_request_costs_is_told_by_layers(postgresql_url: str) -> None:
    lines = _printed("layers", "--records", "1000", "--rounds", "1", "--requests", "3")
    heads, *rows = lines
    assert heads.split()[:2] == ["us", "calls"]
    assert len(rows) == 5 * 2, lines
