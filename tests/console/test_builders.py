"""The programs of the documents in JavaScript and TypeScript run, in Node.js."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from crmhub.api.http.document import PATHS
from crmhub.operators.accounts.open_account import open_account
from crmhub.operators.teams import change_team
from tests import made_docs
from tests.clients import TESTS
from tests.events import test_page
from tests.events.test_page import messages

pytestmark = pytest.mark.databases("sqlite")

_BOT = {
    "contactToken": "chat-17",
    "name": "Katherine Johnson",
    "email": "kj@example.com",
    "phone": "+1 202-555-0188",
    "city": "Hampton",
    "transcript": "Katherine: I need an offer.",
    "dealname": "A first order",
    "subject": "A question",
}
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
    account, issued = open_account(served.hub, name="Botpress", by=TESTS)
    change_team.set_team(
        served.hub, account.client_id, "Sales", members=["Ana <a@x.org>"], by=TESTS
    )
    text = made_docs.tabs((made_docs.DOCS / "builders.md").read_text())["botpress"]
    cards = re.findall(r"```js\n(.*?)```", text, re.DOTALL)
    assert len(cards) == 8
    program = _AXIOS + "".join(f"{{\n{card}}}\n" for card in cards)
    program = program.replace("GENERATED_ID", issued.generated_id)
    program = program.replace("PORTAL_ID", issued.portal_id)
    file = tmp_path / "botpress.mjs"
    file.write_text(f"{program}console.log(JSON.stringify(workflow));")
    known = json.loads(_node(file, HUB=served.url, BOT=json.dumps(_BOT)))
    assert (known["firstname"], known["ownerName"]) == ("Katherine", "Ana")
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


def test_the_samples_of_the_reference_are_strict_typescript(served, npm, tmp_path):
    parts = []
    for part in PATHS.values():
        with urlopen(f"{served.url}{part}") as response:
            document = json.loads(response.read())
        for item in document["paths"].values():
            for operation in (one for one in item.values() if isinstance(one, dict)):
                parts += [
                    f"{{\n{one['source']}\n}}\n"
                    for one in operation["x-codeSamples"]
                    if one["lang"] == "TypeScript"
                ]
    assert len(parts) > 100
    _compile(npm, tmp_path / "samples.mts", f"{''.join(parts)}export {{}};\n")


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
