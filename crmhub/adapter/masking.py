"""Mask a connection's secrets in texts and JSON, in every encoding in which they may appear."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus, unquote

_SHORTEST_SECRET = 4
# A shorter secret is masked as a whole word only, since it may be a part of an ordinary one.
_SHORTEST_PART = 6


def auth_secrets(auth_headers: Mapping[str, str]) -> list[str]:
    """Return the secrets in these headers; a message may quote `Basic x` or `x` alone."""
    return [part for value in auth_headers.values() for part in (value, value.partition(" ")[2])]


def mask_json(hidden: Iterable[str], value: Any) -> Any:
    if not hidden:
        return value
    if isinstance(value, str):
        return mask(value, hidden)
    if isinstance(value, list):
        return [mask_json(hidden, item) for item in value]
    if isinstance(value, dict):
        return {name: mask_json(hidden, item) for name, item in value.items()}
    return value


def mask(text: str, secrets: Iterable[str]) -> str:
    masked = text
    for form in _encodings(frozenset(secrets)):
        if len(form) >= _SHORTEST_PART:
            masked = masked.replace(form, "***")
        elif form in masked:
            masked = re.sub(rf"(?<![^\W_]){re.escape(form)}(?![^\W_])", "***", masked)
    # str.replace returns a plain copy; a text without secrets stays translatable.
    return text if masked == text else masked


@lru_cache(maxsize=256)
def _encodings(secrets: frozenset[str]) -> list[str]:
    """Also JSON, URL encodings and parts of a secret URL; nothing below 4 characters."""
    written: set[str] = set()
    for secret in {
        part for secret_text in secrets for part in (secret_text, *parts_of_address(secret_text))
    }:
        if len(secret) >= _SHORTEST_SECRET:
            written |= {secret, json.dumps(secret)[1:-1]}
            written |= {quote(secret), quote(secret, safe=""), quote_plus(secret)}
    # Longest first, since one secret may be part of another.
    return sorted(written, key=len, reverse=True)


def parts_of_address(secret: str) -> list[str]:
    if not secret.startswith(("https://", "http://")):
        return []
    path, _, query = secret.partition("://")[2].partition("#")[0].partition("?")
    values = [unquote(part.rpartition("=")[2]) for part in query.split("&")]
    return [part for part in (*map(unquote, path.split("/")[1:]), *values) if part]
