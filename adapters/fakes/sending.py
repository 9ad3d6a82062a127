"""Send the webhooks of a fake CRM, in a thread of its own; a lost one is not repeated."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

_WAIT_S = 10.0


class Sender:
    """Sends webhooks one after the other; the thread starts with the first one."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[str, Mapping[str, str], bytes]]
        self._waiting = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def send(self, url: str, body: Any, headers: Mapping[str, str] = {}) -> None:
        """Send `body` as JSON to an address, some time soon."""
        all_headers = {"Content-Type": "application/json", **headers}
        self._waiting.put((url, all_headers, json.dumps(body).encode()))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True, name="fake-webhooks")
            self._thread.start()

    def _run(self) -> None:
        while True:
            _post(*self._waiting.get())


def _post(url: str, headers: Mapping[str, str], body: bytes) -> None:
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_WAIT_S)
    try:
        path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
        connection.request("POST", path, body, dict(headers))
        connection.getresponse().read()
    except (OSError, HTTPException):
        # Nobody listens there: the CRM would try again, this fake does not.
        return
    finally:
        connection.close()
