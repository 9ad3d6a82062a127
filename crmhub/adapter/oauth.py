"""Access tokens and sessions for adapters, renewed once for all threads and processes.

An access token lives for minutes. It is renewed with a refresh token (RFC 6749, 6), or fetched anew
with a password, client credentials or a signed assertion (RFC 6749, 4.3 and 4.4; RFC 7523). The
token endpoint may replace the refresh token as well, and losing the new one means to connect the
account again. So one process at a time renews the token, under a lease, and stores the new
credentials before it uses them.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crmhub.adapter.context import Context
from crmhub.adapter.errors import (
    BadConfig,
    Conflict,
    Denied,
    LacksRight,
    NotFound,
    Problem,
    Rejected,
    Unavailable,
    Uncertain,
)
from crmhub.adapter.http import Answer, Failure, Http, Limit
from crmhub.adapter.values import OAUTH_SECRETS, Guide, OAuth, Setting, Step

KEPT = "access_grant"
"""Name of the `kept` credential that holds the access token, when to renew it, and what came along.
"""
_REFRESH_TOKEN = "refresh_token"
# The codes of refused credentials (RFC 6749, 5.2), which some token endpoints send with status 200.
_REFUSALS = ("invalid_client", "invalid_grant", "unauthorized_client")
# A renewal ends with its call; the lease lasts slightly longer.
_LONGEST_LEASE, _LEASE_MARGIN = 600.0, 5.0
# Renew slightly early, so that no token expires during a call.
_EARLY_SECONDS = 60.0
_EARLY_SHARE = 0.1
# The default for answers without a valid lifetime (RFC 6749, 5.1 recommends one).
_USUAL_LIFETIME = 1800.0
_LONGEST_LIFETIME = 86_400.0


def refresh_form(credentials: Mapping[str, str]) -> dict[str, str]:
    """Return the form with which a token endpoint renews an access token (RFC 6749, 6)."""
    secrets = {name: credentials.get(name, "") for name in OAUTH_SECRETS}
    return {"grant_type": "refresh_token", **secrets}


def oauth_settings(crm: str) -> tuple[Setting, ...]:
    return (
        Setting(
            "client_id",
            "OAuth client id",
            help=f"From your {crm} app. With client id and client secret, you can press Connect.",
            secret=True,
        ),
        Setting("client_secret", "OAuth client secret", secret=True),
        Setting(
            "refresh_token",
            "OAuth refresh token",
            help="Connect fills this in. Enter it only if you already have one.",
            secret=True,
        ),
        Setting(KEPT, "OAuth access token", secret=True, kept=True),
    )


def connect_guide(make: Step, redirect: str, scopes: Sequence[str] = ()) -> Guide:
    """`redirect`: the CRM's name of the redirect address; `make`: the step that makes an app."""
    given = [Step("Give it these scopes:", codes=tuple(scopes))] if scopes else []
    address = Step(f"Enter the redirect address that the form shows as its {redirect}.")
    last = Step("Copy its client id and client secret into the fields, then press Connect.")
    return Guide("With the Connect button", (make, *given, address, last))


def token_or_oauth(credentials: Mapping[str, str], token: str) -> Problem | str:
    """The `clash` of an adapter that needs either OAuth or the secret named `token`."""
    given = [bool(credentials[name]) for name in OAUTH_SECRETS]
    if all(given) == any(given) and all(given) != bool(credentials[token]):
        return ""
    fields = ", ".join(OAUTH_SECRETS)
    return Problem(token, f"Enter an access token, or all three OAuth fields, not both ({fields}).")


Exchange = Callable[[Mapping[str, str]], Answer | Mapping[str, Any]]
"""Function that gets the stored credentials and requests a new access token from the CRM.

It returns the token endpoint's answer, or the fields `access_token` and `expires_in` (seconds) of a
CRM that names them otherwise, such as a session id.
"""


def refreshing(
    context: Context,
    crm: str,
    oauth: OAuth,
    *,
    failure: Failure = lambda answer: None,
    limit: Limit = Limit(100, 10.0, key="oauth"),  # noqa: B008
) -> Exchange:
    """Return the exchange that renews a token at the token endpoint of `oauth` (RFC 6749, 6)."""
    secrets, hidden = context.credentials, set(context.credentials.values())

    def basic() -> dict[str, str]:
        pair = ":".join(secrets[name] for name in OAUTH_SECRETS[:2])
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}

    http = Http(
        context,
        oauth.token_url,
        crm=crm,
        authorize=basic if oauth.client_auth == "basic" else dict,
        failure=failure,
        limits=[limit],
        secrets=lambda: hidden,
    )

    def exchange(credentials: Mapping[str, str]) -> Answer:
        hidden.update((*credentials.values(), _stored_token(credentials).text))
        form = refresh_form(credentials)
        if oauth.client_auth == "basic":
            form = {name: form[name] for name in ("grant_type", _REFRESH_TOKEN)}
        return http.send("POST", form=form, reads=True)

    return exchange


@dataclass(frozen=True, slots=True)
class _Token:
    """An access token: when to renew it (seconds since 1970), and the fields that came with it."""

    text: str = field(default="", repr=False)
    expires: float = 0.0
    fields: Mapping[str, str] = field(default_factory=dict)

    def is_valid(self) -> bool:
        return bool(self.text) and time.time() < self.expires


class Grant:
    """The access token of one connection, renewed by `exchange` when it expires.

    The adapter declares the credential `KEPT`, which is all that is stored, and `refresh_token` if
    the CRM issues these. `keeps`: further fields of the answer to store, such as the address of the
    API, for `kept`. `token`: the secret with a token that people may enter; nothing renews it.
    """

    def __init__(
        self,
        context: Context,
        crm: str,
        exchange: Exchange,
        *,
        keeps: Sequence[str] = (),
        token: str = "",
    ) -> None:
        self._entered = context.credentials[token] if token else ""
        self._keeps = keeps
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
        """Return a valid access token, renewed if it is about to expire.

        Raises Denied, BadConfig for a missing token endpoint, Throttled, Unavailable, and the
        errors of `exchange` and `save_credentials`.
        """
        if self._entered:
            return self._entered
        self._current.token = self._valid().text
        return str(self._current.token)

    def kept(self, name: str) -> str:
        """Return "" if the answer had none; raises the errors of `token`."""
        return "" if self._entered else self._valid().fields.get(name, "")

    def renew(self) -> bool:
        """Replace the token just refused to this thread, once for all; False if people enter it."""
        if self._entered:
            return False
        self._replace(getattr(self._current, "token", _stored_token(self._credentials).text))
        return True

    def secrets(self) -> list[str]:
        versions = (self._credentials, self._latest)
        return [
            secret
            for credentials in versions
            for secret in (*credentials.values(), _stored_token(credentials).text)
        ]

    def _valid(self) -> _Token:
        token = _stored_token(self._credentials)
        if not token.is_valid():
            self._replace(token.text)
            token = _stored_token(self._credentials)
        return token

    def _replace(self, token: str) -> None:
        """Raises Unavailable if another thread takes too long."""
        if not self._lock.acquire(timeout=max(0.0, self._context.remaining())):
            raise Unavailable(f"The access token for {self._crm} could not be renewed in time.")
        try:
            if _stored_token(self._credentials).text == token:
                seconds = min(self._context.remaining(), _LONGEST_LEASE) + _LEASE_MARGIN
                with self._context.lease("access token", seconds):
                    self._credentials = self._fresh(token)
        finally:
            self._lock.release()

    def _fresh(self, refused: str) -> Mapping[str, str]:
        stored = self._latest = self._context.load_credentials()
        if self._unsaved is not None and self._unsaved[0] == stored:
            # The last renewal was not stored; its refresh token may be the only valid one.
            stored = self._latest = self._unsaved[1]
            self._save(stored)
        token = _stored_token(stored)
        if token.text == refused or not token.is_valid():
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
        token, rotated = answer.get("access_token"), answer.get(_REFRESH_TOKEN)
        if not isinstance(token, str) or not token or not token.isprintable() or " " in token:
            raise Unavailable(f"{self._crm} answered without an access token.")
        lifetime = _lifetime(answer.get("expires_in"))
        expires = time.time() + lifetime - min(_EARLY_SECONDS, _EARLY_SHARE * lifetime)
        came = {name: str(answer[name]) for name in self._keeps if answer.get(name)}
        fields = f" {json.dumps(came)}" if came else ""
        renewed = {**stored, KEPT: f"{expires:.0f} {token}{fields}"}
        # Only a declared credential can be stored; a login may name a token that nobody needs.
        if _REFRESH_TOKEN in stored and isinstance(rotated, str) and rotated:
            renewed[_REFRESH_TOKEN] = rotated
        return renewed

    def _request_token(self, stored: Mapping[str, str]) -> Mapping[str, Any]:
        """A token endpoint has no records and rights: errors about these are converted."""
        try:
            answer = self._exchange(stored)
            fields = answer.object() if isinstance(answer, Answer) else answer
            if fields.get("error") in _REFUSALS:
                raise Rejected([], str(fields["error"]))
            return fields
        except (Rejected, LacksRight) as exc:
            # RFC 6749, 5.2: refused credentials are a 400; others use 403, or 200 with the code.
            refused, remedy = "the credentials", "correct them"
            if stored.get(_REFRESH_TOKEN):
                refused, remedy = "the refresh token", "connect the account again"
            raise Denied(f"{self._crm} refuses {refused}; {remedy}. {exc.message}") from None
        except (NotFound, Conflict) as exc:
            raise BadConfig(f"{self._crm} gives no tokens at this address: {exc.message}") from None
        except Uncertain as exc:
            raise Unavailable(exc.message) from None


def _stored_token(credentials: Mapping[str, str]) -> _Token:
    expires, token, fields, *_ = (*credentials.get(KEPT, "").split(" ", 2), "", "", "")
    if not token or not expires.isdecimal():
        return _Token()
    return _Token(token, float(expires), _fields(fields))


def _fields(text: str) -> Mapping[str, str]:
    try:
        read = json.loads(text or "{}")
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def _lifetime(expires_in: Any) -> float:
    """Return an access token's lifetime in seconds, at most a day; 30 minutes if it is invalid."""
    if isinstance(expires_in, str) and expires_in.isascii() and expires_in.isdecimal():
        expires_in = float(expires_in)
    if (
        isinstance(expires_in, bool)
        or not isinstance(expires_in, int | float)
        or not expires_in > 0
    ):
        return _USUAL_LIFETIME
    return float(min(expires_in, _LONGEST_LIFETIME))
