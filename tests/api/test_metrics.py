"""/metrics: what was accepted, tried and answered, and what waits; without a word of whose."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import flask
import pytest

from adapters.fakes.hubspot.fake import FakeHubSpot, Options
from crmhub import __version__
from crmhub.adapter import NotFound, Throttled, Unavailable
from crmhub.app import create_app
from crmhub.database.connection import now_ms
from crmhub.hub import Hub
from crmhub.settings import Settings
from tests.api.helpers.helper_calls import CREATE_DEAL, GET_TYPE, known, lead, switch
from tests.api.refusals import header_faults
from tests.clients import Client
from tests.databases import new_settings
from tests.fakes import FAKE, FakeCrm, adapters, hubspot_client
from tests.own_databases import empty, url_fixture
from tests.queue.outcomes import open_circuit
from tests.queue.working import change, finish_all, soon
from tests.scrapes import counted, scraped

# For these tests alone: the gauges are of all accounts.
database_url = url_fixture("session")


@pytest.fixture(scope="session")
def settings(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings of these tests alone: other modules keep those of their own databases."""
    return new_settings(database_url, tmp_path_factory.mktemp("root"))


@pytest.fixture
def app(settings: Settings) -> Iterator[flask.Flask]:
    empty(settings.database_url)
    app = create_app(settings)
    with adapters(app, FAKE):
        yield app
    app.extensions["crmhub"].close()


@pytest.fixture
def more(app: flask.Flask) -> Callable[..., float]:
    """How much more of something is counted now than before the test."""
    before = scraped(app)

    def difference(name: str, **labels: str) -> float:
        return counted(app, name, **labels) - before.of(name, **labels)

    return difference


def test_it_is_open_and_tells_the_version(app: flask.Flask) -> None:
    assert header_faults(app.test_client().get("/metrics")) == []
    found = scraped(app)
    assert found.of("build_info", version=__version__) == 1
    assert found.of("database_up") == 1


def test_a_lead_is_accepted_tried_ended_and_answered(
    fake: tuple[Client, FakeCrm], more: Callable[..., float]
) -> None:
    bot, _ = fake
    known(bot)
    assert more("actions_accepted_total", helper="createLead") == 1
    assert more("actions_accepted_total") == 1
    assert more("actions_ended_total", helper="createLead", outcome="done") == 1
    assert more("attempt_duration_seconds_count", adapter="fake", outcome="created") == 1
    assert more("helper_answers_total", helper="createLead", status="200") == 1
    assert more("http_request_duration_seconds_count", operation="createLead") == 1


@pytest.mark.parametrize("failure", [Throttled("slowly", retry_after=1), Unavailable("no route")])
def test_a_queued_lead_counts_its_tries_and_ends_once(
    app: flask.Flask, hub: Hub, fake: tuple[Client, FakeCrm], more: Any, failure: Any
) -> None:
    bot, crm = fake
    crm.failure = failure
    assert lead(bot).status_code == 202
    assert more("helper_answers_total", helper="createLead", status="202") == 1
    assert more("actions_ended_total") == 0
    crm.failure = None
    finish_all(hub, bot)
    word = type(failure).__name__
    assert more("attempt_duration_seconds_count", adapter="fake", outcome=word) == 1
    assert more("attempt_duration_seconds_count", adapter="fake", outcome="created") == 1
    assert more("attempt_duration_seconds_count") == 2
    assert more("actions_accepted_total") == 1
    assert more("actions_ended_total", helper="createLead", outcome="done") == 1


def test_what_is_refused_or_dies_is_told_apart(
    hub: Hub, bot: Client, crm: FakeCrm, more: Callable[..., float]
) -> None:
    crm.failure = NotFound("gone")
    body = {"contactId": "4711", "properties": {"dealname": "A"}}
    assert bot.helper(CREATE_DEAL, body).status_code == 404
    assert more("actions_ended_total", helper="createDeal", outcome="refused") == 1
    crm.failure = Unavailable("no route")
    assert bot.helper(CREATE_DEAL, body).status_code == 202
    crm.failure = NotFound("gone")
    finish_all(hub, bot)
    assert more("actions_ended_total", helper="createDeal", outcome="dead") == 1
    assert more("helper_answers_total", helper="createDeal", status="4xx") == 1


def test_the_same_call_again_is_not_accepted_again(bot: Client, more: Callable[..., float]) -> None:
    body = {"contactId": known(bot), "properties": {"dealname": "A"}}
    for _ in range(3):
        assert bot.helper(CREATE_DEAL, body).status_code == 200
    assert more("actions_accepted_total", helper="createDeal") == 1
    assert more("helper_answers_total", helper="createDeal", status="200") == 3


def test_each_lead_of_a_batch_is_a_try(
    app: flask.Flask, hub: Hub, more: Callable[..., float]
) -> None:
    with FakeHubSpot(Options(limit="none", search_limit="none")) as hubspot:
        bot = hubspot_client(app, hubspot)
        open_circuit(hub, bot.account, "away")
        for i in range(5):
            assert lead(bot, f"t{i}", email=f"ann{i}@x.org").status_code == 202
        finish_all(hub, bot)
    assert more("attempt_duration_seconds_count", adapter="hubspot", outcome="created") == 5
    assert more("actions_ended_total", helper="createLead", outcome="done") == 5


def test_a_soft_error_counts_as_what_it_stands_for(
    app: flask.Flask, bot: Client, more: Callable[..., float]
) -> None:
    switch(app, bot, soft_errors=True)
    assert lead(bot, email="no address").status_code == 200
    assert more("helper_answers_total", helper="createLead", status="4xx") == 1
    assert more("helper_answers_total") == 1


def test_the_public_api_counts_by_resource_and_operation(
    app: flask.Flask, client: Client, more: Callable[..., float]
) -> None:
    of_deals = {"resource": "deals", "operation": "getDeal"}
    deal = client.make("deals")
    assert client.get(f"/deals/{deal}").status_code == 200
    assert client.get("/deals/999999").status_code == 404
    assert app.test_client().get(f"/{client.account.client_id}/api/v1/deals/1").status_code == 401
    assert more("api_requests_total", **of_deals, status="2xx") == 1
    assert more("api_requests_total", **of_deals, status="4xx") == 2
    assert more("api_requests_total", resource="deals", operation="createDeal") == 1
    assert more("helper_answers_total") == 0
    assert more("http_request_duration_seconds_count", operation="getDeal") == 3


def test_no_caller_makes_a_label(app: flask.Flask, client: Client, bot: Client) -> None:
    secret = "ann.secret@example.org"

    def calls(what: str) -> None:
        http = app.test_client()
        for path in (f"/{what}", f"/chatbot/{what}", f"/chatbot/createLead/{what}"):
            assert http.post(path, json={}).status_code in (404, 405, 429)
        for path in (f"/contacts/{what}", f"/{what}", f"/properties/{what}", f"/pipelines/{what}"):
            assert client.get(path).status_code in (400, 404)
        assert http.open("/contacts", method=what[:3].upper()).status_code == 404
        assert bot.helper(GET_TYPE, {what: what}).status_code == 400

    calls("first")
    before = scraped(app).labels()
    for i in range(5):
        calls(f"{secret}{i}")
    found = scraped(app)
    assert found.labels() - before == set()
    ids = (secret, client.account.client_id, bot.ids.generated_id, bot.ids.portal_id)
    assert [id for id in ids if id in found.text] == []


def test_the_gauges_tell_what_waits(app: flask.Flask, hub: Hub, bot: Client) -> None:
    contact_id = known(bot)
    open_circuit(hub, bot.account, "away")
    assert lead(bot, "t2", email="bea@x.org").status_code == 202
    change(hub, bot, "created_at = :then where state = 'queued'", then=now_ms() - 90_000)
    body = {"contactId": contact_id, "properties": {"dealname": "A"}}
    assert bot.helper(CREATE_DEAL, body).status_code == 202
    found = scraped(app)
    assert found.of("actions", state="queued") == 2
    assert 90 <= found.of("oldest_queued_action_age_seconds") < 300
    assert found.of("connections_away") == 1
    for state in ("running", "dead", "parked"):
        change(hub, bot, f"state = '{state}', finished_at = created_at where state <> 'done'")
        # A look that took long is kept for a while.
        soon(lambda state=state: scraped(app).of("actions", state=state) == 2)
    found = scraped(app)
    assert found.of("actions") == 2
    assert found.of("oldest_queued_action_age_seconds") == 0


def test_a_connection_that_an_account_left_is_not_away(
    app: flask.Flask, hub: Hub, bot: Client
) -> None:
    open_circuit(hub, bot.account, "away")
    change(hub, bot, "connection_id = connection_id + 1", "outage")
    assert scraped(app).of("connections_away") == 0


def test_many_done_actions_cost_a_scrape_nothing(hub: Hub) -> None:
    """Each query is answered by partial indexes that they are not in."""
    with hub.database.reading() as connection:
        postgresql = connection.dialect == "postgresql"
        if postgresql:
            # Of an empty table it would rather read the whole.
            connection.run("set enable_seqscan = off")
        try:
            for states, indexes in (
                ("'running', 'queued'", ("action_due", "action_turn")),
                ("'dead', 'parked'", ("action_stuck", "action_stopped")),
            ):
                plan = connection.rows(
                    f"explain {'' if postgresql else 'query plan '}"
                    "select state, count(*), min(created_at) from action"
                    f" where state in ({states}) group by state"
                )
                used = " ".join(str(column) for row in plan for column in row)
                # Which of them depends on what PostgreSQL knows of the table by now.
                assert any(index in used for index in indexes)
                assert postgresql or "COVERING INDEX" in used
        finally:
            if postgresql:
                connection.run("reset enable_seqscan")


@pytest.mark.parametrize(
    "url",
    ["postgresql+psycopg://root@127.0.0.1:1/none", "sqlite:////no/such/place/crmhub.db", "bare"],
)
def test_it_answers_without_the_database(settings: Settings, tmp_path: Path, url: str) -> None:
    if url == "bare":
        url = f"sqlite:///{tmp_path / 'bare.db'}"
    app = create_app(replace(settings, database_url=url))
    found = scraped(app)
    assert ("crmhub_database_up", frozenset()) in found.samples
    assert found.of("database_up") == 0
    assert found.of("build_info") == 1
    assert {"actions", "connections_away"} & found.names() == set()
    app.extensions["crmhub"].close()


def test_the_page_for_operators_names_every_metric(app: flask.Flask) -> None:
    page = (Path(__file__).parents[2] / "docs" / "operator" / "metrics.md").read_text()
    documented = re.findall(r"^\| `(crmhub_\w+)` \| (\w+) \|", page, re.MULTILINE)
    told = re.findall(r"^# TYPE (\w+) (\w+)$", scraped(app).text, re.MULTILINE)
    assert sorted(documented) == sorted(told)


def test_only_get_is_taken(app: flask.Flask) -> None:
    assert app.test_client().post("/metrics").status_code == 405
    assert app.test_client().head("/metrics").status_code == 200
