"""crmhub events: subscriptions added, tested, changed, replayed and removed at the command line."""

from __future__ import annotations

import flask
import pytest

from crmhub.secrets import parse_webhook_secret
from tests.cli.conftest import CommandLine
from tests.clients import Client, open_client
from tests.events.receivers import receiving

# The operations behind the commands are tested on each database.
pytestmark = pytest.mark.databases("sqlite")

HOOK = "https://192.0.2.1/secret-path"


@pytest.fixture
def acme(crmhub: CommandLine) -> CommandLine:
    crmhub("account", "create", "Acme")
    return CommandLine(
        crmhub.root, {**crmhub.env, "CRMHUB_EGRESS_ALLOW": "127.0.0.0/8,192.0.2.0/24"}
    )


@pytest.fixture
def bot(served_app: flask.Flask) -> Client:
    """A caller of an account whose events are stored, and delivered by nobody."""
    return open_client(served_app)


def add(crmhub: CommandLine, *types: str, url: str = HOOK, client_id: str = "acme") -> str:
    """Add a subscription, and return its id."""
    options = [word for name in types or ("contact.created",) for word in ("--type", name)]
    id: str = crmhub.json("events", "add", client_id, url, *options)["id"]
    return id


def test_add_prints_the_secret_once(acme: CommandLine) -> None:
    made = acme.json("events", "add", "acme", HOOK, "--type", "deal.updated")
    assert list(made)[:4] == ["id", "url", "types", "state"]
    assert (made["types"], made["state"]) == (["deal.updated"], "active")
    parse_webhook_secret(made["secret"])
    told = acme("events", "add", "acme", HOOK, "--type", "deal.updated").stdout
    assert "whsec_" in told
    assert told.startswith("Subscription  sub_")
    assert "Reason" not in told
    assert told.endswith("The secret is not shown again: store it now.\n")
    listed = acme("events", "list", "acme").stdout
    assert made["id"] in listed
    assert "whsec_" not in listed
    assert all("secret" not in one for one in acme.json("events", "list", "acme"))


def test_all_stands_for_every_type(acme: CommandLine) -> None:
    id = add(acme, "all")
    assert acme.json("events", "list", "acme")[0]["types"] == ["*"]
    assert acme.json("events", "add", "acme", HOOK, "--type", "all", "--type", "lead.failed")[
        "types"
    ] == ["*"]
    changed = acme.json("events", "change", "acme", id, "--type", "lead.failed")
    assert changed["types"] == ["lead.failed"]


def test_misuse_is_told(acme: CommandLine) -> None:
    for args, code, words in (
        (f"add acme {HOOK}", 1, "name at least one type"),
        ("change acme sub_x", 2, "--url or --type"),
        ("replay acme sub_x", 2, "either --since"),
        ("replay acme sub_x --until 1d", 2, "either --since"),
        ("replay acme sub_x --since 1d --event e", 2, "either --since"),
        ("replay acme sub_x --since soon", 2, "'soon' is not a time"),
        ("remove acme sub_x --yes", 1, "sub_x"),
    ):
        assert words in acme("events", *args.split(), code=code).stderr


def test_a_test_tells_the_answer_and_fails_without_success(acme: CommandLine) -> None:
    with receiving() as receiver:
        id = add(acme, url=receiver.url)
        assert "it answered 204 in " in acme("events", "test", "acme", id).stdout
        receiver.answer = lambda received: 503
        told = acme("events", "test", "acme", id, code=1).stdout
        assert "Not delivered" in told
        assert "It answered 503." in told
        shown = acme.json("events", "test", "acme", id, code=1)
    assert (shown["delivered"], shown["status"]) == (False, 503)
    assert shown["durationMs"] >= 0
    assert receiver.types == ["subscription.test"] * 3


def test_disable_and_enable(acme: CommandLine) -> None:
    id = add(acme)
    assert acme("events", "disable", "acme", id).stdout == f"Subscription {id} is disabled.\n"
    assert acme.json("events", "list", "acme")[0]["state"] == "disabled"
    assert (
        "activate it first" in acme("events", "replay", "acme", id, "--since", "1d", code=1).stderr
    )
    assert acme.json("events", "enable", "acme", id)["state"] == "active"


def test_deliveries_are_listed_and_replayed(acme: CommandLine, bot: Client) -> None:
    name = bot.account.client_id
    id = add(acme, client_id=name)
    contact = bot.make(email="ada@example.com")
    (queued,) = acme.json("events", "deliveries", name, id)
    assert (queued["type"], queued["state"]) == ("contact.created", "queued")
    assert queued["subject"] == f"contacts:{contact}"
    assert acme.json("events", "deliveries", name, id, "--state", "all") == [queued]
    assert "ada@example.com" not in str(queued)
    # It waits for its first attempt anyway.
    assert acme.json("events", "replay", name, id, "--since", "1h") == {"events": 0}
    acme("events", "disable", name, id)
    acme("events", "enable", name, id)
    assert queued["eventId"] in acme("events", "deliveries", name, id, "--state", "failed").stdout
    told = acme("events", "replay", name, id, "--since", "1h").stdout
    assert told == "1 event is delivered again.\n"
    assert acme.json("events", "deliveries", name, id, "--state", "failed") == []
    again = ("events", "replay", name, id, "--event", queued["eventId"])
    assert acme.json(*again) == {"events": 0}
    assert "no event 'evt_x'" in acme(*again[:-1], "evt_x", code=1).stderr


def test_remove_asks(acme: CommandLine) -> None:
    id = add(acme)
    asked = acme("events", "remove", "acme", id, stdin="n\n", code=1).stdout
    assert f"Remove the subscription of {HOOK}?" in asked
    assert acme.json("events", "list", "acme")
    assert (
        acme("events", "remove", "acme", id, "--yes").stdout == f"Subscription {id} is removed.\n"
    )
    assert acme.json("events", "list", "acme") == []
