"""The programs of docs/integrator/sync.md miss no change, however late it is committed."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import flask
import httpx
import pytest
import requests

import crmhub_client
from tests import made_docs
from tests.clients import Client
from tests.records.meanwhile import committing_late

PAGE = made_docs.DOCS / "integrator" / "sync.md"
WITH_CLIENT, WITH_REQUESTS = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)

Copy = dict[int, dict[str, str]]
Run = Callable[..., Copy]


@pytest.fixture(params=[WITH_CLIENT, WITH_REQUESTS], ids=["client", "requests"])
def run(
    request: pytest.FixtureRequest,
    app: flask.Flask,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Run:
    """Runs a program of the page against the hub in this process, and returns its copy."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRMHUB_URL", "http://hub.test")
    monkeypatch.setenv("CRMHUB_CLIENT_ID", client.account.client_id)
    monkeypatch.setenv("CRMHUB_KEY", client.key)
    away = ["429", "503"]

    def get(session: requests.Session, url: str, params: Any, timeout: float) -> requests.Response:
        answer = requests.Response()
        if away:
            answer.status_code = int(away.pop())
            answer.headers["Retry-After"] = "0"
            return answer
        headers = {"service-apikey": str(session.headers["service-apikey"])}
        path = url.removeprefix("http://hub.test")
        sent = app.test_client().get(path, query_string=params, headers=headers)
        answer.status_code, answer._content = sent.status_code, sent.data
        answer.headers["Date"] = format_datetime(datetime.now(UTC), usegmt=True)
        return answer

    def near(*account: str) -> crmhub_client.Hub:
        http = httpx.Client(transport=httpx.WSGITransport(app))
        return hub(*account, http=http)

    hub = crmhub_client.Hub
    monkeypatch.setattr(requests.Session, "get", get)
    monkeypatch.setattr(crmhub_client, "Hub", near)
    # A program that lives longer has its copy in a database.
    text = request.param.replace("copy = {}", "copy = stored")
    program = compile(text, "sync.md", "exec")

    def copied(known: Copy | None = None) -> Copy:
        copy: Copy = {} if known is None else known
        exec(program, {"__name__": "sync", "stored": copy})
        return copy

    return copied


@pytest.mark.databases("sqlite", "postgresql")
def test_the_programs_of_the_page_miss_no_change(
    run: Run, app: flask.Flask, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(client: Client, id: int) -> None:
        assert client.patch(f"/contacts/{id}", {"properties": {"city": "Bath"}}).status_code == 200

    ids = [client.make() for _ in range(103)]
    assert sorted(run()) == ids
    writer = Client(app, client.account, client.ids)
    with committing_late(monkeypatch, lambda: change(writer, ids[0])) as commit:
        if app.extensions["crmhub"].database.dialect == "postgresql":
            # On SQLite another writer would have to wait.
            change(client, ids[1])
            assert run()[ids[1]]["city"] == "Bath"
        assert "city" not in run().get(ids[0], {})
        commit()
    assert run()[ids[0]]["city"] == "Bath"


@pytest.mark.databases("sqlite", "postgresql")
def test_the_programs_of_the_page_drop_archived_records(run: Run, client: Client) -> None:
    ids = [client.make() for _ in range(3)]
    assert sorted(run({})) == ids
    for id in ids[:2]:
        assert client.delete(f"/contacts/{id}").status_code == 204
    assert sorted(run({id: {} for id in ids})) == ids[2:]
