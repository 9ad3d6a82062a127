"""A flood of a CRM's webhooks, or of calls of one account, leaves a process to all others."""

from __future__ import annotations

import io
import queue
import threading
from collections.abc import Iterable
from typing import Any

import pytest

from crmhub.api.http.authentication import CROWDED
from crmhub.server import bodies
from crmhub.server.bodies import _WEBHOOK_TURNS, BodyBuffer

pytestmark = pytest.mark.databases("sqlite")

_WAIT_S = 30.0


def test_webhooks_take_few_turns_and_accounts_take_them_in_rotation() -> None:
    inside: queue.SimpleQueue[tuple[str, threading.Event]] = queue.SimpleQueue()

    def app(environ: Any, start_response: Any) -> Iterable[bytes]:
        go_on = threading.Event()
        inside.put((environ["PATH_INFO"], go_on))
        assert go_on.wait(_WAIT_S)
        return [b""]

    buffer = BodyBuffer(app, largest=100, turns=_WEBHOOK_TURNS + 1)

    def call(path: str) -> threading.Thread:
        environ = {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": path,
            "CONTENT_LENGTH": "2",
            "wsgi.input": io.BytesIO(b"{}"),
        }
        thread = threading.Thread(target=buffer, args=(environ, None))
        thread.start()
        return thread

    def wait_for(waiting: int) -> None:
        pause = threading.Event()
        while buffer._webhook_turns.waiting < waiting:
            assert not pause.wait(0.01)

    threads = [call("/crm-changes/flooded/1-7a") for _ in range(_WEBHOOK_TURNS + 3)]
    wait_for(3)
    threads.append(call("/crm-changes/other/1-7b"))
    wait_for(4)
    entered = [inside.get(timeout=_WAIT_S) for _ in range(_WEBHOOK_TURNS)]
    # A bot's call waits for none of the webhooks.
    threads.append(call("/chatbot/createLead/abc"))
    path, bot = inside.get(timeout=_WAIT_S)
    assert path == "/chatbot/createLead/abc"
    bot.set()
    followed = []
    for _ in range(4):
        entered.pop(0)[1].set()
        entered.append(inside.get(timeout=_WAIT_S))
        followed.append(entered[-1][0].split("/")[2])
    assert followed[:2] == ["flooded", "other"]
    for _, go_on in entered:
        go_on.set()
    for thread in threads:
        thread.join(_WAIT_S)
    assert buffer.is_idle


def test_calls_of_the_public_api_wait_in_a_short_line_of_their_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bodies, "_LINE", 1)
    go_on = threading.Event()

    def app(environ: Any, start_response: Any) -> Iterable[bytes]:
        if CROWDED in environ:
            return [b"crowded"]
        assert go_on.wait(_WAIT_S)
        return [b""]

    buffer = BodyBuffer(app, largest=100, turns=1)

    def call(path: str) -> Iterable[bytes]:
        return buffer({"REQUEST_METHOD": "GET", "PATH_INFO": path}, None)  # type: ignore[arg-type]

    threads = []
    for waiting, path in enumerate(
        # The first has the turn; helpers wait however long the line is, since bots do not retry.
        ("/a/api/v1/deals", "/a/api/v1/deals", "/chatbot/createLead/a", "/b/api/v1/deals")
    ):
        threads.append(threading.Thread(target=call, args=(path,)))
        threads[-1].start()
        pause = threading.Event()
        while buffer.is_idle or buffer._turns.waiting < waiting:
            assert not pause.wait(0.01)
    assert call("/a/api/v1/contacts") == [b"crowded"]
    go_on.set()
    for thread in threads:
        thread.join(_WAIT_S)
    assert buffer.is_idle
