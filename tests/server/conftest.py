"""An installation of our own, with a file of SQLite: what a server process does is the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine


@pytest.fixture
def crmhub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    for name in [name for name in os.environ if name.startswith("CRMHUB_")]:
        monkeypatch.delenv(name)
    return CommandLine(tmp_path, {})
