"""Takes in the bodies of requests before the app works on them."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from werkzeug.exceptions import ClientDisconnected, HTTPException, RequestEntityTooLarge

from crmhub.api.http.authentication import TURN
from crmhub.api.http.reading import ARRIVED, BODY, HUNG_UP
from crmhub.journal.slots import Gate
from crmhub.server.connections import SHORT_BODY, Connections, Request

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

# So many that are longer than most are taken in at a time, lest they fill the memory.
_LONG_BODIES = 64
# Of these, so many are worked on at a time: read as JSON, each takes twenty times its size.
_LONG_TURNS = 2
# Begin paths whose third part names the account.
_HELPERS = ("chatbot", "crm-api-interface")


class WholeBodies:
    """Lets the app work on whole requests only, on so many at a time as there are turns.

    granian calls the app as soon as the headers are there, and reads a body when asked to, in the
    thread of the request, however long that takes. Such a thread waits here without a turn, so
    that whoever sends slowly holds up nobody; `connections` bounds how many do, and for how long.

    When a client hangs up, granian ends the body as if that were all of it; and Flask stops
    reading a chunked body at the largest size instead of refusing it: the app gets an error for
    both, if it asks for the body at all. Where an answer needs no body and comes before it,
    granian closes the connection without a word, and the next request that a client or a proxy
    sends on it is lost: here the body comes first.
    """

    def __init__(
        self, app: WSGIApplication, largest: int, turns: int, connections: Connections
    ) -> None:
        self._app = app
        self._connections = connections
        self._requests = connections.requests
        self._largest = largest
        self._turns = Gate(turns)
        self._long_bodies = Gate(_LONG_BODIES)
        self._long_turns = Gate(_LONG_TURNS)

    @property
    def idle(self) -> bool:
        """Whether no request is there as a whole that the app has not answered."""
        return self._turns.empty and self._long_turns.empty

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        me = threading.get_ident()
        request = Request(environ["REMOTE_ADDR"], self._connections)
        self._requests[me] = request
        try:
            chunked = "HTTP_TRANSFER_ENCODING" in environ
            length = None if chunked else int(environ.get("CONTENT_LENGTH") or 0)
            if length != 0:
                request.expects = "HTTP_EXPECT" in environ
                body = self._whole(request, environ["wsgi.input"], length)
                if body is _CUT_OFF and self._connections.has_just_closed:
                    # Nobody is there to read an answer. The app's would take the time of others,
                    # since many are closed at a time.
                    start_response("400 Bad Request", [])
                    return []
                if isinstance(body, bytes):
                    environ[BODY] = body
                    environ["wsgi.input"] = io.BytesIO(body)
                else:
                    environ["wsgi.input"] = body
            environ[ARRIVED] = request.arrived = time.monotonic()
            environ[HUNG_UP] = request.hung_up
            group = _group(environ["PATH_INFO"])
            environ[TURN] = turn = self._turns.of(group)
            is_long = len(environ.get(BODY, b"")) > SHORT_BODY
            with self._long_turns.of(group) if is_long else nullcontext(), turn:
                return self._app(environ, start_response)
        finally:
            del self._requests[me]

    def _whole(self, request: Request, stream: Any, length: int | None) -> bytes | _Faulty:
        """Return a body of `length` bytes (None: chunked)."""
        if length is not None and length > self._largest:
            return _Faulty(RequestEntityTooLarge)
        data: bytes = stream.read(SHORT_BODY)
        if len(data) == SHORT_BODY:
            request.waits_since = time.monotonic()
            with self._long_bodies:
                request.has_place, request.waits_since = True, 0.0
                data += stream.read(self._largest + 1 - SHORT_BODY)
                request.has_place = False
        if len(data) > self._largest:
            return _Faulty(RequestEntityTooLarge)
        if length is not None and len(data) < length:
            return _CUT_OFF
        return data


def _group(path: str) -> str:
    """Return whom a request is for, as its path says: one account, so that accounts take turns.

    What the path says need not be true: whoever makes it up is soon refused.
    """
    first, *rest = path[1:].split("/", 3)
    return rest[1] if first in _HELPERS and len(rest) > 1 else first


class _Faulty:
    """A body that the app gets an error for, if it asks for it at all."""

    def __init__(self, error: type[HTTPException]) -> None:
        self._error = error

    def read(self, _size: int = -1) -> bytes:
        """Raise the error."""
        raise self._error


_CUT_OFF = _Faulty(ClientDisconnected)
