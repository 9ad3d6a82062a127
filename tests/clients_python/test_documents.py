"""The examples of the client's documents are run, and print what stands beside them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.coroutines import apart
from tests.server.servers import Server

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "clients" / "python" / "README.md", ROOT / "docs" / "integrator" / "python.md"]
_PROGRAM = re.compile(r"```python\n(.*?)```", re.DOTALL)
_PRINTED = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: file.stem)
def test_the_examples_print_what_they_say(
    document: Path,
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
    program = "".join(_PROGRAM.findall(document.read_text()))
    names: dict[str, Any] = {"__name__": document.stem}
    apart(lambda: exec(compile(program, str(document), "exec"), names))
    names["hub"].close()
    printed = capsys.readouterr().out.splitlines()
    assert printed == _PRINTED.findall(program)
    assert len(printed) == program.count("print(") >= 5
