"""Servers on loopback that answer as told, for tests of outgoing calls."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

_SIGNS = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)

Serve = Callable[[Any, "Server"], None]


class Server:
    """Hands every connection to `serve`, in a thread of its own; closed by `with`."""

    def __init__(self, serve: Serve, tls: ssl.SSLContext | None = None) -> None:
        self._serve = serve
        self._tls = tls
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.connections = 0
        self.heard: list[bytes] = []
        self.over = threading.Event()

    def __enter__(self) -> Server:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        # A close alone does not wake the thread that accepts.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while not self.over.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._handle, args=(connection,), daemon=True).start()

    def _handle(self, connection: socket.socket) -> None:
        with connection:
            try:
                if self._tls is None:
                    self._serve(connection, self)
                else:
                    with self._tls.wrap_socket(connection, server_side=True) as wrapped:
                        self._serve(wrapped, self)
            except OSError:
                pass  # the client has gone, as many of these tests want it to

    def requests(self, connection: socket.socket) -> Iterator[bytes]:
        """The requests that arrive, each with its body; kept in `heard`."""
        got = b""
        while piece := connection.recv(65536):
            got += piece
            head, blank, body = got.partition(b"\r\n\r\n")
            if blank and len(body) >= _length(head):
                self.heard.append(got)
                yield got
                got = b""


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def answering(*parts: bytes, pause: float = 0.0) -> Serve:
    """Answers every request with `parts`, one after the other, `pause` seconds apart."""

    def serve(connection: Any, server: Server) -> None:
        for _ in server.requests(connection):
            for part in parts:
                connection.sendall(part)
                if server.over.wait(pause):
                    return

    return serve


def silent(connection: Any, server: Server) -> None:
    """Takes the connection and never says a word."""
    server.over.wait(120)


def resetting(connection: Any, server: Server) -> None:
    """Reads a request, then breaks the connection with a reset."""
    for _ in server.requests(connection):
        reset(connection)
        return


def reset(connection: Any, server: Server | None = None) -> None:
    """Breaks the connection with a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    connection.close()


class Names:
    """A resolver that knows `hosts` only; each has its answers, one for each lookup."""

    def __init__(self, **hosts: Sequence[Sequence[str]]) -> None:
        self._answers = {name.replace("__", "."): list(found) for name, found in hosts.items()}
        self.asked: list[str] = []

    def __call__(self, host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        self.asked.append(host)
        answers = self._answers.get(host)
        if answers is None:
            # Numbers in any notation; nothing is asked on the network.
            return list(
                socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
            )
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [_info(address, port) for address in addresses]


def _info(address: str, port: int) -> tuple[Any, ...]:
    if ":" in address:
        return (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, port, 0, 0))
    return (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))


def certificate(folder: Path, host: str) -> tuple[ssl.SSLContext, Path]:
    """A server's TLS context with a self-signed certificate for `host`, and the latter's file."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.datetime.now(datetime.UTC)
    try:
        subject: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        subject = x509.DNSName(host)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([subject]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        # Python 3.13 and later check certificates strictly.
        .add_extension(_SIGNS, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / "server.pem"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret = folder / "server.key"
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, secret)
    return context, file
