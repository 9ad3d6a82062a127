"""Takes in the bodies of requests before the app works on them."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from werkzeug.exceptions import ClientDisconnected, HTTPException, RequestEntityTooLarge

from crmhub.actions.slots import Gate
from crmhub.api.reading import ARRIVED, BODY

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

# As long as any call of a helper and most of the API's.
_SHORT_BODY = 65_536
# So many longer ones are taken in at a time, lest those that do not end fill the memory.
_LONG_BODIES = 64


class WholeBodies:
    """Lets the app work on whole requests only, on so many at a time as there are turns.

    granian calls the app as soon as the headers are there, and reads a body when asked to, in the
    thread of the request, however long that takes. Such a thread waits here without a turn, so
    that whoever sends slowly, or never sends the end, holds up nobody.

    When a client hangs up, granian ends the body as if that were all of it; and Flask stops
    reading a chunked body at the largest size instead of refusing it: the app gets an error for
    both, if it asks for the body at all. Where an answer needs no body and comes before it,
    granian closes the connection without a word, and the next request that a client or a proxy
    sends on it is lost: here the body comes first.
    """

    def __init__(self, app: WSGIApplication, largest: int, turns: int) -> None:
        self._app = app
        self._largest = largest
        self._turns = Gate(turns)
        self._long_bodies = Gate(_LONG_BODIES)
        self._arrivals = dict[int, float]()

    @property
    def idle(self) -> bool:
        """Whether no request is there as a whole that the app has not answered."""
        return self._turns.empty

    def arrivals(self) -> list[float]:
        """Return when the requests came that wait for their turn or are worked on (monotonic)."""
        return list(self._arrivals.values())

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        chunked = "HTTP_TRANSFER_ENCODING" in environ
        length = None if chunked else int(environ.get("CONTENT_LENGTH") or 0)
        if length != 0:
            body = self._whole(environ["wsgi.input"], length)
            if isinstance(body, bytes):
                environ[BODY] = body
                environ["wsgi.input"] = io.BytesIO(body)
            else:
                environ["wsgi.input"] = body
        me = threading.get_ident()
        environ[ARRIVED] = self._arrivals[me] = time.monotonic()
        try:
            with self._turns:
                return self._app(environ, start_response)
        finally:
            del self._arrivals[me]

    def _whole(self, stream: Any, length: int | None) -> bytes | _Faulty:
        """Return a body of `length` bytes (None: chunked)."""
        if length is not None and length > self._largest:
            return _Faulty(RequestEntityTooLarge)
        data: bytes = stream.read(_SHORT_BODY)
        if len(data) == _SHORT_BODY:
            with self._long_bodies:
                data += stream.read(self._largest + 1 - _SHORT_BODY)
        if len(data) > self._largest:
            return _Faulty(RequestEntityTooLarge)
        if length is not None and len(data) < length:
            return _Faulty(ClientDisconnected)
        return data


class _Faulty:
    """A body that the app gets an error for, if it asks for it at all."""

    def __init__(self, error: type[HTTPException]) -> None:
        self._error = error

    def read(self, _size: int = -1) -> bytes:
        """Raise the error."""
        raise self._error
