"""crmhub audit: every command that changes something leaves an entry, and no secret in it."""

from __future__ import annotations

import os
import pwd

import pytest

from crmhub.hub import Hub
from crmhub.settings import Settings
from tests.operators.traces import left

# The operations behind the commands are tested on each database.
pytestmark = pytest.mark.databases("sqlite")

USER = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def made(crmhub):
    """What opening the account acme printed."""
    return crmhub.json("account", "create", "Acme")


@pytest.fixture
def acme(crmhub, made):
    return crmhub


# Command by command: what it is given, and what the audit log then says of it.
CHANGES = {
    "account create": (["Other"], "open account other"),
    "account set": (["acme", "strict=true"], "change account acme"),
    "account adapter": (
        ["acme", "hubspot", "--secret", "access_token=@token"],
        "change connection 2",
    ),
    "account rotate": (["acme", "secret"], "rotate webhookId secret"),
    "account disable": (["acme"], "change account acme"),
    "account enable": (["acme"], "change account acme"),
    "key create": (["acme"], "create key key_"),
    "key revoke": (["acme", "{key}"], "revoke key key_"),
    "admin token create": (["ops"], "create token adm_"),
    "admin token revoke": (["{token}"], "revoke token adm_"),
}


def test_each_change_has_an_entry(acme, tmp_path):
    (tmp_path / "token").write_text("pat-planted\n")
    values = {
        "key": acme.json("key", "list", "acme")[0]["keyId"],
        "token": acme.json("admin", "token", "create", "night shift")["tokenId"],
    }
    for command, (given, entered) in CHANGES.items():
        acme(*command.split(), *(each.format(**values) for each in given))
        entry = acme.json("audit", "list", "--limit", "1")[0]
        assert f"{entry['verb']} {entry['object']} {entry['objectId']}".startswith(entered)
        assert entry["by"] == {"kind": "cli", "name": USER, "id": ""}, command


def test_what_is_done_to_people_has_entries_without_them(acme):
    hub = Hub.open(Settings.load(acme.env, acme.root))
    try:
        from crmhub.accounts import accounts
        from crmhub.properties.kinds import CONTACTS
        from crmhub.records.models import NewRecord

        with hub.database.reading() as db:
            account = accounts.load(db, "acme", hub.plans)
        email = "erased.person@planted.example"
        (made,) = hub.records.create(account, CONTACTS, [NewRecord({"email": email})])
        acme("workflow", "enrol", "acme", "welcome", str(made.id))
        acme("workflow", "unenrol", "acme", "welcome", str(made.id))
        acme("erase", "acme", email, "--yes")
        erased, *workflow = acme.json("audit", "list", "--account", "acme")[:3]
        assert (erased["verb"], erased["after"]) == ("erase", {"contacts": 1})
        assert [f"{each['verb']} {each['objectId']}" for each in workflow] == [
            "unenrol welcome",
            "enrol welcome",
        ]
        assert [each for each in left(hub, [email, str(made.id)]) if "audit" in each] == []
    finally:
        hub.close()


def test_no_secret_of_a_command_is_in_the_database(acme, made, tmp_path):
    (tmp_path / "token").write_text("pat-planted-in-a-file\n")
    acme("account", "adapter", "acme", "hubspot", "--secret", "access_token=@token")
    key = acme.json("key", "create", "acme")["apiKey"]
    token = acme.json("admin", "token", "create", "ops")["token"]
    secret = acme.json("account", "rotate", "acme", "secret")["secret"]
    planted = ["pat-planted-in-a-file", key, token, secret, made["apiKey"]]
    hub = Hub.open(Settings.load(acme.env, acme.root))
    assert left(hub, [*planted, made["webhookSecret"]]) == []
    hub.close()
    printed = acme("audit", "list").stdout
    assert not [text for text in planted if text in printed]


def test_a_list_is_narrowed_and_readable(acme):
    acme("account", "set", "acme", "region=DE")
    acme("key", "create", "acme", "--scope", "deals:read")
    shown = acme("audit", "list", "--account", "acme", "--object", "account").stdout
    assert 'region: "" -> DE' in shown
    assert "create key" not in shown
    (entry,) = acme.json("audit", "list", "--verb", "create")
    assert entry["after"]["scopes"] == ["deals:read"]
    newest = acme.json("audit", "list", "--limit", "1")[0]["id"]
    rest = acme.json("audit", "list", "--before", str(newest), "--newer-than", "1h", "--by", USER)
    assert [each["verb"] for each in rest] == ["change", "open"]
    assert acme.json("audit", "list", "--by", "nobody") == []
    assert "'nobody'" in acme("audit", "list", "--account", "nobody", code=1).stderr
