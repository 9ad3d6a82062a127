"""crmhub audit: every command that changes something leaves an entry, and no secret in it."""

from __future__ import annotations

import os
import pwd

import pytest

from crmhub import audit
from crmhub.cli.audit import _OBJECTS, _VERBS
from crmhub.hub import Hub
from crmhub.settings import Settings
from tests.operators.traces import left

# The operations behind the commands are tested on each database.
pytestmark = pytest.mark.databases("sqlite")

USER = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def acme(crmhub):
    crmhub("account", "create", "Acme")
    return crmhub


def test_a_change_is_by_the_user_of_the_machine(acme):
    (entry,) = acme.json("audit", "list")
    assert (entry["verb"], entry["object"], entry["objectId"]) == ("open", "account", "acme")
    assert entry["by"] == {"kind": "cli", "name": USER, "id": ""}


def test_what_is_done_to_people_has_entries_without_them(acme):
    hub = Hub.open(Settings.load(acme.env, acme.root))
    try:
        from crmhub.accounts import accounts
        from crmhub.properties.kinds import CONTACTS
        from crmhub.records.writing import NewRecord

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


def test_the_commands_words_are_those_of_the_log():
    assert (_OBJECTS, _VERBS) == (audit.OBJECTS, audit.VERBS)
