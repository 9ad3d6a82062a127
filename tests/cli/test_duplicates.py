"""crmhub duplicates: possible duplicates listed, merged and unmerged at the command line."""

from __future__ import annotations

import flask
import pytest

from crmhub.hub import Hub
from tests.cli.conftest import CommandLine
from tests.clients import Client, open_client
from tests.duplicates import PHONE, listed_pair, pairs, two_contacts


@pytest.fixture
def app(served_app: flask.Flask) -> flask.Flask:
    return served_app


@pytest.fixture
def bot(app: flask.Flask) -> Client:
    return open_client(app)


def test_list_prints_pairs_of_a_state_page_by_page(
    crmhub: CommandLine, bot: Client, hub: Hub
) -> None:
    name = bot.account.client_id
    for n in range(3):
        listed_pair(hub, bot, f"{n}", "9")
    crmhub("duplicates", "dismiss", name, "9", "1")
    told = crmhub("duplicates", "list", name).stdout
    assert "BOTH HAVE" in told
    assert told.count("phone") == 2
    assert "1970" not in told
    first, second = crmhub.json("duplicates", "list", name)
    assert crmhub.json("duplicates", "list", name, "--limit", "1") == [first]
    after = ("--after", *first["contactIds"])
    assert crmhub.json("duplicates", "list", name, *after) == [second]
    (dismissed,) = crmhub.json("duplicates", "list", name, "--state", "dismissed")
    assert dismissed["contactIds"] == ["1", "9"]
    assert len(crmhub.json("duplicates", "list", name, "--state", "all")) == 3
    assert (
        "no possible duplicates" in crmhub("duplicates", "dismiss", name, "1", "2", code=1).stderr
    )


def test_merge_shows_the_preview_and_asks(crmhub: CommandLine, bot: Client, hub: Hub) -> None:
    name = bot.account.client_id
    older, newer = two_contacts(hub, bot, city="Rome\x1b[31m")
    refused = crmhub("duplicates", "merge", name, older, newer, stdin="n\n", code=1)
    assert f"Merge contact {newer} into contact {older}?" in refused.stdout
    assert all(text in refused.stdout for text in ("Anne", PHONE, "Rome [31m"))
    assert pairs(hub, bot) == [{older, newer}]
    told = crmhub("duplicates", "merge", name, newer, older, stdin="y\n").stdout
    assert f"Contact {newer} is merged into contact {older}.\nThis can be undone until 20" in told
    (merged,) = crmhub.json("duplicates", "list", name, "--state", "merged")
    assert merged["keptId"] == older
    assert merged["decidedBy"]
    again = crmhub("duplicates", "merge", name, newer, older, "--yes", code=1)
    assert "merged already" in again.stderr
    told = crmhub("duplicates", "unmerge", name, older, newer).stdout
    assert told == f"Contacts {older} and {newer} are separate again.\n"
    assert "not merged" in crmhub("duplicates", "unmerge", name, older, newer, code=1).stderr


def test_merge_takes_what_is_chosen(crmhub: CommandLine, bot: Client, hub: Hub) -> None:
    name = bot.account.client_id
    older, newer = two_contacts(hub, bot, city="Rome")
    command = ("duplicates", "merge", name, older, newer, "--keep", newer)
    command += ("--take", f"firstname={older}", "--take", f"city={older}")
    seen = crmhub.json(*command, "--dry-run")
    assert [one["contactId"] for one in seen["contacts"]] == [newer, older]
    assert pairs(hub, bot) == [{older, newer}]
    assert "--json cannot ask" in crmhub(*command, "--json", code=2).stderr
    merged = crmhub.json(*command, "--yes")
    assert (merged["state"], merged["keptId"]) == ("merged", newer)
    kept = bot.get(f"/contacts/{newer}").get_json()["properties"]
    assert kept == {"firstname": "Ann", "lastname": "Lee", "email": "lee@x.org", "phone": PHONE}
