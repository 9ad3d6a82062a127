"""Properties of a test's own, beside those every account starts with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.clients import Client


def define(
    client: Client,
    resource: str,
    name: str,
    type: str = "string",
    *,
    options: Sequence[str | tuple[str, str]] = (),
    **more: Any,
) -> None:
    """Define a property in the client's account; an option is a value, or (value, label)."""
    chosen = [(each, each) if isinstance(each, str) else each for each in options]
    body = {"name": name, "label": name, "type": type, **more}
    if options:
        body["options"] = [{"value": value, "label": label} for value, label in chosen]
    answer = client.post(f"/properties/{resource}", body)
    assert answer.status_code == 201, answer.text
