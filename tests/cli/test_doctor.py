"""crmhub doctor: a line for each thing, and 1 when something fails."""

from __future__ import annotations

import io
import socket
import socketserver
import threading
from contextlib import closing

import pytest

from crmhub.cli.database_checks import compare_clocks
from crmhub.cli.doctor import _check_directories, _list_ids
from crmhub.database.connection import Database
from crmhub.hub import Hub
from crmhub.settings import Settings
from tests.databases import overwrite, read_only
from tests.queue.outcomes import open_circuit


def states(crmhub, code=0):
    report = crmhub.json("doctor", code=code)
    assert report["ok"] is (code == 0)
    return {one["name"]: one for one in report["checks"]}


def test_a_sound_installation_is_ok(crmhub):
    crmhub("account", "create", "Acme")
    found = states(crmhub)
    assert list(found) == [
        "settings", "files", "database", "migrations", "connections", "clock", "redis",
        "adapter hubspot", "adapter local", "adapter odoo", "adapter pipedrive", "adapter tryton",
        "adapter zoho", "encryption keys", "accounts", "journal", "alerts", "records",
    ]  # fmt: skip
    assert {one["state"] for one in found.values()} == {"ok"}
    lines = crmhub("doctor").stdout.splitlines()
    assert len(lines) == len(found)
    assert all(line.startswith("ok    ") for line in lines)


def test_redis_is_asked_when_there_is_one(crmhub, redis_url):
    crmhub.env["CRMHUB_REDIS_URL"] = redis_url
    assert states(crmhub)["redis"]["message"].startswith("Redis agrees to")


def test_a_redis_that_does_not_answer_fails(crmhub):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        crmhub.env["CRMHUB_REDIS_URL"] = f"redis://:hunter2@127.0.0.1:{silent.getsockname()[1]}/0"
        found = states(crmhub, code=1)
    assert found["redis"]["state"] == "fail"
    assert "hunter2" not in str(found)
    assert found["accounts"]["state"] == "ok"


class _FullRedis(socketserver.StreamRequestHandler):
    def handle(self):
        while count := self.rfile.readline()[1:].strip():
            word = [self.rfile.readline() for _ in range(2 * int(count))][1].strip()
            self.wfile.write(
                {b"TIME": b"*2\r\n:1\r\n:1\r\n", b"SET": b"-OOM full\r\n"}.get(word, b"+OK\r\n")
            )


def test_a_redis_that_takes_no_writes_fails(crmhub):
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _FullRedis) as full:
        threading.Thread(target=full.serve_forever, daemon=True).start()
        crmhub.env["CRMHUB_REDIS_URL"] = f"redis://127.0.0.1:{full.server_address[1]}/0?protocol=2"
        told = states(crmhub, code=1)["redis"]["message"]
        full.shutdown()
    assert "takes no writes (OutOfMemoryError)" in told


def test_a_database_that_is_away_fails_and_the_rest_is_still_told(crmhub):
    crmhub.env["CRMHUB_DATABASE_URL"] = "postgresql://u:hunter2@127.0.0.1:1/none"
    found = states(crmhub, code=1)
    assert found["database"]["state"] == "fail"
    assert "efused" in found["database"]["message"]
    assert "hunter2" not in str(found)
    assert found["adapter local"]["state"] == "ok"
    assert "migrations" not in found


def test_a_database_that_takes_no_writes_fails(crmhub, own_url):
    if own_url.startswith("sqlite"):
        pytest.skip("SQLite has no standby")
    with closing(Database(own_url)) as database, read_only(database):
        found = states(crmhub, code=1)
    assert found["database"]["state"] == "fail"
    assert "lead to the one that takes writes" in found["database"]["message"]


def test_a_database_that_ends_what_takes_long_fails_and_says_so(crmhub, own_url):
    if own_url.startswith("sqlite"):
        pytest.skip("SQLite ends nothing")
    crmhub.env["CRMHUB_DATABASE_URL"] += "?options=-cstatement_timeout%3D500"

    def held_up(tx):
        tx.run("lock table alembic_version")
        return [one["message"] for one in crmhub.json("doctor", code=1)["checks"]]

    with closing(Database(own_url)) as database:
        assert "statement timeout" in database.transact(held_up)[-1]


def test_a_file_that_is_no_database_fails(crmhub, tmp_path):
    (tmp_path / "notes.db").write_text("Not what is meant, but something to keep." * 9)
    crmhub.env["CRMHUB_DATABASE_URL"] = f"sqlite:///{tmp_path}/notes.db"
    message = states(crmhub, code=1)["database"]["message"]
    assert message.startswith("file is not a database; if CRMHUB_DATABASE_URL is right, restore")


def test_a_damaged_file_fails_and_all_of_it_is_read_where_asked_for(crmhub, tmp_path):
    file = tmp_path / "damaged.db"
    crmhub.env["CRMHUB_DATABASE_URL"] = f"sqlite:///{file}"
    crmhub("db", "upgrade")
    assert crmhub.json("doctor", "--all")["checks"][2]["message"].endswith("its file is whole")
    overwrite(file, "idempotency")
    assert states(crmhub)["database"]["state"] == "ok"
    told = crmhub.json("doctor", "--all", code=1)["checks"][2]
    assert told["state"] == "fail"
    assert told["message"].endswith("; restore a backup (crmhub db restore).")


def test_missing_migrations_fail_and_are_not_made(crmhub, tmp_path):
    crmhub.env["CRMHUB_DATABASE_URL"] = f"sqlite:///{tmp_path}/new.db"
    for _ in range(2):
        found = states(crmhub, code=1)
        assert "run `crmhub db upgrade`" in found["migrations"]["message"]


def test_a_directory_that_cannot_be_written_fails(crmhub):
    # Of all directories, the one where not even root may make files.
    crmhub.env["CRMHUB_DATABASE_URL"] = "sqlite:////proc/crmhub.db"
    found = states(crmhub, code=1)
    assert found["files"]["message"].startswith("/proc cannot be written: ")
    assert found["database"]["state"] == "fail"


def test_a_disk_that_is_full_fails(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.TemporaryFile", lambda dir: io.FileIO("/dev/full", "w"))
    full = _check_directories(Settings.load({}, tmp_path))
    assert (full.state, full.message.rpartition(": ")[2]) == ("fail", "No space left on device.")


def test_more_connections_than_the_database_takes_are_a_warning(crmhub, own_url):
    crmhub.env.update(CRMHUB_WORKERS="64", CRMHUB_THREADS="64")
    found = states(crmhub)["connections"]
    if own_url.startswith("sqlite"):
        assert found["state"] == "ok"
    else:
        assert found["state"] == "warn"
        assert "64 server processes and a worker may open 1301" in found["message"]
        assert found["message"].endswith("or raise max_connections.")


def test_a_limit_of_the_database_alone_counts_too(crmhub, own_url):
    if own_url.startswith("sqlite"):
        pytest.skip("SQLite has no limit")
    with closing(Database(own_url)) as database, database.reading() as conn:
        conn.run(f'alter database "{database.url.database}" connection limit 30')
        message = states(crmhub)["connections"]["message"]
        conn.run(f'alter database "{database.url.database}" connection limit -1')
    assert "takes 30; lower workers or threads, or raise the limit of the database." in message


def test_a_plan_that_is_gone_is_a_warning(crmhub, tmp_path):
    plans = tmp_path / "plans.toml"
    plans.write_text("[gold]\n")
    crmhub.env["CRMHUB_PLANS"] = str(plans)
    crmhub("account", "create", "Acme", "--plan", "gold")
    plans.write_text("")
    found = states(crmhub)
    assert found["plans"]["state"] == "warn"
    assert "gold" in found["plans"]["message"]


def test_development_open_to_others_is_a_warning(crmhub):
    crmhub.env["CRMHUB_HOST"] = "0.0.0.0"
    assert "CRMHUB_ENV=production" in states(crmhub)["settings"]["message"]


@pytest.mark.parametrize(
    ("ahead", "state", "words"),
    [
        (0.2, "ok", "agrees to 200 ms"),
        (2.5, "warn", "2.5 s ahead of this machine"),
        (-45, "fail", "45.0 s behind this machine"),
    ],
)
def test_clocks_are_compared(ahead, state, words):
    finding = compare_clocks("clock", "the database", ahead)
    assert finding.state == state
    assert words in finding.message


def test_wrong_counters_and_rows_are_told_and_mended(crmhub, own_url):
    crmhub("account", "create", "Acme")
    crmhub("account", "create", "Other")
    database = Database(own_url, pool_size=1)
    with database.reading() as conn:
        acme = conn.scalar("select id from account where client_id = 'acme'")
        conn.run(f"update record_count set n = 7 where kind = 2 and account_id = {acme}")
        ada = '{"firstname": "Ada"}'
        conn.run(f"insert into records values ({acme}, 1, 5, 0, 0, 1, :ada)", {"ada": ada})
    database.close()
    told = [
        one for one in crmhub.json("doctor", "--all", code=1)["checks"] if one["state"] == "fail"
    ]
    assert {one["name"] for one in told} == {"records acme"}
    assert [one["message"] for one in told] == [
        "contacts: the counter said 0, there are 1; run `crmhub doctor --repair`.",
        "deals: the counter said 7, there are 0; run `crmhub doctor --repair`.",
        "contacts: wrong in the index: 5; run `crmhub doctor --repair --all`.",
    ]
    mended = crmhub.json("doctor", "--repair", "--all")["checks"]
    assert sum("now repaired" in one["message"] for one in mended) == 3
    found = states(crmhub)
    assert {one["state"] for one in found.values()} == {"ok"}
    assert found["records"]["message"] == "those of all accounts counted"
    told = crmhub("doctor", "--all").stdout
    assert "those of all accounts counted, 1 of them compared" in told


def test_two_records_with_one_unique_value_stay_for_a_person_to_settle(crmhub, own_url):
    crmhub("account", "create", "Acme")
    database = Database(own_url, pool_size=1)
    with database.reading() as conn:
        acme = conn.scalar("select id from account where client_id = 'acme'")
        ada = '{"email": "ada@example.com"}'
        for id in (5, 6):
            conn.run(f"insert into records values ({acme}, 1, {id}, 0, 0, 1, :ada)", {"ada": ada})
    database.close()
    crmhub("doctor", "--repair", "--all", code=1)
    told = crmhub("doctor", "--repair", "--all", code=1).stdout
    assert "contacts: 6 has the same email as 5, but it must be unique; change one" in told
    assert "ada@" not in told


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("update account set switches = '[]'", "switches"),
        ("update connection set field_map = '{'", "connection.field_map"),
        ("delete from connection", "connection.settings and connection.field_map"),
    ],
)
def test_an_account_that_cannot_be_read_is_named_and_the_rest_is_still_told(
    crmhub, own_url, change, named
):
    for name in ("Spoilt", "Sound"):
        crmhub("account", "create", name)
    database = Database(own_url, pool_size=1)
    with database.reading() as conn:
        spoilt = conn.scalar("select id from account where client_id = 'spoilt'")
        key = "account_id" if "connection" in change else "id"
        conn.run(f"{change} where {key} = {spoilt}")
    database.close()
    told = crmhub("doctor", code=1).stdout
    assert f"fail  account spoilt: what is stored as its {named} cannot be read" in told
    assert "account sound" not in told
    assert "accounts: 2" not in told
    assert "ok    records: those of all accounts" in told


def test_only_some_of_many_ids_are_named():
    assert _list_ids({3, 1, 2}) == "1, 2, 3"
    assert _list_ids(range(8)) == "0, 1, 2, 3, 4 and 3 more"


def test_what_is_the_matter_is_said_with_what_to_do(crmhub):
    hub = Hub.open(Settings.load(crmhub.env, crmhub.root))
    crmhub("account", "create", "Acme")
    account = hub.directory.by_client_id("acme")
    open_circuit(hub, account, "no", "Denied")
    hub.close()
    told = crmhub("doctor").stdout
    assert "warn  account acme: its CRM (local) cannot be used since" in told
    assert ": no. `crmhub account check acme` tests it." in told
    assert "the service's last attempt failed: no" in crmhub("account", "check", "acme").stdout
    [listed] = crmhub.json("alert", "list")
    assert (listed["type"], listed["clientId"]) == ("credentials.refused", "acme")
    assert "acme: its CRM (local) cannot be used" in crmhub("alert", "list").stdout


def test_an_address_for_alerts_that_may_not_be_called_is_named(crmhub):
    assert (
        "No channel for alerts is set. Set CRMHUB_ALERT_CHAT_URL"
        in crmhub("alert", "test", code=1).stderr
    )
    crmhub.env["CRMHUB_ALERT_URL"] = "https://10.0.0.1/alerts"
    crmhub.env["CRMHUB_ALERT_SECRET"] = "whsec_" + "a" * 40
    found = states(crmhub, code=1)["alerts"]
    assert found["state"] == "fail"
    assert "10.0.0.1 is not a public address" in found["message"]
    assert "10.0.0.1 is not a public address" in crmhub("alert", "test", code=1).stderr
    crmhub.env["CRMHUB_ALERT_CHAT_URL"] = "https://10.0.0.2/hook"
    failed = crmhub("alert", "test", code=1).stderr
    assert "Chat: The call is not allowed: 10.0.0.2 is not a public address" in failed
    assert "2 of 2 messages were not accepted" in failed
    [entry, _] = crmhub.json("audit", "list", "--object", "alerts")
    assert (entry["verb"], entry["after"]) == ("test", {"channels": ["webhook", "chat"]})
    assert "10.0.0.2" in states(crmhub, code=1)["alerts"]["message"]
    del crmhub.env["CRMHUB_ALERT_SECRET"]
    assert "needs CRMHUB_ALERT_SECRET beside it" in crmhub("alert", "list", code=2).stderr
