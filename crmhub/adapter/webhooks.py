"""What the adapters of CRMs whose webhooks bring a secret along have in common."""

from __future__ import annotations

import hmac
import json
from typing import Any

from crmhub.adapter.context import Context
from crmhub.adapter.errors import Denied, Unsupported
from crmhub.adapter.values import WebhookRequest


def webhook_secret(context: Context, name: str) -> str:
    """Raises Unsupported if the operator has not entered the secret of the webhooks."""
    if secret := context.credentials[name]:
        return secret
    raise Unsupported(f"Webhooks are not read before the secret {name!r} is entered.")


def check_proof(given: str, expected: str) -> None:
    """Raises Denied if a webhook does not bring the expected text."""
    if not hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode()):
        raise Denied("The webhook does not bring the secret of the connection.")


def body_of(request: WebhookRequest) -> Any:
    """Return the JSON of a webhook; None for any other body."""
    try:
        return json.loads(request.body)
    except (ValueError, RecursionError):
        return None
