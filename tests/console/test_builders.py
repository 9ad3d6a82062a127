"""Node-RED and n8n run the printed snippets, wired one after another: all seven helpers.

Node-RED is installed from npm. n8n is too large for that: CRMHUB_TEST_N8N names a directory where
`npm install n8n` was run.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from benchmarks.places import free_port
from crmhub.console import snippets
from crmhub.operations.open_account import open_account
from tests import databases
from tests.clients import TESTS
from tests.scrapes import Scrape
from tests.server.servers import soon

pytestmark = pytest.mark.databases("sqlite")

_BOT = {
    "contactToken": "chat-17",
    "name": "Katherine Johnson",
    "email": "kj@example.com",
    "phone": "+1 202-555-0188",
    "city": "Hampton",
    "dealname": "A first order",
    "subject": "A question",
}
_SETTINGS = """
module.exports = {
  flowFile: "flows.json", uiHost: "127.0.0.1", uiPort: %d, httpAdminRoot: false,
  telemetry: { enabled: false, updateNotification: false },
  logging: { console: { level: "warn" } },
};
"""


@pytest.fixture(scope="session")
def npm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of Node-RED; skips where npm or its registry is missing."""
    if reason := databases.left_out("npm"):
        pytest.skip(f"npm left out: {reason}")
    root = tmp_path_factory.mktemp("npm")
    (root / "package.json").write_text('{"name": "tests", "private": true}')
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefer-offline", "node-red"]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    return root / "node_modules"


@pytest.fixture
def calls(served) -> list[tuple[snippets.Helper, str]]:
    """All helpers with their addresses, of a new account."""
    _, issued = open_account(served.hub, name="Builders", by=TESTS)
    ids = {"generated": issued.generated_id, "portal": issued.portal_id}
    return [(helper, served.url + helper.path.format(**ids)) for helper in snippets.HELPERS]


def test_node_red_runs_all_seven(served, npm, calls, tmp_path):
    port = free_port()
    flow = json.loads(snippets.node_red_flow(calls, secret=False))
    tab = {"id": "tab", "type": "tab", "label": "crmhub"}
    (tmp_path / "flows.json").write_text(json.dumps([tab, *({**n, "z": "tab"} for n in flow)]))
    (tmp_path / "settings.js").write_text(_SETTINGS % port)
    before = _answered(served.url)
    command = ["node", os.fspath(npm / "node-red" / "red.js"), "-u", os.fspath(tmp_path)]
    with _running(command, tmp_path) as log:
        answer = _answer_of(f"http://127.0.0.1:{port}/crmhub", log)
    assert 1 <= answer["value"] <= 3
    assert _answered(served.url) == {name: count + 1 for name, count in before.items()}


def test_n8n_runs_all_seven(served, calls, tmp_path):
    if not (installed := os.environ.get("CRMHUB_TEST_N8N")):
        pytest.skip("CRMHUB_TEST_N8N names no directory with n8n")
    port = free_port()
    workflow = json.loads(snippets.n8n_workflow(calls, secret=False))
    workflow |= {"id": "crmhub", "name": "crmhub", "active": True, "settings": {}}
    file = tmp_path / "workflow.json"
    file.write_text(json.dumps(workflow))
    environment = os.environ | {
        "N8N_USER_FOLDER": os.fspath(tmp_path),
        "N8N_PORT": str(port),
        "N8N_LISTEN_ADDRESS": "127.0.0.1",
        "N8N_DIAGNOSTICS_ENABLED": "false",
        "N8N_VERSION_NOTIFICATIONS_ENABLED": "false",
        "N8N_TEMPLATES_ENABLED": "false",
        "N8N_RUNNERS_ENABLED": "false",
    }
    n8n = os.fspath(Path(installed, "node_modules", ".bin", "n8n"))
    for words in (
        ["import:workflow", f"--input={file}"],
        ["update:workflow", "--all", "--active=true"],
    ):
        subprocess.run([n8n, *words], env=environment, check=True, capture_output=True)
    before = _answered(served.url)
    with _running([n8n, "start"], tmp_path, environment) as log:
        answer = _answer_of(f"http://127.0.0.1:{port}/webhook/crmhub", log)
    assert 1 <= answer["value"] <= 3
    assert answer["bot"].keys() == {*_BOT, "contactId"}
    assert _answered(served.url) == {name: count + 1 for name, count in before.items()}


@contextmanager
def _running(
    command: Sequence[str], root: Path, environment: dict[str, str] | None = None
) -> Iterator[Path]:
    """Run a builder, and end it afterwards; gives the file of what it writes."""
    log = root / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=root, env=environment, stdout=file, stderr=file, start_new_session=True
        )
        try:
            yield log
        finally:
            process.terminate()
            process.wait()


def _answer_of(url: str, log: Path) -> dict[str, object]:
    """Return what a builder answers to the bot's variables, once it takes requests."""
    headers = {"Content-Type": "application/json"}
    answers: list[bytes] = []

    def answered() -> bool:
        try:
            with urlopen(Request(url, json.dumps(_BOT).encode(), headers)) as response:
                answers.append(response.read())
        except URLError as error:
            # 404 until the flow has started; another status is the flow's own failure.
            if getattr(error, "code", 404) != 404:
                pytest.fail(log.read_text())
            return False
        return True

    soon(answered)
    found = json.loads(answers[0])
    assert isinstance(found, dict)
    return found


def _answered(url: str) -> dict[str, float]:
    """Return how many calls of each helper were answered 200."""
    with urlopen(f"{url}/metrics") as response:
        scrape = Scrape(response.read().decode())
    return {
        helper.name: scrape.of("helper_answers_total", helper=helper.name, status="200")
        for helper in snippets.HELPERS
    }
