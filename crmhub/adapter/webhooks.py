"""What the adapters of CRMs whose webhooks bring a secret along have in common."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any
from urllib.parse import urlsplit

from crmhub.adapter.context import Context
from crmhub.adapter.errors import Denied
from crmhub.adapter.values import WebhookRequest


def webhook_secret(context: Context, name: str, *keys: str) -> str:
    """Return the secret that an operator has entered, or one that follows from a credential.

    `name`: the setting for it. `keys`: the credentials; the first one that is set counts. So no
    operator needs to enter a secret for `watch`. The secret that follows has 48 characters.
    """
    if secret := context.credentials[name]:
        return secret
    key = next(filter(None, (context.credentials[one] for one in keys)), "")
    text = f"webhooks {context.client_id}".encode()
    return hmac.new(key.encode(), text, hashlib.sha256).hexdigest()[:48]


def end_of(address: str) -> str:
    """Return the last part of an address's path, by which the hub's addresses are told apart."""
    return urlsplit(address).path.rpartition("/")[2]


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
