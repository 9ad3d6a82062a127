"""README and docs are kept true: their requests are sent, the commands run, answers compared."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import flask
import pytest
from click.testing import CliRunner
from werkzeug.test import TestResponse

from crmhub import bounds
from crmhub.audit import Author
from crmhub.cli import main
from crmhub.hub import Hub
from crmhub.operations import change_account
from tests.admin import open_admin
from tests.api.helpers.helper_calls import known
from tests.clients import Client
from tests.journal.working import change

README = Path(__file__).parent.parent / "README.md"
_EXAMPLE = re.compile(r"```console\n\$ (curl .*)\n(\{.*\})\n```")
_COMMAND = re.compile(r"^\.venv/bin/crmhub (.*?)(?:\s+#.*)?$", re.MULTILINE)


@pytest.mark.parametrize("name", ["README.md", "docs/integrator.md", "docs/bot-builder.md"])
def test_every_request_is_answered_as_printed(name: str, client: Client, app: flask.Flask) -> None:
    text = (README.parent / name).read_text()
    examples = _EXAMPLE.findall(text)
    assert len(examples) == text.count("$ curl") > 0

    for line, printed in examples:
        answer = _send(app, client, line)
        assert _comparable(answer.json) == _comparable(json.loads(printed)), line


def test_every_request_of_operators_is_answered_as_printed(
    app: flask.Flask, hub: Hub, client: Client
) -> None:
    text = (README.parent / "docs" / "operator.md").read_text()
    known(client, "chat-19")
    change(
        hub,
        client,
        "state = 'dead', reason = 'dealstage: there is no such stage'",
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


@pytest.mark.parametrize("name", ["README.md", "docs/operator.md"])
def test_every_command_works_as_printed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("email,First name\nada@example.com,Ada\n")
    for line in _COMMAND.findall((README.parent / name).read_text()):
        words = shlex.split(line)
        elsewhere = (
            "serve",
            "worker",
            "actions show",
            "actions retry",
            "actions edit",
            "actions discard",
            "admin token revoke",
            "admin user password",
            "admin user role",
        )
        if " ".join(words).startswith(elsewhere):
            # Done for real elsewhere; here its options are known.
            words.append("--help")
        result = CliRunner().invoke(main, words, prog_name="crmhub", input="a long password\n")
        assert result.exit_code == 0, f"{line}: {result.output}"


def test_every_bound_on_a_call_is_listed() -> None:
    text = (README.parent / "docs" / "integrator.md").read_text()
    table = text.partition("### Sizes and times")[2]
    listed = re.findall(r"^\| [^|]* \| ([^|]*) \|", table, re.MULTILINE)
    for name, bound in vars(bounds).items():
        if name.startswith("MAX_"):
            assert _written(name, bound) in listed, name


def _written(name: str, bound: int) -> str:
    if not name.endswith("_BYTES"):
        return f"{bound:,}"
    return f"{bound // 1024**2} MiB" if bound >= 1024**2 else f"{bound // 1024} KiB"
