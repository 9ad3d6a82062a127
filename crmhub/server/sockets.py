"""Where the service listens: the address is checked before the server processes share it."""

from __future__ import annotations

import errno
import socket

import rich_click as click


def free_address(host: str, port: int) -> str:
    """Return the address that `host` names; raises ClickException when it cannot be listened on.

    The server itself would not notice that another one listens there already, since its own
    processes share the port.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as exc:
        raise click.ClickException(
            f"The host {host} is not known here ({exc.strerror}); give an address of this machine."
        ) from exc
    # A name may stand for several; IPv4 is what others expect behind `localhost`.
    family, kind, protocol, _, where = min(found, key=lambda one: one[0] != socket.AF_INET)
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(where)
        except OSError as exc:
            raise click.ClickException(_cannot_listen(host, port, exc)) from exc
    return str(where[0])


def _cannot_listen(host: str, port: int, exc: OSError) -> str:
    if exc.errno == errno.EADDRINUSE:
        return (
            f"Port {port} on {host} is taken: something listens there already. "
            "Stop it, or choose another port with --port."
        )
    if exc.errno == errno.EACCES:
        return f"Port {port} needs rights that this user lacks; choose one from 1024 on."
    if exc.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine; 0.0.0.0 stands for all it has."
    return f"Cannot listen on {host}, port {port}: {exc.strerror}."
