"""What bots are told while the database is restarted: they do not ask again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import flask
import pytest
from sqlalchemy.engine import make_url

from benchmarks.places import administer
from crmhub.api.helpers import answers
from crmhub.api.http.reading import ARRIVED
from crmhub.database.drivers import Away
from crmhub.helpers import dispatch
from crmhub.hub import Hub
from tests import databases
from tests.api.helpers.helper_calls import (
    BODIES,
    CREATE_DEAL,
    CREATE_LEAD,
    CREATE_TICKET,
    GET_RANDOM_INT,
    GET_TYPE,
    SET_PROPERTIES,
    body_for,
    lead,
    switch,
)
from tests.api.refusals import refused
from tests.clients import Client
from tests.fakes import FAKE, adapters, fake_client
from tests.pages import total
from tests.queue.working import states, take_over


@contextmanager
def restarted(url: str, seconds: float) -> Iterator[None]:
    """Cut the connections of a PostgreSQL database, and let nobody in for so long."""
    name = make_url(url).database
    administer(databases.POSTGRES, f'alter database "{name}" allow_connections false')
    hung_up = f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'"
    administer(databases.POSTGRES, hung_up)
    back = f'alter database "{name}" allow_connections true'
    timer = threading.Timer(seconds, administer, (databases.POSTGRES, back))
    timer.start()
    try:
        yield
    finally:
        timer.join()


on_postgresql = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
WRITING = [CREATE_LEAD, SET_PROPERTIES, CREATE_DEAL, CREATE_TICKET]
of_the_database = pytest.mark.parametrize("path", [p for p in BODIES if p != GET_RANDOM_INT])


@pytest.fixture
def unhurried(app: flask.Flask, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Helpers wait for the database however long that is busy with the end of its connections."""
    monkeypatch.setattr(answers, "_PATIENCE_S", 60.0)
    switch(app, client, deadline_s=25)


@on_postgresql
@of_the_database
def test_a_restart_is_not_seen_by_bots(
    client: Client, unhurried: None, database_url: str, path: str
) -> None:
    body = body_for(client, path)
    with restarted(database_url, 0.5):
        answer = client.helper(path, body)
    assert answer.status_code == 200, answer.text
    assert total(client) == (path != GET_TYPE)


@pytest.mark.parametrize("path", WRITING)
def test_what_was_written_down_without_a_word_is_carried_out_once(
    app: flask.Flask, hub: Hub, client: Client, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    body = body_for(client, path)
    switch(app, client, deadline_s=1)
    accept, cut = dispatch.accept, iter([True])

    def cut_off(*args: Any, **kwargs: Any) -> Any:
        accepted = accept(*args, **kwargs)
        if next(cut, False):
            raise Away("The database cannot be reached.")
        return accepted

    monkeypatch.setattr(dispatch, "accept", cut_off)
    assert client.helper(path, body).status_code == 202
    # Nobody works on what was written down: its lease has to end first.
    take_over(hub, client)
    assert total(client) == 1
    for made, resource in ((CREATE_DEAL, "deals"), (CREATE_TICKET, "tickets")):
        assert total(client, resource) == (path == made)
    assert set(states(hub, client)) == {"done"}


def test_who_has_waited_long_enough_is_told(
    app: flask.Flask, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    def away(*_: Any, **__: Any) -> None:
        nonlocal tries
        tries += 1
        raise Away("The database cannot be reached.")

    monkeypatch.setattr(dispatch, "accept", away)
    began = time.monotonic()
    answer = lead(client)
    assert refused(answer, 503) == "The database cannot be reached."
    assert answer.headers["Retry-After"] == "1"
    assert tries > 1
    assert time.monotonic() - began > 2

    switch(app, client, deadline_s=1, soft_errors="true")
    began = time.monotonic()
    answer = lead(client)
    assert (answer.status_code, answer.json["category"]) == (200, "InternalError")  # type: ignore[index]
    assert time.monotonic() - began > 1


def test_the_deadline_counts_from_the_arrival(app: flask.Flask) -> None:
    with adapters(app, FAKE):
        client, crm = fake_client(app)
        assert lead(client, "other", email="other@x.org").status_code == 200
        arrived = {ARRIVED: time.monotonic() - 60}
        answer = client.helper(CREATE_LEAD, BODIES[CREATE_LEAD], environ_overrides=arrived)
        assert (answer.status_code, answer.json["status"]) == (202, "queued")  # type: ignore[index]
        assert len(crm.contacts) == 1
