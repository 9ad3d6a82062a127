"""Which account a helper is called for, and who is turned away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path

import flask
import pytest
from werkzeug.test import TestResponse

from crmhub.accounts import changes, keys, webhook_ids
from crmhub.app import create_app
from crmhub.hub import Hub
from crmhub.secrets import BASE36, new_secret, new_webhook_id, token
from crmhub.settings import Settings
from tests import databases
from tests.api.helpers.helper_calls import (
    BODIES,
    CREATE_DEAL,
    CREATE_LEAD,
    GET_PROPERTIES,
    GET_TYPE,
    SET_PROPERTIES,
    body_for,
    known,
    lead,
    switch,
)
from tests.clients import Client, open_client

# Who is let in; the directory that knows it is tested on each database by tests/accounts.
pytestmark = pytest.mark.databases("sqlite")


SECRET = "X-Webhook-Secret"
every = pytest.mark.parametrize("path", list(BODIES))
bare = pytest.mark.parametrize("path", [GET_PROPERTIES, SET_PROPERTIES])


@pytest.fixture(autouse=True)
def unthrottled(app: flask.Flask) -> Iterator[None]:
    """Give each test a fresh count of misses: all of them call from one address."""
    hub: Hub = app.extensions["crmhub"]
    app.extensions["crmhub"] = replace(hub, settings=replace(hub.settings, workers=1))
    yield
    app.extensions["crmhub"] = hub


def _without_id(path: str) -> str:
    return path.removesuffix("/{generated}")


def _refused(answer: TestResponse, status: int, word: str) -> None:
    assert answer.status_code == status
    assert set(answer.json) == {"category", "message", "timestamp", "status"}  # type: ignore[arg-type]
    assert word in answer.json["message"]  # type: ignore[index]


@every
def test_a_path_with_the_accounts_id_needs_nothing_else(client: Client, path: str) -> None:
    assert client.helper(path, body_for(client, path)).status_code == 200


@every
@pytest.mark.parametrize("blank", ["%20", "%0A", "%C2%A0"])
def test_an_id_may_be_copied_with_a_blank_behind_it(client: Client, path: str, blank: str) -> None:
    assert client.helper(path + blank, body_for(client, path)).status_code == 200


@pytest.mark.parametrize(
    ("path", "right"),
    [
        ("/chatbot/createLead", "/chatbot/createLead/<generated_id>"),
        ("/chatbot/createlead/{generated}", "/chatbot/createLead/<generated_id>"),
        ("/createLead/{generated}", "/chatbot/createLead/<generated_id>"),
        ("/chatbot/createDeal/{portal}", "/crm-api-interface/createDeal/<portal_id>"),
        ("/crm-api-interface/getType/{generated}", "/chatbot/getType/<generated_id>"),
    ],
)
def test_a_helper_at_the_wrong_path_is_told_its_own(client: Client, path: str, right: str) -> None:
    _refused(client.helper(path, {}), 404, f"did you mean {right}?")


@every
def test_an_unknown_id_is_404(client: Client, path: str) -> None:
    name = "portal_id" if "{portal}" in path else "generated_id"
    for unknown in (new_webhook_id(), "x", "ü" * 3, "a" * 300):
        answer = client.helper(path.format(generated=unknown, portal=unknown), {})
        _refused(answer, 404, name)


@every
def test_the_id_for_the_other_helpers_is_404_and_says_so(client: Client, path: str) -> None:
    swapped = path.format(generated=client.ids.portal_id, portal=client.ids.generated_id)
    other = "generated_id" if "{portal}" in path else "portal_id"
    _refused(client.helper(swapped, {}), 404, f"this is the account's {other}")


@every
def test_a_disabled_account_is_404(hub: Hub, client: Client, path: str) -> None:
    body = body_for(client, path)
    hub.database.transact(lambda tx: changes.set_disabled(tx, client.account.id, True))
    hub.directory.forget(client.account.id)
    assert client.helper(path, body).status_code == 404


@every
def test_an_account_may_demand_its_secret(app: flask.Flask, client: Client, path: str) -> None:
    body = body_for(client, path)
    switch(app, client, require_secret="true")
    _refused(client.helper(path, body), 401, SECRET)
    for wrong in (new_secret(), "x", "ü"):
        _refused(client.helper(path, body, headers={SECRET: wrong}), 401, SECRET)
    right = client.helper(path, body, headers={SECRET: client.ids.webhook_secret})
    assert right.status_code == 200


@every
def test_a_wrong_secret_is_401_even_when_none_is_demanded(
    client: Client, other: Client, path: str
) -> None:
    body = body_for(client, path)
    for wrong in (new_secret(), other.ids.webhook_secret):
        answer = client.helper(path, body, headers={SECRET: wrong})
        assert answer.status_code == 401


def test_the_crms_own_id_works_with_the_secret_only(app: flask.Flask, client: Client) -> None:
    contact_id = known(client)
    alias = token(40, BASE36)
    switch(app, client, portal_alias=alias)
    body = {"contactId": contact_id, "properties": {"dealname": "A deal"}}
    path = CREATE_DEAL.format(portal=alias)
    _refused(client.helper(path, body), 401, SECRET)
    answer = client.helper(path, body, headers={SECRET: client.ids.webhook_secret})
    assert answer.status_code == 200
    assert client.helper(f"/chatbot/createLead/{alias}", {}).status_code == 404


@bare
def test_the_token_alone_finds_its_account(client: Client, other: Client, path: str) -> None:
    unique = token(80, BASE36)
    known(client, unique)
    answer = client.helper(_without_id(path), {**BODIES[path], "contactToken": unique})
    assert answer.status_code == 200


@bare
def test_a_token_that_two_accounts_hold_finds_none(
    app: flask.Flask, client: Client, other: Client, path: str
) -> None:
    unique = token(80, BASE36)
    for each in (client, other):
        known(each, unique)
    body = {**BODIES[path], "contactToken": unique}
    _refused(client.helper(_without_id(path), body), 404, f"{_without_id(path)}/<generated_id>")
    switch(app, other, bare_tokens="false")
    assert client.helper(_without_id(path), body).status_code == 200
    switch(app, client, bare_tokens="false")
    assert client.helper(_without_id(path), body).status_code == 404


@bare
def test_a_token_of_a_connection_that_was_left_finds_none(
    hub: Hub, client: Client, other: Client, path: str
) -> None:
    unique = token(80, BASE36)
    known(client, unique)
    hub.database.transact(
        lambda tx: tx.run(
            "update binding set connection_id = 99 where account_id = :id",
            {"id": client.account.id},
        )
    )
    answer = client.helper(_without_id(path), {**BODIES[path], "contactToken": unique})
    assert answer.status_code == 404


@bare
def test_a_token_nobody_bound_is_404_naming_the_path_form(
    client: Client, other: Client, path: str
) -> None:
    body = {**BODIES[path], "contactToken": token(80, BASE36)}
    _refused(client.helper(_without_id(path), body), 404, f"{_without_id(path)}/<generated_id>")


@bare
@pytest.mark.parametrize(("sent", "status"), [({}, 400), ({"contactToken": ""}, 422)])
def test_a_token_that_is_missing_or_blank_is_told_so(
    client: Client, other: Client, path: str, sent: dict[str, str], status: int
) -> None:
    _refused(client.helper(_without_id(path), sent), status, "contactToken")


@bare
def test_secret_or_key_find_the_account(client: Client, other: Client, path: str) -> None:
    for each in (client, other):
        known(each, "t")
    for header in (
        {SECRET: client.ids.webhook_secret},
        {"service-apikey": client.ids.api_key},
        {SECRET: client.ids.webhook_secret, "service-apikey": client.ids.api_key},
    ):
        answer = client.helper(_without_id(path), BODIES[path], headers=header)
        assert answer.status_code == 200


@bare
def test_a_key_needs_the_scope_and_must_be_live(hub: Hub, client: Client, path: str) -> None:
    known(client)
    issued = hub.database.transact(
        lambda tx: keys.create(tx, client.account.id, scopes=["deals:read"])
    )
    header = {"service-apikey": issued.api_key}
    _refused(client.helper(_without_id(path), BODIES[path], headers=header), 403, "contacts:")
    hub.database.transact(lambda tx: keys.revoke(tx, client.account.id, issued.key_id))
    hub.directory.forget(client.account.id)
    answer = client.helper(_without_id(path), BODIES[path], headers=header)
    _refused(answer, 401, "service-apikey")


@bare
def test_headers_and_path_must_name_one_account(client: Client, other: Client, path: str) -> None:
    known(client)
    mixed = [
        {"service-apikey": other.ids.api_key},
        {SECRET: other.ids.webhook_secret},
        {SECRET: client.ids.webhook_secret, "service-apikey": other.ids.api_key},
    ]
    for headers in mixed:
        assert client.helper(path, BODIES[path], headers=headers).status_code == 401


@bare
def test_a_key_does_not_replace_a_demanded_secret(
    app: flask.Flask, client: Client, path: str
) -> None:
    known(client)
    switch(app, client, require_secret="true")
    header = {"service-apikey": client.ids.api_key}
    assert client.helper(path, BODIES[path], headers=header).status_code == 401


@pytest.fixture
def lonely(settings: Settings, tmp_path: Path) -> Iterator[flask.Flask]:
    """An installation of its own."""
    app = create_app(replace(settings, database_url=databases.sqlite_database(tmp_path)))
    yield app
    hub: Hub = app.extensions["crmhub"]
    hub.close()


@bare
def test_the_only_account_is_the_one_meant(lonely: flask.Flask, path: str) -> None:
    client = open_client(lonely)
    switch(lonely, client, bare_tokens="false")
    known(client)
    assert client.helper(_without_id(path), BODIES[path]).status_code == 200
    second = open_client(lonely)
    lonely.extensions["crmhub"].directory.forget(client.account.id)
    assert second.helper(_without_id(path), BODIES[path]).status_code == 404


def test_the_only_account_may_demand_its_secret(lonely: flask.Flask) -> None:
    client = open_client(lonely)
    known(client)
    switch(lonely, client, require_secret="true")
    answer = client.helper(_without_id(GET_PROPERTIES), BODIES[GET_PROPERTIES])
    assert answer.status_code == 401


def test_misses_are_throttled_and_calls_that_resolve_are_not(client: Client) -> None:
    statuses = [client.helper(f"/chatbot/createLead/x{i}", {}).status_code for i in range(62)]
    assert statuses == [404] * 60 + [429] * 2
    answer = client.helper("/crm-api-interface/createDeal/x", {})
    assert int(answer.headers["Retry-After"]) >= 1
    assert answer.json["category"] == "ManyRequestError"  # type: ignore[index]
    assert lead(client).status_code == 200
    assert client.helper("/crm-api-interface/getRandomInt", {"min": 1, "max": 2}).status_code == 200


def test_wrong_secrets_are_misses_too(client: Client) -> None:
    wrong = {SECRET: new_secret()}
    statuses = [
        client.helper(CREATE_LEAD, BODIES[CREATE_LEAD], headers=wrong).status_code
        for _ in range(61)
    ]
    assert statuses == [401] * 60 + [429]


def test_misses_count_for_the_address_behind_a_trusted_proxy(lonely: flask.Flask) -> None:
    hub: Hub = lonely.extensions["crmhub"]
    behind_proxy = replace(hub.settings, workers=1, trusted_proxies=(ip_network("127.0.0.1"),))
    lonely.extensions["crmhub"] = replace(hub, settings=behind_proxy)
    http = lonely.test_client()

    def miss(forwarded: str) -> int:
        headers = {"X-Forwarded-For": forwarded}
        return http.post("/chatbot/createLead/x", json={}, headers=headers).status_code

    for i in range(60):
        assert miss(f"10.0.0.{i}, 203.0.113.7") == 404
    assert miss("203.0.113.7") == 429
    assert miss("203.0.113.8") == 404


def test_an_old_id_is_valid_until_its_end(hub: Hub, client: Client) -> None:
    body = BODIES[GET_TYPE]
    old = client.ids.generated_id
    new = hub.database.transact(lambda tx: webhook_ids.rotate(tx, client.account.id, "generated"))
    for each in (old, new):
        assert client.helper(f"/chatbot/getType/{each}", body).status_code == 200
