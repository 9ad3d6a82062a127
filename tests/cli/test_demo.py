"""crmhub demo: its lines work as they are printed, pasted in order, again and again."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
from contextlib import closing

import pytest

from crmhub.cli.demo import _create_samples
from crmhub.hub import Hub
from crmhub.operations.open_account import open_account
from crmhub.properties.kinds import DEALS, KINDS
from crmhub.settings import Settings
from tests.clients import TESTS
from tests.server.servers import serving


def curl_lines(crmhub, *args):
    return [line for line in crmhub("demo", *args).stdout.splitlines() if line.startswith("curl ")]


def paste(lines):
    """Run the lines in a shell and return what each of them answered."""
    done = subprocess.run(
        ["sh", "-c", "\n".join(lines)], capture_output=True, text=True, check=True
    )
    return [json.loads(answer) for answer in done.stdout.splitlines()]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_every_line_works_as_printed_and_again(crmhub, tmp_path, database_url):
    with serving(tmp_path, database_url=database_url) as server:
        crmhub.env["CRMHUB_PORT"] = str(server.port)
        lines = curl_lines(crmhub)
        assert curl_lines(crmhub) == lines
        assert len(lines) == 10
        for _ in range(2):
            listed, created, found, lead, put, got, kind, number, deal, ticket = paste(lines)
            assert len(listed["results"]) == 2
            assert created["properties"]["firstname"] == "Mary"
            assert [one["properties"]["firstname"] for one in found["results"]] == ["Ada"]
            assert lead["contactId"]
            assert put["contactId"] == lead["contactId"]
            assert got["properties"] == {"firstname": "Katherine", "city": "Hampton"}
            assert kind["workflowId"] == "welcome"
            assert number["value"] in (1, 2, 3)
            assert deal["dealId"]
            assert ticket["ticketId"]
            assert deal["contactId"] == ticket["contactId"] == str(found["results"][0]["id"])


def test_again_it_prints_the_same_and_makes_nothing_twice(crmhub):
    first = crmhub("demo").stdout
    assert crmhub("demo").stdout == first
    assert len(crmhub.json("key", "list", "demo")) == 1
    assert len(crmhub.json("account", "list")) == 1


def test_what_was_cut_short_is_whole_the_second_time(crmhub, monkeypatch):
    with closing(Hub.open(Settings.load(crmhub.env, crmhub.root))) as hub:
        account, _ = open_account(hub, name="Demo", client_id="demo", by=TESTS)
        create = hub.records.create

        def fail_at_deals(account, kind, new):
            assert kind != DEALS, "killed"
            return create(account, kind, new)

        monkeypatch.setattr(hub.records, "create", fail_at_deals)
        with pytest.raises(AssertionError, match="killed"):
            _create_samples(hub, account)
        crmhub("demo")
        counts = hub.records.counts(account)
    assert [counts[kind.code] for kind in KINDS.values()] == [4, 2, 1, 1]


def test_the_key_is_kept_for_its_owner_alone(crmhub):
    told = crmhub("demo").stdout
    kept = crmhub.root / "var" / "demo.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert json.loads(kept.read_text())["apiKey"] in told


@pytest.mark.parametrize("what", ["revoked", "lost", "spoilt"])
def test_a_key_that_works_no_longer_is_replaced(crmhub, what):
    first = curl_lines(crmhub)
    if what == "revoked":
        (key,) = crmhub.json("key", "list", "demo")
        crmhub("key", "revoke", "demo", key["keyId"])
    elif what == "lost":
        (crmhub.root / "var" / "demo.json").unlink()
    else:
        (crmhub.root / "var" / "demo.json").write_text("[]")
    second = curl_lines(crmhub)
    assert second != first
    assert curl_lines(crmhub) == second


def test_the_address_is_the_one_to_call(crmhub):
    assert "http://127.0.0.1:8080/demo" in crmhub("demo").stdout
    assert "http://127.0.0.1:8081/demo" in crmhub("demo", "--port", "8081").stdout
    assert "http://127.0.0.1:8080/demo" in crmhub("demo", "--host", "0.0.0.0").stdout
    assert "http://[::1]:8080/demo" in crmhub("demo", "--host", "::").stdout
    crmhub.env["CRMHUB_PORT"] = "9000"
    assert "http://127.0.0.1:9000/demo" in crmhub("demo").stdout


def test_there_is_no_demo_in_production(crmhub):
    crmhub.env.update(
        CRMHUB_ENV="production",
        CRMHUB_SECRET_KEY="s" * 32,
        CRMHUB_ENCRYPTION_KEYS="k1:" + "A" * 43 + "=",
    )
    assert "no demo in production" in crmhub("demo", code=1).stderr
    assert crmhub.json("account", "list") == []


def test_a_disabled_demo_says_how_to_go_on(crmhub):
    crmhub("demo")
    crmhub("account", "disable", "demo")
    assert "`crmhub account enable demo`" in crmhub("demo", code=1).stderr
