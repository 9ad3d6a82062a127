"""Workers die while the receiver fails a part of the time: no event is lost or out of order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.databases import POSTGRES, left_out
from tests.depth import ALL

ROOT = Path(__file__).parents[2]


@pytest.mark.crash
@pytest.mark.parametrize("database", ["postgresql", *(["sqlite"] if ALL else [])])
def test_killed_workers_lose_no_event(database: str) -> None:
    if reason := left_out(database):
        pytest.skip(f"PostgreSQL left out: {reason}")
    run = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.events"),
            *("--changes", "80", "--calm", "16", "--kills", "3"),
            *(("--sqlite",) if database == "sqlite" else ()),
        ],
        cwd=ROOT,
        env={**os.environ, "CRMHUB_TEST_POSTGRES": POSTGRES, "PYTHONPATH": os.fspath(ROOT)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, f"…{run.stdout[-500:]}\n{run.stderr[-3000:]}"
    assert "3 workers killed" in run.stdout
    assert "lost 0, out of order 0" in run.stdout
