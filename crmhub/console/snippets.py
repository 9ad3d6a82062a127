"""Snippets that call a webhook helper, to be copied by bot builders.

They are for curl, for a bot builder's HTTP block, for n8n and for Node-RED. The snippets for n8n
and Node-RED chain: each hands the bot's variables on, with the contactId that it was answered.
The pages under docs/builders print the same snippets.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

SECRET_HEADER = "X-Webhook-Secret"
_SECRET = "the webhook secret"


@dataclass(frozen=True, slots=True)
class Helper:
    """A webhook helper: name, explanation, path and an example of its body.

    The path contains `{generated}` or `{portal}` for the webhook id. Texts in the body that start
    with $ are variables of the bot; all other values are examples.
    """

    name: str
    does: str
    path: str
    body: dict[str, Any]


HELPERS = (
    Helper(
        "createLead",
        "Creates or updates the contact of a conversation.",
        "/chatbot/createLead/{generated}",
        {"contactToken": "$contactToken", "name": "$name", "email": "$email", "phone": "$phone"},
    ),
    Helper(
        "getProperties",
        "Reads properties of the conversation's contact.",
        "/chatbot/getProperties/{generated}",
        {"contactToken": "$contactToken", "props": ["firstname", "email", "phone"]},
    ),
    Helper(
        "setProperties",
        "Writes properties of the conversation's contact.",
        "/chatbot/setProperties/{generated}",
        {"contactToken": "$contactToken", "props": {"city": "$city"}},
    ),
    Helper(
        "getType",
        "Returns the workflow of a contact.",
        "/chatbot/getType/{generated}",
        {"contactnumber": "$phone", "interval": 24, "lastChatInterval": 0},
    ),
    Helper(
        "createDeal",
        "Creates a deal for a contact of createLead.",
        "/crm-api-interface/createDeal/{portal}",
        {"contactId": "$contactId", "properties": {"dealname": "$dealname"}},
    ),
    Helper(
        "createTicket",
        "Creates a ticket for a contact of createLead.",
        "/crm-api-interface/createTicket/{portal}",
        {"contactId": "$contactId", "properties": {"subject": "$subject"}},
    ),
    Helper(
        "getRandomInt",
        "Returns a random number, to pick an agent.",
        "/crm-api-interface/getRandomInt/{portal}",
        {"min": 1, "max": 3},
    ),
)
_SAMPLES = {
    "contactToken": "chat-17",
    "name": "Katherine Johnson",
    "email": "kj@example.com",
    "phone": "+1 202-555-0188",
    "city": "Hampton",
    "contactId": "the contactId of createLead",
    "dealname": "A first order",
    "subject": "A question",
}


def curl(helper: Helper, url: str, *, secret: bool) -> str:
    """Return a shell command that calls the helper at `url` with sample values.

    With `secret`, the command sends a placeholder for the webhook secret.
    """
    body = json.dumps(fill(helper.body, lambda name: _SAMPLES[name]), ensure_ascii=False)
    header = [f"-H {shlex.quote(f'{SECRET_HEADER}: {_SECRET}')}"] if secret else []
    return " \\\n  ".join(
        [
            f"curl {shlex.quote(url)}",
            *header,
            "-H 'Content-Type: application/json'",
            f"-d {shlex.quote(body)}",
        ]
    )


def http_block(
    helper: Helper, url: str, *, secret: bool, variable: Callable[[str], str] = "{{{{{}}}}}".format
) -> str:
    """Return the request to enter in a bot builder's HTTP block.

    `variable` returns how the builder writes the variable of a name: {{name}}, unless it is given.
    With `secret`, the request has a header with a placeholder for the webhook secret.
    """
    body = json.dumps(fill(helper.body, variable), indent=2, ensure_ascii=False)
    headers = ["Content-Type: application/json"] + ([f"{SECRET_HEADER}: {_SECRET}"] * secret)
    return f"POST {url}\n" + "\n".join(headers) + f"\n\n{body}"


def n8n(helper: Helper, url: str, *, secret: bool) -> str:
    """Return the JSON of three n8n nodes that call the helper at `url`.

    The first node takes the bot's variables: those of the snippet before, the body that a Webhook
    node received, or else the whole item. The second one calls the helper. The last one returns the
    answer, and under `bot` the variables for the next snippet. With `secret`, the nodes send a
    placeholder for the webhook secret.
    """
    return json.dumps(_n8n_nodes(helper, url, secret), indent=2, ensure_ascii=False)


def n8n_workflow(calls: Sequence[tuple[Helper, str]], *, secret: bool) -> str:
    """Return the JSON of an n8n workflow: a Webhook node, then the snippets of `calls` in a row.

    `calls` are helpers with their URLs.
    """
    parts = [_n8n_nodes(helper, url, secret) for helper, url in calls]
    webhook = {
        "parameters": {
            "httpMethod": "POST",
            "path": "crmhub",
            "responseMode": "lastNode",
            "options": {},
        },
        "type": "n8n-nodes-base.webhook",
        "typeVersion": 2,
        "position": [-220, 0],
        "name": "Webhook",
        "webhookId": "crmhub",
    }
    nodes, connections = [webhook], {}
    last = webhook["name"]
    for row, part in enumerate(parts):
        for node in part["nodes"]:
            nodes.append({**node, "position": [node["position"][0], 180 * row]})
        connections.update(part["connections"])
        connections[last] = _n8n_wire(part["nodes"][0]["name"])
        last = part["nodes"][-1]["name"]
    return json.dumps({"nodes": nodes, "connections": connections}, indent=2, ensure_ascii=False)


def _n8n_nodes(helper: Helper, url: str, secret: bool) -> dict[str, Any]:
    variables, answer = f"{helper.name} variables", f"{helper.name} answer"
    sent = f"$('{variables}').item.json"
    parameters: dict[str, Any] = {
        "method": "POST",
        "url": url,
        "sendBody": True,
        "specifyBody": "json",
        "jsonBody": f"={{{{ JSON.stringify({javascript(helper.body, '$json')}) }}}}",
        "options": {"timeout": 30_000},
    }
    if secret:
        parameters["sendHeaders"] = True
        parameters["headerParameters"] = {"parameters": [{"name": SECRET_HEADER, "value": _SECRET}]}
    nodes = [
        _n8n_set(variables, "$json.bot || $json.body || $json", 0),
        {
            "parameters": parameters,
            "type": "n8n-nodes-base.httpRequest",
            "typeVersion": 4.2,
            "position": [220, 0],
            "name": helper.name,
        },
        _n8n_set(
            answer,
            f"{{ ...$json, bot: {{ ...{sent}, contactId: $json.contactId || {sent}.contactId }} }}",
            440,
        ),
    ]
    wires = {variables: _n8n_wire(helper.name), helper.name: _n8n_wire(answer)}
    return {"nodes": nodes, "connections": wires}


def _n8n_set(name: str, expression: str, x: int) -> dict[str, Any]:
    """Return an n8n node that outputs the object of a JavaScript expression."""
    return {
        "parameters": {
            "mode": "raw",
            "jsonOutput": f"={{{{ JSON.stringify({expression}) }}}}",
            "options": {},
        },
        "type": "n8n-nodes-base.set",
        "typeVersion": 3.4,
        "position": [x, 0],
        "name": name,
    }


def _n8n_wire(target: str) -> dict[str, Any]:
    return {"main": [[{"node": target, "type": "main", "index": 0}]]}


def node_red(helper: Helper, url: str, *, secret: bool) -> str:
    """Return the JSON of a Node-RED flow that calls the helper at `url`.

    The first node takes the bot's variables: those of the snippet before, else the payload. The
    second one calls the helper. The third one returns the answer as payload, and the variables for
    the next snippet in `msg.bot`; a debug node shows the answer. With `secret`, the flow sends a
    placeholder for the webhook secret.
    """
    return json.dumps(_node_red_nodes(helper, url, secret, 80), indent=2, ensure_ascii=False)


def node_red_flow(calls: Sequence[tuple[Helper, str]], *, secret: bool) -> str:
    """Return the JSON of a Node-RED flow: an HTTP input, the snippets of `calls`, the response.

    `calls` are helpers with their URLs.
    """
    nodes: list[dict[str, Any]] = [
        {
            "id": "crmhub.in",
            "type": "http in",
            "name": "POST /crmhub",
            "url": "/crmhub",
            "method": "post",
            "x": 140,
            "y": 20,
            "wires": [],
        }
    ]
    last = nodes[0]
    for row, (helper, url) in enumerate(calls, 1):
        part = _node_red_nodes(helper, url, secret, 20 + 60 * row)
        last["wires"] = [[*(last["wires"] or [[]])[0], part[0]["id"]]]
        nodes += part
        last = part[2]
    last["wires"][0].append("crmhub.out")
    nodes.append(
        {
            "id": "crmhub.out",
            "type": "http response",
            "name": "answer",
            "x": 140,
            "y": 80 + 60 * len(calls),
            "wires": [],
        }
    )
    return json.dumps(nodes, indent=2, ensure_ascii=False)


def _node_red_nodes(helper: Helper, url: str, secret: bool, y: int) -> list[dict[str, Any]]:
    header = {"keyType": "other", "valueType": "other"}
    headers = [{**header, "keyValue": SECRET_HEADER, "valueValue": _SECRET}]
    ids = [f"crmhub.{helper.name}.{part}" for part in ("body", "call", "answer", "shown")]
    # The headers of the former answer would be sent as headers of this request.
    body = (
        "msg.bot = msg.bot || msg.payload;\n"
        f"msg.payload = {javascript(helper.body, 'msg.bot')};\n"
        "delete msg.headers;\n"
        "return msg;"
    )
    answer = (
        "if (msg.payload.contactId) {\n"
        "  msg.bot = { ...msg.bot, contactId: msg.payload.contactId };\n"
        "}\n"
        "return msg;"
    )
    return [
        {
            "id": ids[0],
            "type": "function",
            "name": f"{helper.name}: body",
            "func": body,
            "outputs": 1,
            "x": 140,
            "y": y,
            "wires": [[ids[1]]],
        },
        {
            "id": ids[1],
            "type": "http request",
            "name": helper.name,
            "method": "POST",
            "ret": "obj",
            "paytoqs": "ignore",
            "url": url,
            "headers": headers if secret else [],
            "x": 340,
            "y": y,
            "wires": [[ids[2]]],
        },
        {
            "id": ids[2],
            "type": "function",
            "name": f"{helper.name}: answer",
            "func": answer,
            "outputs": 1,
            "x": 540,
            "y": y,
            "wires": [[ids[3]]],
        },
        {
            "id": ids[3],
            "type": "debug",
            "name": helper.name,
            "active": True,
            "complete": "payload",
            "targetType": "msg",
            "x": 740,
            "y": y,
            "wires": [],
        },
    ]


def fill(value: Any, variable: Any) -> Any:
    if isinstance(value, dict):
        return {name: fill(member, variable) for name, member in value.items()}
    if isinstance(value, str) and value.startswith("$"):
        return variable(value[1:])
    return value


def javascript(value: Any, source: str) -> str:
    """Return an example body as a JavaScript expression that builds the body.

    Variables of the bot are read from the JavaScript object whose name is `source`.
    """
    if isinstance(value, dict):
        pairs = (f"{name}: {javascript(member, source)}" for name, member in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, str) and value.startswith("$"):
        return f"{source}.{value[1:]}"
    return json.dumps(value)


def with_format(url: str, wanted: str, *, own: str) -> str:
    """Return the URL of a helper whose answer has the form `wanted`; "" takes any form.

    `own` is the form of the account, which needs no query parameter.
    """
    return url if wanted in ("", own) else f"{url}?format={wanted}"


BUILDERS = (
    ("curl", "In a shell. It writes to this account: the values are samples.", curl, ""),
    (
        "HTTP block",
        "For builders with a block for HTTP requests. Replace {{…}} by the variables of your bot.",
        http_block,
        "flat",
    ),
    (
        "Chatfuel",
        "For the block JSON API. It stores the answer's keys as attributes.",
        http_block,
        "chatfuel",
    ),
    (
        "Manychat",
        "For a dynamic block. Custom fields with the names of the answer's keys must exist; the"
        " documents say which. Or use an External Request with the HTTP block above.",
        http_block,
        "manychat",
    ),
    (
        "n8n",
        "Copy it, click on the canvas of a workflow, and paste. Wire it behind a Webhook node, or"
        " behind another of these snippets.",
        n8n,
        "flat",
    ),
    (
        "Node-RED",
        "Menu, Import, paste. Wire it behind a node whose payload has these values, or the answer"
        " of one of these snippets to the body of the next.",
        node_red,
        "flat",
    ),
)
"""The tools that snippets are made for: name, instructions, function that makes the snippet, and
the form of the answer that the tool needs, "" for any.
"""
