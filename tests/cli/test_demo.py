"""crmhub demo: its lines work as they are printed, pasted in order, again and again."""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
from contextlib import closing

import pytest

from crmhub.cli.demo import _create_samples
from crmhub.hub import Hub
from crmhub.operators.accounts.open_account import open_account
from crmhub.properties.kinds import DEALS, KINDS
from crmhub.settings import Settings
from tests.clients import TESTS
from tests.server.servers import serving


def lines_to_paste(crmhub, *args):
    """Return the printed shell commands: one export, then curl."""
    printed = crmhub("demo", *args).stdout.splitlines()
    return [line for line in printed if line.startswith(("export ", "curl "))]


def paste(lines):
    """Run the lines in a shell and return what each of them answered."""
    done = subprocess.run(
        ["sh", "-c", "\n".join(lines)], capture_output=True, text=True, check=True
    )
    return [json.loads(answer) for answer in done.stdout.splitlines()]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_every_line_works_as_printed_and_again(crmhub, tmp_path, own_url):
    options = ("--workers", "1", "--no-worker")
    with serving(tmp_path, *options, database_url=own_url) as server:
        crmhub.env["CRMHUB_PORT"] = str(server.port)
        lines = lines_to_paste(crmhub)
        assert [line.partition(" ")[0] for line in lines] == ["export", "curl", "curl", "curl"]
        for _ in range(2):
            listed, lead, got = paste(lines)
            assert len(listed["results"]) == 2
            assert lead["contactId"]
            assert got["properties"] == {"firstname": "Katherine", "phone": "+12025550187"}


def test_it_prints_console_docs_export_and_commands_in_this_order(crmhub):
    printed = crmhub("demo").stdout
    words = ["Console  http", "/console/setup/", "Docs     http", "export KEY=", "curl "]
    places = [printed.index(word) for word in words]
    assert places == sorted(places)
    assert printed.count("crmhub_") == 1


def test_the_link_is_printed_while_there_is_no_console_user(crmhub):
    (first,) = re.findall("/console/setup/([A-Za-z0-9]{43})$", crmhub("demo").stdout, re.MULTILINE)
    assert first not in crmhub("demo").stdout
    crmhub("admin", "user", "create", "a@example.com", "--password-file", "-", stdin="long " * 4)
    printed = crmhub("demo").stdout
    assert "setup" not in printed
    assert "Console  http://127.0.0.1:8080/console\n" in printed


def test_links_are_printed_with_the_public_address(crmhub):
    crmhub.env["CRMHUB_PUBLIC_URL"] = "https://hub.example.com"
    printed = crmhub("demo", "--port", "8081").stdout
    assert "Console  https://hub.example.com/console/setup/" in printed
    assert "Docs     https://hub.example.com/docs" in printed
    assert "8081" not in printed


def test_again_it_prints_the_same_commands_and_makes_nothing_twice(crmhub):
    first = lines_to_paste(crmhub)
    assert lines_to_paste(crmhub) == first
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
    first = lines_to_paste(crmhub)
    if what == "revoked":
        (key,) = crmhub.json("key", "list", "demo")
        crmhub("key", "revoke", "demo", key["keyId"])
    elif what == "lost":
        (crmhub.root / "var" / "demo.json").unlink()
    else:
        (crmhub.root / "var" / "demo.json").write_text("[]")
    second = lines_to_paste(crmhub)
    assert second != first
    assert lines_to_paste(crmhub) == second


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


def test_with_a_disabled_demo_the_service_still_starts(crmhub):
    crmhub("demo")
    crmhub("account", "disable", "demo")
    printed = crmhub("demo").stdout
    assert "`crmhub account enable demo`" in printed
    assert "/console" in printed
    assert "curl" not in printed


def test_a_demo_that_was_connected_to_a_crm_keeps_it(crmhub):
    crmhub("demo")
    settings = ("--secret", "access_token=-", "--set", "base_url=http://127.0.0.1:1")
    crmhub("account", "adapter", "demo", "hubspot", *settings, stdin="pat-1")
    assert len(lines_to_paste(crmhub)) == 4
    assert " hubspot " in crmhub("account", "list").stdout
