from __future__ import annotations

import io
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

from werkzeug.exceptions import ClientDisconnected, HTTPException, RequestEntityTooLarge

from crmhub.api.http.authentication import CROWDED, PUBLIC_API, TURN
from crmhub.api.http.reading import ARRIVED, BODY
from crmhub.console.sessions import MAX_UPLOAD_BYTES, is_upload
from crmhub.crm.watching import WEBHOOK_PATH
from crmhub.queue.slots import Gate

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_SHORT_BODY = 65_536
# Long bodies read at a time, so that they do not fill the memory.
_LONG_BODIES = 64
# Long bodies processed at a time: parsed as JSON, a body takes twenty times its size.
_LONG_TURNS = 2
# Webhooks of CRMs processed at a time, so that a flood of one account's delays no bot.
_WEBHOOK_TURNS = 2
# Calls of the public API that wait for a turn, of one account. Each has one of granian's threads,
# also when its caller has hung up: with all of them, one account would keep out all others.
_LINE = 64
# Uploads received or processed at a time; each takes room on the disk.
_UPLOADS = 4
_BLOCK = 65_536
# First parts of the paths whose third part names the account.
_HELPERS = ("chatbot", "crm-api-interface")


class BodyBuffer:
    """A WSGI middleware that passes a request to the app once its whole body has arrived.

    The app processes at most `turns` requests at a time. granian's thread reads the body here and
    does not count among them, so slow senders delay nobody until they hold all connections. An
    upload of the console goes to a temporary file.

    If a client hangs up, granian ends the body as if it were complete, and Flask cuts a chunked
    body at the limit: in both cases the app gets an error when it reads the body. The body is
    always read first, since granian would close the connection after an early answer and lose the
    next request.
    """

    def __init__(self, app: WSGIApplication, largest: int, turns: int) -> None:
        self._app = app
        self._largest = largest
        self._turns = Gate(turns)
        self._long_bodies = Gate(_LONG_BODIES)
        self._long_turns = Gate(_LONG_TURNS)
        self._webhook_turns = Gate(_WEBHOOK_TURNS)
        self._uploads = Gate(_UPLOADS)

    @property
    def is_idle(self) -> bool:
        """The app is processing no request and no complete request waits."""
        gates = (self._turns, self._long_turns, self._webhook_turns)
        return all(gate.empty for gate in gates)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if not is_upload(environ["REQUEST_METHOD"], path):
            return self._answer(environ, start_response, None)
        with self._uploads.of(_find_account(path)), TemporaryFile() as file:
            return self._answer(environ, start_response, file)

    def _answer(
        self,
        environ: WSGIEnvironment,
        start_response: StartResponse,
        upload: IO[bytes] | None,
    ) -> Iterable[bytes]:
        chunked = "HTTP_TRANSFER_ENCODING" in environ
        length = None if chunked else int(environ.get("CONTENT_LENGTH") or 0)
        if length != 0:
            stream = environ["wsgi.input"]
            body: bytes | IO[bytes] | _InvalidBody
            if upload is None:
                body = self._read_body(stream, length)
            else:
                body = _read_upload(stream, length, upload)
            if isinstance(body, bytes):
                environ[BODY] = body
                environ["wsgi.input"] = io.BytesIO(body)
            else:
                environ["wsgi.input"] = body
            if isinstance(body, _InvalidBody):
                start_response = partial(_start_and_close, start_response)
        environ[ARRIVED] = time.monotonic()
        account = _find_account(environ["PATH_INFO"])
        if self._turns.waiting_of(account) >= _LINE and PUBLIC_API.match(environ["PATH_INFO"]):
            environ[CROWDED] = True
            return self._app(environ, start_response)
        environ[TURN] = turn = self._turns.of(account)
        is_long = upload is not None or len(environ.get(BODY, b"")) > _SHORT_BODY
        few: AbstractContextManager[object] = nullcontext()
        if environ["PATH_INFO"].startswith(f"{WEBHOOK_PATH}/"):
            few = self._webhook_turns.of(account)
        elif is_long:
            few = self._long_turns.of(account)
        with few, turn:
            return self._app(environ, start_response)

    def _read_body(self, stream: Any, length: int | None) -> bytes | _InvalidBody:
        """`length`: None for a chunked body. An `_InvalidBody` raises its error in the app."""
        if length is not None and length > self._largest:
            return _InvalidBody(RequestEntityTooLarge)
        data: bytes = stream.read(_SHORT_BODY)
        if len(data) == _SHORT_BODY:
            with self._long_bodies:
                data += stream.read(self._largest + 1 - _SHORT_BODY)
        if len(data) > self._largest:
            return _InvalidBody(RequestEntityTooLarge)
        if length is not None and len(data) < length:
            return _INCOMPLETE
        return data


def _read_upload(stream: Any, length: int | None, file: IO[bytes]) -> IO[bytes] | _InvalidBody:
    """`length`: None for a chunked body."""
    if length is not None and length > MAX_UPLOAD_BYTES:
        return _InvalidBody(RequestEntityTooLarge)
    received = 0
    while block := stream.read(_BLOCK):
        received += len(block)
        if received > MAX_UPLOAD_BYTES:
            return _InvalidBody(RequestEntityTooLarge)
        file.write(block)
    if length is not None and received < length:
        return _INCOMPLETE
    file.seek(0)
    return file


def _start_and_close(
    start_response: StartResponse, status: str, headers: list[tuple[str, str]], *exc_info: Any
) -> Any:
    """Tell the caller that granian closes the connection, whose body was not read to its end."""
    return start_response(status, [*headers, ("Connection", "close")], *exc_info)


def _find_account(path: str) -> str:
    """Waiting requests are admitted in rotation between accounts. The name is not verified."""
    first, *rest = path[1:].split("/", 3)
    if path.startswith(f"{WEBHOOK_PATH}/"):
        return rest[0]
    return rest[1] if first in _HELPERS and len(rest) > 1 else first


class _InvalidBody:
    def __init__(self, error: type[HTTPException]) -> None:
        self._error = error

    def read(self, _size: int = -1) -> bytes:
        raise self._error


_INCOMPLETE = _InvalidBody(ClientDisconnected)
