"""Sign in to the console with an OpenID Connect provider.

Only users that exist, or were invited, get in: the email that the provider has verified decides.
Nothing is stored between the two steps. The state that the provider returns is signed together with
the browser's cookie, so it is valid in this browser only, and until it has signed in.
"""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass, field

from crmhub.errors import NotFound, Unauthorized
from crmhub.hub import Hub
from crmhub.operators.users.signing_in import (
    Browser,
    CodeNeeded,
    NewSession,
    join_and_step,
    require_allowed,
)
from crmhub.secrets import new_secret, same
from crmhub.users import users
from crmhub.users.openid import OpenId

_LASTS_S = 600
_LONGEST_STATE = 4_000


@dataclass(frozen=True, slots=True)
class Finished:
    """`back`: the console's path to go on to."""

    result: NewSession | CodeNeeded = field(repr=False)
    back: str


def start(hub: Hub, browser: Browser, *, redirect_uri: str, back: str) -> str:
    """Return the URL at which the user signs in with the provider.

    `redirect_uri`: where the provider sends the browser back. `back`: the console's path to go on
    to. Raises NotFound without a configured provider, TooManyRequests, and Unavailable if the
    provider cannot be reached.
    """
    require_allowed(hub.limits.miss(browser.address))
    started = {"at": int(time.time()), "id": new_secret(), "back": back}
    payload = base64.urlsafe_b64encode(json.dumps(started).encode()).decode()
    state = f"{payload}.{_signed(hub, browser, 'state', payload)}"
    return _provider(hub).authorization_url(
        redirect_uri=redirect_uri,
        state=state,
        nonce=_signed(hub, browser, "nonce", payload),
        verifier=_verifier(hub, browser, payload),
    )


def finish(hub: Hub, browser: Browser, *, state: str, code: str, redirect_uri: str) -> Finished:
    """Sign in the user whom the provider has identified; an invited user joins by this.

    Raises Unauthorized if the sign-in was not started in this browser or is too old, if `code` or
    the token is not valid, or if no enabled user has the verified email; TooManyRequests;
    Unavailable if the provider cannot be reached.
    """
    payload, _, signature = state[:_LONGEST_STATE].rpartition(".")
    if not same(signature, _signed(hub, browser, "state", payload)):
        raise Unauthorized("This sign-in was not started in this browser. Start again.")
    started = json.loads(base64.urlsafe_b64decode(payload))
    if not 0 <= time.time() - started["at"] <= _LASTS_S:
        raise Unauthorized("Too much time has passed. Start again.")
    require_allowed(hub.limits.miss(browser.address))
    email = _provider(hub).identify(
        code=code,
        redirect_uri=redirect_uri,
        nonce=_signed(hub, browser, "nonce", payload),
        verifier=_verifier(hub, browser, payload),
    )
    with hub.database.reading() as db:
        login = users.login(db, email)
    result = join_and_step(hub, login, browser) if login else None
    if result is None:
        raise Unauthorized(
            "%(email)s may not use this console. Ask an owner for an invitation.", email=email[:100]
        )
    return Finished(result, started["back"])


def _provider(hub: Hub) -> OpenId:
    if hub.openid is None:
        raise NotFound("Sign-in by OpenID Connect is not set up here.")
    return hub.openid


def _signed(hub: Hub, browser: Browser, purpose: str, payload: str) -> str:
    return hub.signature(f"console openid {purpose}", f"{browser.cookie} {payload}")


def _verifier(hub: Hub, browser: Browser, payload: str) -> str:
    # RFC 7636, 4.1: at least 43 characters.
    return "".join(_signed(hub, browser, f"verifier {part}", payload) for part in range(2))
