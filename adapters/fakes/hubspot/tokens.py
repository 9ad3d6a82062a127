"""The authorization of the fake HubSpot: access tokens, scopes, and the OAuth token endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from adapters.fakes import tokens
from adapters.fakes.authorizing import Authorizations
from adapters.fakes.hubspot.answers import Refused
from adapters.fakes.hubspot.definitions import KINDS
from adapters.fakes.tokens import BadGrant

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
_BAD_GRANTS = {
    "grant_type": ("BAD_GRANT_TYPE", "missing or unknown grant type"),
    "client_id": ("BAD_CLIENT_ID", "missing or unknown client ID"),
    "client_secret": ("BAD_CLIENT_SECRET", "missing or invalid client secret"),
    "code": ("BAD_AUTH_CODE", "missing or unknown auth code"),
    "refresh_token": ("BAD_REFRESH_TOKEN", "missing or invalid refresh token"),
}
_WHERE = "https://developers.hubspot.com/docs/methods/auth/oauth-overview"


@dataclass(slots=True, kw_only=True)
class Tokens(tokens.Tokens):
    """The access tokens of an account; `static` is that of a service key or private app."""

    expires_in: float = 1_800
    prefix: str = "CMfake"
    known_scopes: frozenset[str] = SCOPES | SENSITIVE_SCOPES
    scopes: frozenset[str] = SCOPES

    def check(self, authorization: str | None) -> None:
        """Check the access token in `authorization`, the value of the header Authorization.

        Raises Refused with status 401 if the token is missing, unknown or expired.
        """
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise _unauthenticated(
                "Authentication credentials not found. This API supports OAuth "
                f"2.0 authentication and you can find more details at {_WHERE}"
            )
        state = self.state(token)
        if state == "expired":
            raise expired()
        if state == "unknown":
            raise _unauthenticated(f"Authentication credentials not found. See {_WHERE}")

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

    def answer(
        self, form: Mapping[str, str], authorizations: Authorizations, portal_id: int
    ) -> dict[str, Any]:
        """Return the body of the response to a request to the OAuth token endpoint.

        `form` contains the fields of the request. Raises Refused if the refresh token or another
        field is invalid (HubSpot's OAuth guide).
        """
        try:
            access_token = self.grant(form, authorizations)
        except BadGrant as exc:
            raise _bad_grant(exc) from None
        return {
            "token_type": "bearer",
            "access_token": access_token,
            "refresh_token": self.refresh_token,
            "expires_in": round(self.expires_in),
            "hub_id": portal_id,
            "scopes": sorted(self.scopes),
            "token_use": "access_token",
            "user_id": 9586504,
        }


def expired() -> Refused:
    """Return HubSpot's 401 response to a call with an expired access token."""
    return _unauthenticated(
        "The OAuth token used to make this call expired 1 second(s) ago.",
        category="EXPIRED_AUTHENTICATION",
    )


def _unauthenticated(message: str, category: str = "INVALID_AUTHENTICATION") -> Refused:
    return Refused(401, message, category=category)


def _bad_grant(refused: BadGrant) -> Refused:
    status, message = _BAD_GRANTS[refused.field]
    return Refused(
        400,
        message,
        category=None,
        extra={"status": status, "error": refused.error, "error_description": message},
    )
