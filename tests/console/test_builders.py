"""Node-RED and n8n run the printed snippets, wired one after another: all seven helpers.

Node-RED is installed from npm. n8n is too large for that: CRMHUB_TEST_N8N names a directory where
`npm install n8n` was run (2.40 needs Node.js 24). The programs of the documents in JavaScript and
TypeScript run, too.
"""

from __future__ import annotations

import json
import os
import re
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
from tests import made_docs
from tests.clients import TESTS
from tests.events import test_page
from tests.events.test_page import messages
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
        "N8N_RUNNERS_BROKER_PORT": str(free_port()),
    }
    n8n = os.fspath(Path(installed, "node_modules", ".bin", "n8n"))
    for words in (["import:workflow", f"--input={file}"], ["publish:workflow", "--id=crmhub"]):
        done = subprocess.run([n8n, *words], env=environment, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    before = _answered(served.url)
    with _running([n8n, "start"], tmp_path, environment) as log:
        answer = _answer_of(f"http://127.0.0.1:{port}/webhook/crmhub", log)
    assert 1 <= answer["value"] <= 3
    assert answer["bot"].keys() == {*_BOT, "contactId"}
    assert _answered(served.url) == {name: count + 1 for name, count in before.items()}


_AXIOS = """
const axios = { post: async (url, body) => {
  const answer = await fetch(url.replace("https://hub.example.com", process.env.HUB), {
    method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" },
  });
  if (!answer.ok) throw new Error(await answer.text());
  return { data: await answer.json() };
} };
const event = { conversationId: "chat-17" };
const workflow = JSON.parse(process.env.BOT);
"""


def test_the_code_for_botpress_runs(served, npm, tmp_path):
    _, issued = open_account(served.hub, name="Botpress", by=TESTS)
    text = (made_docs.DOCS / "builders" / "botpress.md").read_text()
    cards = re.findall(r"<!-- made: botpress .*?```js\n(.*?)```", text, re.DOTALL)
    assert len(cards) == 5
    program = _AXIOS + "".join(f"{{\n{card}}}\n" for card in cards)
    program = program.replace("GENERATED_ID", issued.generated_id)
    program = program.replace("PORTAL_ID", issued.portal_id)
    file = tmp_path / "botpress.mjs"
    file.write_text(f"{program}console.log(JSON.stringify(workflow));")
    known = json.loads(_node(file, HUB=served.url, BOT=json.dumps(_BOT)))
    assert known["firstname"] == "Katherine"
    assert all(known[name].isdecimal() for name in ("contactId", "dealId", "ticketId"))


def test_the_paging_loop_in_typescript_reads_all(served, npm, tmp_path):
    account, issued = open_account(served.hub, name="TypeScript", by=TESTS)
    url = f"{served.url}/{account.client_id}/api/v1/contacts/batch/create"
    headers = {"service-apikey": issued.api_key, "Content-Type": "application/json"}
    for part in range(2):
        emails = [f"person{part}.{number}@example.com" for number in range(60)]
        body = json.dumps({"inputs": [{"properties": {"email": email}} for email in emails]})
        with urlopen(Request(url, body.encode(), headers)) as response:
            assert response.status == 201
    text = (made_docs.DOCS / "integrator" / "paging.md").read_text()
    [program] = re.findall(r"```ts\n(.*?)```", text, re.DOTALL)
    _compile(npm, tmp_path / "paging.mts", program)
    printed = _node(
        tmp_path / "paging.mjs",
        CRMHUB_URL=served.url,
        CRMHUB_CLIENT_ID=account.client_id,
        CRMHUB_KEY=issued.api_key,
    )
    assert len({line.split()[1] for line in printed.splitlines()}) == 120


def test_the_program_in_typescript_verifies_signatures(npm, tmp_path):
    cases = {name: (sent, body.decode()) for name, (sent, body, _) in messages().items()}
    program = test_page.program("ts") + (
        f"const cases: Record<string, [Record<string, string>, string]> = {json.dumps(cases)};\n"
        "const found = Object.entries(cases).map(([name, [headers, body]]) =>\n"
        f"  [name, isGenuine({json.dumps(test_page.SECRET)}, headers, Buffer.from(body))]);\n"
        "console.log(JSON.stringify(Object.fromEntries(found)));\n"
    )
    _compile(npm, tmp_path / "verify.mts", program)
    found = json.loads(_node(tmp_path / "verify.mjs"))
    assert found == {name: genuine for name, (_, _, genuine) in messages().items()}


def _compile(npm: Path, file: Path, program: str) -> None:
    """Write a program in TypeScript to a file, and compile it beside that."""
    file.write_text(program)
    types = os.fspath(npm / "@types")
    options = ["--strict", "--target", "es2022", "--module", "nodenext", "--typeRoots", types]
    # What is checked is the program, and not the declarations of Node.js.
    options += ["--types", "node", "--skipLibCheck"]
    tsc = [os.fspath(npm / ".bin" / "tsc"), *options, file.name]
    done = subprocess.run(tsc, cwd=file.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def _node(file: Path, **environment: str) -> str:
    """Return what a JavaScript program prints."""
    done = subprocess.run(
        ["node", file], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


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
                # n8n answers with a page while it starts.
                if response.headers.get_content_type() != "application/json":
                    return False
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
