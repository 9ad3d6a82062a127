"""The caller's address and scheme, as trusted proxies report them."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

import flask

from crmhub.setting_values import Network

Address = IPv4Address | IPv6Address


def client_address(request: flask.Request, trusted: Sequence[Network]) -> str:
    """Return the caller's address, "" if it is unknown (a local socket).

    `X-Forwarded-For` is read from its end, where trusted proxies write, up to the first address
    that is not `trusted`. Everything before that address may be forged.
    """
    caller = request.remote_addr or ""
    for hop in reversed(",".join(request.headers.getlist("X-Forwarded-For")).split(",")):
        if not is_trusted(caller, trusted) or (address := _parsed(hop)) is None:
            break
        caller = str(address)
    return caller


def is_https(request: flask.Request, trusted: Sequence[Network]) -> bool:
    """Return whether the caller used https; a `trusted` proxy's header decides."""
    said = request.headers.get("X-Forwarded-Proto", "").rpartition(",")[2].strip().lower()
    return (
        said if said and is_trusted(request.remote_addr or "", trusted) else request.scheme
    ) == "https"


def is_trusted(text: str, trusted: Sequence[Network]) -> bool:
    """Return whether the address belongs to a trusted network."""
    address = _parsed(text)
    return address is not None and any(address in network for network in trusted)


def _parsed(text: str) -> Address | None:
    """Parse an address, also with a port, in brackets, or IPv4 written as IPv6; None if invalid."""
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
