"""Count failed authentications by IP address, to prevent guessing of ids, keys and secrets."""

from __future__ import annotations

import flask

from crmhub.api.http import flask_proxies
from crmhub.api.http.addresses import client_address
from crmhub.errors import HubError, TooManyRequests
from crmhub.hub import Hub


def count_auth_failure(error: HubError, what: str) -> HubError:
    """Count a failed authentication of the caller's address; return the error to raise.

    The result is `error`, or TooManyRequests after too many failures; its message tells to check
    `what`, such as "the id in the path".
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
