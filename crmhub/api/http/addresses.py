"""Find a caller's IP address and scheme from the headers that trusted proxies set."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

import flask

from crmhub.setting_values import Network

Address = IPv4Address | IPv6Address
_OWN_HOST = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?", re.ASCII)


def client_address(request: flask.Request, trusted: Sequence[Network]) -> str:
    """Return the caller's IP address, or "" if it is unknown (a local socket).

    `X-Forwarded-For` is read from its end, where the `trusted` proxies write, up to the first other
    address; the caller may have forged the rest.
    """
    caller = request.remote_addr or ""
    for hop in reversed(",".join(request.headers.getlist("X-Forwarded-For")).split(",")):
        if not is_trusted(caller, trusted) or (address := _parsed(hop)) is None:
            break
        caller = str(address)
    return caller


def is_https(request: flask.Request, trusted: Sequence[Network]) -> bool:
    """A trusted proxy's `X-Forwarded-Proto` decides."""
    said = request.headers.get("X-Forwarded-Proto", "").rpartition(",")[2].strip().lower()
    return (
        said if said and is_trusted(request.remote_addr or "", trusted) else request.scheme
    ) == "https"


def public_url(request: flask.Request, configured: str | None) -> str | None:
    """Return the address at which people reach the service, or None if it is not known.

    Without the setting (`configured`), only this machine's own address counts: a request may name
    any host, and codes of a CRM would be sent there.
    """
    if configured:
        return configured
    return f"http://{request.host}" if _OWN_HOST.fullmatch(request.host) else None


def is_trusted(text: str, trusted: Sequence[Network]) -> bool:
    address = _parsed(text)
    return address is not None and any(address in network for network in trusted)


def _parsed(text: str) -> Address | None:
    """The text may have a port or brackets. IPv4 written as IPv6 becomes IPv4."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
