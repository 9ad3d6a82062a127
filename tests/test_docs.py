"""README and docs are kept true: requests are sent, commands run, programs run, answers compared.

What is made from the code is compared with what the code makes now (`tests.made_docs`).
"""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import flask
import pytest
import requests
import rich_click as click
from click.testing import CliRunner
from werkzeug.test import TestResponse

from adapters.hubspot import adapter
from crmhub import bounds
from crmhub.audit import Author
from crmhub.cli import main
from crmhub.hub import Hub
from crmhub.operators.accounts import change_account
from tests import made_docs
from tests.admin import open_admin
from tests.api.helpers.helper_calls import known
from tests.clients import Client
from tests.helpers.test_assign_owner import make_team
from tests.queue.working import change

README = Path(__file__).parent.parent / "README.md"
_EXAMPLE = re.compile(r"```console\n *\$ (curl .*)\n *(\{.*\})\n *```")
_OUTPUT = re.compile(r"```console\n\$ crmhub (.*)\n(\{.*\})\n```")
_COMMAND = re.compile(r"^\.venv/bin/crmhub (.*?)(?:\s+#.*)?$", re.MULTILINE)


_OPERATOR = sorted((made_docs.DOCS / "operator").glob("*.md"))
# Pages with requests to the account demo; those of adapters.md need the fake HubSpot.
_REQUESTS = [
    page
    for page in (README, *made_docs.pages())
    if "$ curl" in page.read_text() and page not in _OPERATOR and page.stem != "adapters"
]


def _page_id(file: Path) -> str:
    """Return the name of a page with its directory: pages of two directories may share a name."""
    return f"{file.parent.name}-{file.stem}" if file.parent.parent == made_docs.DOCS else file.stem


@pytest.mark.parametrize("document", [README, *made_docs.pages()], ids=_page_id)
def test_what_is_made_from_the_code_is_up_to_date(document: Path) -> None:
    text = document.read_text()
    assert made_docs.made(text) == text, "python -m tests.made_docs writes it anew"


@pytest.mark.parametrize("builder", made_docs.CHAINS)
def test_the_file_of_the_whole_conversation_is_up_to_date(builder: str) -> None:
    text = made_docs.chain_file(builder).read_text()
    assert made_docs.chain(builder) == text, "python -m tests.made_docs writes it anew"


@pytest.mark.parametrize("document", _REQUESTS, ids=_page_id)
def test_every_request_is_answered_as_printed(
    document: Path, client: Client, app: flask.Flask
) -> None:
    make_team(app, client, "Sales", ["Ana Lima <ana@example.com>"])
    text = document.read_text()
    examples = _EXAMPLE.findall(text)
    assert len(examples) == text.count("$ curl") > 0

    for line, printed in examples:
        answer = _send(app, client, line)
        assert _comparable(answer.json) == _comparable(json.loads(printed)), line


@pytest.mark.parametrize(
    "document",
    [page for page in _OPERATOR if "$ curl" in page.read_text()],
    ids=_page_id,
)
def test_every_request_of_operators_is_answered_as_printed(
    document: Path, app: flask.Flask, hub: Hub, client: Client
) -> None:
    text = document.read_text()
    known(client, "chat-19")
    change(
        hub,
        client,
        "state = 'dead', finished_at = created_at, reason = 'dealstage: there is no such stage'",
    )
    shift = Author("token", "night shift", "adm_5t0v7qk2")
    change_account.change(hub, client.account.client_id, {"region": "DE"}, by=shift)
    examples = _EXAMPLE.findall(text)
    assert len(examples) == text.count("$ curl") > 0
    for line, printed in examples:
        line = line.replace("$TOKEN", open_admin(app).token)
        answer = _send(app, client, line.replace("demo", client.account.client_id))
        told = json.loads(answer.text.replace(client.account.client_id, "demo"))
        assert _comparable(told) == _comparable(json.loads(printed)), line


def _send(app: flask.Flask, client: Client, line: str) -> TestResponse:
    """Send what a curl line of a page sends, to the account of the test."""
    ids = client.ids
    for name, value in (
        ("$KEY", ids.api_key),
        ("$GENERATED", ids.generated_id),
        ("$PORTAL", ids.portal_id),
        ("/demo/", f"/{client.account.client_id}/"),
    ):
        line = line.replace(name, value)
    words = shlex.split(line)
    assert words[:2] == ["curl", "-s"]
    url = words[2].removeprefix("http://127.0.0.1:8080")
    # curl's own type for -d, which helpers must take.
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    body = method = None
    for option, value in zip(words[3::2], words[4::2], strict=True):
        if option == "-H":
            name, _, text = value.partition(": ")
            headers[name] = text
        elif option == "-X":
            method = value
        else:
            assert option == "-d"
            body = value
    method = method or ("GET" if body is None else "POST")
    return app.test_client().open(url, method=method, data=body, headers=headers)


def _comparable(value: Any) -> Any:
    """Blank out what differs each time: ids and times."""
    if isinstance(value, dict):
        return {
            # An entry of the audit log has a number of its own, which may be small.
            key: "…" if key == "id" and isinstance(each, int) else _comparable(each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_comparable(each) for each in value]
    if isinstance(value, str) and re.fullmatch(
        r"\d{4}-\d\d-\d\dT[\d:.]+Z|\d{9,}|(?:act|hub)-\w+", value
    ):
        return "…"
    return "…" if isinstance(value, int) and value > 10**9 else value


@pytest.mark.parametrize("document", [README, *_OPERATOR], ids=_page_id)
def test_every_command_works_as_printed(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("email,First name\nada@example.com,Ada\n")
    for line in _COMMAND.findall(document.read_text()):
        words = shlex.split(line)
        elsewhere = (
            "serve",
            "worker",
            "actions show",
            "actions tail",
            "actions retry",
            "actions edit",
            "actions discard",
            "actions fix",
            "admin token revoke",
            "admin user password",
            "admin user role",
        )
        if " ".join(words).startswith(elsewhere):
            # Done for real elsewhere; here its options are known.
            words.append("--help")
        result = CliRunner().invoke(main, words, prog_name="crmhub", input="a long password\n")
        assert result.exit_code == 0, f"{line}: {result.output}"


def _commands(page: Path) -> list[list[str]]:
    """Return the words of each line of a page's shell blocks that calls crmhub without a path."""
    found = []
    for block in re.findall(r"^ *```sh\n(.*?)```", page.read_text(), re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            command = line.strip().rpartition(" | ")[2]
            if command.startswith("crmhub "):
                command = re.sub(r"\$\(.*?\)", "x", command)
                found.append(shlex.split(command, comments=True)[1:])
    return found


@pytest.mark.parametrize(
    "document", [page for page in made_docs.pages() if _commands(page)], ids=_page_id
)
def test_every_command_has_these_arguments(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("a long password\n" * 9))
    for words in _commands(document):
        _parse([_with_file(word) for word in words if word != ">"])


def _with_file(word: str) -> str:
    """Return a word of a command line; the file that it names is there, in this directory."""
    if not re.search(r"\.(?:csv|json|toml|txt|backup)$", word):
        return word
    Path(Path(word).name.lstrip("@")).touch()
    return Path(word).name


def _parse(words: list[str]) -> None:
    """Read a command line as click does, and run nothing. Raises click.UsageError."""
    command: click.Command = main
    name, parent, rest = "crmhub", None, words
    while isinstance(command, click.Group):
        parent = command.make_context(name, rest, parent=parent)
        found, next_command, rest = command.resolve_command(
            parent, [*parent._protected_args, *parent.args]
        )
        assert found is not None, words
        assert next_command is not None, words
        name, command = found, next_command
    command.make_context(name, rest, parent=parent)


_BLOCK = re.compile(r"```http\nPOST https://hub\.example\.com(\S+)\n(.*?)\n\n(.*?)\n```", re.DOTALL)
_SAMPLES = {
    "contactToken": "chat-17",
    "name": "Katherine Johnson",
    "email": "kj@example.com",
    "phone": "+1 202-555-0188",
    "city": "Hampton",
    "transcript": "Katherine: I need an offer.",
    "dealname": "A first order",
    "subject": "A question",
}


@pytest.mark.parametrize("builder", made_docs.VARIABLES)
def test_a_builder_holds_the_whole_conversation(
    builder: str, app: flask.Flask, client: Client
) -> None:
    make_team(app, client, "Sales", ["Ana <ana@x.org>"])
    text = made_docs.tabs((made_docs.DOCS / "builders.md").read_text())[builder]
    values = dict(_SAMPLES)
    answers = []
    for path, headers, body in _BLOCK.findall(text):
        assert headers == "Content-Type: application/json"
        for name, value in values.items():
            body = body.replace(made_docs.VARIABLES[builder].format(name), value)
        path = path.replace("GENERATED_ID", "{generated}").replace("PORTAL_ID", "{portal}")
        answer = client.helper(path, json.loads(body))
        assert answer.status_code == 200, (path, answer.text)
        said: dict[str, str] = answer.get_json()
        said = said.get("set_attributes", said)  # type: ignore[assignment]
        answers.append(said["status"])
        values |= {key: value for key, value in said.items() if key.endswith("Id")}
    changed = ["created", "ok", "updated", "created", "created", "updated"]
    assert answers == [*changed, "created", "created"]
    contact = client.get(f"/contacts/{values['contactId']}").json
    assert contact is not None
    assert contact["associations"]["deals"] == [int(values["dealId"])]
    assert contact["associations"]["tickets"] == [int(values["ticketId"])]
    assert contact["properties"]["city"] == "Hampton"
    deal = client.get(f"/deals/{values['dealId']}").json
    assert deal is not None
    for record in (contact, deal):
        assert record["properties"]["hubspot_owner_id"] == "ana@x.org"


def test_the_paging_loop_reads_all(
    client: Client, app: flask.Flask, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    ids = [client.make(email=f"person{number}@example.com") for number in range(101)]
    text = (made_docs.DOCS / "integrator" / "paging.md").read_text()
    [program] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.setenv("CRMHUB_URL", "http://127.0.0.1")
    monkeypatch.setenv("CRMHUB_CLIENT_ID", client.account.client_id)
    monkeypatch.setenv("CRMHUB_KEY", client.key)
    away = ["429"]

    def get(session: requests.Session, url: str, params: Any, timeout: float) -> requests.Response:
        answer = requests.Response()
        if away:
            answer.status_code = int(away.pop())
            answer.headers["Retry-After"] = "0"
            return answer
        headers = {"service-apikey": str(session.headers["service-apikey"])}
        path = url.removeprefix("http://127.0.0.1")
        sent = app.test_client().get(path, query_string=params, headers=headers)
        answer.status_code, answer._content = sent.status_code, sent.data
        return answer

    monkeypatch.setattr(requests.Session, "get", get)
    exec(compile(program, "paging.md", "exec"), {"__name__": "paging"})
    printed = capsys.readouterr().out.splitlines()
    assert [int(line.split()[0]) for line in printed] == ids


def test_the_page_of_hubspot_names_every_scope_and_setting() -> None:
    text = (made_docs.DOCS / "crms" / "hubspot.md").read_text()
    sources = [path.read_text() for path in Path(adapter.__file__).parent.glob("*.py")]
    scopes = set(re.findall(r'"(crm\.objects\.\w+\.(?:read|write))"', "".join(sources)))
    assert len(scopes) == 7
    for name in scopes | {"tickets"}:
        assert f"| `{name}` |" in text
    for setting in adapter.HubSpotAdapter.settings:
        assert setting.kept or f"`{setting.name}`" in text, setting.name


@pytest.mark.databases("sqlite")
def test_every_command_with_its_output_prints_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = _OUTPUT.findall((README.parent / "docs" / "operator" / "commands.md").read_text())
    assert examples
    for line, printed in examples:
        result = CliRunner().invoke(main, shlex.split(line), prog_name="crmhub")
        assert _comparable(json.loads(result.output)) == _comparable(json.loads(printed)), line


def test_every_bound_on_a_call_is_listed() -> None:
    text = (README.parent / "docs" / "integrator" / "errors.md").read_text()
    table = text.partition("## Limits: sizes and times")[2]
    listed = re.findall(r"^\| [^|]* \| ([^|]*) \|", table, re.MULTILINE)
    for name, bound in vars(bounds).items():
        if name.startswith("MAX_"):
            assert _written(name, bound) in listed, name


def _written(name: str, bound: int) -> str:
    if not name.endswith("_BYTES"):
        return f"{bound:,}"
    return f"{bound // 1024**2} MiB" if bound >= 1024**2 else f"{bound // 1024} KiB"
