"""The programs of the page about events accept what the hub sends, and nothing else.

That in TypeScript runs in tests/console/test_builders.py, with others of the documents.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from crmhub.database.connection import now_ms
from crmhub.events.event_types import TYPES
from crmhub.secrets import parse_webhook_secret

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
