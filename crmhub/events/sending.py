"""Send one event to the address of a subscription, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import requests

from crmhub.adapter.answers import parse_wait
from crmhub.database.connection import now_ms
from crmhub.egress import Egress
from crmhub.events.schedule import CALL_S
from crmhub.secrets import WebhookSecret
from crmhub.translatable import translatable

_GONE = 410
_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class Attempt:
    """The outcome of one call.

    `status`: the HTTP status, None without an answer. `reason`: what was wrong, "" for a success.
    `retry_after_s`: how long the address wants no further call. `note`: what is to be said of a
    success.
    """

    status: int | None
    reason: str = ""
    retry_after_s: float | None = None
    note: str = ""

    @property
    def succeeded(self) -> bool:
        return not self.reason

    @property
    def gone(self) -> bool:
        """Whether the address wants no events any more."""
        return self.status == _GONE


def send(egress: Egress, url: str, secret: WebhookSecret, id: str, body: bytes) -> Attempt:
    """Send a message signed with `secret`."""
    return post(egress, url, body, secret.headers(id, now_ms() // 1000, body))


def post(egress: Egress, url: str, body: bytes, headers: Mapping[str, str]) -> Attempt:
    """Send JSON; the answer's status line decides, not its body."""
    headers = {"Content-Type": "application/json", **headers}
    try:
        answer = egress.post(url, data=body, headers=headers, timeout=CALL_S, stream=True)
    except requests.Timeout:
        return Attempt(None, f"There was no answer within {CALL_S:.0f} s.")
    except requests.exceptions.InvalidURL as exc:
        # Refused by the guard, whose message says why.
        return Attempt(None, printable(f"The call is not allowed: {exc}."))
    except requests.exceptions.SSLError:
        return Attempt(None, translatable("Its certificate is not valid."))
    except requests.ConnectionError:
        return Attempt(
            None, translatable("Nobody answers at this address, or the connection broke.")
        )
    except requests.RequestException as exc:
        # Without requests' own message, which names objects of this process.
        return Attempt(None, f"The call failed ({type(exc).__name__}).")
    if 200 <= answer.status_code < 300:
        return Attempt(answer.status_code)
    return Attempt(
        answer.status_code,
        f"It answered {answer.status_code}.",
        parse_wait(answer.headers.get("Retry-After", "")),
    )


def printable(text: str) -> str:
    """Return the beginning of a text of somebody else, without control characters."""
    return "".join(c if c.isprintable() else "�" for c in text[:_LONGEST_REASON])
