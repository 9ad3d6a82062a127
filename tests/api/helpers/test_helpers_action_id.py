"""`actionId`: every answer to a helper that writes names the action, so that support finds it."""

from __future__ import annotations

from typing import Any

import flask
import pytest

from crmhub.adapter import AdapterError, Conflict, Rejected, Unavailable
from crmhub.hub import Hub
from tests.api.helpers.helper_calls import (
    CREATE_DEAL,
    CREATE_LEAD,
    CREATE_TICKET,
    GET_PROPERTIES,
    GET_RANDOM_INT,
    GET_TYPE,
    SET_PROPERTIES,
    body_for,
    known,
    lead,
    switch,
)
from tests.clients import Client
from tests.fakes import FakeCrm
from tests.queue.working import finish_all, rows

pytestmark = pytest.mark.usefixtures("fakes")

writing = pytest.mark.parametrize("path", [CREATE_LEAD, SET_PROPERTIES, CREATE_DEAL, CREATE_TICKET])


def last_action(hub: Hub, client: Client) -> str:
    """Return the id of the action that was accepted last."""
    return str(rows(hub, client, "id")[-1][0])


@writing
def test_what_is_done_names_its_action(hub: Hub, client: Client, path: str) -> None:
    answer = client.helper(path, body_for(client, path))
    assert answer.status_code == 200
    assert answer.json["actionId"] == last_action(hub, client)  # type: ignore[index]


@writing
def test_what_is_queued_keeps_its_action(hub: Hub, bot: Client, crm: FakeCrm, path: str) -> None:
    body = body_for(bot, path)
    crm.failure = Unavailable("no route")
    key = {"Idempotency-Key": "k"}
    first = bot.helper(path, body, headers=key).json
    assert (first["status"], first["actionId"]) == ("queued", last_action(hub, bot))
    crm.failure = None
    finish_all(hub, bot)
    again = bot.helper(path, body, headers=key)
    assert again.status_code == 200
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json["actionId"] == first["actionId"]  # type: ignore[index]


@pytest.mark.parametrize("path", [CREATE_DEAL, CREATE_TICKET])
def test_the_same_once_more_names_the_earlier_action(client: Client, path: str) -> None:
    body = body_for(client, path)
    first, again = (client.helper(path, body).json for _ in range(2))
    assert (first["status"], again["status"]) == ("created", "unchanged")  # type: ignore[index]
    assert first["actionId"] == again["actionId"] != ""  # type: ignore[index]


@writing
@pytest.mark.parametrize("failure", [Rejected([], "not on a Sunday"), Conflict("it exists")])
def test_a_soft_error_names_the_action_that_was_refused(
    app: flask.Flask,
    hub: Hub,
    bot: Client,
    crm: FakeCrm,
    path: str,
    failure: AdapterError,
) -> None:
    body = body_for(bot, path)
    switch(app, bot, soft_errors="true")
    crm.failure = failure
    for _ in range(2):
        answer: Any = bot.helper(path, body, headers={"Idempotency-Key": "k"}).json
        assert (answer["status"], answer["actionId"]) == ("error", last_action(hub, bot))


def test_what_was_never_accepted_has_no_action(app: flask.Flask, client: Client) -> None:
    switch(app, client, soft_errors="true")
    for answer in (
        lead(client, name=""),
        client.helper(CREATE_DEAL, {"contactId": "hub-x", "properties": {"dealname": "D"}}),
        client.helper(SET_PROPERTIES, {"contactToken": "t", "props": {"city": "Rome"}}),
    ):
        assert (answer.json["status"], answer.json["actionId"]) == ("error", "")  # type: ignore[index]


def test_a_read_has_no_action(client: Client) -> None:
    known(client)
    for path in (GET_PROPERTIES, GET_TYPE, GET_RANDOM_INT):
        assert client.helper(path, body_for(client, path)).json["actionId"] == ""  # type: ignore[index]
