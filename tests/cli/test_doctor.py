"""crmhub doctor: a line for each thing, and 1 when something fails."""

from __future__ import annotations

import socket

import pytest

from crmhub.cli.doctor import _compared


def states(crmhub, code=0):
    report = crmhub.json("doctor", code=code)
    assert report["ok"] is (code == 0)
    return {one["name"]: one for one in report["checks"]}


def test_a_sound_installation_is_ok(crmhub):
    crmhub("account", "create", "Acme")
    found = states(crmhub)
    assert list(found) == [
        "settings",
        "files",
        "database",
        "migrations",
        "connections",
        "clock",
        "redis",
        "adapter local",
        "accounts",
    ]
    assert {one["state"] for one in found.values()} == {"ok"}
    lines = crmhub("doctor").stdout.splitlines()
    assert len(lines) == 9
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


def test_a_database_that_is_away_fails_and_the_rest_is_still_told(crmhub):
    crmhub.env["CRMHUB_DATABASE_URL"] = "postgresql://u:hunter2@127.0.0.1:1/none"
    found = states(crmhub, code=1)
    assert found["database"]["state"] == "fail"
    assert "efused" in found["database"]["message"]
    assert "hunter2" not in str(found)
    assert found["adapter local"]["state"] == "ok"
    assert "migrations" not in found


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


def test_more_connections_than_the_database_takes_are_a_warning(crmhub, database_url):
    crmhub.env.update(CRMHUB_WORKERS="64", CRMHUB_THREADS="64")
    found = states(crmhub)["connections"]
    if database_url.startswith("sqlite"):
        assert found["state"] == "ok"
    else:
        assert found["state"] == "warn"
        assert "64 server processes may open 4352" in found["message"]


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
    finding = _compared("clock", "the database", ahead)
    assert finding.state == state
    assert words in finding.message
