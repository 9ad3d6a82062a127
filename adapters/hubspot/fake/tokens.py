"""The authorization of the fake HubSpot: access tokens, scopes, and the OAuth token endpoint."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field

from adapters.fakes.authorizing import Authorizations
from adapters.hubspot.fake.answers import Answer, Refused
from adapters.hubspot.fake.definitions import KINDS

SCOPES = frozenset(
    {
        "oauth",
        "tickets",
        "crm.objects.owners.read",
        *(f"crm.objects.{kind}.{how}" for kind in KINDS for how in ("read", "write")),
        *(f"crm.schemas.{kind}.{how}" for kind in KINDS for how in ("read", "write")),
    }
)
_LEVELS = ("sensitive", "highly_sensitive")
SENSITIVE_SCOPES = frozenset(
    {
        *(f"tickets.{level}.v2" for level in _LEVELS),
        *(
            f"crm.objects.{kind}.{level}.{how}.v2"
            for kind in ("contacts", "deals", "companies")
            for level in _LEVELS
            for how in ("read", "write")
        ),
    }
)
"""The scopes for sensitive properties; tokens have them only if a setting grants them."""
_WHERE = "https://developers.hubspot.com/docs/methods/auth/oauth-overview"


@dataclass(slots=True)
class Tokens:
    """The valid access tokens and the refresh token of an account, and their scopes (rights).

    `static` is the access token of a service key or private app, which has no expiry time. If
    `rotates` is True, each refresh also replaces the refresh token. `expires_in` is the lifetime of
    new access tokens in seconds.
    """

    static: str
    client_id: str = "fake-client-id"
    client_secret: str = "fake-client-secret"
    refresh_token: str = "fake-refresh-token"
    rotates: bool = False
    expires_in: float = 1_800
    scopes: frozenset[str] = SCOPES
    refreshes: int = 0
    refused_refreshes: int = 0
    issued: dict[str, float] = field(default_factory=dict)
    revoked: set[str] = field(default_factory=set)
    authorizations: Authorizations = field(init=False)

    def __post_init__(self) -> None:
        self.authorizations = Authorizations(self.client_id)

    def check(self, authorization: str | None) -> str:
        """Return the access token in `authorization`, the value of the header Authorization.

        Raises Refused with status 401 if the token is missing, unknown or expired.
        """
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise _unauthenticated(
                "Authentication credentials not found. This API supports OAuth "
                f"2.0 authentication and you can find more details at {_WHERE}"
            )
        if token in self.revoked or time.monotonic() >= self.issued.get(token, float("inf")):
            raise expired()
        if token != self.static and token not in self.issued:
            raise _unauthenticated(f"Authentication credentials not found. See {_WHERE}")
        return token

    def allow(self, scopes: frozenset[str]) -> None:
        """Raise Refused with status 403 unless the account's tokens have one of these scopes.

        An empty set of scopes is always allowed. A scope is a right of a token.
        """
        if not scopes or scopes & self.scopes:
            return
        raise Refused(
            403,
            "This app hasn't been granted all required scopes to make this call. "
            "Read more about required scopes here: https://developers.hubspot.com/scopes.",
            category="MISSING_SCOPES",
            errors=[
                {
                    "message": "One or more of the following scopes are required.",
                    "context": {"requiredGranularScopes": sorted(scopes)},
                }
            ],
            extra={"links": {"scopes": "https://developers.hubspot.com/scopes"}},
        )

    def expire(self) -> None:
        """Make all access tokens invalid, including the static token."""
        self.revoked |= {self.static, *self.issued}
        self.issued.clear()

    def issue(self) -> str:
        """Create a new access token and return it."""
        token = f"CMfake{secrets.token_urlsafe(150)}"
        self._forget_old()
        self.issued[token] = time.monotonic() + self.expires_in
        return token

    def _forget_old(self) -> None:
        for old in list(self.issued)[:-1_000]:
            del self.issued[old]

    def refresh(self, form: dict[str, str], portal_id: int) -> Answer:
        """Respond to a request to the OAuth token endpoint (RFC 6749, HubSpot's OAuth guide).

        `form` contains the fields of the request. Raises Refused if the refresh token or another
        field is invalid.
        """
        try:
            self._check_grant(form)
        except Refused:
            self.refused_refreshes += 1
            raise
        self.refreshes += 1
        if self.rotates:
            self.refresh_token = f"fake-refresh-{secrets.token_urlsafe(24)}"
        return Answer(
            200,
            {
                "token_type": "bearer",
                "access_token": self.issue(),
                "refresh_token": self.refresh_token,
                "expires_in": round(self.expires_in),
                "hub_id": portal_id,
                "scopes": sorted(self.scopes),
                "token_use": "access_token",
                "user_id": 9586504,
            },
            {"Cache-Control": "no-store"},
        )

    def _check_grant(self, form: dict[str, str]) -> None:
        if form.get("grant_type") not in ("refresh_token", "authorization_code"):
            raise _bad_grant(
                "unsupported_grant_type", "BAD_GRANT_TYPE", "missing or unknown grant type"
            )
        if form.get("client_id") != self.client_id:
            raise _bad_grant("invalid_client", "BAD_CLIENT_ID", "missing or unknown client ID")
        if form.get("client_secret") != self.client_secret:
            raise _bad_grant(
                "invalid_client", "BAD_CLIENT_SECRET", "missing or invalid client secret"
            )
        if form["grant_type"] == "authorization_code":
            if not self.authorizations.exchange(form):
                raise _bad_grant("invalid_grant", "BAD_AUTH_CODE", "missing or unknown auth code")
            return
        if form.get("refresh_token") != self.refresh_token:
            raise _bad_grant(
                "invalid_grant", "BAD_REFRESH_TOKEN", "missing or invalid refresh token"
            )


def expired() -> Refused:
    """Return HubSpot's 401 response to a call with an expired access token."""
    return _unauthenticated(
        "The OAuth token used to make this call expired 1 second(s) ago.",
        category="EXPIRED_AUTHENTICATION",
    )


def _unauthenticated(message: str, category: str = "INVALID_AUTHENTICATION") -> Refused:
    return Refused(401, message, category=category)


def _bad_grant(error: str, status: str, message: str) -> Refused:
    return Refused(
        400,
        message,
        category=None,
        extra={"status": status, "error": error, "error_description": message},
    )
