"""Snippets that call a webhook helper, for curl, HTTP blocks, n8n and Node-RED.

Those for n8n and Node-RED chain: each hands the bot's variables on, with the ids that the helpers
answered and the names of the helpers that failed. A failed call does not end the chain.
The pages under docs/builders print the same snippets. `secret`: send a placeholder for the
webhook secret.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

RESULTS = ("contactId", "dealId", "ticketId", "failed")
"""`failed` is names of helpers, joined by commas."""
SECRET_HEADER = "X-Webhook-Secret"
_SECRET = "the webhook secret"


@dataclass(frozen=True, slots=True)
class Helper:
    """A webhook helper with an example of its body; $ begins a variable of the bot."""

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
# A bot's former results are not those of a new chain.
_NOTHING_YET = "{ dealId: '', ticketId: '', failed: '' }"
# How JavaScript goes on after a variable that a bot may not have, so that the hub takes the body.
_IF_MISSING = {"city": " ?? null", "contactnumber": " || '-'"}
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

    `variable` returns how the builder writes the variable of a name.
    """
    body = json.dumps(fill(helper.body, variable), indent=2, ensure_ascii=False)
    headers = ["Content-Type: application/json"] + ([f"{SECRET_HEADER}: {_SECRET}"] * secret)
    return f"POST {url}\n" + "\n".join(headers) + f"\n\n{body}"


def n8n(helper: Helper, url: str, *, secret: bool) -> str:
    """Return the JSON of three n8n nodes: variables, call, answer.

    The variables are those of the snippet before, the body that a Webhook node received, or else
    the whole item. The last node returns the answer, the RESULTS, and the next variables as `bot`.
    """
    return json.dumps(_n8n_nodes(helper, url, secret), indent=2, ensure_ascii=False)


def n8n_workflow(calls: Sequence[tuple[Helper, str]], *, secret: bool) -> str:
    """Return the JSON of an n8n workflow: a Webhook node, the snippets, the RESULTS as answer."""
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
    answer = _n8n_set("Answer", f"{{ {_ids('$json')} }}", 660)
    nodes.append({**answer, "position": [660, 180 * (len(parts) - 1)]})
    connections[last] = _n8n_wire(answer["name"])
    return json.dumps({"nodes": nodes, "connections": connections}, indent=2, ensure_ascii=False)


def _n8n_nodes(helper: Helper, url: str, secret: bool) -> dict[str, Any]:
    variables, answer = f"{helper.name} variables", f"{helper.name} answer"
    new_chain = f"Object.assign({{}}, $json.body || $json, {_NOTHING_YET})"
    merged = "Object.assign({}, $json, results, { bot: Object.assign({}, bot, results) })"
    results = _results(helper, "$json", "bot")
    parameters: dict[str, Any] = {
        "method": "POST",
        "url": url,
        "sendBody": True,
        "specifyBody": "json",
        "jsonBody": f"={{{{ JSON.stringify({javascript(helper.body, '$json')}) }}}}",
        # The answer to a refused call has the reason.
        "options": {"timeout": 30_000, "response": {"response": {"neverError": True}}},
    }
    if secret:
        parameters["sendHeaders"] = True
        parameters["headerParameters"] = {"parameters": [{"name": SECRET_HEADER, "value": _SECRET}]}
    nodes = [
        _n8n_set(variables, f"$json.bot || {new_chain}", 0),
        {
            "parameters": parameters,
            "type": "n8n-nodes-base.httpRequest",
            "typeVersion": 4.2,
            "position": [220, 0],
            "name": helper.name,
            # Without an answer from the hub, the item has `error` instead.
            "onError": "continueRegularOutput",
        },
        # n8n 2.8 cannot evaluate `...$json`.
        _n8n_set(
            answer,
            f"(bot => (results => {merged})({results}))($('{variables}').item.json)",
            440,
        ),
    ]
    wires = {variables: _n8n_wire(helper.name), helper.name: _n8n_wire(answer)}
    return {"nodes": nodes, "connections": wires}


def _n8n_set(name: str, expression: str, x: int) -> dict[str, Any]:
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


def _ids(source: str) -> str:
    """Return the members of a JavaScript object with the results that `source` has."""
    return ", ".join(f"{name}: {source}.{name}" for name in RESULTS)


def _results(helper: Helper, answer: str, bot: str) -> str:
    """Return the JavaScript object of a chain's results after a call of `helper`.

    `answer` and `bot` are JavaScript expressions. A lead that failed has no contactId: a former one
    may be another person's.
    """
    former = "''" if helper.name == "createLead" else f"{bot}.contactId || ''"
    return (
        f"{{ contactId: {answer}.contactId || {former}, dealId: {answer}.dealId || {bot}.dealId,"
        f" ticketId: {answer}.ticketId || {bot}.ticketId, failed: [{bot}.failed,"
        f" {answer}.status && {answer}.status !== 'error' ? '' : '{helper.name}']"
        f".filter(Boolean).join(',') }}"
    )


def _n8n_wire(target: str) -> dict[str, Any]:
    return {"main": [[{"node": target, "type": "main", "index": 0}]]}


def node_red(helper: Helper, url: str, *, secret: bool) -> str:
    """Return the JSON of a Node-RED flow: body, call, answer, debug.

    The variables are those of the snippet before, else the payload. The payload is then the answer
    and the RESULTS, and the next variables are in `msg.bot`.
    """
    return json.dumps(_node_red_nodes(helper, url, secret, 80), indent=2, ensure_ascii=False)


def node_red_flow(calls: Sequence[tuple[Helper, str]], *, secret: bool) -> str:
    """Return the JSON of a Node-RED flow: an HTTP input, the snippets, the RESULTS as response."""
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
    last["wires"][0].append("crmhub.answer")
    y = 80 + 60 * len(calls)
    # The status and headers of the last helper's answer are not those of this response.
    answer = (
        f"msg.payload = {{ {_ids('msg.bot')} }};\n"
        "msg.statusCode = 200;\n"
        "delete msg.headers;\n"
        "return msg;"
    )
    nodes.append(_node_red_function("crmhub.answer", "answer", answer, "crmhub.out", (140, y)))
    nodes.append(
        {
            "id": "crmhub.out",
            "type": "http response",
            "name": "response",
            "x": 340,
            "y": y,
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
        f"msg.bot = msg.bot || Object.assign({{}}, msg.payload, {_NOTHING_YET});\n"
        f"msg.payload = {javascript(helper.body, 'msg.bot')};\n"
        "delete msg.headers;\n"
        "return msg;"
    )
    # Without JSON from the hub, the payload is a text.
    answer = (
        'const answer = typeof msg.payload === "object" ? msg.payload : { message: msg.payload };\n'
        f"const results = {_results(helper, 'answer', 'msg.bot')};\n"
        "msg.bot = { ...msg.bot, ...results };\n"
        "msg.payload = { ...answer, ...results };\n"
        "return msg;"
    )
    return [
        _node_red_function(ids[0], f"{helper.name}: body", body, ids[1], (140, y)),
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
        _node_red_function(ids[2], f"{helper.name}: answer", answer, ids[3], (540, y)),
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


def _node_red_function(
    id_: str, name: str, code: str, target: str, position: tuple[int, int]
) -> dict[str, Any]:
    x, y = position
    return {
        "id": id_,
        "type": "function",
        "name": name,
        "func": code,
        "outputs": 1,
        "x": x,
        "y": y,
        "wires": [[target]],
    }


def fill(value: Any, variable: Any) -> Any:
    if isinstance(value, dict):
        return {name: fill(member, variable) for name, member in value.items()}
    if isinstance(value, str) and value.startswith("$"):
        return variable(value[1:])
    return value


def javascript(value: Any, source: str) -> str:
    """Return an example body as JavaScript; the bot's variables are members of `source`."""
    if isinstance(value, dict):
        pairs = (
            f"{name}: {javascript(member, source)}{_IF_MISSING.get(name, '')}"
            for name, member in value.items()
        )
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, str) and value.startswith("$"):
        return f"{source}.{value[1:]}"
    return json.dumps(value)


def with_format(url: str, wanted: str, *, own: str) -> str:
    """Return the URL of a helper whose answer has the form `wanted`; "" takes any form."""
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
"""Name, instructions, function that makes the snippet, and the form of answer, "" for any."""
