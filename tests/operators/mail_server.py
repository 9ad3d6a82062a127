"""A mail server on loopback for tests: it keeps what it is sent, and refuses what a test names."""

from __future__ import annotations

import base64
import socketserver
import ssl
import threading
from contextlib import closing, suppress
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage


@dataclass
class Received:
    recipients: list[str]
    message: EmailMessage
    user: str
    encrypted: bool


@dataclass
class MailServer:
    """`answers`: what it says instead of 250 to a command, such as "RCPT bob@example.com".

    `tls` is the context for TLS, from the first byte if `wrapped`, else by STARTTLS.
    """

    tls: ssl.SSLContext | None = None
    wrapped: bool = False
    answers: dict[str, str] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    silent: bool = False

    def __enter__(self) -> MailServer:
        outer = self
        self.over = threading.Event()

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                # A client that gives up closes the connection, as some tests want it to.
                with closing(_Session(outer, self.request)) as session, suppress(OSError):
                    session.run()

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            block_on_close = False

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()


class _Session:
    def __init__(self, server: MailServer, connection: object) -> None:
        self._server, self._connection = server, connection
        self._user, self._encrypted = "", False
        self._recipients: list[str] = []

    def close(self) -> None:
        self._connection.close()  # type: ignore[attr-defined]

    def run(self) -> None:
        if self._server.silent:
            self._server.over.wait(60)
            return
        if self._server.wrapped:
            self._encrypt()
        self._open()
        self._say(self._server.answers.get("greeting", "220 mail.example.com"))
        while line := self._file.readline().decode().strip():
            self._server.commands.append(line)
            verb, _, rest = line.partition(" ")
            if verb.upper() == "DATA":
                self._take_message()
            elif verb.upper() == "STARTTLS":
                self._say("220 Go ahead")
                self._encrypt()
                self._open()
            else:
                self._say(self._answer(verb.upper(), rest))
            if verb.upper() == "QUIT":
                return

    def _answer(self, verb: str, rest: str) -> str:
        address = rest.partition("<")[2].partition(">")[0]
        planted = self._server.answers.get(f"{verb} {address}") or self._server.answers.get(verb)
        if verb == "EHLO" and not planted:
            offers = ["mail.example.com", "AUTH PLAIN"]
            if self._server.tls and not self._encrypted:
                offers.append("STARTTLS")
            return "\r\n".join(
                f"250{'-' if i < len(offers) - 1 else ' '}{offer}" for i, offer in enumerate(offers)
            )
        if planted:
            return planted
        if verb == "AUTH":
            self._user = base64.b64decode(rest.partition(" ")[2]).decode().replace("\0", "/")
            return "235 Welcome"
        if verb == "RCPT":
            self._recipients.append(address)
        return "221 Bye" if verb == "QUIT" else "250 OK"

    def _take_message(self) -> None:
        self._say("354 Go on")
        lines = []
        while (line := self._file.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        message = message_from_bytes(b"".join(lines), policy=policy.default)
        assert isinstance(message, EmailMessage)
        planted = self._server.answers.get("DATA")
        if not planted:
            self._server.received.append(
                Received(self._recipients, message, self._user, self._encrypted)
            )
        self._say(planted or "250 Queued")

    def _encrypt(self) -> None:
        assert self._server.tls
        self._connection = self._server.tls.wrap_socket(self._connection, server_side=True)  # type: ignore[arg-type]
        self._encrypted = True

    def _open(self) -> None:
        self._file = self._connection.makefile("rb")  # type: ignore[attr-defined]

    def _say(self, text: str) -> None:
        self._connection.sendall(f"{text}\r\n".encode())  # type: ignore[attr-defined]
