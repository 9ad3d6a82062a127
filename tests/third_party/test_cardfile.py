"""A package of somebody else's is found by its entry point and does an account's work."""

from __future__ import annotations

import importlib.util
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from crmhub.adapter import Conflict, Kind, Linked
from crmhub.adapter.testing import AdapterTests
from tests.cli.conftest import environment
from tests.depth import thorough
from tests.preparations import find_packages
from tests.processes import Forked

FOUND = Forked(find_packages)
HERE = Path(__file__).parent
PIP = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
ALONE = ("--no-index", "--no-deps", "--no-build-isolation")


@dataclass(frozen=True, slots=True)
class Installation:
    """An installation with two packages of others beside the hub."""

    root: Path
    env: dict[str, str]

    def __call__(self, *args: str, code: int = 0) -> str:
        """Run a command in a process of its own and return what it prints."""
        ran = FOUND.run(*args, cwd=self.root, env=self.env)
        assert ran.returncode == code, ran.stderr
        assert "Traceback" not in ran.stderr
        return ran.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where both packages are installed, as pip builds and installs them."""
    where = tmp_path_factory.mktemp("packages")
    of_others = [str(HERE / "cardfile"), str(HERE / "broken")]
    subprocess.run([*PIP, *ALONE, "--target", str(where), *of_others], check=True)
    return where


@pytest.fixture
def crmhub(packages: Path, tmp_path: Path) -> Installation:
    ours = environment()
    return Installation(
        tmp_path, {**ours, "PYTHONPATH": os.pathsep.join([ours["PYTHONPATH"], str(packages)])}
    )


def test_a_package_is_listed_and_a_broken_one_breaks_nothing_else(crmhub: Installation) -> None:
    listed = {one["name"]: one for one in json.loads(crmhub("adapters", "--json", code=1))}
    cardfile = listed["cardfile"]
    assert (cardfile["title"], cardfile["version"]) == ("Card file", "3.1.4")
    assert (cardfile["distribution"], cardfile["error"]) == ("crmhub-cardfile", "")
    assert [one["name"] for one in cardfile["settings"]] == ["path"]

    assert "no_such_vendor_library" in listed["broken"]["error"]
    assert listed["broken"]["distribution"] == "crmhub-broken"
    assert all(not one["error"] for name, one in listed.items() if name != "broken")


# The helper is called as the server calls it: through the app, in a process that finds the package.
CREATE_LEAD = """
import sys
from crmhub.app import create_app

answer = create_app().test_client().post(
    f"/chatbot/createLead/{sys.argv[1]}",
    json={"contactToken": "chat-1", "name": "Ann Lee", "email": "ann@example.com"},
)
print(answer.text)
"""


def test_an_account_that_is_switched_to_it_keeps_its_leads_there(crmhub: Installation) -> None:
    file = crmhub.root / "cards.db"
    ids = json.loads(crmhub("account", "create", "Acme", "--json"))
    crmhub("account", "adapter", "acme", "cardfile", "--set", f"path={file}")
    ran = subprocess.run(
        [sys.executable, "-c", CREATE_LEAD, ids["generatedId"]],
        cwd=crmhub.root,
        env=crmhub.env,
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(ran.stdout)
    with closing(sqlite3.connect(file)) as cards:
        found = cards.execute("select id, email, firstname, lastname from contacts").fetchall()
    assert (answer["status"], answer["refused"]) == ("created", "")
    assert found == [(int(answer["contactId"]), "ann@example.com", "Ann", "Lee")]


# The conformance tests, for an adapter that speaks no HTTP.


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, HERE / "cardfile" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CARDFILE = _module("crmhub_cardfile")


class Cards:
    """The file, seen from behind."""

    def __init__(self, path: str) -> None:
        self._file = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._file.row_factory = sqlite3.Row
        self._file.executescript(CARDFILE.SCHEMA)

    def close(self) -> None:
        self._file.close()

    def add_contact(self, properties: Mapping[str, str]) -> str:
        names, places = ", ".join(properties), ", ".join("?" * len(properties))
        try:
            made = self._file.execute(
                f"insert into contacts ({names}) values ({places})", [*properties.values()]
            )
        except sqlite3.IntegrityError as exc:
            raise Conflict("this email is taken") from exc
        return str(made.lastrowid)

    def contacts(self) -> dict[str, dict[str, str]]:
        return self._rows("select * from contacts")

    def delete_contact(self, contact_id: str) -> None:
        self._file.execute("delete from contacts where id = ?", (contact_id,))

    def linked(self, kind: Linked, contact_id: str) -> dict[str, dict[str, str]]:
        if kind == "tickets":
            return {}
        return self._rows("select * from deals where contact_id = ?", contact_id)

    def count(self, kind: Kind) -> int:
        if kind == "tickets":
            return 0
        return len(self._rows(f"select * from {kind}"))

    def _rows(self, sql: str, *values: str) -> dict[str, dict[str, str]]:
        rows = [dict(row) for row in self._file.execute(sql, values)]
        return {str(row["id"]): {k: v for k, v in row.items() if v and k != "id"} for row in rows}


@thorough
class TestCardfile(AdapterTests):
    adapter_class = CARDFILE.CardfileAdapter

    @pytest.fixture(autouse=True)
    def path(self, tmp_path: Path) -> None:
        self.settings = {"path": str(tmp_path / "cards.db")}

    @pytest.fixture
    def crm(self, path: None) -> Iterator[Cards]:
        cards = Cards(self.settings["path"])
        yield cards
        cards.close()
