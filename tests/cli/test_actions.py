"""crmhub actions: the journal, seen and mended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import flask
import pytest

from crmhub.actions.hub import Hub
from crmhub.app import create_app
from crmhub.secrets import EncryptionKey
from crmhub.settings import Settings
from tests.actions.working import change, states
from tests.api.helper_calls import known
from tests.cli.conftest import CommandLine
from tests.clients import Client, open_client


@pytest.fixture
def app(crmhub: CommandLine, database_url: str, tmp_path: Path) -> Iterator[flask.Flask]:
    crmhub("db", "upgrade")
    app = create_app(
        Settings(
            root=tmp_path,
            database_url=database_url,
            secret_key="the secret key of the tests alone",
            encryption_keys=(EncryptionKey("k1", b"k" * 32),),
        )
    )
    yield app
    app.extensions["crmhub"].close()


@pytest.fixture
def bot(app: flask.Flask) -> Client:
    client = open_client(app)
    known(client)
    return client


def test_list_and_show_print_what_was_accepted(crmhub: CommandLine, bot: Client) -> None:
    name = bot.account.client_id
    (listed,) = crmhub.json("actions", "list", "--account", name, "--token", "t")
    assert (listed["clientId"], listed["state"]) == (name, "done")
    shown = crmhub.json("actions", "show", listed["actionId"])
    assert {key: shown[key] for key in listed} == listed
    assert shown["attempts"][0]["number"] == 1
    assert listed["actionId"] in crmhub("actions", "list").stdout
    assert "1." in crmhub("actions", "show", listed["actionId"]).stdout
    assert crmhub.json("actions", "list", "--state", "dead") == []
    assert crmhub.json("actions", "list", "--after", listed["actionId"]) == []
    refused = crmhub("actions", "list", "--after", "nope", code=1).stderr
    assert "after: 'nope' is not the id of an action" in refused


def test_the_command_narrows_by_contact_and_age_like_the_admin_api(
    crmhub: CommandLine, bot: Client, hub: Hub
) -> None:
    contact = bot.get("/contacts").get_json()["results"][0]["id"]
    (of_contact,) = crmhub.json("actions", "list", "--contact", str(contact))
    assert crmhub.json("actions", "list", "--newer-than", "1h") == [of_contact]
    assert crmhub.json("actions", "list", "--contact", "hub-nobody") == []
    change(hub, bot, "state = 'dead'")
    for narrowing in (("--contact", "hub-nobody"), ("--newer-than", "1h", "--older-than", "1h")):
        assert "0 actions" in crmhub("actions", "retry", *narrowing, code=1).stdout
    assert "1 action" in crmhub("actions", "retry", "--newer-than", "1h").stdout


def test_retry_brings_back_what_is_dead(crmhub: CommandLine, bot: Client, hub: Hub) -> None:
    change(hub, bot, "state = 'dead'")
    assert "Name actions" in crmhub("actions", "retry", code=2).stderr
    told = crmhub("actions", "retry", "--account", bot.account.client_id).stdout
    assert told == "1 action will be tried again.\n"
    assert states(hub, bot) == ["queued"]
    assert "0 actions" in crmhub("actions", "retry", "--all", code=1).stdout
