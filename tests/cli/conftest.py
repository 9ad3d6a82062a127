"""An installation of our own: a directory, an empty database, and the command line in it."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flask
import pytest
from click.testing import CliRunner, Result

from crmhub.app import create_app
from crmhub.cli import main
from crmhub.crm.stored_connections import open_credentials
from crmhub.hub import Hub
from crmhub.secrets import EncryptionKey
from crmhub.settings import Settings
from tests.own_databases import empty, url_fixture

CRMHUB = (sys.executable, "-m", "crmhub")
SECRET = "the secret key of the tests alone"
KEY = b"k" * 32


# Shared with no test of another directory.
own_url = url_fixture("session")


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


def credentials(crmhub: CommandLine, client_id: str = "acme") -> dict[str, str]:
    """Return the stored credentials, with the keys that are set now."""
    hub = Hub.open(Settings.load(crmhub.env, crmhub.root))
    try:
        return open_credentials(hub.vault, hub.load_account(client_id))
    finally:
        hub.close()


@pytest.fixture
def crmhub(own_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    empty(own_url)
    for name in [name for name in os.environ if name.startswith("CRMHUB_")]:
        monkeypatch.delenv(name)
    return CommandLine(tmp_path, {"CRMHUB_DATABASE_URL": own_url})


@pytest.fixture
def acme(crmhub: CommandLine) -> CommandLine:
    """The command line of an installation with one account."""
    crmhub("account", "create", "Acme")
    return crmhub


@pytest.fixture
def acme_hub(acme: CommandLine) -> Iterator[Hub]:
    """That installation as a process has it that runs beside the commands."""
    hub = Hub.open(Settings.load(acme.env, acme.root))
    yield hub
    hub.close()


def make_app(url: str, root: Path) -> flask.Flask:
    return create_app(
        Settings(
            root=root,
            database_url=url,
            secret_key=SECRET,
            encryption_keys=(EncryptionKey("k1", KEY),),
        )
    )


@pytest.fixture
def served_app(crmhub: CommandLine, own_url: str, tmp_path: Path) -> Iterator[flask.Flask]:
    """The application of the installation, for calls whose effects commands show."""
    crmhub("db", "upgrade")
    app = make_app(own_url, tmp_path)
    yield app
    app.extensions["crmhub"].close()


@dataclass
class Installation:
    """A hub of ours and what its processes are started with."""

    app: flask.Flask
    root: Path
    settings: dict[str, str]

    @property
    def hub(self) -> Hub:
        hub: Hub = self.app.extensions["crmhub"]
        return hub


@pytest.fixture
def here(own_url: str, tmp_path: Path) -> Iterator[Installation]:
    empty(own_url)
    app = make_app(own_url, tmp_path)
    keys = f"k1:{base64.b64encode(KEY).decode()}"
    settings = {"database_url": own_url, "secret_key": SECRET, "encryption_keys": keys}
    yield Installation(app, tmp_path, settings)
    app.extensions["crmhub"].close()
