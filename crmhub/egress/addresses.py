from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from time import monotonic
from typing import Any

from crmhub.setting_values import Network

Resolve = Callable[..., Sequence[tuple[Any, ...]]]
"""The type of `socket.getaddrinfo`, and of functions that replace it in tests."""

REMEDY = "if this is meant, add its network to CRMHUB_EGRESS_ALLOW"
# A hanging name server blocks a thread for up to 30 seconds, whatever the deadline.
_LOOKUPS = 64
_LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
_GLOBAL_UNICAST = ip_network("2000::/3")

# Special-purpose networks that no CRM uses; `is_global` differs by Python version.
_SPECIAL = {
    ip_network(network): words
    for words, networks in {
        "loopback": "127.0.0.0/8 ::1",
        "unspecified": "0.0.0.0/8 ::",
        "private": "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fec0::/10",
        "link-local": "169.254.0.0/16 fe80::/10",
        "shared by a carrier": "100.64.0.0/10",
        "multicast": "224.0.0.0/4 ff00::/8",
        "documentation": "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20",
        "benchmarking": "198.18.0.0/15",
        "reserved": "192.0.0.0/24 192.88.99.0/24 240.0.0.0/4 2001::/23 64:ff9b:1::/48",
    }.items()
    for network in networks.split()
}
# IPv4-mapped, IPv4-compatible, NAT64 and 6to4, with the bits that follow the IPv4 address.
_EMBEDDING = (
    (ip_network("::ffff:0:0/96"), 0),
    (ip_network("::/96"), 0),
    (ip_network("64:ff9b::/96"), 0),
    (ip_network("2002::/16"), 80),
)


class NotAllowed(Exception):
    """The message tells why the host is not allowed.

    No OSError, which urllib3 would treat as a broken connection.
    """


def special(address: IPv4Address | IPv6Address) -> str:
    """Return "" for a public address."""
    for network, words in _SPECIAL.items():
        if address in network:
            return words
    return "reserved" if address.version == 6 and address not in _GLOBAL_UNICAST else ""


def destination(text: str) -> IPv4Address | IPv6Address:
    """For an IPv6 address that embeds an IPv4 address, return the IPv4 address."""
    address = ip_address(text)
    for network, behind in _EMBEDDING:
        if address in network and int(address) > 1:
            return IPv4Address(int(address) >> behind & 0xFFFFFFFF)
    return address


class Guard:
    """`development` also allows loopback addresses, and plain http everywhere."""

    def __init__(
        self, *, allow: Sequence[Network], development: bool, resolve: Resolve = socket.getaddrinfo
    ) -> None:
        self._allow = (*allow, *_LOOPBACK) if development else tuple(allow)
        self._development = development
        self._resolve = resolve
        self._lookups = threading.BoundedSemaphore(_LOOKUPS)

    def addresses(
        self, host: str, port: int, *, secure: bool, seconds: float, private: bool = False
    ) -> Sequence[tuple[Any, ...]]:
        """Return addresses as `socket.getaddrinfo` does, if calls to all are allowed.

        `private`: calls to addresses that are not public are allowed, also unencrypted ones. Raises
        NotAllowed, also for an invalid name, socket.gaierror, and TimeoutError after `seconds`.
        """
        try:
            resolved = self._look_up(host, port, seconds)
        except UnicodeError:
            raise NotAllowed(f"{host} is not a host name: a label is empty or too long") from None
        for *_, address in resolved:
            if private and special(destination(address[0])):
                continue
            if fault := self._fault(host, address[0], secure=secure):
                raise NotAllowed(fault)
        return resolved

    def _fault(self, host: str, text: str, *, secure: bool) -> str:
        address = destination(text)
        if any(address in network for network in self._allow):
            return ""
        if words := special(address):
            shown = host if host == text else f"{host} ({text})"
            return f"{shown} is not a public address ({words}); {REMEDY}"
        if not secure and not self._development:
            return f"{host} may not be called over plain http; use https, or {REMEDY}"
        return ""

    def _look_up(self, host: str, port: int, seconds: float) -> Sequence[tuple[Any, ...]]:
        """Use a new thread: `getaddrinfo` accepts no timeout.

        A thread pool would be waited for at exit, and one account's dead name server could occupy
        it.
        """
        answer: Future[Sequence[tuple[Any, ...]]] = Future()
        ends = monotonic() + seconds
        if not self._lookups.acquire(timeout=seconds):
            raise TimeoutError("too many names are being looked up")

        def look_up() -> None:
            try:
                answer.set_result(self._resolve(host, port, type=socket.SOCK_STREAM))
            except Exception as exc:  # the caller's thread raises it
                answer.set_exception(exc)
            finally:
                self._lookups.release()

        threading.Thread(target=look_up, name="egress-lookup", daemon=True).start()
        return answer.result(timeout=max(ends - monotonic(), 0))
