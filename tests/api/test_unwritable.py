"""What reads is answered while the database takes no writes, as on a full disk or a standby."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import flask
import pytest
import sqlalchemy

from adapters.fakes.hubspot.fake import FakeHubSpot, Options
from crmhub.adapter import Unavailable
from crmhub.hub import Hub
from crmhub.queue import outages
from crmhub.users.user_sessions import IDLE_MS
from tests import databases
from tests.api.helpers.helper_calls import (
    CREATE_DEAL,
    CREATE_LEAD,
    GET_PROPERTIES,
    GET_TYPE,
    SET_PROPERTIES,
    known,
    lead,
)
from tests.api.refusals import refused
from tests.clients import Client
from tests.consoles import Operator, new_user
from tests.fakes import FakeCrm, hubspot_client

pytestmark = pytest.mark.usefixtures("fakes")

Unwritable = Callable[[], AbstractContextManager[None]]
PHONE = "+12025550100"


@pytest.fixture
def bot(fake: tuple[Client, FakeCrm]) -> Client:
    known(fake[0], phone=PHONE)
    return fake[0]


@pytest.fixture
def unwritable(hub: Hub) -> Unwritable:
    """A block in which the database takes no writes."""
    database = hub.database

    @contextmanager
    def of_sqlite() -> Iterator[None]:
        def query_only(driver: Any, _record: Any) -> None:
            driver.execute("PRAGMA query_only = ON")

        sqlalchemy.event.listen(database._engine, "connect", query_only)
        database.close()
        try:
            yield
        finally:
            sqlalchemy.event.remove(database._engine, "connect", query_only)

    @contextmanager
    def unwritable() -> Iterator[None]:
        way = of_sqlite() if database.dialect == "sqlite" else databases.read_only(database)
        try:
            with way:
                yield
        finally:
            # Its connections take none for as long as they last.
            database.close()

    return unwritable


def properties(client: Client) -> tuple[int, str, str]:
    answer = client.helper(GET_PROPERTIES, {"contactToken": "t", "props": ["email", "city"]})
    return answer.status_code, answer.json["stale"], answer.json["email"]  # type: ignore[index]


@pytest.mark.parametrize("path", [CREATE_LEAD, SET_PROPERTIES, CREATE_DEAL])
def test_what_writes_is_refused_for_now(bot: Client, unwritable: Unwritable, path: str) -> None:
    bodies: dict[str, Any] = {
        CREATE_LEAD: {"contactToken": "u", "name": "Ben Lee", "email": "ben@x.org"},
        SET_PROPERTIES: {"contactToken": "t", "props": {"city": "Rome"}},
        CREATE_DEAL: {"contactId": "c-1", "properties": {"dealname": "A"}},
    }
    with unwritable():
        answer = bot.helper(path, bodies[path])
        assert "cannot be written" in refused(answer, 503)
        assert answer.headers["Retry-After"] == "1"
    assert bot.helper(path, bodies[path]).status_code == 200


def test_get_properties_is_answered_by_the_crm(bot: Client, unwritable: Unwritable) -> None:
    with unwritable():
        assert properties(bot) == (200, "", "ann@x.org")


def test_where_calls_to_the_crm_cannot_be_counted_what_was_last_known_is_told(
    app: flask.Flask, unwritable: Unwritable
) -> None:
    with FakeHubSpot(Options(limit="none", search_limit="none")) as hubspot:
        client = hubspot_client(app, hubspot)
        known(client, phone=PHONE)
        with unwritable():
            assert properties(client) == (200, "true", "ann@x.org")
        assert properties(client) == (200, "", "ann@x.org")


def test_a_crm_that_is_away_too_is_not_asked_in_vain(
    bot: Client,
    fake: tuple[Client, FakeCrm],
    unwritable: Unwritable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # It counts as away at the first failure.
    monkeypatch.setattr(outages, "_FAILURES", 1)
    monkeypatch.setattr(outages, "_LASTING_S", 0.0)
    fake[1].failure = Unavailable("no route")
    with unwritable():
        assert properties(bot) == (200, "true", "ann@x.org")


@pytest.mark.parametrize("crm", ["fake", "hubspot"])
def test_get_type_is_answered(
    app: flask.Flask, bot: Client, unwritable: Unwritable, crm: str
) -> None:
    asked = {"contactnumber": PHONE, "interval": 48, "lastChatInterval": 0}
    with FakeHubSpot(Options(limit="none", search_limit="none")) as hubspot:
        client = bot if crm == "fake" else hubspot_client(app, hubspot)
        if crm == "hubspot":
            known(client, phone=PHONE)
        with unwritable():
            answer = client.helper(GET_TYPE, asked)
    assert answer.status_code == 200, answer.text
    assert answer.json["stale"] == ("" if crm == "fake" else "true")  # type: ignore[index]


def test_whoever_is_signed_in_sees_the_console(
    app: flask.Flask, hub: Hub, unwritable: Unwritable
) -> None:
    browser = Operator(app, new_user(hub))
    browser.sign_in()
    # It is long ago that the session was used.
    earlier = "update console_session set seen_at = seen_at - :ms"
    hub.database.transact(lambda tx: tx.run(earlier, {"ms": IDLE_MS // 2}))
    with unwritable():
        assert browser.get("/accounts").status_code == 200


def test_a_lead_is_taken_again_afterwards(bot: Client, unwritable: Unwritable) -> None:
    with unwritable():
        assert lead(bot, "u", email="ben@x.org").status_code == 503
    assert lead(bot, "u", email="ben@x.org").status_code == 200
