"""`crmhub worker` and the worker of `crmhub serve`, as processes that are stopped and killed."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from adapters.fakes.hubspot.fake import FakeHubSpot, Options
from crmhub.hub import Hub
from crmhub.server import worker_process
from tests.api.helpers.helper_calls import CREATE_DEAL, known
from tests.cli.conftest import Installation, environment
from tests.clients import Client
from tests.fakes import hubspot_client
from tests.processes import FORKED, Program
from tests.queue.outcomes import open_circuit
from tests.queue.working import end_leases, hurry, rows, soon, states
from tests.server.servers import HASTY, Server, serving

pytestmark = pytest.mark.databases("postgresql")

DEAL = {"dealname": "A", "amount": "10"}


@contextmanager
def running(here: Installation) -> Iterator[Program]:
    """Run `crmhub worker` until it says that it works; kill it afterwards."""
    process = FORKED.start(
        "worker",
        "--threads",
        "4",
        cwd=here.root,
        env=environment(**here.settings),
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert "processes the journal" in process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def hubspot() -> Iterator[FakeHubSpot]:
    with FakeHubSpot(Options(limit="none", search_limit="none")) as fake:
        yield fake


@pytest.fixture
def bot(here: Installation, hubspot: FakeHubSpot) -> Client:
    return hubspot_client(here.app, hubspot)


def queue_deal(hub: Hub, client: Client) -> None:
    """Put a deal of a known contact into the queue, due now."""
    contact_id = known(client)
    open_circuit(hub, client.account, "away")
    body = {"contactId": contact_id, "properties": DEAL}
    assert client.helper(CREATE_DEAL, body).status_code == 202
    hurry(hub, client)


def done_once(hub: Hub, client: Client, hubspot: FakeHubSpot) -> None:
    """Wait until everything is done, and see that there is one deal and who has it."""
    soon(lambda: set(states(hub, client)) == {"done"})
    result = json.loads(rows(hub, client, "result")[-1][0])
    assert list(hubspot.deals) == [result["record_id"]]
    assert hubspot.linked("contacts", result["contact_id"], "deals") == [result["record_id"]]


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGHUP])
def test_a_worker_that_is_told_to_end_finishes_its_call(
    here: Installation, bot: Client, hubspot: FakeHubSpot, told: signal.Signals
) -> None:
    queue_deal(here.hub, bot)
    slow = hubspot.fail(kind="latency", method="POST", path="*/deals", seconds=1.5)
    with running(here) as process:
        soon(lambda: slow.struck)
        process.send_signal(told)
        assert process.wait(120) == 0
        assert states(here.hub, bot) == ["done", "done"]
        done_once(here.hub, bot, hubspot)


@pytest.mark.databases("sqlite", "postgresql")
@pytest.mark.crash
@pytest.mark.parametrize("written", [False, True], ids=["before", "after the write"])
def test_what_a_killed_worker_was_at_is_done_once(
    here: Installation, bot: Client, hubspot: FakeHubSpot, written: bool
) -> None:
    queue_deal(here.hub, bot)
    slow = hubspot.fail(kind="latency", method="POST", path="*/deals", seconds=20, written=written)
    with running(here) as process:
        soon(lambda: slow.struck and len(hubspot.deals) == written)
        process.kill()
        process.wait()
    assert states(here.hub, bot) == ["done", "running"]
    # The call that nobody waits for any more is not carried out after all.
    hubspot.stop()
    hubspot.start()
    end_leases(here.hub, bot)
    with running(here):
        done_once(here.hub, bot, hubspot)


@pytest.mark.databases("sqlite", "postgresql")
@pytest.mark.crash
@pytest.mark.parametrize("written", [False, True], ids=["before", "after the write"])
def test_what_a_killed_server_was_at_is_done_once(
    here: Installation, bot: Client, hubspot: FakeHubSpot, written: bool
) -> None:
    contact_id = known(bot)
    slow = hubspot.fail(kind="latency", method="POST", path="*/deals", seconds=20, written=written)
    path = CREATE_DEAL.format(portal=bot.ids.portal_id)
    body = json.dumps({"contactId": contact_id, "properties": DEAL})
    options = ("--no-worker", "--workers", "1")
    alone = serving(here.root, *options, **here.settings)
    with alone as server, ThreadPoolExecutor(1) as pool:
        call = pool.submit(_lost, server, path, body)
        soon(lambda: slow.struck and len(hubspot.deals) == written)
        for child in server.children():
            os.kill(child, signal.SIGKILL)
        assert call.result() == "no answer"
    assert states(here.hub, bot) == ["done", "running"]
    hubspot.stop()
    hubspot.start()
    end_leases(here.hub, bot)
    with running(here):
        done_once(here.hub, bot, hubspot)


def _lost(server: Server, path: str, body: str) -> str:
    headers = [("Content-Type", "application/json")]
    try:
        return str(server.answer("POST", path, body, headers)[0])
    except Exception:
        return "no answer"


def workers_of(server: Server) -> list[int]:
    """Return the ids of the worker processes that a service runs."""

    def is_worker(pid: int) -> bool:
        try:
            return b"worker\0--of" in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    return [pid for pid in server.children() if is_worker(pid)]


def test_a_service_runs_a_worker_and_another_when_it_is_killed(
    here: Installation, bot: Client, hubspot: FakeHubSpot
) -> None:
    with serving(here.root, "--workers", "1", program=HASTY, **here.settings) as server:
        soon(lambda: workers_of(server))
        (first,) = workers_of(server)
        os.kill(first, signal.SIGKILL)
        soon(lambda: workers_of(server) not in ([], [first]))
        queue_deal(here.hub, bot)
        done_once(here.hub, bot, hubspot)
        (second,) = workers_of(server)
        assert server.stop() == 0
        soon(lambda: not _runs(second))


def test_the_worker_is_told_to_end_while_a_request_is_under_way(
    here: Installation, bot: Client
) -> None:
    body = b'{"contactToken": "t", "name": "Ann Lee", "email": "ann@x.org"}'
    head = (
        f"POST /chatbot/createLead/{bot.ids.generated_id} HTTP/1.1\r\nHost: test\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Expect: 100-continue\r\nConnection: close\r\n\r\n"
    ).encode()
    with (
        serving(here.root, "--workers", "1", program=HASTY, **here.settings) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=120) as caller,
    ):
        soon(lambda: workers_of(server))
        (worker,) = workers_of(server)
        caller.sendall(head)
        # The body is being read.
        assert b"100 Continue" in caller.recv(65536)
        server.process.send_signal(signal.SIGTERM)
        soon(lambda: not _runs(worker))
        caller.sendall(body)
        assert b"200 OK" in caller.recv(65536)
        assert server.process.wait(120) == 0


class Lasting:
    """Stands for the Popen of a worker that runs until it is told to end."""

    def __init__(self, *_args: Any, **_options: Any) -> None:
        self._ended = threading.Event()

    def wait(self) -> int:
        self._ended.wait()
        return 0

    def poll(self) -> None:
        return None

    def terminate(self) -> None:
        self._ended.set()


def test_a_worker_is_not_started_while_a_server_process_is_forked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, started = threading.Event(), []

    class Slow(Lasting):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            begun.set()
            time.sleep(0.5)
            started.append(self)

    monkeypatch.setattr(worker_process.subprocess, "Popen", Slow)
    monkeypatch.setattr(worker_process, "_AFTER_SERVERS", 0)
    with worker_process.keep_worker():
        assert begun.wait(120)
        process = multiprocessing.get_context("fork").Process(target=int)
        process.start()
        assert started
        # What is forked can start processes of its own.
        process.join(120)
        assert process.exitcode == 0


def test_a_worker_that_cannot_be_started_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    started = threading.Event()
    failures = iter([BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")])

    class Scarce(Lasting):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            for failure in failures:
                raise failure
            started.set()

    monkeypatch.setattr(worker_process.subprocess, "Popen", Scarce)
    monkeypatch.setattr(worker_process, "_AFTER_SERVERS", 0)
    monkeypatch.setattr(worker_process, "_SHORTEST_LIFE", 0)
    with worker_process.keep_worker():
        assert started.wait(120)
    assert "could not be started: Resource temporarily unavailable" in caplog.text


def test_no_worker_outlives_its_service(here: Installation) -> None:
    with serving(here.root, "--workers", "1", program=HASTY, **here.settings) as server:
        soon(lambda: workers_of(server))
        (worker,) = workers_of(server)
        # Once it listens to signals it ends by itself, and not by one of ours.
        time.sleep(1)
        server.process.kill()
        server.process.wait()
        soon(lambda: not _runs(worker))


def test_a_service_without_a_worker_has_none(here: Installation) -> None:
    alone = ("--workers", "1", "--no-worker")
    with serving(here.root, *alone, program=HASTY, **here.settings) as server:
        # By now it would have one.
        assert workers_of(server) == []


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_lead_that_is_queued_while_serving_is_done_soon(
    here: Installation, bot: Client, hubspot: FakeHubSpot
) -> None:
    body: Any = {"contactToken": "t", "name": "Ann Lee", "email": "ann@x.org"}
    path = f"/chatbot/createLead/{bot.ids.generated_id}"
    hubspot.stop()
    with serving(here.root, "--workers", "1", program=HASTY, **here.settings) as server:
        headers = [("Content-Type", "application/json")]
        code, _, answer = server.answer("POST", path, json.dumps(body), headers)
        assert (code, json.loads(answer)["status"]) == (202, "queued")
        hubspot.start()
        soon(lambda: len(hubspot.contacts) == 1)
