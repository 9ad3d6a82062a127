"""How long API keys and admin tokens are valid: the choices in forms, and why one has ended."""

from __future__ import annotations

import time

from crmhub.accounts.admin_tokens import Token
from crmhub.accounts.credentials import ends_soon
from crmhub.accounts.keys import Key

_DAY_MS = 24 * 3600 * 1000
CHOICES = (
    ("30", "in 30 days"),
    ("90", "in 90 days"),
    ("365", "in a year"),
    ("", "never"),
)
"""The value, in days or "" for never, and its label."""
DEFAULT = "365"


def expiry(choice: str) -> int | None:
    """Return the expiry of a choice, in ms since 1970, None for never.

    Other text means the default, so that no key lives for ever by mistake.
    """
    known = choice if choice in dict(CHOICES) else DEFAULT
    return _now() + int(known) * _DAY_MS if known else None


def end_reason(one: Key | Token) -> str:
    if one.revoked_at is not None:
        return "revoked"
    return "expired" if one.expires_at is not None and one.expires_at <= _now() else ""


def is_ending(one: Key | Token) -> bool:
    return (
        one.expires_at is not None
        and not end_reason(one)
        and ends_soon(one.created_at, one.expires_at, _now())
    )


def _now() -> int:
    return time.time_ns() // 1_000_000
