"""crmhub serve: started, called, killed and stopped for real."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sqlite3
import subprocess
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.places import free_port
from crmhub.bounds import MAX_HEAD_BYTES
from crmhub.secrets import BASE36, token
from crmhub.server import http_server
from tests.cli.conftest import CRMHUB, CommandLine, environment
from tests.database.test_write_queue import is_taken
from tests.preparations import answer_late
from tests.processes import Forked
from tests.server.servers import serving, soon


@pytest.fixture
def acme(crmhub):
    return crmhub.json("account", "create", "Acme")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A service with two server processes, for tests that neither end nor crowd it."""
    with serving(tmp_path_factory.mktemp("shared"), "--workers", "2", "--no-worker") as server:
        yield server


@pytest.fixture
def there(shared, crmhub):
    """The command line of the shared service's installation."""
    return CommandLine(shared.log.parent, {})


@pytest.fixture
def bolt(there):
    """A fresh account of the shared service."""
    return there.json("account", "create", f"bolt-{token(8, BASE36)}")


def get(server, made, path="contacts", **more):
    return server.answer(
        path=f"/{made['clientId']}/api/v1/{path}",
        headers={"service-apikey": made["apiKey"]},
        **more,
    )


def post(made, body, *headers):
    """Return the head of a request that creates a contact."""
    lines = [
        f"POST /{made['clientId']}/api/v1/contacts HTTP/1.1",
        "Host: test",
        f"service-apikey: {made['apiKey']}",
        "Content-Type: application/json",
        "Connection: close",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def chunked(body):
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


ALONE = ("--workers", "1", "--no-worker")
CONTACT = b'{"properties": {"firstname": "Ada"}}'


def test_it_serves_and_every_process_holds_its_share(shared, bolt):
    status, headers, body = get(shared, bolt)
    assert (status, json.loads(body)["total"]) == (200, 0)
    assert headers["RateLimit-Limit"] == "500"
    assert len(shared.children()) == 2


def test_bodies_of_every_form_are_read(shared, bolt):
    for parts in (
        [post(bolt, CONTACT, f"Content-Length: {len(CONTACT)}")],
        [post(bolt, chunked(CONTACT), "Transfer-Encoding: chunked")],
        [
            post(bolt, b"", "Transfer-Encoding: chunked"),
            b"5\r\n" + CONTACT[:5] + b"\r\n",
            chunked(CONTACT[5:]),
        ],
        [post(bolt, b"", "Expect: 100-continue", f"Content-Length: {len(CONTACT)}"), CONTACT],
    ):
        assert b"201 Created" in shared.raw(*parts)
    status, headers, body = get(shared, bolt, method="HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 100


def test_what_a_caller_did_not_finish_sending_is_not_done(shared, bolt):
    """The part that came would do as a whole: a lead with half an address."""
    whole = b"contactToken=t&name=Ada&email=ada@example.community"
    head = (
        f"POST /chatbot/createLead/{bolt['generatedId']} HTTP/1.1\r\nHost: test\r\n"
        "Content-Type: application/x-www-form-urlencoded\r\nConnection: close\r\n"
        f"Content-Length: {len(whole)}\r\n\r\n"
    ).encode()
    with socket.create_connection(("127.0.0.1", shared.port)) as connection:
        connection.sendall(head + whole[:-6])
        time.sleep(0.3)
    soon(lambda: "createLead" in shared.log.read_text())
    assert json.loads(get(shared, bolt)[2])["total"] == 0
    assert b"200 OK" in shared.raw(head + whole)
    assert json.loads(get(shared, bolt)[2])["total"] == 1


def test_bodies_that_do_not_end_hold_up_nobody(acme, tmp_path):
    with ExitStack() as stack:
        server = stack.enter_context(serving(tmp_path, *ALONE, "--threads", "2"))
        long = json.dumps({"properties": {"firstname": "x" * 100_000}}).encode()
        lines = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 30))
            for _ in range(40)
        ]
        for line, body in zip(lines, [CONTACT, long] * 20, strict=True):
            line.sendall(post(acme, body[:-1], f"Content-Length: {len(body)}"))
        assert get(server, acme)[0] == 200
        assert b"201 Created" in server.raw(post(acme, CONTACT, f"Content-Length: {len(CONTACT)}"))
        # Nor is one refused for being slow.
        lines[0].sendall(CONTACT[-1:])
        assert lines[0].recv(65_536).startswith(b"HTTP/1.1 201 ")
        # What does not end is not waited for either, until the process would be killed.
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < http_server.GRACE_SECONDS


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_request_under_way_is_finished_before_the_end(acme, tmp_path, number):
    with serving(tmp_path, "--workers", "2", "--no-worker") as server:
        # Another writer holds the database, so the request has to wait.
        file = tmp_path / "var" / "crmhub.db"
        writer = sqlite3.connect(file, isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        answers = []
        request = post(acme, CONTACT, f"Content-Length: {len(CONTACT)}")
        caller = threading.Thread(target=lambda: answers.append(server.raw(request)))
        caller.start()
        soon(lambda: is_taken(file))
        server.process.send_signal(number)
        time.sleep(1)
        assert answers == []
        writer.execute("ROLLBACK")
        writer.close()
        caller.join()
        assert b"201 Created" in answers[0]
        assert server.process.wait(timeout=120) == 0
        assert not server.answers()


def test_it_ends_with_its_terminal(tmp_path):
    with serving(tmp_path, "--workers", "1") as server:
        os.killpg(server.process.pid, signal.SIGHUP)
        assert server.process.wait(timeout=120) == 0
        assert not server.answers()


def test_it_outlives_its_terminal_when_told_to(acme, tmp_path):
    with serving(tmp_path, "--workers", "1", program=("nohup", *CRMHUB)) as server:
        before = server.children()
        os.killpg(server.process.pid, signal.SIGHUP)
        assert get(server, acme)[0] == 200
        assert set(before) <= set(server.children())
        assert server.stop() == 0


def test_it_starts_again_at_once_on_the_same_port_and_keeps_the_last_use_of_a_key(
    crmhub, acme, tmp_path
):
    port = free_port()
    for _ in range(2):
        with serving(tmp_path, *ALONE, port=port) as server:
            assert get(server, acme)[0] == 200
            assert server.stop() == 0
    (key,) = crmhub.json("key", "list", "acme")
    assert key["lastUsedAt"] is not None


def test_a_killed_server_process_is_replaced_however_soon(acme, tmp_path):
    with serving(tmp_path, "--workers", "2", "--no-worker") as server:
        for _ in range(2):
            killed = server.children()[-1]
            os.kill(killed, signal.SIGKILL)
            # The other one may still start: it is not counted by its id.
            soon(lambda killed=killed: killed not in server.children())
            soon(lambda: len(server.children()) == 2 and server.answers())
        assert all(get(server, acme)[0] == 200 for _ in range(20))


def test_a_server_process_is_replaced_when_the_one_above_it_is_killed(acme, tmp_path):
    with serving(tmp_path, *ALONE) as server:
        (before,) = server.children()
        above = int(Path(f"/proc/{before}/stat").read_text().rpartition(")")[2].split()[1])
        assert above != server.process.pid
        os.kill(above, signal.SIGKILL)
        soon(lambda: not Path(f"/proc/{before}").exists())
        soon(server.answers)
        assert get(server, acme)[0] == 200
        assert server.stop() == 0


def test_server_processes_end_with_a_killed_supervisor(acme, tmp_path):
    with serving(tmp_path, "--workers", "2") as server:
        server.process.kill()
        server.process.wait()
        soon(lambda: not server.answers())


def test_a_taken_port_is_told(shared, there):
    refused = there("serve", "--port", str(shared.port), code=1).stderr
    assert refused.startswith(f"crmhub: Port {shared.port} on 127.0.0.1 is taken")
    assert "--port" in refused
    assert refused.count("\n") == 1


@pytest.mark.parametrize(
    ("host", "words"),
    [("192.0.2.1", "no address of this machine"), ("no.such.host.invalid", "cannot be resolved")],
)
def test_a_host_that_is_not_here_is_told(crmhub, host, words):
    refused = crmhub("serve", "--host", host, code=1).stderr
    assert words in refused
    assert refused.count("\n") == 1
    # It is off while the service starts.
    assert gc.isenabled()


def test_a_name_and_a_port_of_the_environment_will_do(crmhub, tmp_path):
    port = free_port()
    process = subprocess.Popen(
        [*CRMHUB, "serve"],
        cwd=tmp_path,
        env=environment(host="localhost", port=str(port), workers="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout.readline() == f"crmhub is ready at http://127.0.0.1:{port}\n"
    process.terminate()
    assert process.wait(timeout=120) == 0
    process.stdout.close()


def test_a_start_that_takes_long_is_told_and_then_that_it_is_ready(tmp_path):
    with serving(tmp_path, *ALONE, program=Forked(answer_late)) as server:
        told = f"crmhub does not answer at http://127.0.0.1:{server.port} yet: see the log.\n"
        assert told in server.log.read_text()


def test_every_log_line_is_json_without_personal_data(acme, tmp_path):
    with serving(tmp_path, "--workers", "1") as server:
        get(server, acme)
        server.raw(post(acme, CONTACT, f"Content-Length: {len(CONTACT)}"))
        server.answer("POST", f"/chatbot/createLead/{acme['generatedId']}", b"{}")
        os.kill(server.children()[0], signal.SIGKILL)
        soon(lambda: "Unexpected exit" in server.log.read_text())
        server.stop()
        log = server.log.read_text()
    events = [json.loads(line) for line in log.splitlines()]
    assert {"timestamp", "level", "event"} <= set.intersection(*map(set, events))
    for private in ("Ada", acme["apiKey"], acme["generatedId"]):
        assert private not in log


def test_a_log_that_nobody_takes_changes_no_answer(acme, tmp_path):
    reader, writer = os.pipe()
    with serving(tmp_path, *ALONE, stderr=writer) as server:
        os.close(reader)
        for _ in range(3):
            answer = server.raw(post(acme, CONTACT, f"Content-Length: {len(CONTACT)}"))
            assert b"201 Created" in answer
        # More than a buffer holds of what could not be written.
        for _ in range(100):
            status, _, body = get(server, acme)
            assert (status, json.loads(body)["total"]) == (200, 3)
        assert server.stop() == 0


def test_a_revoked_key_is_refused_by_every_process_within_a_second(shared, there, bolt):
    assert all(get(shared, bolt)[0] == 200 for _ in range(20))
    (key,) = there.json("key", "list", bolt["clientId"])
    there("key", "revoke", bolt["clientId"], key["keyId"])
    time.sleep(1)
    assert {get(shared, bolt)[0] for _ in range(20)} == {401}


def test_headers_have_a_largest_size(shared):
    most = "x" * (MAX_HEAD_BYTES - 1000)
    assert shared.answer(headers=[("X-Long", most)])[0] == 200
    assert shared.answer(headers=[("X-Long", most * 3)])[0] == 431
