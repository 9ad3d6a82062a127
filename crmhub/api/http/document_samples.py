"""Samples of each operation of the OpenAPI document, in curl, Python and TypeScript.

They are made of the operation and its example, and stand in the document as `x-codeSamples`, which
the API reference and other tools show.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pprint import pformat
from textwrap import indent
from typing import Any
from urllib.parse import quote, urlencode

HUB = "https://hub.example.com"
"""The address in all samples; the API reference shows its own in place of it."""
_SECRETS = {
    "ApiKey": ("service-apikey", "YOUR_API_KEY"),
    "AdminToken": ("Authorization", "Bearer YOUR_ADMIN_TOKEN"),
}
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    url: str
    headers: Mapping[str, str]
    body: Any
    has_answer: bool


def add_samples(document: dict[str, Any]) -> None:
    """Add `x-codeSamples` to each operation of a document that has its examples."""
    components = document["components"]
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if not isinstance(operation, dict):
                continue
            parameters = [*item.get("parameters", ()), *operation.get("parameters", ())]
            request = _request(method, path, operation, [_found(components, p) for p in parameters])
            operation["x-codeSamples"] = [
                {"lang": "Shell", "label": "curl", "source": _curl(request)},
                {"lang": "Python", "label": "Python", "source": _python(request)},
                {"lang": "TypeScript", "label": "TypeScript", "source": _typescript(request)},
            ]


def _found(components: Mapping[str, Any], parameter: dict[str, Any]) -> dict[str, Any]:
    name = parameter.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = components["parameters"][name] if name else parameter
    return found


def _request(
    method: str, path: str, operation: dict[str, Any], parameters: list[dict[str, Any]]
) -> _Request:
    """Return the example of an operation, with the parameters that it needs."""
    query = {}
    for parameter in parameters:
        value = parameter.get("example", "")
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", quote(str(value), safe="@"))
        elif parameter["in"] == "query" and parameter.get("required"):
            query[parameter["name"]] = value
    headers = dict(_SECRETS[name] for one in operation["security"] for name in one)
    body = operation.get("requestBody", {}).get("content", {}).get(_JSON, {}).get("example")
    if body is not None:
        headers["Content-Type"] = _JSON
    url = f"{HUB}{path}{'?' if query else ''}{urlencode(query)}"
    answers = (
        operation["responses"][status] for status in operation["responses"] if status < "300"
    )
    has_answer = all(_JSON in answer.get("content", {}) for answer in answers)
    return _Request(method.upper(), url, headers, body, has_answer)


def _curl(request: _Request) -> str:
    usual = "GET" if request.body is None else "POST"
    words = [] if request.method == usual else [f"-X {request.method}"]
    words += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in request.headers.items()]
    if request.body is not None:
        words.append(f"-d {shlex.quote(json.dumps(request.body, ensure_ascii=False))}")
    return " \\\n  ".join([f"curl {shlex.quote(request.url)}", *words])


def _python(request: _Request) -> str:
    # `json` sets Content-Type by itself.
    headers = {name: value for name, value in request.headers.items() if name != "Content-Type"}
    arguments = [json.dumps(request.url)]
    if headers:
        arguments.append(f"headers={pformat(headers)}")
    if request.body is not None:
        body = pformat(request.body, width=76, sort_dicts=False)
        arguments.append("json=" + indent(body, "     ").lstrip())
    arguments.append("timeout=30")
    call = indent("".join(f"{argument},\n" for argument in arguments), "    ")
    shown = (
        "response.status_code, response.json()" if request.has_answer else "response.status_code"
    )
    return (
        f"import requests\n\nresponse = requests.{request.method.lower()}(\n{call})\nprint({shown})"
    )


def _typescript(request: _Request) -> str:
    options = [f'method: "{request.method}"']
    if request.headers:
        options.append(f"headers: {json.dumps(request.headers)}")
    if request.body is not None:
        body = json.dumps(request.body, ensure_ascii=False, indent=2)
        options.append(f"body: JSON.stringify({indent(body, '  ').lstrip()})")
    shown = "response.status, await response.json()" if request.has_answer else "response.status"
    lines = "".join(f"  {option},\n" for option in options)
    return (
        f"const response = await fetch({json.dumps(request.url)}, {{\n{lines}}});\n"
        f"console.log({shown});"
    )
