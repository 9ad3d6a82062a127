"""The page about events: its request and message, and its programs, which accept genuine messages.

That in TypeScript runs in tests/console/test_builders.py, with others of the documents.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from crmhub.database.connection import now_ms
from crmhub.events import messages as event_messages
from crmhub.events.event_types import TYPES
from crmhub.hub import Hub
from crmhub.secrets import parse_webhook_secret
from tests.clients import Client
from tests.events.receivers import HOOK, events_of, subscribe

PAGE = Path(__file__).parents[2] / "docs" / "integrator" / "events.md"
SECRET = "whsec_" + "QUJD" * 11
BODY = b'{"id":"evt_1","type":"contact.created","data":{"properties":{"city":"K\xc3\xb6ln"}}}'


def program(language: str) -> str:
    [text] = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return text


def headers(*, ago_s: int = 0) -> dict[str, str]:
    secret = parse_webhook_secret(SECRET)
    return secret.headers("evt_1", now_ms() // 1000 - ago_s, BODY)


def messages() -> dict[str, tuple[dict[str, str], bytes, bool]]:
    """Messages, and whether they are genuine."""
    good = headers()
    two = good | {"webhook-signature": f"v1,bm9uZQ== {good['webhook-signature']}"}
    return {
        "good": (good, BODY, True),
        "one of two signatures": (two, BODY, True),
        "another body": (good, BODY + b" ", False),
        "another id": (good | {"webhook-id": "evt_2"}, BODY, False),
        "another signature": (good | {"webhook-signature": "v1,bm9uZQ=="}, BODY, False),
        "old": (headers(ago_s=1000), BODY, False),
    }


@pytest.mark.databases("sqlite")
def test_python_verifies() -> None:
    names: dict[str, Any] = {}
    exec(program("python"), names)
    found = {
        name: names["is_genuine"](SECRET, sent, body)
        for name, (sent, body, _) in messages().items()
    }
    assert found == {name: genuine for name, (_, _, genuine) in messages().items()}


@pytest.mark.databases("sqlite")
def test_page_names_every_type() -> None:
    text = PAGE.read_text("utf-8")
    for name in TYPES:
        assert f"`{name}`" in text or f"`….{name.partition('.')[2]}`" in text, name


@pytest.mark.databases("sqlite")
def test_the_request_of_the_page_subscribes(client: Client) -> None:
    [command] = re.findall(r"```sh\n(curl .*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    words = shlex.split(command.replace("\\\n", " "))
    path = words[2].partition("/api/v1")[2]
    body = json.loads(words[words.index("-d") + 1])
    # The test has no network: an address on this machine instead.
    made = client.post(path, {**body, "url": HOOK})
    assert made.status_code == 201, made.text
    assert made.json["types"] == body["types"]
    assert made.json["secret"].startswith("whsec_")


@pytest.mark.databases("sqlite")
def test_a_message_has_the_form_of_the_page(hub: Hub, client: Client) -> None:
    page = json.loads(program("json"))
    subscribe(hub, client, page["type"])
    data = page["data"]
    id = client.make("deals", **{**data["properties"], **data["previous"]})
    client.patch(f"/deals/{id}", {"properties": {"amount": data["properties"]["amount"]}})
    [event] = events_of(hub, client)
    body = event_messages.body(
        id=event.id,
        type=event.type,
        created_at=event.created_at,
        client_id=client.account.client_id,
        data=event.data,
    )
    told = json.loads(body)
    assert (told.keys(), told["data"].keys()) == (page.keys(), data.keys())
    assert told["id"].startswith("evt_")
    assert told["data"]["properties"].items() >= data["properties"].items()
    assert told["data"]["changed"] == data["changed"]
    assert told["data"]["previous"] == data["previous"]
