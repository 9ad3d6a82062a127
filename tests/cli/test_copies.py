"""crmhub sync and doctor: what a copy of a CRM would take, how late it is, and its end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crmhub.database.connection import Database, now_ms
from tests.adapters.hubspot.hubspot_crm import TOKEN, HubSpotCrm
from tests.cli.conftest import CommandLine

# The statements behind the commands are tested on each database.
pytestmark = pytest.mark.databases("sqlite")


@pytest.fixture
def hubspot() -> Iterator[HubSpotCrm]:
    with HubSpotCrm() as crm:
        crm.fake.define("contacts", "illness", sensitivity="sensitive")
        crm.fake.define("contacts", "shoe_size")
        yield crm


@pytest.fixture
def on_hubspot(acme: CommandLine, hubspot: HubSpotCrm) -> CommandLine:
    acme.env["CRMHUB_EGRESS_ALLOW"] = "127.0.0.0/8"
    (acme.root / "token").write_text(TOKEN["access_token"])
    given = ("--set", f"base_url={hubspot.url}", "--secret", "access_token=@token")
    acme("account", "adapter", "acme", "hubspot", *given)
    return acme


def _let_be_late(crmhub: CommandLine, ms: int) -> None:
    """Let the copy look complete, and this far behind."""
    database = Database(crmhub.env["CRMHUB_DATABASE_URL"])
    now = now_ms()
    values = {"now": now, "then": now - ms, "why": "HubSpot refuses the search."}
    database.transact(
        lambda tx: tx.run(
            "update crm_copy set state = 'following', complete_at = :then, synced_at = :then,"
            " run_at = :now, progress_at = :then, failures = 1, failure = :why where kind = 1",
            values,
        )
    )
    database.close()


def test_a_plan_names_the_properties_and_changes_nothing(on_hubspot, hubspot):
    before = on_hubspot("account", "show", "acme").stdout
    told = on_hubspot("sync", "plan", "acme").stdout
    [contacts] = [line for line in told.splitlines() if line.startswith("contacts ")]
    assert " shoe_size" in contacts
    assert "illness" not in told
    assert "Records: not known before the load" in told
    assert "about 1 min for 10,000 records" in told
    assert "Disk: about 0.8 kB" in told
    assert on_hubspot("account", "show", "acme").stdout == before
    assert on_hubspot.json("sync", "status", "acme")["copies"] == []


def test_a_plan_shows_the_present_choice_of_properties(on_hubspot):
    on_hubspot("account", "set", "acme", "mirror_properties=city")
    kinds = {one["kind"]: one for one in on_hubspot.json("sync", "plan", "acme")["kinds"]}
    chosen = {one["name"] for one in kinds["contacts"]["properties"] if one["is_chosen"]}
    assert chosen == {"city", "email", "phone", "firstname", "lastname"}
    told = on_hubspot("sync", "plan", "acme").stdout
    assert "(shoe_size)" in told


def test_a_crm_without_a_copy_has_no_plan(acme):
    said = acme("sync", "plan", "acme", code=1).stderr
    assert "cannot keep a copy" in said


def test_records_of_its_own_stand_in_the_way_of_a_plan(on_hubspot):
    (on_hubspot.root / "one.csv").write_text("email\nann@example.org\n")
    on_hubspot("import", "acme", "contacts", "one.csv")
    assert "(1 contacts)" in on_hubspot("sync", "plan", "acme").stdout


def test_doctor_and_status_tell_how_late_a_copy_is_and_why(on_hubspot):
    on_hubspot("account", "set", "acme", "mirror=true")
    assert "ok    copies: 1 of a CRM, none behind" in on_hubspot("doctor").stdout
    _let_be_late(on_hubspot, 20 * 60_000)
    words = "The copy of the contacts is 20 minutes behind: HubSpot refuses the search."
    assert f"warn  account acme: {words}" in on_hubspot("doctor").stdout
    assert words in on_hubspot("sync", "status", "acme").stdout
    assert "acme: the copy of 1 kind of records" in on_hubspot("alert", "list").stdout


def test_a_copy_is_switched_off_after_a_question(on_hubspot):
    off = ("account", "set", "acme", "mirror=false")
    assert "?" not in on_hubspot(*off).stdout, "there is no copy"
    on_hubspot("account", "set", "acme", "mirror=true")
    asked = on_hubspot(*off, stdin="n\n", code=1).stdout
    assert "Delete the hub's copy of HubSpot, 0 records? Nothing is deleted in HubSpot." in asked
    assert on_hubspot.json("account", "show", "acme")["switches"]["mirror"]
    # A script that cannot answer says --yes.
    on_hubspot(*off, stdin="", code=1)
    assert {one["state"] for one in on_hubspot.json("sync", "status", "acme")["copies"]} == {
        "loading"
    }
    on_hubspot(*off, "--yes")
    assert {one["state"] for one in on_hubspot.json("sync", "status", "acme")["copies"]} == {
        "ending"
    }
