"""crmhub erase: seen first, asked for, told; and gone from SQLite's file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from crmhub.app import create_app
from crmhub.settings import Settings
from tests.api.helpers.helper_calls import SET_PROPERTIES, known
from tests.operators.traces import EMAIL, FIRST, PHONE, PLANTED, TOKEN, forms, left, plant


@pytest.fixture
def app(crmhub):
    app = create_app(Settings.load(crmhub.env, crmhub.root))
    yield app
    app.extensions["crmhub"].close()


def test_what_is_there_is_shown_and_asked_for(app, crmhub, client):
    planted = plant(app, client)
    told = crmhub("erase", client.account.client_id, EMAIL, stdin="n\n", code=1)
    assert "Erase this for good?" in told.output
    assert f"\ncontacts             {planted.contact_id}\n" in told.stdout
    assert "\nactions              5 done\n" in told.stdout
    assert f"deals {planted.deal}; tickets {planted.ticket}; --with-linked" in told.stdout
    assert not any(text in told.output for text in (EMAIL, PHONE, FIRST, TOKEN))
    assert client.get(f"/contacts/{planted.contact_id}").status_code == 200


def test_a_yes_erases_and_tells_what_is_left_to_do(app, crmhub, client, hub):
    planted = plant(app, client)
    told = crmhub("erase", client.account.client_id, PHONE, stdin="y\n").stdout
    assert "\nErased.\n" in told
    assert f"Deals {planted.deal}, {planted.shared_deal} may contain personal data" in told
    assert left(hub, PLANTED) == []


def test_a_dry_run_erases_nothing(app, crmhub, client):
    planted = plant(app, client)
    seen = crmhub.json("erase", client.account.client_id, TOKEN, "--dry-run")
    assert (seen["erased"], seen["contacts"]) == (False, [planted.contact_id])
    assert seen["actions"] == {"done": 5}
    done = crmhub.json("erase", client.account.client_id, TOKEN, "--yes")
    assert done == {**seen, "erased": True}


def test_again_finds_nobody(crmhub, client):
    id = client.make(email=EMAIL)
    assert crmhub("erase", client.account.client_id, str(id), "--yes").stdout.endswith("Erased.\n")
    told = crmhub("erase", client.account.client_id, EMAIL, "--yes", code=1)
    assert told.stdout == "No data found.\n"
    assert not crmhub.json("erase", client.account.client_id, EMAIL, "--yes", code=1)["erased"]


def test_several_people_are_named_and_none_is_erased(crmhub, client):
    ids = [client.make(email=f"{n}@x.org", phone=PHONE) for n in "ab"]
    told = crmhub("erase", client.account.client_id, PHONE, "--yes", code=1).stderr
    assert all(f"as phone: {id}" in told for id in ids)
    assert client.get("/contacts").json["total"] == 2


def test_who_has_the_same_phone_is_listed_and_erased_when_included(crmhub, client):
    hers, his = (client.make(email=f"{n}@x.org", phone=PHONE) for n in "ab")
    told = crmhub("erase", client.account.client_id, str(hers), stdin="n\n", code=1).stdout
    assert f"Only the phone is the same: {his}. They are kept" in told
    words = ["erase", client.account.client_id, str(hers), "--include"]
    assert "has none of the person's phones" in crmhub(*words, "77", "--yes", code=1).stderr
    done = crmhub.json(*words, str(his), "--yes")
    assert (done["contacts"], done["samePhone"]) == ([hers, his], [])


def test_every_command_of_the_page_works(app, crmhub, client):
    page = Path(__file__).parents[2] / "docs" / "operator" / "erasing.md"
    commands = re.findall(r"^crmhub erase (.*?)(?:\s+#.*)?$", page.read_text(), re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        known(client, email="ada@example.com", phone="+4915112345678")
        words = [client.account.client_id if word == "acme" else word for word in command.split()]
        crmhub("erase", *words, stdin="y\n")
    assert client.get("/contacts").json["total"] == 0


def test_what_names_nobody_is_told_in_a_line(crmhub, client):
    for text in ("", " ", "@", "hub-", "0", "9" * 400, "\udcff", "%", "‎٣"):
        told = crmhub("erase", client.account.client_id, "--yes", "--", text, code=1)
        assert told.output.count("\n") == 1, text


def test_json_asks_nothing(crmhub, client):
    told = crmhub("erase", client.account.client_id, "1", "--json", code=2).stderr
    assert "--yes or --dry-run" in told


@pytest.mark.parametrize("own_url", ["sqlite"], indirect=True)
def test_sqlite_files_hold_nothing_of_the_person(app, crmhub, client, own_url):
    planted = plant(app, client)
    # Rows that grow, shrink and make room leave copies behind where pages are rearranged.
    for i in range(60):
        known(client, f"other-{i}", name=f"Some Body{i}", email=f"s{i}@x.org")
        props = {"city": f"{FIRST}{'-' * (i % 7 * 40)}", "jobtitle": FIRST * (i % 5)}
        client.helper(SET_PROPERTIES, {"contactToken": TOKEN, "props": props})
        client.patch(f"/contacts/{planted.contact_id}", {"properties": {"company": FIRST * i}})
    path = own_url.removeprefix("sqlite:///")
    assert {EMAIL, PHONE[1:], FIRST, TOKEN} <= {text for text in PLANTED if where(path, text)}
    assert crmhub.json("erase", client.account.client_id, EMAIL, "--yes")["swept"]
    assert [text for text in PLANTED if where(path, text)] == []


def where(path: str, text: str) -> list[str]:
    """Return in which files of a SQLite database a text stands."""
    files = [Path(path + end) for end in ("", "-wal", "-journal")]
    contents = {file.name: file.read_bytes().lower() for file in files if file.exists()}
    return [name for name, held in contents.items() if any(form in held for form in forms(text))]
