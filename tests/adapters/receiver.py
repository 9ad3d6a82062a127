"""A receiver of the webhooks that a fake CRM sends."""

from __future__ import annotations

import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from crmhub.adapter import WebhookRequest

_WAIT_S = 30.0


class Receiver:
    """Use it as a context manager; it listens meanwhile."""

    def __init__(self) -> None:
        received: queue.SimpleQueue[WebhookRequest] = queue.SimpleQueue()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                received.put(WebhookRequest("POST", self.path, headers, body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *args: object) -> None:
                return

        self._received = received
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, count: int) -> list[WebhookRequest]:
        """Wait for so many webhooks; return them in the order in which they came."""
        return [self._received.get(timeout=_WAIT_S) for _ in range(count)]
