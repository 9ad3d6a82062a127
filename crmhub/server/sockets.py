"""Where the service listens: at an address of its own, or on a socket that systemd keeps for it."""

from __future__ import annotations

import errno
import os
import socket
from typing import Any

import rich_click as click

# sd_listen_fds(3): the first descriptor that is handed over.
_FIRST_GIVEN = 3


def given() -> socket.socket | None:
    """Return the socket that systemd listens on for this service, if it does.

    It outlives the service, so calls wait in it while that is restarted. Raises ClickException
    when it is not one that listens on an address and a port.
    """
    meant_for = os.environ.pop("LISTEN_PID", "")
    number = os.environ.pop("LISTEN_FDS", "0")
    os.environ.pop("LISTEN_FDNAMES", None)
    if meant_for != str(os.getpid()):
        return None
    if number != "1":
        raise click.ClickException(f"systemd hands over {number} sockets; let it be one.")
    found = socket.socket(fileno=_FIRST_GIVEN)
    listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if not listens or found.family not in (socket.AF_INET, socket.AF_INET6):
        raise click.ClickException(
            "systemd hands over a socket that listens on no port; "
            "write ListenStream=ADDRESS:PORT, without Accept=yes."
        )
    return found


def use(server: Any, kept: socket.socket, backlog: int) -> None:
    """Let the processes of granian's server share this socket instead of making their own.

    It has no public way to, as of 2.8.
    """
    from granian import _granian

    # Of which its stub knows no arguments.
    holder: Any = _granian.SocketHolder

    def share() -> None:
        server._sfd, server._sso = kept.fileno(), kept
        server._shd = holder(kept.fileno(), False, backlog)

    server._init_shared_socket = share


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
