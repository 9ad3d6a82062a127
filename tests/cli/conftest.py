"""An installation of our own: a directory, an empty database, and the command line in it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from crmhub.cli import main
from tests.own_databases import KINDS, empty, own_database

CRMHUB = (sys.executable, "-m", "crmhub")


@pytest.fixture(scope="session", params=KINDS)
def own_url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Each database in turn, shared with no test of another directory."""
    with own_database(request.param, tmp_path_factory.mktemp("cli")) as url:
        yield url


def environment(**settings: str) -> dict[str, str]:
    """Return the environment of this process with these settings and no other ones."""
    ours = {f"CRMHUB_{name.upper()}": value for name, value in settings.items()}
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("CRMHUB_")},
        **ours,
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Runs commands in an installation, in this process."""

    root: Path
    env: dict[str, str]

    def __call__(self, *args: str, code: int = 0, stdin: str | None = None) -> Result:
        """Run a command and return its result; it must exit with `code`."""
        here = Path.cwd()
        os.chdir(self.root)
        try:
            result = CliRunner().invoke(main, args, input=stdin, env=self.env, prog_name="crmhub")
        finally:
            os.chdir(here)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    def json(self, *args: str, code: int = 0, stdin: str | None = None) -> Any:
        """Return what a command prints with --json."""
        return json.loads(self(*args, "--json", code=code, stdin=stdin).stdout)


@pytest.fixture
def crmhub(own_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    empty(own_url)
    for name in [name for name in os.environ if name.startswith("CRMHUB_")]:
        monkeypatch.delenv(name)
    return CommandLine(tmp_path, {"CRMHUB_DATABASE_URL": own_url})
