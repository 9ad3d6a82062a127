"""The parts of the documents that are made from the code: `python -m tests.made_docs` writes them.

Such a part stands between `<!-- made: WORDS -->` and `<!-- /made -->`; the words choose a function
of MAKERS and its arguments. tests/test_docs.py fails when a part differs from what the code makes.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from crmhub import errors
from crmhub.console import snippets
from crmhub.properties.defaults import DEFAULT_PIPELINES, DEFAULT_PROPERTIES
from crmhub.properties.definitions import Property
from tests import chains, made_adapters

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
_PART = re.compile(r"^( *)(<!-- made: (.*?) -->\n).*?<!-- /made -->", re.DOTALL | re.MULTILINE)
_TAB = re.compile(r'^=== "([^"]*)"\n(.*?)(?=^\S)', re.DOTALL | re.MULTILINE)

HUB = "https://hub.example.com"
_IDS = {"generated": "GENERATED_ID", "portal": "PORTAL_ID"}
VARIABLES: Mapping[str, str] = {
    "manychat": "{{{{{}}}}}",
    "chatfuel": "{{{{{}}}}}",
    "landbot": "@{{{}}}",
    "typebot": "{{{{{}}}}}",
    "voiceflow": "{{{}}}",
}
"""How each builder writes the variable of a name, as a format string."""
_QUERY = {"chatfuel": "?format=chatfuel"}
# Where each builder stores a key of an answer, as a format string; Chatfuel stores all by itself.
_SAVES = {
    "manychat": "Response mapping: `$.{}`",
    "landbot": "Save response: `{}`",
    "typebot": "Save in variables: `data.{}`",
    "voiceflow": "Capture response: `{}`",
}
CHAINS = {"node-red": chains.node_red_flow, "n8n": chains.n8n_workflow}
_CONVERSATION = (
    "createLead", "getProperties", "setProperties", "addNote", "createDeal", "assignOwner",
    "createTask", "createTicket",
)  # fmt: skip
_HELPERS = {helper.name: helper for helper in snippets.HELPERS}
# Of the helper's answer, what a bot stores in variables.
_STORED = {
    "createLead": {"contactId": "contactId"},
    "getProperties": {"firstname": "firstname"},
    "assignOwner": {"ownerName": "ownerName"},
    "createDeal": {"dealId": "dealId"},
    "createTicket": {"ticketId": "ticketId"},
}


def pages() -> Iterator[Path]:
    """Return all pages of the documents, in the order of their paths."""
    yield from sorted(DOCS.rglob("*.md"))


def tabs(page: str) -> dict[str, str]:
    """Return the text of each tab of a page by its name in lower case."""
    return {name.lower(): textwrap.dedent(text) for name, text in _TAB.findall(page)}


def made(text: str) -> str:
    """Return the text of a page with its made parts as the code makes them now."""
    return _PART.sub(_made_part, text)


def _made_part(part: re.Match[str]) -> str:
    margin, opening, words = part.groups()
    body = textwrap.indent(_make(words), margin)
    return f"{margin}{opening}\n{body}\n\n{margin}<!-- /made -->"


def _make(words: str) -> str:
    name, *arguments = words.split()
    return MAKERS[name](*arguments)


def requests(builder: str) -> str:
    """Return the calls of a whole conversation, as they are entered in a builder."""
    parts = []
    for number, helper in enumerate(_CONVERSATION, 1):
        keys = _STORED.get(helper, {}).values()
        title = f"**{number}. {helper}**"
        if builder in _SAVES and keys:
            title += f" · {_SAVES[builder].format(*keys)}"
        call = _botpress(helper) if builder == "botpress" else _request(builder, helper)
        parts.append(f"{title}\n\n{call}")
    return "\n\n".join(parts)


def _request(builder: str, helper: str) -> str:
    called = _HELPERS[helper]
    text = snippets.http_block(
        called,
        _url(called) + _QUERY.get(builder, ""),
        secret=False,
        variable=VARIABLES[builder].format,
    )
    return f"```http\n{text}\n```"


def _botpress(helper: str) -> str:
    """Return the code of a Botpress card that calls a helper."""
    called = _HELPERS[helper]
    body = snippets.javascript(called.body, "workflow")
    lines = [
        f"const answer = await axios.post('{_url(called)}',",
        f"  {body},",
        "  { timeout: 10000 });",
        *(f"workflow.{name} = answer.data.{key};" for name, key in _STORED.get(helper, {}).items()),
    ]
    return "\n".join(["```js", *lines, "```"])


def chain(builder: str) -> str:
    """Return the file of the whole conversation: a flow of Node-RED, or a workflow of n8n."""
    calls = [(helper, _url(helper)) for helper in snippets.HELPERS]
    return f"{CHAINS[builder](calls, secret=False)}\n"


def chain_file(builder: str) -> Path:
    """Return where the file of the whole conversation stands."""
    return DOCS / "builders" / f"crmhub-{builder}.json"


def _url(helper: snippets.Helper) -> str:
    return HUB + helper.path.format(**_IDS)


def properties(kind: str) -> str:
    """Return the table of the properties that a new account has for a kind of record."""
    rows = ["| Name | Label | Type | Notes |", "| --- | --- | --- | --- |"]
    for spec in DEFAULT_PROPERTIES[kind]:
        rows.append(f"| `{spec.name}` | {spec.label} | `{spec.type}` | {_notes(spec)} |")
    return "\n".join(rows)


def _notes(spec: Property) -> str:
    marks = [
        word for word, applies in (("required", spec.required), ("unique", spec.unique)) if applies
    ]
    if spec.options_from:
        marks.append(f"the ids of the {spec.options_from} below")
    elif spec.options:
        marks.append(", ".join(f"`{option.value}`" for option in spec.options))
    return "; ".join([*marks, *filter(None, [spec.description])])


def pipelines(kind: str) -> str:
    """Return the table of the pipelines and stages that a new account has for a kind of record."""
    rows = ["| Pipeline | Stage | Label |", "| --- | --- | --- |"]
    for pipeline in DEFAULT_PIPELINES[kind]:
        rows += [f"| `{pipeline.id}` | `{one.id}` | {one.label} |" for one in pipeline.stages]
    return "\n".join(rows)


def error_table() -> str:
    """Return the table of all error categories with their HTTP status."""
    rows = ["| Status | Category | Meaning |", "| --- | --- | --- |"]
    for line in (errors.__doc__ or "").splitlines():
        if found := re.fullmatch(r" +(\w+) +(\d{3}) +(\w+) +(.*)", line):
            name, status, category, meaning = found.groups()
            kind: type[errors.HubError] = getattr(errors, name)
            if (kind.status, kind.category) != (int(status), category):
                raise ValueError(f"the docstring of crmhub.errors is wrong about {name}")
            rows.append(f"| {status} | `{category}` | {meaning} |")
    return "\n".join(rows)


def file(name: str, language: str) -> str:
    """Return the text of a file of the repository as a code block."""
    return f"```{language}\n{(ROOT / name).read_text().rstrip()}\n```"


MAKERS: Mapping[str, Callable[..., str]] = {
    "requests": requests,
    "properties": properties,
    "pipelines": pipelines,
    "errors": error_table,
    "file": file,
    **made_adapters.MAKERS,
}


if __name__ == "__main__":
    for page in pages():
        page.write_text(made(page.read_text()))
    for builder in CHAINS:
        chain_file(builder).write_text(chain(builder))
