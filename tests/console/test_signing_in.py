"""Who comes into the console, and how a session ends."""

from __future__ import annotations

import re

import pytest

from crmhub.accounts import users
from crmhub.actions.users import set_disabled, set_password
from crmhub.db import now_ms
from tests.clients import TESTS
from tests.consoles import PASSWORD, Operator, new_user, open_console, text_of

HOUR = 3600 * 1000


@pytest.fixture
def email(hub):
    return new_user(hub)


def cookie(answer):
    return next(
        (each for each in answer.headers.getlist("Set-Cookie") if "crmhub_console=" in each), ""
    )


def csrf(page):
    return re.search(r'name="csrf" value="(\w+)"', page.text)[1]


def test_a_user_signs_in_and_out(app, email):
    browser = Operator(app, email)
    answer = browser.sign_in()
    assert (answer.status_code, answer.location) == (303, "/console/accounts")
    assert email in text_of(browser.get("/accounts"))
    answer = browser.send("/sign-out", at="/accounts")
    assert answer.location == "/console/sign-in"
    assert "You are signed out." in text_of(browser.get("/sign-in"))
    assert browser.get("/accounts").status_code == 303


def test_a_session_is_new_at_each_sign_in_and_kept_from_scripts_and_other_sites(app, email):
    browser = Operator(app, email)
    before = cookie(browser.get("/sign-in"))
    after = cookie(browser.sign_in())
    assert before.partition(";")[0] != after.partition(";")[0]
    for each in (before, after):
        assert "HttpOnly" in each
        assert "SameSite=Lax" in each
        assert "Path=/console" in each
        assert "Secure" not in each


def test_over_https_the_cookie_is_for_https_alone(app):
    answer = Operator(app).open("GET", "/sign-in", base_url="https://hub.example.com")
    assert "Secure" in cookie(answer)
    assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
    assert "Strict-Transport-Security" not in Operator(app).get("/sign-in").headers


def test_a_wrong_password_and_an_unknown_email_are_told_the_same(app, email):
    wrong = Operator(app, email).sign_in("wrong horse battery")
    unknown = Operator(app, "nobody@example.com").sign_in()
    strange = Operator(app, "a\0b@example.com").sign_in()
    for answer in (wrong, unknown, strange):
        assert answer.status_code == 401
        assert "The email or the password is wrong." in text_of(answer)
    assert f'value="{email}"' in wrong.text
    assert "wrong horse" not in wrong.text


def test_a_password_may_be_typed_on_another_keyboard(app, hub):
    email = new_user(hub, "schönes passwort")
    assert Operator(app, email.upper()).sign_in("scho\u0308nes passwort").status_code == 303


def test_many_tries_are_stopped_whether_right_or_wrong(app, email, monkeypatch):
    monkeypatch.setattr("crmhub.accounts.passwords.fits", lambda *_: False)
    browser = Operator(app, email, address="198.51.100.7")
    statuses = [browser.sign_in().status_code for _ in range(40)]
    assert 401 in statuses
    assert statuses[-1] == 429
    assert "try again in" in text_of(browser.sign_in())
    # From elsewhere, too: it is this user who is guessed at.
    assert Operator(app, email, address="203.0.113.9").sign_in().status_code == 429
    other = Operator(app, "other@example.com", address="203.0.113.9")
    assert other.sign_in().status_code == 401


@pytest.mark.parametrize(
    ("path", "leads_to"),
    [
        ("/console/accounts?q=a%20b", "/console/accounts?q=a%20b"),
        ("https://evil.example/", "/console/accounts"),
        ("//evil.example/console", "/console/accounts"),
        ("/console\\@evil.example", "/console/accounts"),
        ("/consolex", "/console/accounts"),
        ("/console/\r\nSet-Cookie: a=b", "/console/accounts"),
    ],
)
def test_after_sign_in_one_is_led_to_pages_of_the_console_alone(app, hub, path, leads_to):
    assert open_console(app).get("/sign-in", query_string={"next": path}).location == leads_to


def test_who_is_not_signed_in_is_led_to_the_form_and_back(app, email):
    browser = Operator(app, email)
    answer = browser.get("/accounts?q=acme")
    assert answer.status_code == 303
    form = browser.http.get(answer.location, headers={"Accept": "text/html"})
    assert 'name="next" value="/console/accounts?q=acme"' in form.text


@pytest.mark.parametrize(
    ("page", "leads_to"),
    [
        ("http://localhost/console/accounts/new?a=b", "/console/accounts/new?a=b"),
        # What was sent before was answered under an address that cannot be opened.
        ("http://localhost/console/accounts/acme/crm/check", ""),
        ("http://elsewhere.example/console/audit", ""),
        ("http://[", ""),
        (None, ""),
    ],
)
def test_a_form_that_is_sent_when_the_session_is_over_is_told_of_and_led_back_to(
    app, hub, operator, page, leads_to
):
    form = {"name": "Not opened", "csrf": csrf(operator.get("/accounts/new"))}
    set_password(hub, operator.email, PASSWORD, by=TESTS)
    headers = {"Referer": page} if page else {}
    answer = operator.open("POST", "/accounts/new", data=form, headers=headers)
    assert answer.status_code == 401
    assert "The session is over, and what you sent changed nothing." in text_of(answer)
    assert f'name="next" value="{leads_to}"' in answer.text
    given = {"email": operator.email, "password": PASSWORD, "csrf": csrf(answer), "next": leads_to}
    signed_in = operator.open("POST", "/sign-in", data=given)
    assert signed_in.location == (leads_to or "/console/accounts")


def test_a_program_is_told_that_it_must_sign_in(app):
    answer = app.test_client().get("/console/accounts")
    assert answer.status_code == 401
    assert answer.json["category"] == "UnauthorizedError"


def test_another_password_ends_the_sessions(app, hub, operator):
    assert operator.get("/accounts").status_code == 200
    set_password(hub, operator.email, "another password", by=TESTS)
    assert operator.get("/accounts").status_code == 303
    browser = Operator(app, operator.email)
    assert browser.sign_in("none").status_code == 401
    assert browser.sign_in("another password").status_code == 303


def test_a_disabled_user_is_out_at_once_and_stays_out(app, hub, email):
    browser = Operator(app, email)
    browser.sign_in()
    set_disabled(hub, email, True, by=TESTS)
    assert browser.get("/accounts").status_code == 303
    assert browser.sign_in().status_code == 401
    set_disabled(hub, email, False, by=TESTS)
    assert browser.get("/accounts").status_code == 303
    assert browser.sign_in().status_code == 303


@pytest.mark.parametrize(
    ("seen", "ends", "status"),
    [(-1, 1, 200), (-7, 17, 200), (-9, 15, 303), (-1, -1, 303)],
    ids=["fresh", "idle", "idle for too long", "over"],
)
def test_a_session_ends_by_itself(hub, operator, seen, ends, status):
    user = next(one for one in users_of(hub) if one.email == operator.email)
    now = now_ms()
    hub.database.transact(
        lambda tx: tx.run(
            "update console_session set seen_at = :seen, ends_at = :ends where user_id = :id",
            {"id": user.user_id, "seen": now + seen * HOUR, "ends": now + ends * HOUR},
        )
    )
    assert operator.get("/accounts").status_code == status
    if status == 200:
        with hub.database.reading() as db:
            of = {"id": user.user_id}
            seen_at = db.scalar("select seen_at from console_session where user_id = :id", of)
        assert seen_at >= now


def users_of(hub):
    with hub.database.reading() as db:
        return users.list_users(db)


def test_nothing_of_a_session_or_a_password_is_in_the_database(hub, app, email):
    browser = Operator(app, email)
    session = cookie(browser.sign_in()).partition(";")[0].partition("=")[2]
    with hub.database.reading() as db:
        rows = db.rows("select * from console_session") + db.rows("select * from console_user")
    held = repr(rows)
    assert session not in held
    assert PASSWORD not in held
    assert "scrypt$15$8$3$" in held
