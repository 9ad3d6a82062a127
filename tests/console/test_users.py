"""Users of the console: invitation, password reset, roles, second factor, admin tokens."""

from __future__ import annotations

import html
import re
import time

import pyotp
import pytest

from crmhub.hub import Hub
from crmhub.operators.users.console_users import invite
from crmhub.users import users
from tests.clients import TESTS
from tests.consoles import (
    PASSWORD,
    Operator,
    new_user,
    open_console,
    text_of,
    unused_email,
    value_of,
)
from tests.queue.working import soon

pytestmark = pytest.mark.databases("sqlite")

NEW = "another horse battery"


@pytest.fixture
def email(hub):
    return new_user(hub)


def user_of(hub: Hub, email: str) -> users.User:
    with hub.database.reading() as db:
        return users.load(db, email)


def link_on(answer) -> str:
    """Return the path of the one-time link that a page shows, below /console."""
    return value_of(answer, "link").partition("/console")[2]


def last_entry(operator: Operator) -> str:
    return text_of(operator.get("/audit?object=user")).partition("Clear")[2]


def test_an_invited_user_joins_by_a_link_with_the_role_that_was_set(app, hub, operator, client):
    email, name = unused_email(), client.account.client_id
    form = {"email": email, "role": "reader", "scope": "some", "accounts": f" {name}\n"}
    answer = operator.send("/users", form)
    assert answer.status_code == 201
    link = link_on(answer)
    listed = text_of(operator.get("/users"))
    assert f"{email} Reader {name} invited expires" in listed
    browser = Operator(app, email)
    # Opening is not using: programs that show previews open links, too.
    assert browser.get(link).status_code == browser.get(link).status_code == 200
    passwords = {"password": NEW, "again": NEW}
    assert browser.send(link, passwords).location == "/console/sign-in"
    assert browser.sign_in(NEW).status_code == 303
    assert text_of(browser.get("/accounts")).count(" stored in crmhub ") == 1
    assert browser.get("/users").status_code == 403
    user = user_of(hub, email)
    assert (user.role, user.accounts) == ("reader", {client.account.id})
    again = Operator(app).get(link)
    assert again.status_code == 404
    assert "has expired or was used" in text_of(again)


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"email": "nobody", "role": "reader"}, "is not an email address"),
        ({"email": "a@example.com", "role": "emperor"}, "There is no role 'emperor'"),
        ({"email": "a@example.com", "role": "owner", "scope": "some", "accounts": "demo"}, "demo"),
        ({"email": "a@example.com", "role": "reader", "scope": "some"}, "Choose 1 to"),
    ],
)
def test_an_invitation_that_cannot_be_is_shown_again(operator, form, words):
    answer = operator.send("/users", form)
    assert answer.status_code == 422
    assert words in text_of(answer)
    assert f'value="{form["email"]}"' in answer.text


def test_nobody_gets_in_before_they_join_or_after_the_invitation_ends(app, hub, time_machine):
    email = unused_email()
    token = invite(hub, email, role="reader", by=TESTS)
    browser = Operator(app, email)
    assert browser.sign_in("").status_code == 401
    time_machine.move_to(time.time() + 8 * 24 * 3600, tick=True)
    assert browser.get(f"/join/{token}").status_code == 404


def test_a_reset_ends_sessions_and_its_link_sets_the_password(app, hub, operator, email):
    browser = Operator(app, email)
    browser.sign_in()
    path = f"/users/{user_of(hub, email).user_id}"
    link = link_on(operator.send(f"{path}/link", at=path))
    assert browser.get("/accounts").status_code == 303
    short = browser.send(link, {"password": "short", "again": "short"})
    assert "give 12 to" in text_of(short)
    differ = browser.send(link, {"password": NEW, "again": f"{NEW}!"})
    assert "The two passwords differ" in text_of(differ)
    assert browser.send(link, {"password": NEW, "again": NEW}).status_code == 303
    assert browser.sign_in().status_code == 401
    assert browser.sign_in(NEW).status_code == 303


def test_a_link_of_a_user_who_was_disabled_is_none(app, hub, operator, email):
    path = f"/users/{user_of(hub, email).user_id}"
    link = link_on(operator.send(f"{path}/link", at=path))
    operator.send(f"{path}/disabled", {"disable": "true"}, at=path)
    operator.send(f"{path}/disabled", {"enable": "true"}, at=path)
    assert Operator(app).get(link).status_code == 404


def test_an_owner_changes_disables_and_removes_a_user(app, hub, operator, email, client):
    user, name = user_of(hub, email), client.account.client_id
    path = f"/users/{user.user_id}"
    form = {"role": "operator", "scope": "some", "accounts": name}
    assert operator.send(path, form).location == f"/console{path}"
    assert user_of(hub, email).accounts == {client.account.id}
    log = last_entry(operator)
    assert "changed a user" in log
    assert f"role owner operator accounts all {name}" in log
    operator.send(f"{path}/disabled", {"disable": "true"}, at=path)
    assert "disabled" in text_of(operator.get(path))
    assert operator.send(f"{path}/remove", at=path).location == "/console/users"
    assert email not in text_of(operator.get("/users")).replace(f"{email} is removed", "")
    assert operator.get(path).status_code == 404


def test_admin_tokens_are_made_shown_once_and_revoked(app, operator):
    form = {"name": "Night shift", "scope": "actions:read", "life": "365"}
    answer = operator.send("/tokens", form)
    assert answer.status_code == 201
    token = value_of(answer, "admin-token")
    listed = operator.get("/tokens")
    assert token not in listed.text
    assert "Night shift" in text_of(listed)
    headers = {"Authorization": f"Bearer {token}"}
    assert app.test_client().get("/admin/v1/actions", headers=headers).status_code == 200
    for path in re.findall(r'action="/console(/tokens/\w+/revoke)"', listed.text):
        operator.send(path, at="/tokens")
    soon(lambda: app.test_client().get("/admin/v1/actions", headers=headers).status_code == 401)
    assert operator.send("/tokens", {"name": " "}).status_code == 422


def test_what_forms_say_about_the_end_is_a_year_unless_chosen(operator):
    for life, words in (("365", "in a year"), ("", "never")):
        answer = operator.send("/tokens", {"name": "x", "life": life})
        assert ("never" in text_of(answer)) is (words == "never")
    # Whatever else is sent means the default.
    assert "never" not in text_of(operator.send("/tokens", {"name": "x", "life": "soon"}))


# --- the user's own page -----------------------------------------------------------------------


def test_a_user_changes_their_password(app, email):
    browser = Operator(app, email)
    browser.sign_in()
    form = {"present": "wrong horse battery", "password": NEW, "again": NEW}
    wrong = browser.send("/profile/password", form, at="/profile")
    assert "The present password is wrong" in text_of(wrong)
    right = browser.send("/profile/password", form | {"present": PASSWORD}, at="/profile")
    assert right.location == "/console/sign-in"
    assert browser.get("/accounts").status_code == 303
    assert browser.sign_in(NEW).status_code == 303


# --- the second factor -------------------------------------------------------------------------


def turn_on(browser: Operator) -> tuple[pyotp.TOTP, list[str]]:
    """Turn on the second factor of the signed-in user; return its codes and recovery codes."""
    page = browser.get("/profile/second-factor")
    codes = pyotp.TOTP(value_of(page, "totp-key"))
    sealed = html.unescape(re.search(r'name="sealed" value="([^"]*)"', page.text)[1])
    form = {"sealed": sealed, "code": codes.now()}
    answer = browser.send("/profile/second-factor", form, at="/profile")
    assert answer.status_code == 201
    recovery = re.search(r'id="c-recovery-codes">([^<]*)<', answer.text)[1].split()
    return codes, recovery


def step_of(answer) -> dict[str, str]:
    """Return the hidden fields of the page that asks for a code."""
    assert "Second factor" in text_of(answer)
    return {
        name: html.unescape(value)
        for name, value in re.findall(r'name="(step|csrf|next)" value="([^"]*)"', answer.text)
    }


def enter(browser: Operator, answer, code: str):
    return browser.open("POST", "/sign-in/code", data={**step_of(answer), "code": code})


@pytest.fixture
def secured(app, email):
    """A user with a second factor: their browser, signed out, their codes and recovery codes."""
    browser = Operator(app, email)
    browser.sign_in()
    codes, recovery = turn_on(browser)
    browser.send("/sign-out", at="/accounts")
    return browser, codes, recovery


def later(codes: pyotp.TOTP) -> str:
    """Return a right code that was not used to turn the second factor on."""
    return codes.at(time.time() + 30)


def test_the_qr_code_is_an_image_of_the_page_itself(operator):
    page = operator.get("/profile/second-factor")
    assert re.search(r"<svg[^>]*>.*</svg>", page.text, re.DOTALL)
    assert not re.search(r"\sstyle=|<image|xlink|https?://", page.text.partition("<svg")[2])


def test_a_user_with_a_second_factor_enters_a_code(secured, app):
    browser, codes, _ = secured
    asked = browser.sign_in(next="/console/audit")
    assert asked.status_code == 200
    # The password alone opens nothing.
    assert browser.get("/accounts").status_code == 303
    wrong = enter(browser, asked, "000000")
    assert wrong.status_code == 401
    assert "The code is wrong" in text_of(wrong)
    right = enter(browser, asked, later(codes))
    assert (right.status_code, right.location) == (303, "/console/audit")
    assert browser.get("/accounts").status_code == 200


def test_a_code_is_not_accepted_twice(secured, app):
    browser, codes, recovery = secured
    code = later(codes)
    assert enter(browser, browser.sign_in(), code).status_code == 303
    thief = Operator(app, browser.email)
    assert enter(thief, thief.sign_in(), code).status_code == 401
    assert enter(thief, thief.sign_in(), recovery[0]).status_code == 303
    again = Operator(app, browser.email)
    assert enter(again, again.sign_in(), recovery[0].upper()).status_code == 401
    assert enter(again, again.sign_in(), recovery[1].replace("-", " ")).status_code == 303
    assert "8 recovery codes left" in text_of(again.get("/profile"))


def test_a_first_step_is_of_one_browser_for_five_minutes_and_one_password(
    secured, app, hub, time_machine
):
    browser, codes, _ = secured
    asked = browser.sign_in()
    stolen = Operator(app, browser.email)
    form = step_of(asked)
    csrf = re.search(r'name="csrf" value="(\w+)"', stolen.get("/sign-in").text)[1]
    sent = {**form, "csrf": csrf, "code": later(codes)}
    assert stolen.open("POST", "/sign-in/code", data=sent).status_code == 401
    for step in ("", ":", "usr_x:1:2", form["step"] + "0"):
        sent = {**form, "step": step, "code": later(codes)}
        assert browser.open("POST", "/sign-in/code", data=sent).status_code == 401
    time_machine.move_to(time.time() + 301, tick=True)
    late = enter(browser, asked, codes.now())
    assert "Too much time has passed" in text_of(late)


def test_guesses_at_a_code_are_throttled(secured, app):
    browser, codes, _ = secured
    thief = Operator(app, browser.email)
    asked = thief.sign_in()
    statuses = [enter(thief, asked, f"{n:06}").status_code for n in range(12)]
    assert (statuses[0], statuses[-1]) == (401, 429)
    blocked = enter(thief, asked, later(codes))
    assert blocked.status_code == 429
    assert int(blocked.headers["Retry-After"]) > 0
    # Nor is the user kept out, in the browser that they have signed in with before.
    assert enter(browser, browser.sign_in(), later(codes)).status_code == 303


def test_a_user_turns_the_second_factor_off_with_a_code(secured):
    browser, codes, recovery = secured
    enter(browser, browser.sign_in(), recovery[0])
    off = "/profile/second-factor/off"
    assert browser.send(off, {"code": "000000"}, at="/profile").status_code == 422
    new = browser.send("/profile/recovery-codes", {"code": recovery[1]}, at="/profile")
    assert recovery[2] not in new.text
    assert browser.send(off, {"code": recovery[2]}, at="/profile").status_code == 422
    assert browser.send(off, {"code": later(codes)}, at="/profile").status_code == 303
    browser.send("/sign-out", at="/accounts")
    assert browser.sign_in().status_code == 303


def test_an_owner_resets_the_second_factor_of_a_user(secured, app, hub, operator):
    browser, _, recovery = secured
    enter(browser, browser.sign_in(), recovery[0])
    path = f"/users/{user_of(hub, browser.email).user_id}"
    assert operator.send(f"{path}/second-factor", at=path).status_code == 303
    assert browser.get("/accounts").status_code == 303
    assert browser.sign_in().status_code == 303
    assert "reset a user" in last_entry(operator)


def test_a_secret_that_was_not_made_for_the_user_turns_nothing_on(app, hub, email):
    other = open_console(app)
    page = other.get("/profile/second-factor")
    sealed = html.unescape(re.search(r'name="sealed" value="([^"]*)"', page.text)[1])
    browser = Operator(app, email)
    browser.sign_in()
    code = pyotp.TOTP(value_of(page, "totp-key")).now()
    for each in (sealed, "", "v1.k1.xx"):
        form = {"sealed": each, "code": code}
        answer = browser.send("/profile/second-factor", form, at="/profile")
        assert answer.status_code in (409, 422), each
    assert not user_of(hub, email).has_second_factor


def test_nothing_of_a_link_a_secret_or_a_code_is_in_the_database(secured, hub):
    _, codes, recovery = secured
    token = invite(hub, unused_email(), role="reader", by=TESTS)
    tables = ("console_user", "console_link", "console_recovery_code", "audit")
    with hub.database.reading() as db:
        held = repr([db.rows(f"select * from {table}") for table in tables])
    for secret in (codes.secret, token, recovery[0], recovery[0].replace("-", "")):
        assert secret not in held
