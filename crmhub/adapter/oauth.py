"""OAuth 2.0 access tokens for adapters, renewed once for all threads and processes.

RFC 6749, 6: a refresh token is exchanged for an access token that lives for minutes, and the
answer may replace the refresh token; a lost replacement ends the connection. So one process at a
time renews, under a lease: it first checks whether another process has just renewed the token,
and saves the new credentials before they are used.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from crmhub.adapter.context import Context
from crmhub.adapter.errors import (
    BadConfig,
    Conflict,
    Denied,
    NotFound,
    Rejected,
    Unavailable,
    Uncertain,
)
from crmhub.adapter.http import Answer

KEPT = "access_grant"
"""The `kept` credential that holds the present access token and its expiry time."""
# A renewal ends with its call; the lease lasts slightly longer.
_LONGEST_LEASE, _LEASE_MARGIN = 600.0, 5.0
# Renew slightly early, so that no token expires during a call.
_EARLY_SECONDS = 60.0
_EARLY_SHARE = 0.1
# The default for answers without a valid lifetime (RFC 6749, 5.1 recommends one).
_USUAL_LIFETIME = 1800.0
_LONGEST_LIFETIME = 86_400.0


class Grant:
    """The OAuth access token of one connection, renewed with its refresh token.

    `exchange` sends the refresh token (`grant_type=refresh_token`, and other fields that the CRM
    requires) and returns the answer of the token endpoint. Its argument is the stored credentials
    at that moment. The adapter declares the credentials `refresh_token` and `KEPT`.
    """

    def __init__(
        self, context: Context, crm: str, exchange: Callable[[Mapping[str, str]], Answer]
    ) -> None:
        self._context = context
        self._crm = crm
        self._exchange = exchange
        self._lock = threading.Lock()
        self._credentials = context.credentials
        # The newest credentials, which differ from `_credentials` until they are stored.
        self._latest = context.credentials
        self._unsaved: tuple[Mapping[str, str], Mapping[str, str]] | None = None
        self._current = threading.local()

    def token(self) -> str:
        """Return a valid access token; renew it shortly before it expires.

        Raises Denied if the CRM refuses the refresh token, BadConfig, Throttled, Unavailable,
        and the errors of `save_credentials`.
        """
        token, expires = _stored_token(self._credentials)
        if not token or time.time() >= expires:
            self._replace(token)
            token, _ = _stored_token(self._credentials)
        self._current.token = token
        return token

    def renew(self) -> bool:
        """Replace the access token that the CRM has just refused; return True.

        Concurrent calls get the same new token, in every process. Raises the errors of `token`.
        """
        self._replace(getattr(self._current, "token", _stored_token(self._credentials)[0]))
        return True

    def secrets(self) -> list[str]:
        """Return all credentials and access tokens, to be masked in messages."""
        versions = (self._credentials, self._latest)
        return [
            secret
            for credentials in versions
            for secret in (*credentials.values(), _stored_token(credentials)[0])
        ]

    def _replace(self, token: str) -> None:
        """Replace this access token, unless another thread or process has already done so."""
        if not self._lock.acquire(timeout=max(0.0, self._context.remaining())):
            raise Unavailable(f"The access token for {self._crm} could not be renewed in time.")
        try:
            if _stored_token(self._credentials)[0] == token:
                seconds = min(self._context.remaining(), _LONGEST_LEASE) + _LEASE_MARGIN
                with self._context.lease("access token", seconds):
                    self._credentials = self._fresh(token)
        finally:
            self._lock.release()

    def _fresh(self, refused: str) -> Mapping[str, str]:
        """Return the stored credentials; a refused or expired access token is renewed first."""
        stored = self._latest = self._context.load_credentials()
        if self._unsaved is not None and self._unsaved[0] == stored:
            # The last renewal was not stored; its refresh token may be the only valid one.
            stored = self._latest = self._unsaved[1]
            self._save(stored)
        token, expires = _stored_token(stored)
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
        answer = self._request_token(stored)
        token, rotated = answer.get("access_token"), answer.get("refresh_token")
        if not isinstance(token, str) or not token:
            raise Unavailable(f"{self._crm} answered without an access token.")
        if not isinstance(rotated, str) or not rotated:
            rotated = stored.get("refresh_token", "")
        lifetime = _lifetime(answer.get("expires_in"))
        expires = time.time() + lifetime - min(_EARLY_SECONDS, _EARLY_SHARE * lifetime)
        return {**stored, "refresh_token": rotated, KEPT: f"{expires:.0f} {token}"}

    def _request_token(self, stored: Mapping[str, str]) -> Mapping[str, Any]:
        """Request a new access token and return the token endpoint's answer.

        An error about a record, such as NotFound, is converted: the token endpoint has no records.
        """
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


def _stored_token(credentials: Mapping[str, str]) -> tuple[str, float]:
    """Return the stored access token and its expiry time, or ("", 0) without a token."""
    expires, _, token = credentials.get(KEPT, "").partition(" ")
    return (token, float(expires)) if token and expires.isdecimal() else ("", 0.0)


def _lifetime(expires_in: Any) -> float:
    """Return a token's lifetime in seconds; some servers send it as text, or 0 for "long"."""
    if isinstance(expires_in, str) and expires_in.isascii() and expires_in.isdecimal():
        expires_in = float(expires_in)
    if (
        isinstance(expires_in, bool)
        or not isinstance(expires_in, int | float)
        or not expires_in > 0
    ):
        return _USUAL_LIFETIME
    return float(min(expires_in, _LONGEST_LIFETIME))
