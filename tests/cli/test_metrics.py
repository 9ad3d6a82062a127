"""/metrics of real services: the sum of their processes, whichever of them die."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from benchmarks.places import free_port
from crmhub.database.connection import now_ms
from tests.cli.conftest import CRMHUB, CommandLine, Installation, environment
from tests.clients import Client, open_client
from tests.preparations import fill_disk
from tests.processes import FORKED, Forked, Program
from tests.queue.outcomes import open_circuit
from tests.queue.working import change, hurry
from tests.scrapes import Scrape
from tests.server.servers import HASTY, Server, serving, soon

pytestmark = pytest.mark.databases("sqlite")

LEAD = {"contactToken": "t", "name": "Ann Lee", "email": "ann@x.org"}
_JSON = [("Content-Type", "application/json")]
_PATIENCE = 60
ALONE = ("--workers", "2", "--no-worker")


def shared(server: Server) -> list[Path]:
    """Return the directories in which services count."""
    return list(server.temporary.glob("crmhub-metrics-*"))


@pytest.fixture
def bot(here: Installation) -> Client:
    return open_client(here.app)


def scraped(server: Server) -> Scrape:
    status, _, body = server.answer(path="/metrics")
    assert status == 200
    return Scrape(body.decode())


def helped(server: Server, path: str, body: Any) -> int:
    return server.answer("POST", path, json.dumps(body), _JSON)[0]


def throw_dice(server: Server, times: int) -> None:
    for _ in range(times):
        assert helped(server, "/crm-api-interface/getRandomInt", {"min": 1, "max": 6}) == 200


def dice(server: Server) -> float:
    return scraped(server).of("helper_answers_total", helper="getRandomInt", status="200")


def test_every_process_tells_what_all_have_done_in_files_that_nobody_tidies_up(
    here: Installation, bot: Client
) -> None:
    create_lead = f"/chatbot/createLead/{bot.ids.generated_id}"
    with serving(here.root, *ALONE, **here.settings) as server:
        throw_dice(server, 40)
        assert helped(server, create_lead, LEAD) == 200
        # Each a connection of its own, for whichever process takes it.
        assert {dice(server) for _ in range(20)} == {40}
        (directory,) = shared(server)
        assert directory.stat().st_mode & 0o077 == 0
        # systemd-tmpfiles leaves a directory alone whose lock it cannot have.
        tidying = os.open(directory, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(tidying, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(tidying)
        assert server.stop() == 0
        assert shared(server) == []


def test_what_the_worker_beside_has_done_counts_too(here: Installation, bot: Client) -> None:
    hub = here.app.extensions["crmhub"]
    open_circuit(hub, bot.account, "away")
    change(hub, bot, "until = :then", "outage", then=now_ms() + 3_600_000)
    create_lead = f"/chatbot/createLead/{bot.ids.generated_id}"
    with serving(here.root, "--workers", "2", program=HASTY, **here.settings) as server:
        assert helped(server, create_lead, LEAD) == 202
        hurry(hub, bot)

        def done() -> bool:
            found = scraped(server)
            return found.of("actions_ended_total", helper="createLead", outcome="done") == 1

        soon(done, _PATIENCE)
        found = scraped(server)
        assert found.of("actions_accepted_total", helper="createLead") == 1
        assert found.of("attempt_duration_seconds_count", adapter="local", outcome="created") == 1
        assert found.of("helper_answers_total", helper="createLead", status="202") == 1
        assert found.of("database_up") == 1
        # The gauges may be some seconds old.
        soon(lambda: scraped(server).of("actions") == 0, _PATIENCE)


def test_killed_processes_lower_no_counter_and_leave_no_files(here: Installation) -> None:
    with serving(here.root, *ALONE, **here.settings) as server:
        for round in range(1, 4):
            throw_dice(server, 10)
            assert dice(server) == 10 * round
            before = server.children()
            for child in before:
                os.kill(child, signal.SIGKILL)
            replaced = lambda before=before: (  # noqa: E731
                len(server.children()) == 2
                and not set(server.children()) & set(before)
                and server.answers()
            )
            soon(replaced, _PATIENCE)
            assert dice(server) == 10 * round
        throw_dice(server, 10)
        assert {dice(server) for _ in range(10)} == {40}
        (directory,) = shared(server)
        # The second one may have only just begun.
        assert {file.name for file in directory.glob("counter*")} <= {
            "counter_0.db",
            "counter_1.db",
        }


def test_a_service_serves_without_a_place_for_its_files(here: Installation) -> None:
    """A disk that is full or must not be written costs the numbers, not the leads."""
    with serving(
        here.root, "--workers", "1", "--no-worker", program=Forked(fill_disk), **here.settings
    ) as server:
        throw_dice(server, 3)
        assert dice(server) == 3
        assert server.stop() == 0
        log = server.log.read_text()
    assert "No space left on device" in log
    assert "TMPDIR" in log


def worker(here: Installation, *args: str) -> Program:
    return FORKED.start(
        "worker",
        "--threads",
        "2",
        *args,
        cwd=here.root,
        env=environment(**here.settings),
        stdout=subprocess.PIPE,
    )


def test_a_worker_alone_tells_its_own(here: Installation, bot: Client) -> None:
    hub = here.app.extensions["crmhub"]
    open_circuit(hub, bot.account, "away")
    answer = bot.helper("/chatbot/createLead/{generated}", LEAD)
    assert answer.status_code == 202
    port = free_port()
    process = worker(here, "--metrics-port", str(port))
    try:
        assert process.stdout is not None
        assert "processes the journal" in process.stdout.readline()

        def found() -> Scrape:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
                return Scrape(answer.read().decode())

        soon(lambda: found().of("actions_ended_total", helper="createLead") == 1, _PATIENCE)
        assert found().of("attempt_duration_seconds_count", adapter="local") == 1
        assert found().of("build_info") == 1
        # The service tells of the journal: two would be added up.
        assert {"actions", "database_up"} & found().names() == set()
    finally:
        process.terminate()
        process.communicate()
    assert process.returncode == 0


def test_a_port_that_is_taken_is_told_before_any_work(crmhub: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = crmhub("worker", "--metrics-port", port, code=1)
    assert "works off" not in refused.stdout
    assert f"port {port}" in refused.stderr
    assert "--metrics-port" in refused.stderr


def test_other_commands_do_without_prometheus(here: Installation, bot: Client) -> None:
    """Loading it would make each of them slower."""
    commands = [["actions", "list"], ["account", "show", bot.account.client_id], ["--help"]]
    lines = f"""
import sys
from crmhub.cli import main
for command in {commands!r}:
    try:
        main(command)
    except SystemExit as end:
        assert not end.code, end.code
    assert 'prometheus_client' not in sys.modules, command
"""
    run = subprocess.run(
        [CRMHUB[0], "-c", lines],
        cwd=here.root,
        env=environment(**here.settings),
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
