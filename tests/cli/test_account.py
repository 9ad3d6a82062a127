"""crmhub account: what it prints, what it refuses, what it never shows."""

from __future__ import annotations

import re

import pytest

from crmhub.accounts.changes import RESERVED
from crmhub.accounts.directory import Directory
from crmhub.accounts.plans import BUILT_IN
from crmhub.database.connection import Database

# The operations behind the commands are tested on each database.
pytestmark = pytest.mark.databases("sqlite")


@pytest.fixture
def directory(own_url):
    """Who is calling, as a server process sees it."""
    database = Database(own_url)
    directory = Directory(database, BUILT_IN, ttl=0)
    yield directory
    directory.close()
    database.close()


def test_create_prints_exactly_what_was_promised(crmhub, directory):
    made = crmhub.json("account", "create", "Acme GmbH")
    assert list(made) == ["clientId", "apiKey", "generatedId", "portalId", "webhookSecret"]
    assert made["clientId"] == "acme-gmbh"
    account = directory.by_api_key(made["apiKey"]).account
    assert directory.by_webhook_id(made["generatedId"]) == (account, "generated")
    assert directory.by_webhook_id(made["portalId"]) == (account, "portal")
    assert directory.by_secret(made["webhookSecret"]) == account


def test_create_tells_people_to_keep_what_is_shown_once(crmhub):
    told = crmhub("account", "create", "Acme", "--client-id", "a1", "--plan", "free").stdout
    assert re.search(r"Client id +a1\n", told)
    assert re.search(r"API key +crmhub_\w{36}\n", told)
    assert "not shown again" in told
    assert crmhub.json("account", "show", "a1")["plan"] == "free"


def test_create_refuses_in_one_line(crmhub):
    for args, words in (
        (["--client-id", "Acme"], "'Acme' is not a client id"),
        (["--plan", "gold"], "no plan 'gold'; known are default, free, unlimited"),
        (["--adapter", "nocrm"], "No adapter named 'nocrm' is installed; installed are: "),
        *((["--client-id", name], "path of the service itself") for name in sorted(RESERVED)),
    ):
        refused = crmhub("account", "create", "Acme", *args, code=1)
        assert words in refused.stderr
        assert refused.stderr.startswith("crmhub: ")
        assert (refused.stderr.count("\n"), refused.stdout) == (1, "")
    assert crmhub.json("account", "list") == []


def test_list_shows_every_account(crmhub):
    assert "no accounts yet" in crmhub("account", "list").stdout
    crmhub("account", "create", "One")
    crmhub("account", "create", "Two", "--plan", "unlimited")
    crmhub("account", "disable", "one")
    lines = crmhub("account", "list").stdout.splitlines()
    assert lines[1].split() == ["one", "One", "default", "local", "disabled"]
    assert lines[2].split() == ["two", "Two", "unlimited", "local", "live"]
    assert [one["clientId"] for one in crmhub.json("account", "list")] == ["one", "two"]


def test_show_tells_everything_but_secrets(crmhub):
    made = crmhub.json("account", "create", "Acme")
    crmhub("account", "set", "acme", "portal_alias=12345", "region=de")
    shown = crmhub.json("account", "show", "acme")
    assert shown["generatedId"] == made["generatedId"]
    assert shown["portalId"] == made["portalId"]
    assert shown["connection"] == {"id": 1, "settings": {}, "secrets": []}
    assert shown["switches"] == {
        "strict": False,
        "soft_errors": False,
        "require_secret": False,
        "bare_tokens": True,
        "lead_requires": "email",
        "deadline_s": 3.0,
        "region": "DE",
        "language": "",
        "blank_clears": True,
        "auto_define_properties": False,
        "rotation": "random",
        "phone_identifies": False,
        "mirror": False,
        "mirror_properties": "",
        "mirror_every_s": 60,
        "answer_format": "flat",
        "allowed_origins": "",
        "portal_alias": "12345",
    }
    printed = crmhub("account", "show", "acme").stdout
    assert re.search(r"Portal alias +12345\n", printed)
    for text in (printed, str(shown)):
        assert made["apiKey"] not in text
        assert made["webhookSecret"] not in text


def test_an_unknown_account_is_named(crmhub):
    for command in (
        "account show nobody",
        "account set nobody strict=true",
        "account disable nobody",
        "account check nobody",
        "account rotate nobody secret",
        "account adapter nobody local",
        "key list nobody",
        "workflow enrol nobody w 1",
    ):
        refused = crmhub(*command.split(), code=1).stderr
        assert "no account with the client id 'nobody'" in refused, command


def test_set_takes_all_switches_at_once(crmhub):
    crmhub("account", "create", "Acme")
    told = crmhub("account", "set", "acme", "strict=true", "deadline_s=5", "plan=free").stdout
    assert told == "Set strict, deadline_s, plan of acme.\n"
    shown = crmhub.json("account", "show", "acme")
    assert shown["plan"] == "free"
    assert shown["switches"]["strict"] is True
    assert shown["switches"]["deadline_s"] == 5.0


def test_set_wants_names_with_values(crmhub):
    crmhub("account", "create", "Acme")
    for args in (["strict"], ["=true"], [], ["strict=true", "strict=false"]):
        assert crmhub("account", "set", "acme", *args, code=2).stderr.startswith("crmhub: ")


def test_rotate_now_ends_the_old_one_at_once(crmhub, directory):
    made = crmhub.json("account", "create", "Acme")
    rotated = crmhub.json("account", "rotate", "acme", "secret", "--now")
    assert directory.by_secret(made["webhookSecret"]) is None
    assert directory.by_secret(rotated["secret"])
    told = crmhub("account", "rotate", "acme", "portal", "--now").stdout
    assert "Every older portal id is invalid now." in told
    assert directory.by_webhook_id(made["portalId"]) is None


def test_rotate_keeps_the_old_one_as_long_as_told(crmhub):
    crmhub("account", "create", "Acme")
    told = crmhub("account", "rotate", "acme", "secret", "--keep-old", "2h").stdout
    assert "The old one is valid until 20" in told
    assert "not shown again" in told


def test_rotate_refuses_what_makes_no_sense(crmhub):
    crmhub("account", "create", "Acme")
    for args in ("alias", "secret --keep-old soon", "secret --now --keep-old 7d"):
        refused = crmhub("account", "rotate", "acme", *args.split(), code=2)
        assert refused.stderr.startswith("crmhub: ")


def test_check_tries_the_crm(crmhub):
    crmhub("account", "create", "Acme")
    assert crmhub("account", "check", "acme").stdout == "local: connection test passed.\n"


def test_an_account_that_cannot_be_read_is_named_beside_the_list(crmhub, own_url):
    for name in ("Spoilt", "Sound"):
        crmhub("account", "create", name)
    database = Database(own_url, pool_size=1)
    database.transact(
        lambda tx: tx.run("update account set switches = '[]' where client_id = 'spoilt'")
    )
    database.close()
    told = crmhub("account", "list")
    assert "sound" in told.stdout
    assert "spoilt" not in told.stdout
    assert told.stderr.startswith("Not listed, because their stored data cannot be read: spoilt.")
    for command in (("show", "spoilt"), ("export",)):
        refused = crmhub("account", *command, code=1).stderr
        assert "account spoilt cannot be read; `crmhub doctor` says where" in refused


@pytest.fixture
def terminal(monkeypatch):
    """Let commands find a terminal at standard input."""
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)


def test_on_a_terminal_disable_asks_first(crmhub, terminal):
    crmhub("account", "create", "Acme")
    asked = crmhub("account", "disable", "acme", stdin="n\n", code=1)
    assert "Disable acme (Acme)? All its calls will be refused." in asked.stdout
    assert asked.stderr == "crmhub: Stopped.\n"
    assert "disabled" not in crmhub("account", "show", "acme").stdout
    crmhub("account", "disable", "acme", stdin="y\n")
    assert "disabled" in crmhub("account", "show", "acme").stdout


def test_with_yes_and_without_a_terminal_disable_does_not_ask(crmhub, monkeypatch):
    crmhub("account", "create", "Acme")
    assert "?" not in crmhub("account", "disable", "acme").stdout
    crmhub("account", "enable", "acme")
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
    assert "?" not in crmhub("account", "disable", "acme", "--yes").stdout
