"""OAuth 2.0 access tokens that expire, for adapters: renewed once for all threads and processes.

RFC 6749, 6: a refresh token is exchanged for an access token that lives for minutes, and may be
replaced by another in the answer; whoever loses the replacement has lost the connection. So one
process at a time renews, under a lease, reads first whether another has just done it, and saves
what came before anybody uses it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from crmhub.adapter.contract import (
    BadConfig,
    Conflict,
    Context,
    Denied,
    NotFound,
    Rejected,
    Unavailable,
    Uncertain,
)
from crmhub.adapter.http import Answer

KEPT = "access_grant"
"""The credential, declared as `kept`, that holds the present access token and when it expires."""
# A renewal ends with the call that it is for; the lease outlives it by a little.
_LONGEST_LEASE, _LEASE_MARGIN = 600.0, 5.0
# Renewed a little early, so that no call is under way with a token that expires.
_EARLY_SECONDS = 60.0
_EARLY_SHARE = 0.1
# Where the answer does not say (RFC 6749, 5.1: it should), or says something impossible.
_USUAL_LIFETIME = 1800.0
_LONGEST_LIFETIME = 86_400.0


class Grant:
    """The access token of one connection.

    `exchange` sends the refresh token (`grant_type=refresh_token` and whatever else the CRM
    wants) and returns the answer of the token endpoint. It is called with the credentials as they
    are stored at that moment. The adapter declares the credentials `refresh_token` and `KEPT`.
    """

    def __init__(
        self, context: Context, crm: str, exchange: Callable[[Mapping[str, str]], Answer]
    ) -> None:
        self._context = context
        self._crm = crm
        self._exchange = exchange
        self._lock = threading.Lock()
        self._credentials = context.credentials
        # What was read or got last; beside the above until it is stored.
        self._latest = context.credentials
        self._unsaved: tuple[Mapping[str, str], Mapping[str, str]] | None = None
        self._handed = threading.local()

    def token(self) -> str:
        """Return an access token that is valid for now, renewed when it is about to expire.

        Raises Denied when the CRM refuses the refresh token, BadConfig, Throttled, Unavailable,
        and what `save_credentials` raises.
        """
        token, expires = _kept(self._credentials)
        if not token or time.time() >= expires:
            self._replace(token)
            token, _ = _kept(self._credentials)
        self._handed.token = token
        return token

    def renew(self) -> bool:
        """Get another access token, since the CRM refuses the one this thread had; return True.

        Callers that come together get the same one, in whatever process they are. Raises as
        `token` does.
        """
        self._replace(getattr(self._handed, "token", _kept(self._credentials)[0]))
        return True

    def secrets(self) -> list[str]:
        """Return what must never show: every credential, and the access token by itself."""
        known = (self._credentials, self._latest)
        return [one for held in known for one in (*held.values(), _kept(held)[0])]

    def _replace(self, token: str) -> None:
        """Put another token in the place of this one, unless that has been done."""
        if not self._lock.acquire(timeout=max(0.0, self._context.remaining())):
            raise Unavailable(f"The access token for {self._crm} could not be renewed in time.")
        try:
            if _kept(self._credentials)[0] == token:
                seconds = min(self._context.remaining(), _LONGEST_LEASE) + _LEASE_MARGIN
                with self._context.lease("access token", seconds):
                    self._credentials = self._fresh(token)
        finally:
            self._lock.release()

    def _fresh(self, refused: str) -> Mapping[str, str]:
        """Return the stored credentials once they hold a token that may be accepted."""
        stored = self._latest = self._context.load_credentials()
        if self._unsaved is not None and self._unsaved[0] == stored:
            # It came, and could not be stored: maybe there is no other way to get one.
            stored = self._latest = self._unsaved[1]
            self._save(stored)
        token, expires = _kept(stored)
        if token in ("", refused) or time.time() >= expires:
            renewed = self._latest = self._renewed(stored)
            self._unsaved = (stored, renewed)
            self._save(renewed)
            return renewed
        return stored

    def _save(self, renewed: Mapping[str, str]) -> None:
        self._context.save_credentials(renewed)
        self._unsaved = None

    def _renewed(self, stored: Mapping[str, str]) -> dict[str, str]:
        given = self._given(stored)
        token, rotated = given.get("access_token"), given.get("refresh_token")
        if not isinstance(token, str) or not token:
            raise Unavailable(f"{self._crm} answered without an access token.")
        if not isinstance(rotated, str) or not rotated:
            rotated = stored.get("refresh_token", "")
        lifetime = _lifetime(given.get("expires_in"))
        expires = time.time() + lifetime - min(_EARLY_SECONDS, _EARLY_SHARE * lifetime)
        return {**stored, "refresh_token": rotated, KEPT: f"{expires:.0f} {token}"}

    def _given(self, stored: Mapping[str, str]) -> Mapping[str, Any]:
        """Ask for a token; what goes wrong says nothing of the record that a call was for."""
        try:
            return self._exchange(stored).object()
        except Rejected as exc:
            # RFC 6749, 5.2: a refused refresh token is a 400 (invalid_grant).
            message = f"{self._crm} refuses the refresh token; connect the account anew."
            raise Denied(f"{message} {exc.message}") from None
        except (NotFound, Conflict) as exc:
            raise BadConfig(f"{self._crm} gives no tokens at this address: {exc.message}") from None
        except Uncertain as exc:
            raise Unavailable(exc.message) from None


def _kept(credentials: Mapping[str, str]) -> tuple[str, float]:
    """Return the access token and when it is too old, ("", 0) when there is none."""
    expires, _, token = credentials.get(KEPT, "").partition(" ")
    return (token, float(expires)) if token and expires.isdecimal() else ("", 0.0)


def _lifetime(said: Any) -> float:
    """Return how long a token lives, in seconds; some servers send a text, or 0 for "long"."""
    if isinstance(said, str) and said.isascii() and said.isdecimal():
        said = float(said)
    if isinstance(said, bool) or not isinstance(said, int | float) or not said > 0:
        return _USUAL_LIFETIME
    return float(min(said, _LONGEST_LIFETIME))
