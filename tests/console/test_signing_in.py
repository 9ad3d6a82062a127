"""Who comes into the console, and how a session ends."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest

from crmhub.database.connection import now_ms
from crmhub.operators.users.console_users import set_disabled, set_password
from crmhub.users import passwords, users
from tests.clients import TESTS
from tests.consoles import (
    BROWSER,
    PASSWORD,
    Operator,
    new_user,
    open_console,
    text_of,
    unused_email,
)

pytestmark = pytest.mark.databases("sqlite")

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
    assert (answer.status_code, answer.location) == (303, "/console")
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
    for answer in (wrong, unknown):
        assert answer.status_code == 401
        assert "The email or the password is wrong." in text_of(answer)
    assert f'value="{email}"' in wrong.text
    assert "wrong horse" not in wrong.text


def test_a_password_may_be_typed_on_another_keyboard(app, hub):
    email = new_user(hub, "schönes passwort")
    assert Operator(app, email.upper()).sign_in("scho\u0308nes passwort").status_code == 303


# --- guesses at a password -------------------------------------------------------------------

HOME, ELSEWHERE, FAR = "198.51.100.7", "203.0.113.9", "192.0.2.4"


@pytest.fixture
def quick(app, monkeypatch):
    """Let a process count all of a limit, and a right password be found in no time."""
    hub = app.extensions["crmhub"]
    app.extensions["crmhub"] = replace(hub, settings=replace(hub.settings, workers=1))
    stored = passwords.to_store(PASSWORD)
    monkeypatch.setattr(passwords, "to_store", lambda _: stored)
    monkeypatch.setattr(passwords, "fits", lambda given, stored: bool(stored) and given == PASSWORD)
    yield app
    app.extensions["crmhub"] = hub


def guess(app, email, address, *, times=250):
    """Guess at a password from an address, for as long as that is not refused; return how often."""
    browser = Operator(app, email, address=address)
    csrf_field = {"csrf": csrf(browser.get("/sign-in"))}
    for n in range(times):
        form = {"email": email, "password": f"guess {n}", **csrf_field}
        if (answer := browser.open("POST", "/sign-in", data=form)).status_code == 429:
            assert int(answer.headers["Retry-After"]) >= 1
            return n
    return times


def guess_from_everywhere(app, email):
    """Guess from so many addresses that the email itself is limited."""
    return sum(guess(app, email, f"10.1.2.{n}") for n in range(12))


def known_browser(app, email, address=HOME):
    """Return a browser that the user has signed in with, and out again."""
    browser = Operator(app, email, address=address)
    assert browser.sign_in().status_code == 303
    browser.send("/sign-out", at="/accounts")
    return browser


def test_guesses_are_stopped_whether_right_or_wrong(quick, hub):
    email = new_user(hub)
    assert guess(quick, email, ELSEWHERE) == 20
    answer = Operator(quick, email, address=ELSEWHERE).sign_in()
    assert answer.status_code == 429
    assert "try again in" in text_of(answer)


def test_guesses_from_elsewhere_keep_nobody_out(quick, hub):
    email = new_user(hub)
    known = known_browser(quick, email)
    guess(quick, email, ELSEWHERE)
    assert known.sign_in().status_code == 303
    assert Operator(quick, email, address=FAR).sign_in().status_code == 303


def test_guesses_from_ones_own_address_keep_new_browsers_out_alone(quick, hub):
    email = new_user(hub)
    known = known_browser(quick, email)
    guess(quick, email, HOME)
    assert Operator(quick, email, address=HOME).sign_in().status_code == 429
    assert known.sign_in().status_code == 303
    # With another email the address is not used up.
    assert Operator(quick, new_user(hub), address=HOME).sign_in().status_code == 303


def test_guesses_at_many_emails_from_ones_own_address_keep_new_browsers_out_alone(quick, hub):
    email = new_user(hub)
    known = known_browser(quick, email)
    guessed = [guess(quick, f"nobody-{n}@example.com", HOME) for n in range(7)]
    assert sum(guessed) == 99
    assert Operator(quick, email, address=HOME).sign_in().status_code == 429
    assert known.sign_in().status_code == 303


def test_guesses_from_many_addresses_are_stopped_and_keep_new_browsers_out_alone(quick, hub):
    email = new_user(hub)
    known = known_browser(quick, email)
    assert guess_from_everywhere(quick, email) == 199
    assert guess(quick, email, ELSEWHERE) == 0
    assert Operator(quick, email, address=FAR).sign_in().status_code == 429
    assert known.sign_in().status_code == 303
    assert Operator(quick, new_user(hub), address=FAR).sign_in().status_code == 303


def test_a_session_goes_on_whatever_is_guessed(quick, hub):
    email = new_user(hub)
    browser = Operator(quick, email, address=HOME)
    browser.sign_in()
    guess(quick, email, HOME)
    guess_from_everywhere(quick, email)
    assert browser.get("/accounts").status_code == 200


def test_a_known_browser_guesses_no_more_often_than_others(quick, hub):
    email = new_user(hub)
    known = known_browser(quick, email)
    statuses = [known.sign_in("wrong").status_code for _ in range(21)]
    assert statuses == [401] * 20 + [429]
    # What it guesses is not counted against others.
    assert Operator(quick, email, address=HOME).sign_in().status_code == 303


def test_a_browser_is_known_for_its_own_user_alone(quick, hub):
    email, other = new_user(hub), new_user(hub)
    browser = known_browser(quick, email)
    token = browser.http.get_cookie(f"crmhub_device_{user_id(hub, email)}", path="/console").value
    stranger = Operator(quick, other, address=HOME)
    stranger.http.set_cookie(f"crmhub_device_{user_id(hub, other)}", token, path="/console")
    guess(quick, other, HOME)
    assert stranger.sign_in().status_code == 429


def test_one_browser_is_known_for_each_of_its_users(quick, hub):
    email, other = new_user(hub), new_user(hub)
    browser = known_browser(quick, email)
    browser.email = other
    assert browser.sign_in().status_code == 303
    for one in (email, other):
        guess(quick, one, HOME)
        browser.email = one
        browser.send("/sign-out", at="/accounts")
        assert browser.sign_in().status_code == 303


@pytest.mark.parametrize("change", ["password", "disabled"])
def test_a_browser_is_known_until_the_user_is_another(quick, hub, change, monkeypatch):
    email = new_user(hub)
    known = known_browser(quick, email)
    if change == "password":
        monkeypatch.setattr(passwords, "to_store", lambda _: "another")
        set_password(hub, email, PASSWORD, by=TESTS)
    else:
        set_disabled(hub, email, True, by=TESTS)
    guess(quick, email, HOME)
    assert known.sign_in().status_code == 429


def test_as_much_is_computed_for_an_unknown_email_as_for_a_wrong_password(app, email, monkeypatch):
    computed = []
    scrypt = passwords.hashlib.scrypt
    monkeypatch.setattr(
        passwords.hashlib,
        "scrypt",
        lambda *args, **how: computed.append(how) or scrypt(*args, **how),
    )
    assert Operator(app, email).sign_in("wrong horse battery").status_code == 401
    assert Operator(app, unused_email()).sign_in("wrong horse battery").status_code == 401
    wrong, unknown = ({**how, "salt": len(how["salt"])} for how in computed)
    assert wrong == unknown


def user_id(hub, email):
    return next(one for one in users_of(hub) if one.email == email).user_id


# --- the cookies -----------------------------------------------------------------------------


def test_over_https_no_cookie_can_be_set_from_another_host(app, email):
    https = {"base_url": "https://hub.example.com"}
    browser = Operator(app, email)
    page = browser.get("/sign-in", **https)
    form = {"email": email, "password": PASSWORD, "csrf": csrf(page)}
    answer = browser.open("POST", "/sign-in", data=form, **https)
    assert answer.status_code == 303
    set_now = answer.headers.getlist("Set-Cookie")
    assert len(set_now) == 2
    for each in (cookie(page), *set_now):
        assert each.startswith("__Host-crmhub_")
        assert "Secure" in each
        assert "; Path=/;" in f"{each};"
        assert "Domain" not in each
    assert browser.get("/accounts", **https).status_code == 200


def test_a_cookie_of_the_host_wins_over_a_plain_one(app, operator):
    session = operator.http.get_cookie("crmhub_console", path="/console").value
    bare = app.test_client(use_cookies=False)
    both = {"Cookie": f"crmhub_console={'x' * 43}; __Host-crmhub_console={session}"}
    swapped = {"Cookie": f"crmhub_console={session}; __Host-crmhub_console={'x' * 43}"}
    for sent, status in ((both, 200), (swapped, 303)):
        answer = bare.get("/console/accounts", headers={**BROWSER, **sent})
        assert answer.status_code == status


def test_in_production_a_plain_cookie_is_none(app, hub, operator):
    session = operator.http.get_cookie("crmhub_console", path="/console").value
    bare = app.test_client(use_cookies=False)
    app.extensions["crmhub"] = replace(hub, settings=replace(hub.settings, env="production"))
    try:
        for name, status in (("crmhub_console", 303), ("__Host-crmhub_console", 200)):
            sent = {**BROWSER, "Cookie": f"{name}={session}"}
            answer = bare.get("/console/accounts", headers=sent)
            assert answer.status_code == status
    finally:
        app.extensions["crmhub"] = hub


# --- where it leads --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "leads_to"),
    [
        ("/console/accounts?q=a%20b", "/console/accounts?q=a%20b"),
        ("https://evil.example/", "/console"),
        ("//evil.example/console", "/console"),
        ("/console\\@evil.example", "/console"),
        ("/consolex", "/console"),
        ("/console/\r\nSet-Cookie: a=b", "/console"),
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
    assert "Your session has expired, and nothing was changed." in text_of(answer)
    assert f'name="next" value="{leads_to}"' in answer.text
    given = {"email": operator.email, "password": PASSWORD, "csrf": csrf(answer), "next": leads_to}
    signed_in = operator.open("POST", "/sign-in", data=given)
    assert signed_in.location == (leads_to or "/console")


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


def begun(app, email, time_machine):
    """Return the browser of somebody who has just signed in, at a time that a test moves."""
    time_machine.move_to(time.time(), tick=True)
    browser = Operator(app, email)
    assert browser.sign_in().status_code == 303
    return browser


@pytest.mark.parametrize("hours", [-1, 1], ids=["back", "ahead"])
def test_a_session_outlives_a_clock_that_is_set_by_an_hour(app, email, time_machine, hours):
    browser = begun(app, email, time_machine)
    time_machine.shift(hours * 3600)
    assert browser.get("/accounts").status_code == 200


@pytest.mark.parametrize("hours", [26, -26, 24 * 4000, -24 * 4000])
def test_a_session_ends_where_a_clock_is_set_further_and_another_one_begins(
    app, hub, email, time_machine, hours
):
    browser = begun(app, email, time_machine)
    time_machine.shift(hours * 3600)
    assert browser.get("/accounts").status_code == 303
    again = Operator(app, email)
    assert again.sign_in().status_code == 303
    assert again.get("/accounts").status_code == 200
    # Nor does the first one come back when the clock is as it was.
    user = next(one for one in users_of(hub) if one.email == email)
    with hub.database.reading() as db:
        of = {"id": user.user_id}
        assert db.scalar("select count(*) from console_session where user_id = :id", of) == 1


@pytest.mark.parametrize(("set_back", "lasts"), [(0, 23), (1, 24), (2, 0), (20, 0)])
def test_no_session_lasts_longer_than_a_day_and_an_hour(app, email, time_machine, set_back, lasts):
    browser = begun(app, email, time_machine)
    time_machine.shift(-set_back * 3600 + 60)
    hours = 0
    while browser.get("/accounts").status_code == 200:
        time_machine.shift(3600)
        hours += 1
    assert hours == lasts + bool(lasts)


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
    assert "scrypt$" in held
