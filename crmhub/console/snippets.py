"""Snippets that call a webhook helper, to be copied by bot builders.

They are for curl, for a bot builder's HTTP block, for n8n and for Node-RED.
"""

from __future__ import annotations

import json
import shlex
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
        "Stores a person: finds them by email, conversation or phone, or makes a new contact.",
        "/chatbot/createLead/{generated}",
        {
            "contactToken": "$contactToken",
            "name": "$name",
            "email": "$email",
            "phone": "$phone",
        },
    ),
    Helper(
        "getProperties",
        "Reads values of the conversation's contact.",
        "/chatbot/getProperties/{generated}",
        {"contactToken": "$contactToken", "props": ["firstname", "email", "phone"]},
    ),
    Helper(
        "setProperties",
        "Writes values to the conversation's contact.",
        "/chatbot/setProperties/{generated}",
        {"contactToken": "$contactToken", "props": {"city": "$city"}},
    ),
    Helper(
        "getType",
        "Tells which workflow a contact is in.",
        "/chatbot/getType/{generated}",
        {"contactnumber": "$phone", "interval": 24, "lastChatInterval": 0},
    ),
    Helper(
        "createDeal",
        "Makes a deal for the contact that createLead answered.",
        "/crm-api-interface/createDeal/{portal}",
        {"contactId": "$contactId", "properties": {"dealname": "$dealname"}},
    ),
    Helper(
        "createTicket",
        "Makes a ticket for the contact that createLead answered.",
        "/crm-api-interface/createTicket/{portal}",
        {"contactId": "$contactId", "properties": {"subject": "$subject"}},
    ),
    Helper(
        "getRandomInt",
        "Draws a number, by which a bot picks one of several agents.",
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


def http_block(helper: Helper, url: str, *, secret: bool) -> str:
    """Return the request to enter in a bot builder's HTTP block, with variables as {{name}}.

    With `secret`, it has a header with a placeholder for the webhook secret.
    """
    body = json.dumps(
        fill(helper.body, lambda name: f"{{{{{name}}}}}"), indent=2, ensure_ascii=False
    )
    headers = ["Content-Type: application/json"] + ([f"{SECRET_HEADER}: {_SECRET}"] * secret)
    return f"POST {url}\n" + "\n".join(headers) + f"\n\n{body}"


def n8n(helper: Helper, url: str, *, secret: bool) -> str:
    """Return the JSON of an n8n node that calls the helper at `url`.

    With `secret`, it sends a placeholder for the webhook secret.
    """
    parameters: dict[str, Any] = {
        "method": "POST",
        "url": url,
        "sendBody": True,
        "specifyBody": "json",
        "jsonBody": f"={{{{ JSON.stringify({_to_javascript(helper.body, '$json')}) }}}}",
        "options": {"timeout": 30_000},
    }
    if secret:
        parameters["sendHeaders"] = True
        parameters["headerParameters"] = {"parameters": [{"name": SECRET_HEADER, "value": _SECRET}]}
    node = {
        "parameters": parameters,
        "type": "n8n-nodes-base.httpRequest",
        "typeVersion": 4.2,
        "position": [0, 0],
        "name": f"crmhub {helper.name}",
    }
    return json.dumps({"nodes": [node], "connections": {}}, indent=2, ensure_ascii=False)


def node_red(helper: Helper, url: str, *, secret: bool) -> str:
    """Return the JSON of a Node-RED flow that calls the helper at `url`.

    The flow has nodes for the body, the HTTP request and the answer. With `secret`, it sends a
    placeholder for the webhook secret.
    """
    headers = [
        {
            "keyType": "other",
            "keyValue": SECRET_HEADER,
            "valueType": "other",
            "valueValue": _SECRET,
        }
    ]
    body = f"crmhub.{helper.name}.body"
    call, answer = f"crmhub.{helper.name}.call", f"crmhub.{helper.name}.answer"
    nodes = [
        {
            "id": body,
            "type": "function",
            "name": "body",
            "func": f"msg.payload = {_to_javascript(helper.body, 'msg.payload')};\nreturn msg;",
            "outputs": 1,
            "x": 140,
            "y": 80,
            "wires": [[call]],
        },
        {
            "id": call,
            "type": "http request",
            "name": helper.name,
            "method": "POST",
            "ret": "obj",
            "paytoqs": "ignore",
            "url": url,
            "headers": headers if secret else [],
            "x": 320,
            "y": 80,
            "wires": [[answer]],
        },
        {
            "id": answer,
            "type": "debug",
            "name": "answer",
            "active": True,
            "complete": "payload",
            "targetType": "msg",
            "x": 500,
            "y": 80,
            "wires": [],
        },
    ]
    return json.dumps(nodes, indent=2, ensure_ascii=False)


def fill(value: Any, variable: Any) -> Any:
    if isinstance(value, dict):
        return {name: fill(member, variable) for name, member in value.items()}
    if isinstance(value, str) and value.startswith("$"):
        return variable(value[1:])
    return value


def _to_javascript(value: Any, source: str) -> str:
    """Return an example body as a JavaScript expression that builds the body.

    Variables of the bot are read from the JavaScript object whose name is `source`.
    """
    if isinstance(value, dict):
        pairs = (f"{name}: {_to_javascript(member, source)}" for name, member in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, str) and value.startswith("$"):
        return f"{source}.{value[1:]}"
    return json.dumps(value)


BUILDERS = (
    ("curl", "In a shell. It writes to this account: the values are samples.", curl),
    (
        "HTTP block",
        "For builders with a block for HTTP requests. Replace {{…}} by the variables of your bot.",
        http_block,
    ),
    ("n8n", "Copy it, click on the canvas of a workflow, and paste.", n8n),
    ("Node-RED", "Menu, Import, paste. Its input is a message with these values.", node_red),
)
"""The tools that snippets are made for: name, instructions, and function that makes the snippet."""
