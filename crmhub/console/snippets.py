"""Snippets that call a webhook helper, for curl, HTTP blocks, n8n and Node-RED.

Those for n8n and Node-RED chain: each hands the bot's variables on, with the ids that the helpers
answered and the names of the helpers that failed. A failed call does not end the chain.
The pages under docs/builders print the same snippets, and chains of them (tests/chains.py).
`secret`: send a placeholder for the webhook secret.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from crmhub.translatable import translatable

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
        translatable("Creates or updates the contact of a conversation."),
        "/chatbot/createLead/{generated}",
        {"contactToken": "$contactToken", "name": "$name", "email": "$email", "phone": "$phone"},
    ),
    Helper(
        "getProperties",
        translatable("Reads properties of the conversation's contact."),
        "/chatbot/getProperties/{generated}",
        {"contactToken": "$contactToken", "props": ["firstname", "email", "phone"]},
    ),
    Helper(
        "setProperties",
        translatable("Writes properties of the conversation's contact."),
        "/chatbot/setProperties/{generated}",
        {"contactToken": "$contactToken", "props": {"city": "$city"}},
    ),
    Helper(
        "getType",
        translatable("Returns the workflow of a contact."),
        "/chatbot/getType/{generated}",
        {"contactnumber": "$phone", "interval": 24, "lastChatInterval": 0},
    ),
    Helper(
        "addNote",
        translatable("Adds a conversation's transcript to its contact."),
        "/chatbot/addNote/{generated}",
        {"contactToken": "$contactToken", "text": "$transcript", "kind": "transcript"},
    ),
    Helper(
        "createDeal",
        translatable("Creates a deal for a contact of createLead."),
        "/crm-api-interface/createDeal/{portal}",
        {"contactId": "$contactId", "properties": {"dealname": "$dealname"}},
    ),
    Helper(
        "assignOwner",
        translatable("Chooses the owner of a contact and its deal from a team."),
        "/crm-api-interface/assignOwner/{portal}",
        {"contactId": "$contactId", "dealId": "$dealId"},
    ),
    Helper(
        "createTask",
        translatable("Creates a task for a contact of createLead."),
        "/crm-api-interface/createTask/{portal}",
        {"contactId": "$contactId", "properties": {"subject": "Call back", "priority": "HIGH"}},
    ),
    Helper(
        "createTicket",
        translatable("Creates a ticket for a contact of createLead."),
        "/crm-api-interface/createTicket/{portal}",
        {"contactId": "$contactId", "properties": {"subject": "$subject"}},
    ),
    Helper(
        "getRandomInt",
        translatable("Returns a random number, to pick an agent."),
        "/crm-api-interface/getRandomInt/{portal}",
        {"min": 1, "max": 3},
    ),
)
# A bot's former results are not those of a new chain.
_NOTHING_YET = "{ dealId: '', ticketId: '', failed: '' }"
# How JavaScript goes on after a variable that a bot may not have, so that the hub takes the body.
_IF_MISSING = {"city": " ?? null", "contactnumber": " || '-'", "dealId": " || ''"}
_SAMPLES = {
    "contactToken": "chat-17",
    "name": "Katherine Johnson",
    "email": "kj@example.com",
    "phone": "+1 202-555-0188",
    "city": "Hampton",
    "transcript": "Bot: How can we help?\nKatherine: I need an offer.",
    "contactId": "the contactId of createLead",
    "dealId": "the dealId of createDeal",
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
    body = _json(fill(helper.body, variable))
    headers = ["Content-Type: application/json"] + ([f"{SECRET_HEADER}: {_SECRET}"] * secret)
    return f"POST {url}\n" + "\n".join(headers) + f"\n\n{body}"


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


# --- n8n -----------------------------------------------------------------------------------------


def n8n(helper: Helper, url: str, *, secret: bool) -> str:
    """Return the JSON of three n8n nodes: variables, call, answer.

    The variables are those of the snippet before, the body that a Webhook node received, or else
    the whole item. The last node returns the answer, the RESULTS, and the next variables as `bot`.
    """
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
    call = n8n_node(helper.name, "httpRequest", 4.2, parameters, 220)
    nodes = [
        n8n_set(variables, f"$json.bot || {new_chain}", 0),
        # Without an answer from the hub, the item has `error` instead.
        {**call, "onError": "continueRegularOutput"},
        # n8n 2.8 cannot evaluate `...$json`.
        n8n_set(
            answer,
            f"(bot => (results => {merged})({results}))($('{variables}').item.json)",
            440,
        ),
    ]
    wires = {variables: n8n_wire(helper.name), helper.name: n8n_wire(answer)}
    return _json({"nodes": nodes, "connections": wires})


def n8n_set(name: str, expression: str, x: int) -> dict[str, Any]:
    """Return a node whose output is the object of a JavaScript expression."""
    output = f"={{{{ JSON.stringify({expression}) }}}}"
    return n8n_node(name, "set", 3.4, {"mode": "raw", "jsonOutput": output, "options": {}}, x)


def n8n_node(
    name: str, kind: str, version: float, parameters: dict[str, Any], x: int
) -> dict[str, Any]:
    return {
        "parameters": parameters,
        "type": f"n8n-nodes-base.{kind}",
        "typeVersion": version,
        "position": [x, 0],
        "name": name,
    }


def n8n_wire(target: str) -> dict[str, Any]:
    return {"main": [[{"node": target, "type": "main", "index": 0}]]}


# --- Node-RED ------------------------------------------------------------------------------------


def node_red(helper: Helper, url: str, *, secret: bool) -> str:
    """Return the JSON of a Node-RED flow: body, call, answer, debug.

    The variables are those of the snippet before, else the payload. The payload is then the answer
    and the RESULTS, and the next variables are in `msg.bot`.
    """
    header = {"keyType": "other", "valueType": "other"}
    headers = [{**header, "keyValue": SECRET_HEADER, "valueValue": _SECRET}]
    call = {"method": "POST", "ret": "obj", "paytoqs": "ignore", "url": url}
    debug = {"active": True, "complete": "payload", "targetType": "msg"}
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
    nodes = [
        node_red_function(ids[0], f"{helper.name}: body", body, 140, 80, ids[1]),
        node_red_node(
            ids[1],
            "http request",
            helper.name,
            {**call, "headers": headers if secret else []},
            340,
            80,
            ids[2],
        ),
        node_red_function(ids[2], f"{helper.name}: answer", answer, 540, 80, ids[3]),
        node_red_node(ids[3], "debug", helper.name, debug, 740, 80),
    ]
    return _json(nodes)


def node_red_function(id: str, name: str, code: str, x: int, y: int, target: str) -> dict[str, Any]:
    return node_red_node(id, "function", name, {"func": code, "outputs": 1}, x, y, target)


def node_red_node(
    id: str, kind: str, name: str, options: dict[str, Any], x: int, y: int, target: str = ""
) -> dict[str, Any]:
    wires = [[target]] if target else []
    return {"id": id, "type": kind, "name": name, **options, "x": x, "y": y, "wires": wires}


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


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
    (
        "curl",
        translatable("In a shell. It writes to this account: the values are samples."),
        curl,
        "",
    ),
    (
        "HTTP block",
        translatable(
            "For builders with a block for HTTP requests. Replace {{…}} by the variables of your"
            " bot."
        ),
        http_block,
        "flat",
    ),
    (
        "Chatfuel",
        translatable("For the block JSON API. It stores the answer's keys as attributes."),
        http_block,
        "chatfuel",
    ),
    (
        "Manychat",
        translatable(
            "For a dynamic block. Custom fields with the names of the answer's keys must exist; the"
            " documents say which. Or use an External Request with the HTTP block above."
        ),
        http_block,
        "manychat",
    ),
    (
        "n8n",
        translatable(
            "Copy it, click on the canvas of a workflow, and paste. Wire it behind a Webhook node,"
            " or behind another of these snippets."
        ),
        n8n,
        "flat",
    ),
    (
        "Node-RED",
        translatable(
            "Menu, Import, paste. Wire it behind a node whose payload has these values, or the"
            " answer of one of these snippets to the body of the next."
        ),
        node_red,
        "flat",
    ),
)
"""Name, instructions, function that makes the snippet, and the form of answer, "" for any."""
