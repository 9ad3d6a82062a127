"""Guesses at ids, keys, secrets and tokens: counted by address, 429 when there are many."""

from __future__ import annotations

import flask

from crmhub.api.http import flask_proxies
from crmhub.api.http.addresses import client_address
from crmhub.errors import HubError, TooManyRequests
from crmhub.hub import Hub


def missed(error: HubError, what: str) -> HubError:
    """Count a miss of the caller's address; return `error`, or 429 after too many.

    `what` begins the sentence that says what to check: "the id in the path".
    """
    hub: Hub = flask_proxies.app().extensions["crmhub"]
    address = client_address(flask.request, hub.settings.trusted_proxies)
    peer = flask.request.remote_addr or ""
    status = hub.limits.miss(address, proxy=peer if peer != address else "")
    if status.allowed:
        return error
    return TooManyRequests(
        "Too many calls from this address found no account or had a wrong key or token;"
        f" check {what} and try again in {status.retry_after} s.",
        retry_after=status.retry_after,
    )
