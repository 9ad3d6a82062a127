"""crmhub open: the address of the console or of an account, printed and opened."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.cli.conftest import CRMHUB, CommandLine, environment

_HUB = "https://hub.example.com"


@pytest.fixture
def hub_online(crmhub: CommandLine) -> CommandLine:
    crmhub.env["CRMHUB_PUBLIC_URL"] = f"{_HUB}/"
    return crmhub


def _create_user(crmhub: CommandLine) -> None:
    crmhub("admin", "user", "create", "a@example.com", "--password-file", "-", stdin="long " * 4)


def test_a_new_hub_gets_the_link_that_creates_its_first_user(hub_online: CommandLine) -> None:
    link = re.compile(rf"{_HUB}/console/setup/[A-Za-z0-9]{{43}}\n")
    opened = hub_online("open")
    assert link.fullmatch(opened.stdout)
    assert "it creates your console user" in opened.stderr
    _create_user(hub_online)
    opened = hub_online("open")
    assert (opened.stdout, opened.stderr) == (f"{_HUB}/console\n", "")


def test_it_leads_to_the_page_of_an_account(hub_online: CommandLine) -> None:
    hub_online("account", "create", "Acme")
    _create_user(hub_online)
    assert hub_online("open", "acme").stdout == f"{_HUB}/console/accounts/acme\n"
    refused = hub_online("open", "../x", code=1)
    assert "There is no account with the client id '../x'" in refused.stderr
    assert refused.stdout == ""


class _Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), _Healthy) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_a_service_that_does_not_answer_gets_no_link(crmhub: CommandLine, port: int) -> None:
    crmhub.env["CRMHUB_PORT"] = str(port)
    assert f"http://127.0.0.1:{port}/console/setup/" in crmhub("open").stdout
    crmhub.env["CRMHUB_PORT"] = "1"
    refused = crmhub("open", code=1)
    assert "does not answer at http://127.0.0.1:1. `crmhub serve` starts it" in refused.stderr
    assert refused.stdout == ""


def test_on_a_terminal_the_browser_gets_the_address(
    hub_online: CommandLine, tmp_path: Path
) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > "{opened}"\n')
    browser.chmod(0o700)
    env = environment() | hub_online.env | {"BROWSER": str(browser)}

    def run_on_terminal() -> None:
        ours, theirs = os.openpty()
        try:
            subprocess.run([*CRMHUB, "open"], cwd=tmp_path, env=env, stdout=theirs, check=True)
        finally:
            os.close(theirs)
            os.close(ours)

    # Other users of the machine could read a one-time link among the browser's arguments.
    run_on_terminal()
    assert not opened.exists()
    _create_user(hub_online)
    piped = subprocess.run(
        [*CRMHUB, "open"], cwd=tmp_path, env=env, capture_output=True, check=True
    )
    assert piped.stdout.decode() == f"{_HUB}/console\n"
    assert not opened.exists()
    run_on_terminal()
    assert opened.read_text() == f"{_HUB}/console"
