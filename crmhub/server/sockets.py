from __future__ import annotations

import errno
import socket

import rich_click as click


def free_address(host: str, port: int) -> str:
    """Return the IP address of `host`; raise ClickException if nothing can listen on it.

    The server processes share the port, so they would not notice another service.
    """
    try:
        candidates = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as exc:
        raise click.ClickException(
            f"The host {host} cannot be resolved ({exc.strerror}). Give an address of this machine."
        ) from exc
    # A name may have several addresses; clients expect IPv4 behind `localhost`.
    family, kind, protocol, _, address = min(candidates, key=lambda info: info[0] != socket.AF_INET)
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as exc:
            raise click.ClickException(_cannot_listen(host, port, exc)) from exc
    return str(address[0])


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
