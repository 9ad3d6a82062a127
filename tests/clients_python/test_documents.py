"""The examples of the client's documents are run, and print what stands beside them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.server.servers import Server

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "clients" / "python" / "README.md", ROOT / "docs" / "integrator" / "python.md"]
_PROGRAM = re.compile(r"```python\n(.*?)```", re.DOTALL)
_PRINTED = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_print_what_they_say(
    page: Path,
    service: Server,
    account: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in {
        "URL": f"http://127.0.0.1:{service.port}",
        "CLIENT_ID": account["clientId"],
        "KEY": account["apiKey"],
        "GENERATED_ID": account["generatedId"],
        "PORTAL_ID": account["portalId"],
    }.items():
        monkeypatch.setenv(f"CRMHUB_{name}", value)
    program = "".join(_PROGRAM.findall(page.read_text()))
    names: dict[str, Any] = {"__name__": page.stem}
    exec(compile(program, str(page), "exec"), names)
    names["hub"].close()
    printed = capsys.readouterr().out.splitlines()
    assert printed == _PRINTED.findall(program)
    assert len(printed) == program.count("print(") >= 5
