"""Who may call the admin API."""

from __future__ import annotations

import re
from collections.abc import Iterator

import flask
import pytest

from crmhub.accounts.admin_tokens import SCOPES
from crmhub.accounts.limits import Limits
from crmhub.hub import Hub
from crmhub.secrets import new_admin_token, new_api_key
from tests.admin import Admin, open_admin
from tests.api.endpoints import METHODS, endpoints, example
from tests.api.refusals import assert_no_faults, faults, refused
from tests.clients import Client


@pytest.fixture(autouse=True)
def fresh_misses(hub: Hub) -> Iterator[None]:
    """Give each test a fresh count of misses: all of them call from one address."""
    limits = hub.limits
    object.__setattr__(hub, "limits", Limits(None))
    yield
    object.__setattr__(hub, "limits", limits)


RIGHTS = (":read", ":write")
WRONG = {
    "none": "",
    "another scheme": f"Basic {new_admin_token()}",
    "no scheme": new_admin_token(),
    "a scheme alone": "Bearer",
    "a scheme and blanks": "Bearer   ",
    "never issued": f"Bearer {new_admin_token()}",
    "an API key's form": f"Bearer {new_api_key()}",
    "not ASCII": "Bearer \xff",
    "a very long one": f"Bearer {'x' * 50_000}",
}


@pytest.mark.databases("sqlite")
def test_401_comes_before_everything_else(app: flask.Flask, client: Client) -> None:
    http = app.test_client()
    paths = {each.path(client) for each in endpoints(app) if each.of_admin}
    paths |= {f"/admin/v1{tail}" for tail in ("", "/", "/nothing", "/actions/%00", "/a/b/c")}
    for path in sorted(paths):
        # Each header with each path, and each method with each path.
        for number, header in enumerate(WRONG.values()):
            headers = {"Authorization": header} if header else {}
            for method in METHODS if number == 0 else [METHODS[number % len(METHODS)]]:
                address = {"REMOTE_ADDR": f"10.9.{len(path)}.{METHODS.index(method)}"}
                answer = http.open(path, method=method, headers=headers, environ_base=address)
                assert_no_faults([((method, path), faults(answer, 401))])
                assert answer.headers["WWW-Authenticate"] == "Bearer", (path, method)


def test_neither_an_accounts_key_nor_its_place_helps(app: flask.Flask, client: Client) -> None:
    http = app.test_client()
    for headers in ({"service-apikey": client.key}, {"Authorization": f"Bearer {client.key}"}):
        refused(http.get("/admin/v1/actions", headers=headers), 401)
    admin = open_admin(app)
    answer = http.get(f"{client.base}/contacts", headers={"service-apikey": admin.token})
    refused(answer, 401)


def test_the_scheme_is_taken_in_any_case(app: flask.Flask) -> None:
    token = open_admin(app).token
    headers = {"Authorization": f"bearer  {token}"}
    assert app.test_client().get("/admin/v1/actions", headers=headers).status_code == 200


def test_every_path_needs_a_scope(app: flask.Flask, client: Client) -> None:
    """Of two tokens, one that reads and one that writes, exactly one is let through."""
    readers, writers = ([scope for scope in SCOPES if scope.endswith(right)] for right in RIGHTS)
    reader, writer = open_admin(app, *readers), open_admin(app, *writers)
    for each in endpoints(app):
        if not each.of_admin:
            continue
        body = example(each.body_schema, each.document) if each.body_schema else None
        reads = each.method == "GET" or each.rule.endswith("/preview")
        may, may_not = (reader, writer) if reads else (writer, reader)

        def send(admin: Admin, each=each, body=body):  # type: ignore[no-untyped-def]
            path = each.path(client).removeprefix("/admin/v1")
            return admin.call(each.method, path, body)

        assert send(may).status_code in (200, 201, 204, 400, 404, 422), each
        assert re.search("lacks the scope [a-z]+:", refused(send(may_not), 403)), each


@pytest.mark.parametrize("area", ["accounts", "actions", "audit"])
def test_a_scope_opens_its_own_area_only(app: flask.Flask, client: Client, area: str) -> None:
    admin = open_admin(app, f"{area}:read")
    duplicates = f"accounts/{client.account.client_id}/duplicates"
    for path in ("accounts", "actions", "audit", duplicates):
        of = "actions" if path == duplicates else path
        assert admin.get(f"/{path}").status_code == (200 if of == area else 403)


def test_wrong_tokens_are_throttled_and_right_ones_are_not(app: flask.Flask) -> None:
    admin, wrong = open_admin(app), Admin(app, new_admin_token())
    statuses = [wrong.get("/actions").status_code for _ in range(62)]
    assert statuses == [401] * 60 + [429] * 2
    assert "check the token" in refused(wrong.get("/actions"), 429)
    assert admin.get("/actions").status_code == 200
