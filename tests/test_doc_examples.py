"""Every example of README and docs has a test: a new one without a test fails here.

Requests and commands are tested on every page (tests/test_docs.py). This module names the test of
each other block of code, and tests those that have no better place.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests import made_docs

pytestmark = pytest.mark.databases("sqlite")

_TESTS = Path(__file__).parent
_BLOCK = re.compile(r"^ *```(\w+)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
# Blocks of any page: their tests go through all pages.
_EVERYWHERE = {
    "console": "test_docs.py::test_every_request_is_answered_as_printed",
    "sh": "test_docs.py::test_every_command_has_these_arguments",
    "json": "test_doc_examples.py::test_json_can_be_read",
}
_MADE = "test_docs.py::test_what_is_made_from_the_code_is_up_to_date"
_TESTED = {
    ("builders", "http"): "test_docs.py::test_a_builder_holds_the_whole_conversation",
    ("builders", "js"): "console/test_builders.py::test_the_code_for_botpress_runs",
    ("adapters", "python"): "test_adapters_page.py",
    ("paging", "python"): "test_docs.py::test_the_paging_loop_reads_all",
    ("paging", "ts"): "console/test_builders.py::test_the_paging_loop_in_typescript_reads_all",
    ("events", "python"): "events/test_page.py::test_python_verifies",
    (
        "events",
        "ts",
    ): "console/test_builders.py::test_the_program_in_typescript_verifies_signatures",
    ("python", "python"): "clients_python/test_documents.py::test_the_examples_print_what_they_say",
    ("sync", "python"): "clients_python/test_sync_page.py"
    "::test_the_programs_of_the_page_miss_no_change",
    ("clients", "ts"): "generated/test_generated_clients.py"
    "::test_the_typescript_client_of_the_documents_is_strict_and_works",
    ("clients", "py"): "generated/test_generated_clients.py"
    "::test_the_client_of_openapi_python_client_is_strict_and_works",
    ("accounts-file", "toml"): "cli/test_declared.py::test_the_example_of_the_page_is_applied",
    ("teams", "toml"): "cli/test_declared.py::test_the_team_of_the_page_is_applied",
    ("agents", "text"): "test_doc_examples.py::test_agents_are_connected_to_the_paths_of_the_hub",
    ("proxy", "nginx"): _MADE,
    ("proxy", "text"): _MADE,
}
# Blocks that no test runs, and why.
_NOT_RUN = {
    ("adapters", "toml"): "an entry point of a package that its author makes",
    ("scaling", "sql"): "needs Citus, and a role of its own behind a pooler",
    ("scaling", "ini"): "an address and limits that each operator chooses",
}


def _blocks() -> list[tuple[Path, str, str]]:
    """Return page, language and text of each block of code."""
    readme = made_docs.ROOT / "README.md"
    return [
        (page, language, text)
        for page in (readme, *made_docs.pages())
        for language, text in _BLOCK.findall(page.read_text("utf-8"))
    ]


def test_every_example_has_a_test() -> None:
    found = {(page.stem, language) for page, language, _ in _blocks()}
    of_one_page = {key for key in found if key[1] not in _EVERYWHERE}
    assert of_one_page == _TESTED.keys() | _NOT_RUN.keys()
    for test in {*_TESTED.values(), *_EVERYWHERE.values()}:
        file, _, function = test.partition("::")
        assert f"def {function}" in (_TESTS / file).read_text("utf-8"), test


def test_json_can_be_read() -> None:
    blocks = [(page, text) for page, language, text in _blocks() if language == "json"]
    assert len(blocks) >= 10
    for page, text in blocks:
        try:
            json.loads(text)
        except ValueError as error:
            raise AssertionError(f"{page}: {error}") from error


def test_agents_are_connected_to_the_paths_of_the_hub() -> None:
    page = (made_docs.DOCS / "integrator" / "agents.md").read_text("utf-8")
    addresses = re.findall(r"https://hub\.example\.com[^\s\"`]*", page)
    assert len(addresses) > 4
    assert {*addresses} == {"https://hub.example.com/mcp"}
    served, local = re.findall(r"^claude mcp add (.*)$", page, re.MULTILINE)
    assert served.endswith(" https://hub.example.com/mcp")
    assert " -- crmhub mcp acme --scope " in local
