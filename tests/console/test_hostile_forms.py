"""Whatever a form or a filter says, the console answers it as a refusal and never as a bug."""

from __future__ import annotations

import re

import pytest

from tests.console.test_roles import console_routes, failed, path_of, path_values, signed_in

__all__ = ["failed"]

# PostgreSQL refuses texts and numbers that SQLite stores.
pytestmark = pytest.mark.databases("postgresql")

# Forms that end the session, the user or the account's subscription, which others need.
_ENDING = (
    "sign_out",
    "profile_password",
    "users_remove",
    "users_disable",
    "users_link",
    "events_remove",
)
_HOSTILE = {
    "nothing": "",
    "characters": "a\0b \udcff\r\nBcc: x@example.com %(name)s {0} {{7*7}} %",
    "markup": "</textarea><script>alert(1)</script>'\"",
    "digits": "9" * 400,
    "the last moment": "9999-12-31T23:59",
    "a path": "../../etc/localtime",
}


@pytest.mark.parametrize("value", _HOSTILE.values(), ids=_HOSTILE)
def test_no_form_and_no_filter_breaks_a_page(app, hub, client, failed, value):
    owner = signed_in(app, "owner")
    values = path_values(hub, client, *failed)
    routes = [one for one in console_routes(app) if not one[0].endswith(_ENDING)]
    pages = "".join(
        owner.get(path_of(rule, values)).text for _, rule, methods in routes if "GET" in methods
    )
    names = set(re.findall(r'<[^>]* name="([^"]+)"', pages)) - {"csrf"}
    assert len(names) > 100
    said = dict.fromkeys(names, value.encode(errors="surrogateescape"))
    form = {**said, "csrf": re.search(r'name="csrf" value="(\w+)"', pages)[1]}
    for _, rule, methods in routes:
        for method in methods:
            sent = {"data": form} if method == "POST" else {"query_string": said}
            answer = owner.open(method, path_of(rule, values), **sent)
            assert answer.status_code < 500, (method, rule)
            assert "<script>alert" not in answer.text, (method, rule)
    assert owner.get("/profile").status_code == 200
