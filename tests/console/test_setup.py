"""The one-time link: it creates one console user, once, and nobody else gets in by it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import flask
import pytest

from crmhub.app import create_app
from crmhub.database.connection import now_ms
from crmhub.errors import NotFound, Semantic
from crmhub.hub import Hub
from crmhub.operators.users import setup_link
from crmhub.settings import Settings
from crmhub.users import user_links, users
from tests.clients import TESTS
from tests.consoles import PASSWORD, Operator, new_user, text_of, unused_email
from tests.own_databases import empty, own_database

DAY = 24 * 3600 * 1000


@pytest.fixture(scope="module")
def new_app(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[flask.Flask]:
    """The application on a database of its own."""
    kind = settings.database_url.partition(":")[0].partition("+")[0]
    with own_database(kind, tmp_path_factory.mktemp("setup")) as url:
        empty(url)
        app = create_app(replace(settings, database_url=url))
        yield app
        app.extensions["crmhub"].close()


@pytest.fixture
def first(new_app: flask.Flask) -> Hub:
    """A hub without any console user."""
    hub: Hub = new_app.extensions["crmhub"]
    hub.database.transact(lambda tx: tx.run("delete from console_user"))
    return hub


def issued(hub):
    return setup_link.issue(hub, expires_at=now_ms() + DAY, by=TESTS).path.removeprefix("/console")


def send(browser, path, email, password=PASSWORD, again=PASSWORD):
    return browser.send(path, {"email": email, "password": password, "again": again})


def emails(hub):
    with hub.database.reading() as db:
        return [user.email for user in users.list_users(db)]


def test_the_link_creates_the_first_user_and_signs_them_in(new_app, first):
    link = setup_link.issue_first(first, by=TESTS)
    browser = Operator(new_app)
    answer = send(browser, link.path.removeprefix("/console"), "Ops@Example.com")
    assert (answer.status_code, answer.location) == (303, "/console")
    assert "ops@example.com" in text_of(browser.get("/accounts"))
    assert emails(first) == ["ops@example.com"]


def test_the_link_works_once(new_app, first):
    path = issued(first)
    assert send(Operator(new_app), path, "a@example.com").status_code == 303
    answer = Operator(new_app).get(path)
    assert answer.status_code == 404
    assert "This link was used already, has expired" in text_of(answer)
    with pytest.raises(NotFound):
        setup_link.create_user(first, path.removeprefix("/setup/"), "b@example.com", PASSWORD)


def test_of_several_who_use_the_link_at_once_one_gets_in(first):
    token = issued(first).removeprefix("/setup/")

    def create(email):
        try:
            setup_link.create_user(first, token, email, PASSWORD)
        except NotFound:
            return None
        return email

    with ThreadPoolExecutor(4) as pool:
        created = list(pool.map(create, [f"p{n}@example.com" for n in range(4)]))
    assert [email for email in created if email] == emails(first)
    assert len(emails(first)) == 1


def test_the_first_users_link_works_only_while_there_is_no_user(new_app, first):
    path = setup_link.issue_first(first, by=TESTS).path.removeprefix("/console")
    assert Operator(new_app).get(path).status_code == 200
    new_user(first)
    assert Operator(new_app).get(path).status_code == 404
    assert setup_link.issue_first(first, by=TESTS) is None


def test_a_commands_link_works_beside_other_users_and_replaces_the_former_link(new_app, first):
    new_user(first)
    former, path = issued(first), issued(first)
    assert Operator(new_app).get(former).status_code == 404
    assert send(Operator(new_app), path, "b@example.com").status_code == 303


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("email", "password", "again", "status", "words"),
    [
        ("nobody", PASSWORD, PASSWORD, 422, "is not an email address"),
        ("a@example.com", "short", "short", 422, "It has 5 characters; give 12"),
        ("a@example.com", PASSWORD, "another password", 422, "The two passwords differ."),
        ("taken", PASSWORD, PASSWORD, 409, ""),
    ],
)
def test_a_refused_form_keeps_the_link_and_the_email(
    app, hub, email, password, again, status, words
):
    if email.startswith("taken"):
        email = new_user(hub)
        words = f"There is a user {email}"
    path = issued(hub)
    answer = send(Operator(app), path, email, password, again)
    assert answer.status_code == status
    assert words in text_of(answer)
    assert f'value="{email}"' in answer.text
    assert send(Operator(app), path, unused_email()).status_code == 303


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("days", [2, -9])
def test_the_link_expires_and_does_not_outlive_a_clock_that_was_ahead(app, hub, time_machine, days):
    path = issued(hub)
    assert Operator(app).get(path).status_code == 200
    time_machine.move_to((now_ms() + days * DAY) / 1000, tick=True)
    assert Operator(app).get(path).status_code == 404


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("path", ["/setup/x", "/setup/" + "a" * 43])
def test_a_guessed_link_is_answered_without_hashing_a_password(app, monkeypatch, path):
    monkeypatch.setattr("crmhub.users.passwords.to_store", None)
    browser = Operator(app)
    form = {"email": "a@example.com", "password": PASSWORD, "again": PASSWORD}
    answer = browser.send(path, form, at="/sign-in")
    assert answer.status_code == 404
    assert "This link no longer works" in text_of(answer)


@pytest.mark.databases("sqlite")
def test_no_link_lasts_longer_than_a_week(hub):
    for ends_at in (now_ms() + 8 * DAY, now_ms() - 1):
        with pytest.raises(Semantic, match="at most 7 days"):
            setup_link.issue(hub, expires_at=ends_at, by=TESTS)


@pytest.mark.databases("sqlite")
def test_only_the_digest_of_the_link_is_stored_and_the_log_names_who_issued_it(app, hub):
    path = issued(hub)
    with hub.database.reading() as db:
        held = repr(db.rows("select * from console_setup_link"))
        assert path.removeprefix("/setup/") not in held
        assert user_links.find_setup(db, path.removeprefix("/setup/")) == TESTS.name
    email = unused_email()
    assert send(Operator(app), path, email).status_code == 303
    with hub.database.reading() as db:
        became = db.scalar("select became from audit where author = :email", {"email": email})
    assert TESTS.name in became
