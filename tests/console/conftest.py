"""An operator who is signed in: without a browser (`operator`), and in Chromium (`page`)."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import flask
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from crmhub.hub import Hub
from crmhub.settings import Settings
from tests import databases
from tests.console.chromium import FLAGS
from tests.consoles import Operator, open_console, start_session, unused_email
from tests.own_databases import KINDS, own_database
from tests.server.servers import HASTY, serving

# A page is there when it is there, however busy the machine is.
expect.set_options(timeout=60_000)

_N8N = "n8n@2.8"
_PACKAGES = ("node-red@4", "typescript@5", "@types/node@20", "axe-core")


@pytest.fixture(autouse=True)
def _passwords_take_no_time(quick_passwords: None) -> None:
    """What is tried here is who comes in, not what a stolen hash withstands."""


@pytest.fixture
def operator(app: flask.Flask) -> Operator:
    """A browser without JavaScript at the console, signed in."""
    return open_console(app)


@dataclass(frozen=True, slots=True)
class Served:
    """A hub that serves at `url`, and the same from within."""

    url: str
    hub: Hub


@pytest.fixture(scope="session", params=KINDS)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A real service on each database in turn, with a worker; it may call this machine.

    The database is its own: its worker would take what other tests have in their journal.
    """
    root = tmp_path_factory.mktemp("served")
    with own_database(request.param, root) as database_url:
        given = {"database_url": database_url, "egress_allow": "127.0.0.0/8"}
        with serving(root, "--workers", "1", program=HASTY, **given) as server:
            environ = {f"CRMHUB_{name.upper()}": value for name, value in given.items()}
            hub = Hub.open(Settings.load(environ, root))
            yield Served(f"http://127.0.0.1:{server.port}", hub)
            hub.close()


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser of the system; skips without it."""
    if reason := databases.left_out("chromium"):
        pytest.skip(f"Chromium left out: {reason}")
    return os.fspath(databases.CHROMIUM)


@pytest.fixture(scope="session")
def npm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packages of npm that tests run; skips where npm or its registry is missing."""
    if reason := databases.left_out("npm"):
        pytest.skip(f"npm left out: {reason}")
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "npm"
    return _installed(root, *_PACKAGES)


@pytest.fixture(scope="session")
def n8n() -> Path:
    """The packages of n8n, over 2 GB, which are kept for later runs; skips as `npm` does.

    They are in the directory that CRMHUB_TEST_N8N names, else in the user's cache directory.
    """
    for needed in ("npm", "postgresql"):
        if reason := databases.left_out(needed):
            pytest.skip(f"{needed} left out: {reason}")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    root = Path(os.environ.get("CRMHUB_TEST_N8N") or cache / "crmhub-tests" / _N8N)
    # n8n takes xlsx from an address outside of the registry. Scripts would compile SQLite.
    return _installed(root, "--ignore-scripts", _N8N, overrides={"xlsx": "0.18.5"})


def _installed(root: Path, *words: str, **manifest: object) -> Path:
    """Return the packages that `npm install` with `words` puts into a directory, once."""
    root.mkdir(parents=True, exist_ok=True)
    # Of all workers of xdist, the first one installs them.
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / "installed").exists():
            package = {"name": "tests", "private": True, **manifest}
            (root / "package.json").write_text(json.dumps(package))
            command = ["npm", "install", "--no-audit", "--no-fund", "--prefer-offline", *words]
            subprocess.run(command, cwd=root, check=True, capture_output=True)
            (root / "installed").touch()
    return root / "node_modules"


@pytest.fixture(scope="session")
def browser_type_launch_args(chromium: str) -> dict[str, object]:
    """How pytest-playwright starts the browser."""
    return {"executable_path": chromium, "args": FLAGS}


@pytest.fixture(scope="session")
def browser_context_args(served: Served) -> dict[str, object]:
    """What each test's browser starts with: addresses are relative to the served hub."""
    return {"base_url": served.url}


@pytest.fixture
def page(context: BrowserContext, served: Served) -> Page:
    """A page of a browser whose user is signed in."""
    return signed_in(context, served)


def signed_in(context: BrowserContext, served: Served) -> Page:
    """Return a page whose user is signed in, without the half second that signing in takes."""
    session = start_session(served.hub, unused_email())
    where = {"domain": "127.0.0.1", "path": "/console"}
    context.add_cookies([{"name": "crmhub_console", "value": session, **where}])
    return context.new_page()
