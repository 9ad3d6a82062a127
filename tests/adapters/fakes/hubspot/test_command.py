"""`crmhub fake hubspot`: what it prints, and that it stops."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint

import pytest
import requests
from click.testing import CliRunner

from crmhub.cli import main

NAMES = (["fake", "hubspot"], ["fake-hubspot"])


@contextmanager
def _running(*args: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command in a process of its own, and all that it prints at its start."""
    command = [sys.executable, "-m", "crmhub", "fake", "hubspot", "--port", "0", *args]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline()]
        while lines[-1] and "account adapter" not in lines[-1]:
            lines.append(process.stdout.readline())
        yield process, "".join(lines)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_it_prints_an_address_a_token_and_the_line_that_connects_it() -> None:
    with _running() as (_, printed):
        url = re.search(r"http://127\.0\.0\.1:\d+", printed)
        token = re.search(r"pat-na1-\w+", printed)
        assert url
        assert token
        line = f"printf %s {token[0]} | crmhub account adapter CLIENT_ID hubspot"
        assert f"{line} --set base_url={url[0]} --secret access_token=-" in printed
        headers = {"Authorization": f"Bearer {token[0]}"}
        path = f"{url[0]}/crm/objects/2026-09/contacts"
        assert requests.get(path, headers=headers, timeout=120).json() == {"results": []}


def test_its_former_name_still_works() -> None:
    told = [CliRunner().invoke(main, [*name, "--limit", "x"]) for name in NAMES]
    assert {one.exit_code for one in told} == {2}
    assert all("--limit x: a limit is written as 100/10s" in one.output for one in told)


def test_a_fake_that_is_not_there_or_cannot_be_loaded_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = EntryPoint("odd", "tests.no_such_module:command", "crmhub.fakes")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [broken])
    absent, odd = (CliRunner().invoke(main, ["fake", name]) for name in ("hubspot", "odd"))
    assert (absent.exit_code, odd.exit_code) == (2, 1)
    assert "No such command 'hubspot'" in absent.output
    assert "The fake odd (tests.no_such_module:command) cannot be loaded" in odd.output
