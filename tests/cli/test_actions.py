"""crmhub actions: the journal, and what operators decide on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib import import_module

import flask
import pytest

from adapters.fakes.hubspot.fake import FakeHubSpot
from crmhub.errors import Unavailable
from crmhub.helpers.actions import ACTIONS
from crmhub.hub import Hub
from crmhub.operators.actions import action_queries
from tests.api.helpers.helper_calls import known
from tests.cli.conftest import CommandLine
from tests.clients import Client, open_client
from tests.operators.test_failure_groups import fail_deals
from tests.queue.working import change, rows, states


@pytest.fixture
def app(served_app: flask.Flask) -> flask.Flask:
    return served_app


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
    for command in (("list",), ("show", listed["actionId"])):
        assert "Ann Lee, ann@x.org" in crmhub("actions", *command).stdout
    assert crmhub.json("actions", "list", "--state", "dead") == []
    assert crmhub.json("actions", "list", "--after", listed["actionId"]) == []
    refused = crmhub("actions", "list", "--after", "nope", code=1).stderr
    assert "after: 'nope' is not the id of an action" in refused


def test_a_state_has_the_word_of_the_console_and_the_one_on_the_wire(
    crmhub: CommandLine, bot: Client, hub: Hub
) -> None:
    name = bot.account.client_id
    for state, word in (("dead", "failed"), ("parked", "blocked"), ("running", "in-progress")):
        change(hub, bot, f"state = '{state}', finished_at = created_at")
        for given in (state, word):
            filters = ("actions", "list", "--account", name, "--state", given)
            [listed] = crmhub.json(*filters)
            assert listed["state"] == state
            assert f"  {word}  " in crmhub(*filters).stdout
        shown = crmhub("actions", "show", listed["actionId"]).stdout
        assert ["State", word] in [line.split() for line in shown.splitlines()]


def test_the_commands_know_all_actions_without_importing_them() -> None:
    assert tuple(ACTIONS) == action_queries.KINDS


def test_retry_brings_back_what_is_dead(crmhub: CommandLine, bot: Client, hub: Hub) -> None:
    change(hub, bot, "state = 'dead'")
    assert "Give action ids" in crmhub("actions", "retry", code=2).stderr
    told = crmhub("actions", "retry", "--account", bot.account.client_id).stdout
    assert told == "1 action will be retried.\n"
    assert states(hub, bot) == ["queued"]
    assert "0 actions" in crmhub("actions", "retry", "--all", code=1).stdout


def test_words_that_no_action_has_are_refused(crmhub: CommandLine) -> None:
    for command in (("retry",), ("discard", "--reason", "x", "--yes")):
        for option in ("--state", "--helper"):
            refused = crmhub("actions", *command, option, "foo", code=2).stderr
            assert f"Invalid value for '{option}'" in refused


def test_edit_corrects_and_retries(crmhub: CommandLine, bot: Client, hub: Hub) -> None:
    change(hub, bot, "state = 'dead'")
    ((id,),) = rows(hub, bot, "id")
    assert "name=value" in crmhub("actions", "edit", id, "name", code=2).stderr
    assert "name is given twice" in crmhub("actions", "edit", id, "name=a", "name=b", code=2).stderr
    assert "known are name" in crmhub("actions", "edit", id, "city=Rome", code=1).stderr
    told = crmhub("actions", "edit", id, "name=Bea Poe", "email=bea@x.org").stdout
    assert told == "Corrected. 1 action will be retried.\n"
    shown = crmhub.json("actions", "show", id)
    assert (shown["state"], shown["request"]["email"]) == ("queued", "bea@x.org")
    assert shown["versions"][0]["request"]["email"] == "ann@x.org"
    assert "queued" in crmhub("actions", "edit", id, "name=Cora", code=1).stderr
    assert "no action" in crmhub("actions", "edit", "act-0", "name=Cora", code=1).stderr


def test_discard_shows_what_it_closes_and_asks(crmhub: CommandLine, bot: Client, hub: Hub) -> None:
    known(bot)
    (first,), (second,) = rows(hub, bot, "id")
    change(hub, bot, "state = 'dead' where id = :it", it=first)
    change(hub, bot, "state = 'parked', behind = :first where id = :it", first=first, it=second)
    assert second in crmhub("actions", "show", first).stdout
    assert "Give action ids" in crmhub("actions", "discard", "--reason", "x", code=2).stderr
    assert "Missing option" in crmhub("actions", "discard", first, code=2).stderr
    command = ("actions", "discard", first, "--reason", "sent by mistake")
    asked = crmhub(*command, stdin="n\n", code=1).stdout
    assert first in asked
    assert "Discard 2 actions, 1 of them blocked behind others?" in asked
    assert states(hub, bot) == ["dead", "parked"]
    assert "2 actions discarded." in crmhub(*command, stdin="y\n").stdout
    listed = crmhub.json("actions", "list", "--state", "discarded")
    assert [one["reason"] for one in listed] == ["sent by mistake"] * 2
    assert "0 actions discarded." in crmhub(*command, "--yes", code=1).stdout


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let `tail` take these steps instead of its pauses, and then Ctrl-C."""

    def take(*steps: Callable[[], object]) -> None:
        waiting = iter(steps)

        def pause(_: float) -> None:
            step = next(waiting, None)
            if step is None:
                raise KeyboardInterrupt
            step()

        # The package names the group `actions` as its module is named.
        monkeypatch.setattr(import_module("crmhub.cli.actions"), "sleep", pause)

    return take


def test_tail_prints_new_and_changed_actions_once(
    crmhub: CommandLine, bot: Client, hub: Hub, meanwhile: Callable[..., None]
) -> None:
    meanwhile(
        lambda: known(bot, "second"),
        lambda: None,
        lambda: change(hub, bot, "state = 'dead', reason = 'no such stage'"),
    )
    printed = crmhub("actions", "tail", "--account", bot.account.client_id, "--json").stdout
    told = [json.loads(line) for line in printed.splitlines()]
    first, second = told[0]["actionId"], told[1]["actionId"]
    assert [(each["actionId"], each["state"]) for each in told] == [
        (first, "done"),
        (second, "done"),
        (first, "dead"),
        (second, "dead"),
    ]


def test_tail_prints_a_line_for_people_and_waits_for_the_database(
    crmhub: CommandLine,
    bot: Client,
    meanwhile: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def away() -> None:
        def fail(*_: object, **__: object) -> None:
            raise Unavailable("The database cannot be reached.")

        monkeypatch.setattr("crmhub.operators.actions.action_queries.listed", fail)

    meanwhile(away, lambda: None)
    told = crmhub("actions", "tail", "--lines", "1")
    (line,) = told.stdout.splitlines()
    words = [bot.account.client_id, "createLead", "done", "Ann Lee, ann@x.org", "1 attempt"]
    assert line.split("  ")[2:] == words
    assert told.stderr == "The database cannot be reached. Waiting for the database.\n"


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


def test_discard_narrows_like_retry(crmhub: CommandLine, bot: Client, hub: Hub) -> None:
    change(hub, bot, "state = 'dead', reason = 'no such stage'")
    command = ("actions", "discard", "--yes", "--reason", "test data", "--reason-contains")
    assert "0 actions" in crmhub(*command, "Denied", code=1).stdout
    refused = crmhub("actions", "discard", "--all", "--yes", "--reason", "a\nb", code=1).stderr
    assert "reason: say why" in refused
    assert "1 action discarded." in crmhub(*command, "SUCH STAGE").stdout
    assert states(hub, bot) == ["discarded"]


# --- causes ------------------------------------------------------------------------------------


@pytest.fixture
def failed(app: flask.Flask) -> Iterator[Client]:
    with FakeHubSpot() as crm:
        yield fail_deals(app, crm, "wrong", "gone")


def test_why_and_fix_mend_all_actions_of_a_cause(
    crmhub: CommandLine, failed: Client, hub: Hub
) -> None:
    name = failed.account.client_id
    (cause,) = crmhub.json("actions", "why", name)
    listed = crmhub("actions", "why", name).stdout
    assert "no such stage" in listed
    assert f"{cause['example']}  Ann Lee, ann@{name}.example" in listed
    assert crmhub.json("actions", "why", name, "--when", "24h") == [cause]
    assert crmhub.json("actions", "why", name, "--when", "..2000-01-01") == []
    change(hub, failed, "finished_at = finished_at - 86400000 where state = 'dead'")
    assert [one["cause"] for one in crmhub.json("actions", "why", name, "--when", "yesterday")] == [
        cause["cause"]
    ]
    refused = crmhub("actions", "why", name, "--when", "soon", code=2).stderr
    assert "'soon' is not a period" in refused
    fix = ("actions", "fix", cause["cause"], "--account", name)
    # This installation has not the key of the account's credentials, so the CRM cannot be asked.
    for more in ((), ("--to", "closedwon", "--dry-run")):
        assert "Forecast: 0 of 2 will succeed; 2 cannot be checked." in crmhub(*fix, *more).stdout
    assert states(hub, failed) == ["done", "dead", "dead"]
    mapped = ("--map", "wrong=closedwon", "--map", "gone=closedlost", "--yes")
    assert crmhub(*fix, *mapped).stdout == "2 of 2 corrected.\n"
    assert states(hub, failed) == ["done", "queued", "queued"]
    assert "No failed action" in crmhub(*fix, "--to", "x", "--yes", code=1).stderr


def test_the_actions_of_a_cause_are_listed_and_retried(
    crmhub: CommandLine, failed: Client, hub: Hub
) -> None:
    (cause,) = crmhub.json("actions", "why", failed.account.client_id)
    chosen = ("--account", failed.account.client_id, "--cause", cause["cause"])
    assert len(crmhub.json("actions", "list", *chosen)) == 2
    assert crmhub("actions", "retry", *chosen).stdout == "2 actions will be retried.\n"
