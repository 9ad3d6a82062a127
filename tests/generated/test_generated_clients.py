"""Clients that generators make of /openapi.json: checked strictly, then used on a served hub.

Each creates, reads a 409 as an error, creates a batch, upserts, walks all pages, searches with
limit and sort, and calls all seven helpers. `docs/integrator/clients.md` lists them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests import made_docs
from tests.generated.conftest import Served, run

_PROGRAMS = Path(__file__).parent / "programs"
_PAGE = made_docs.DOCS / "integrator" / "clients.md"
_HELPERS = ["helper created", "helper updated", *["helper ok"] * 3, *["helper created"] * 2]
_TSC = ["--strict", "--target", "es2022", "--lib", "es2022,dom,dom.iterable", "--outDir", "out"]

Json = Any
# The tests start processes, so they run with the other slow ones (`tests/marks.py`).
assert subprocess


def said(printed: str) -> None:
    """Hold what a program prints against what each of them must have done."""
    lines = printed.splitlines()
    created, refused, batch, upserted, walked, found = (line.split() for line in lines[:6])
    assert created[0] == "created"
    assert created[-1] == "ada@example.com"
    assert refused[:3] == ["refused", "409", "ConflictError"]
    assert batch == ["batch", "3"]
    assert [word.lower() for word in upserted] == ["upserted", "false", "true"]
    assert walked == ["walked", "5", "5"]
    assert found[:2] == ["found", "5"]
    assert "emmy" in found[2].lower()
    assert lines[6:] == _HELPERS


def test_the_typescript_client_of_the_documents_is_strict_and_works(
    npm_programs: Path, described: Served, tmp_path: Path
) -> None:
    page = _PAGE.read_text("utf-8")
    [program] = re.findall(r"```ts\n(.*?)```", page, re.DOTALL)
    [options] = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    (tmp_path / "tsconfig.json").write_text(options)
    # The generator looks for it above its own package, as if that were in the project.
    (npm_programs.parents[1] / "tsconfig.json").write_text(options)
    (tmp_path / "main.ts").write_text(program)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "node_modules").symlink_to(npm_programs.parent)
    document = described.documents / "openapi.json"
    run([npm_programs / "openapi-ts", "-i", document, "-o", "crmhub"], tmp_path)
    assert json.loads(options)["compilerOptions"]["strict"]
    run([npm_programs / "tsc"], tmp_path)
    said(run(["node", "out/main.js"], tmp_path, **described.account("TypeScript")))


def test_the_client_of_typescript_fetch_is_strict_and_works(
    npm_programs: Path, pypi_programs: Path, described: Served, tmp_path: Path
) -> None:
    if not shutil.which("java"):
        pytest.skip("openapi-generator-cli needs Java")
    document = described.documents / "openapi.json"
    generator = pypi_programs / "openapi-generator-cli"
    command = [generator, "generate", "-g", "typescript-fetch", "-i", document, "-o", "crmhub"]
    path = f"{pypi_programs}{os.pathsep}{os.environ['PATH']}"
    run(command, tmp_path, PATH=path)
    shutil.copy(_PROGRAMS / "typescript_fetch.ts", tmp_path / "main.ts")
    (tmp_path / "node_modules").symlink_to(npm_programs.parent)
    options = [*_TSC, "--module", "commonjs", "--moduleResolution", "node10", "--types", "node"]
    run([npm_programs / "tsc", *options, "main.ts"], tmp_path)
    said(run(["node", "out/main.js"], tmp_path, **described.account("TypeScript fetch")))


def test_the_client_of_openapi_python_client_is_strict_and_works(
    pypi_programs: Path, described: Served, tmp_path: Path
) -> None:
    document = described.documents / "openapi.json"
    generator = pypi_programs / "openapi-python-client"
    # It calls ruff of the PATH, without which it warns.
    (tmp_path / "config.yaml").write_text("post_hooks: []\n")
    options = ["--path", document, "--output-path", "generated", "--config", "config.yaml"]
    run([generator, "generate", *options, "--fail-on-warning"], tmp_path)
    root = tmp_path / "generated"
    shutil.copy(_PROGRAMS / "python_client.py", root / "main.py")
    run([pypi_programs / "mypy", "--strict", "crmhub_api_client", "main.py"], root)
    modules = [
        ".".join(file.relative_to(root).with_suffix("").parts)
        for file in (root / "crmhub_api_client").rglob("*.py")
    ]
    assert len(modules) > 100
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    python = pypi_programs / "python"
    run([python, "-c", code, *modules], root)
    settings = described.account("Python")
    said(run([python, "main.py"], root, **settings))
    [program] = re.findall(r"```py\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    program = program.replace("https://hub.example.com", settings["CRMHUB_URL"])
    program = program.replace('"acme"', repr(settings["CRMHUB_CLIENT_ID"]))
    key = f"key = {settings['CRMHUB_KEY']!r}\n"
    (root / "page.py").write_text(f"{key}{program}print(page.total)\n")
    assert int(run([python, "page.py"], root)) >= 5


# --- Postman -----------------------------------------------------------------------------------

_OPTIONS = "parametersResolution=Example,enableOptionalParameters=false,folderStrategy=Tags"
_STATUS = "pm.test('status', () => pm.response.to.have.status(%d));"
# The requests in their order, by operation id: status, and what a Postman user adds as a script.
_REQUESTS: dict[str, tuple[int, str]] = {
    "createContact": (201, ""),
    "createBatchOfContacts": (201, ""),
    "upsertBatchOfContacts": (200, "pm.expect(pm.response.json()[0].new).to.be.false;"),
    "listContacts": (
        200,
        """
        const page = pm.response.json();
        const ids = JSON.parse(pm.collectionVariables.get("ids") || "[]");
        const all = [...ids, ...page.results.map((one) => one.id)];
        pm.collectionVariables.set("ids", JSON.stringify(all));
        pm.collectionVariables.set("cursor", page.cursor.next);
        if (page.hasMore) pm.execution.setNextRequest("List contacts");
        else pm.test("walk", () => pm.expect([all.length, new Set(all).size]).to.eql([2, 2]));
        """,
    ),
    "searchContacts": (200, "pm.expect(pm.response.json().total).to.equal(1);"),
    "createLead": (
        200,
        "pm.collectionVariables.set('contactId', pm.response.json().contactId);",
    ),
    "setPropertiesOfAccount": (200, ""),
    "getPropertiesOfAccount": (200, ""),
    "getType": (200, ""),
    "getRandomInt": (200, ""),
    "createDealForContact": (200, ""),
    "createTicketForContact": (200, ""),
}


def test_the_collection_of_postman_works(
    npm_programs: Path, described: Served, tmp_path: Path
) -> None:
    document = described.documents / "openapi.json"
    command = [npm_programs / "openapi2postmanv2", "-s", document, "-o", "converted.json"]
    run([*command, "-O", _OPTIONS], tmp_path)
    converted = json.loads((tmp_path / "converted.json").read_text())
    settings = described.account("Postman")
    collection = _chosen(converted, json.loads(document.read_text()), settings)
    (tmp_path / "collection.json").write_text(json.dumps(collection))
    newman = [npm_programs / "newman", "run", "collection.json", "--bail"]
    key = ["--env-var", f"apiKey={settings['CRMHUB_KEY']}"]
    run([*newman, *key, "-r", "json,cli", "--reporter-json-export", "report.json"], tmp_path)
    report = json.loads((tmp_path / "report.json").read_text())["run"]
    assert report["failures"] == []
    # The list takes two pages, and the first creation is tried again.
    assert len(report["executions"]) == len(_REQUESTS) + 2


def _chosen(converted: Json, document: Json, settings: dict[str, str]) -> Json:
    """Return a collection of the requests to send, in their order, with the account's ids."""
    names = {
        operation["operationId"]: operation["summary"]
        for item in document["paths"].values()
        for operation in item.values()
        if isinstance(operation, dict)
    }
    requests = {each["name"]: each for folder in converted["item"] for each in folder["item"]}
    items = []
    for operation, (status, script) in _REQUESTS.items():
        item = deepcopy(requests[names[operation]])
        items.append(_with_test(item, settings, status, script))
        if operation == "createContact":
            duplicate = "pm.expect(pm.response.json().category).to.equal('ConflictError');"
            items.append(_with_test(deepcopy(requests[names[operation]]), settings, 409, duplicate))
    # An empty cursor is the first page.
    variables = [*converted["variable"], {"key": "cursor", "value": ""}]
    return {**converted, "item": items, "variable": variables}


def _with_test(item: Json, settings: dict[str, str], status: int, script: str) -> Json:
    ids = {
        "client_id": settings["CRMHUB_CLIENT_ID"],
        "generated_id": settings["CRMHUB_GENERATED_ID"],
        "portal_id": settings["CRMHUB_PORTAL_ID"],
    }
    url = item["request"]["url"]
    for variable in url.get("variable", ()):
        variable["value"] = ids[variable["key"]]
    for query in url.get("query", ()):
        if item["name"] == "List contacts" and query["key"] in ("limit", "cursor"):
            value = {"limit": "1", "cursor": "{{cursor}}"}[query["key"]]
            query |= {"value": value, "disabled": False}
    if raw := item["request"].get("body", {}).get("raw"):
        body = json.loads(raw)
        if "contactId" in body:
            body["contactId"] = "{{contactId}}"
        item["request"]["body"]["raw"] = json.dumps(body)
    lines = [_STATUS % status, f"pm.test('answer', () => {{ {script} }});"]
    item["event"] = [{"listen": "test", "script": {"exec": lines, "type": "text/javascript"}}]
    return item
