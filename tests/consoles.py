"""An operator at the console, as a browser without JavaScript: pages are read, forms are sent."""

from __future__ import annotations

import html
import re
from random import randrange
from typing import Any

import flask
from werkzeug.test import TestResponse

from crmhub.hub import Hub
from crmhub.operators.users.console_users import create_user
from crmhub.secrets import BASE36, token
from crmhub.users import user_sessions, users
from tests.clients import TESTS

PASSWORD = "correct horse battery"
BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
_CSRF = re.compile(r'name="csrf" value="([0-9a-f]{32})"')


class Operator:
    """A browser at the console; `sign_in` or `open_console` gives it a session."""

    def __init__(self, app: flask.Flask, email: str = "", address: str = "") -> None:
        self.email = email
        self.http = app.test_client()
        # Each from elsewhere: what one test tries is not counted against another.
        self._environ = {"REMOTE_ADDR": address or f"198.18.{randrange(256)}.{randrange(256)}"}

    def open(self, method: str, path: str, **options: Any) -> TestResponse:
        """Send a request as a browser does; nothing is added to it."""
        headers = {**BROWSER, **options.pop("headers", {})}
        return self.http.open(
            f"/console{path}",
            method=method,
            headers=headers,
            environ_overrides=self._environ,
            **options,
        )

    def get(self, path: str, **options: Any) -> TestResponse:
        return self.open("GET", path, **options)

    def send(self, path: str, form: dict[str, Any] | None = None, **options: Any) -> TestResponse:
        """Open the page with the form, and send it with the token that stands there."""
        field = _CSRF.search(self.get(options.pop("at", path)).text)
        assert field is not None, "no form on that page"
        return self.open("POST", path, data={**(form or {}), "csrf": field[1]}, **options)

    def sign_in(self, password: str = PASSWORD, **form: str) -> TestResponse:
        return self.send("/sign-in", {"email": self.email, "password": password, **form})


def new_user(hub: Hub, password: str = PASSWORD) -> str:
    """Make a user of the console and return their email."""
    return create_user(hub, unused_email(), password, by=TESTS).email


def unused_email() -> str:
    """Return an email that no other test has."""
    return f"op-{token(40, BASE36)}@example.com"


def open_console(app: flask.Flask) -> Operator:
    """Return a browser whose user is signed in, without the half second that signing in takes."""
    hub: Hub = app.extensions["crmhub"]
    operator = Operator(app, unused_email())
    session = start_session(hub, operator.email)
    operator.http.set_cookie("crmhub_console", session, path="/console")
    return operator


def start_session(hub: Hub, email: str) -> str:
    """Make a user whom no password lets in, and return the token of their session."""

    def work(tx: Any) -> str:
        user = users.create(tx, email, "none")
        session = user_sessions.start_session(tx, user.user_id, "none")
        assert session is not None
        return session

    return hub.database.transact(work)


def fault_of(answer: TestResponse, name: str) -> str:
    """Return the error at a field of the page; the field says that it is wrong, and names it."""
    field = re.search(rf'<\w+ [^>]*id="f-{re.escape(name)}"[^>]*>', answer.text)
    assert field is not None, name
    fault = re.search(rf'id="([ew]-{re.escape(name)})"[^>]*>(.*?)</div>', answer.text, re.DOTALL)
    text = html.unescape(fault[2]).strip() if fault else ""
    marks = ('aria-invalid="true"' in field[0], bool(fault and fault[1] in field[0]))
    assert marks == (bool(text), bool(text)), field[0]
    return text


def text_of(answer: TestResponse) -> str:
    """Return what a page says, without its tags."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", answer.text)).split())


def value_of(answer: TestResponse, id: str) -> str:
    """Return the value that a page offers for copying under this id."""
    found = re.search(rf'id="c-{id}" value="([^"]*)"', answer.text)
    assert found is not None, id
    return html.unescape(found[1])
