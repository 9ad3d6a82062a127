"""The access tokens of a fake CRM, and the grants of its OAuth token endpoint (RFC 6749)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from adapters.fakes.authorizing import Authorizations


class BadGrant(Exception):
    """The token endpoint refuses a request because of one of its fields.

    `field` is grant_type, client_id, client_secret, code or refresh_token.
    """

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field

    @property
    def error(self) -> str:
        """The error code of RFC 6749 for this refusal."""
        if self.field == "grant_type":
            return "unsupported_grant_type"
        return "invalid_client" if self.field.startswith("client") else "invalid_grant"


@dataclass(slots=True, kw_only=True)
class Tokens:
    """The valid access tokens and the refresh token of an account, and their scopes (rights).

    `static` is an access token without an expiry time, such as an API key; "" if the CRM has none.
    If `rotates` is True, each refresh also replaces the refresh token. `expires_in` is the lifetime
    of new access tokens in seconds. At most `most_live` access tokens are valid; a further one
    makes the oldest invalid. `prefix` begins each access token. `known_scopes` are all scopes that
    the CRM has, `scopes` those that the account's tokens have.
    """

    static: str = ""
    client_id: str = "fake-client-id"
    client_secret: str = "fake-client-secret"
    refresh_token: str = "fake-refresh-token"
    rotates: bool = False
    expires_in: float = 3_600
    most_live: int = 1_000
    prefix: str = "fake-access-"
    known_scopes: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    refreshes: int = 0
    refused_refreshes: int = 0
    issued: dict[str, float] = field(default_factory=dict)
    revoked: set[str] = field(default_factory=set)

    def state(self, token: str) -> Literal["valid", "expired", "unknown"]:
        """Return whether an access token is valid, has expired, or was never issued."""
        if token in self.revoked or time.monotonic() >= self.issued.get(token, float("inf")):
            return "expired"
        return "valid" if token and (token == self.static or token in self.issued) else "unknown"

    def expire(self) -> None:
        """Make all access tokens invalid, including the static token."""
        self.revoked |= {self.static, *self.issued} - {""}
        self.issued.clear()

    def issue(self) -> str:
        """Create a new access token and return it."""
        token = f"{self.prefix}{secrets.token_urlsafe(150)}"
        for old in list(self.issued)[: len(self.issued) + 1 - self.most_live]:
            del self.issued[old]
        self.issued[token] = time.monotonic() + self.expires_in
        return token

    def grant(self, form: Mapping[str, str], authorizations: Authorizations | None) -> str:
        """Return a new access token for a request to the token endpoint.

        `form` contains the fields of the request: those of a refresh, or of the exchange of a code
        that `authorizations` has issued. Raises BadGrant if one of the fields is invalid.
        """
        try:
            self._check(form, authorizations)
        except BadGrant:
            self.refused_refreshes += 1
            raise
        self.refreshes += 1
        if self.rotates:
            self.refresh_token = f"fake-refresh-{secrets.token_urlsafe(24)}"
        return self.issue()

    def _check(self, form: Mapping[str, str], authorizations: Authorizations | None) -> None:
        if form.get("grant_type") not in ("refresh_token", "authorization_code"):
            raise BadGrant("grant_type")
        for name in ("client_id", "client_secret"):
            if form.get(name) != getattr(self, name):
                raise BadGrant(name)
        if form["grant_type"] == "authorization_code":
            if not (authorizations and authorizations.exchange(form)):
                raise BadGrant("code")
        elif form.get("refresh_token") != self.refresh_token:
            raise BadGrant("refresh_token")
