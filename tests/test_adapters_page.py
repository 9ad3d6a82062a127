"""docs/adapters.md is kept true: its code, its commands, its table of what adapters can do."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import flask
import pytest

import crmhub.adapter
from adapters.fakes.hubspot import FakeHubSpot, Options
from crmhub.adapter import OPTIONAL, PropertyType
from crmhub.adapter.types import FORMS
from tests import made_adapters
from tests.cli.conftest import CRMHUB, environment
from tests.clients import Client
from tests.depth import thorough

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "adapters.md").read_text()
SKELETON = Path(crmhub.adapter.__file__).parent / "skeleton"
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
PIP = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
ALONE = ("--no-index", "--no-deps", "--no-build-isolation")


def test_the_code_is_that_of_the_examples() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    for name, path in (
        ("tests", SKELETON / "tests" / "test_acme.py"),
        ("REST", SKELETON / "crmhub_acme.py"),
        ("REST with little", ROOT / "tests" / "adapter" / "peoplebase_adapter.py"),
        ("RPC", ROOT / "tests" / "adapter" / "rpc_adapter.py"),
        ("tests of RPC", ROOT / "tests" / "adapter" / "test_rpc.py"),
        ("command of a fake", ROOT / "tests" / "adapters" / "fakes" / "tiny_crm.py"),
    ):
        code = path.read_text()
        # A block may be a part of a class or method, which is shown without its indentation.
        forms = [code.replace("\n" + " " * indent, "\n") for indent in (0, 4, 8)]
        shown = [one for one in blocks if any(one in form for form in forms)]
        assert shown, f"the page shows no {name}"
        blocks = [one for one in blocks if one not in shown]
    assert blocks == []


def test_the_table_of_features_names_every_optional_method() -> None:
    assert made_adapters.FEATURES.keys() == OPTIONAL
    assert "<!-- made: features -->" in PAGE


def test_the_table_of_types_names_every_type() -> None:
    assert FORMS.keys() == {*get_args(PropertyType)}
    assert "<!-- made: types -->" in PAGE


def test_every_error_is_explained_and_no_other() -> None:
    named = set(re.findall(r"^\| `(\w+)(?:\([^)]*\))?` \|", PAGE, re.MULTILINE))
    errors = {
        name
        for name, thing in vars(crmhub.adapter).items()
        if isinstance(thing, type) and issubclass(thing, crmhub.adapter.AdapterError)
    }
    assert errors - {"AdapterError"} <= named


def test_every_file_and_module_that_it_names_is_there() -> None:
    for path in set(re.findall(r"`((?:crmhub|adapters|tests|config|docs)/[\w./]+)`", PAGE)):
        assert (ROOT / path).exists() or (SKELETON / path).exists(), path
    for name in set(re.findall(r"`(crmhub(?:\.\w+)+)`", PAGE)):
        path = ROOT / name.replace(".", "/")
        found = path.is_dir() or path.with_suffix(".py").exists()
        module, _, last = name.rpartition(".")
        assert found or hasattr(__import__(module, fromlist=[last]), last), name


# The commands, in the order of the page.


def _run(line: str, root: Path, env: dict[str, str]) -> str:
    """Run what a line of the page says, with the crmhub of these tests."""
    crmhub = " ".join(shlex.quote(part) for part in CRMHUB)
    line = re.sub(r"(^|\| )crmhub ", lambda found: f"{found[1]}{crmhub} ", line)
    ran = subprocess.run(
        line, shell=True, cwd=root, env=env, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, f"{line}: {ran.stderr}"
    return ran.stdout


@pytest.fixture
def acme() -> Iterator[str]:
    """The address of the skeleton's fake CRM, served by a process of its own."""
    served = (
        "import fake_acme, sys\n"
        "with fake_acme.FakeAcme() as crm:\n"
        "    print(f'{crm.url}/v1', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    env = environment()
    env["PYTHONPATH"] += f":{SKELETON / 'tests'}"
    process = subprocess.Popen(
        [sys.executable, "-B", "-c", served],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    yield process.stdout.readline().strip()
    process.communicate()


@thorough
def test_a_new_adapter_is_tried_by_the_commands_of_the_page(tmp_path: Path, acme: str) -> None:
    begin, try_it = BLOCKS[:2]
    new, *shown = begin.splitlines()
    assert new == "crmhub adapter new acme"
    printed = _run(new, tmp_path, environment())
    assert shown == printed.splitlines()[-3:], "it tells the same steps as the page"
    packages = tmp_path / "packages"
    install = [*PIP, *ALONE, "--target", str(packages), str(tmp_path / "crmhub-acme")]
    subprocess.run(install, check=True)
    env = environment()
    env["PYTHONPATH"] += f":{packages}"
    (tmp_path / "token.txt").write_text("the-token-of-the-tests\n")
    said = [
        _run(line.replace("https://api.acme.example/v1", acme), tmp_path, env)
        for line in try_it.splitlines()
    ]
    assert "crmhub-acme 0.1.0" in said[0]
    assert said[-1] == "acme: connection test passed.\n"


@thorough
def test_the_fake_hubspot_is_used_by_the_commands_of_the_page(tmp_path: Path) -> None:
    serve, use = BLOCKS[2:]
    options = shlex.split(serve)[3:]
    assert options == ["--port", "8181", "--token", "pat-of-the-fake"]
    ids = json.loads(_run("crmhub account create Demo --json", tmp_path, environment()))
    assert ids["clientId"] == "demo"
    with FakeHubSpot(Options(token=options[3])) as fake:
        said = [
            _run(line.replace("http://127.0.0.1:8181", fake.url), tmp_path, environment())
            for line in use.splitlines()
        ]
    assert said[-1] == "hubspot: connection test passed.\n"


def test_the_lead_of_the_page_is_answered_as_printed(app: flask.Flask, client: Client) -> None:
    from tests.api.helpers.test_helpers_on_hubspot import use

    found = re.search(r"\$ curl .* -d '(.*)'\n(\{.*\})\n", PAGE)
    assert found is not None
    with FakeHubSpot(Options()) as fake:
        use(app, client, fake, access_token=fake.token)
        answer = client.helper("/chatbot/createLead/{generated}", json.loads(found[1])).json
    printed = json.loads(found[2])
    differs = re.compile(r"act-[0-9a-z]{24}|\d{3,}")
    assert list(answer) == list(printed)
    for name, value in printed.items():
        assert differs.sub("…", answer[name]) == differs.sub("…", value), name
