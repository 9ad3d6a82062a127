"""Chains of all helpers for n8n and Node-RED: the files under docs/builders.

Each consists of the snippets that the console shows, behind an HTTP input that answers the results.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from crmhub.console.snippets import (
    RESULTS,
    Helper,
    n8n,
    n8n_node,
    n8n_set,
    n8n_wire,
    node_red,
    node_red_function,
    node_red_node,
)


def _results_of(source: str) -> str:
    """Return the members of a JavaScript object with the results that `source` has."""
    return ", ".join(f"{name}: {source}.{name}" for name in RESULTS)


def n8n_workflow(calls: Sequence[tuple[Helper, str]], *, secret: bool) -> str:
    """Return the JSON of an n8n workflow: a Webhook node, the snippets, the results as answer."""
    options = {"httpMethod": "POST", "path": "crmhub", "responseMode": "lastNode", "options": {}}
    webhook = {**n8n_node("Webhook", "webhook", 2, options, -220), "webhookId": "crmhub"}
    nodes, connections = [webhook], {}
    last = webhook["name"]
    for row, (helper, url) in enumerate(calls):
        part = json.loads(n8n(helper, url, secret=secret))
        for node in part["nodes"]:
            nodes.append({**node, "position": [node["position"][0], 180 * row]})
        connections.update(part["connections"])
        connections[last] = n8n_wire(part["nodes"][0]["name"])
        last = part["nodes"][-1]["name"]
    answer = n8n_set("Answer", f"{{ {_results_of('$json')} }}", 660)
    nodes.append({**answer, "position": [660, 180 * (len(calls) - 1)]})
    connections[last] = n8n_wire(answer["name"])
    return json.dumps({"nodes": nodes, "connections": connections}, indent=2, ensure_ascii=False)


def node_red_flow(calls: Sequence[tuple[Helper, str]], *, secret: bool) -> str:
    """Return the JSON of a Node-RED flow: an HTTP input, the snippets, the results as response."""
    options = {"url": "/crmhub", "method": "post"}
    nodes: list[dict[str, Any]] = [
        node_red_node("crmhub.in", "http in", "POST /crmhub", options, 140, 20)
    ]
    last = nodes[0]
    for row, (helper, url) in enumerate(calls, 1):
        part = json.loads(node_red(helper, url, secret=secret))
        last["wires"] = [[*(last["wires"] or [[]])[0], part[0]["id"]]]
        nodes += [{**node, "y": 20 + 60 * row} for node in part]
        last = nodes[-2]
    last["wires"][0].append("crmhub.answer")
    y = 80 + 60 * len(calls)
    # The status and headers of the last helper's answer are not those of this response.
    answer = (
        f"msg.payload = {{ {_results_of('msg.bot')} }};\n"
        "msg.statusCode = 200;\n"
        "delete msg.headers;\n"
        "return msg;"
    )
    nodes.append(node_red_function("crmhub.answer", "answer", answer, 140, y, "crmhub.out"))
    nodes.append(node_red_node("crmhub.out", "http response", "response", {}, 340, y))
    return json.dumps(nodes, indent=2, ensure_ascii=False)
