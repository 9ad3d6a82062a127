"""Who may call the public API: keys, scopes, and what each refusal says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from ipaddress import ip_network
from typing import Any

import flask
import pytest

from crmhub.accounts import changes, keys
from crmhub.accounts.keys import IssuedKey
from crmhub.database.connection import Connection
from crmhub.hub import Hub
from crmhub.secrets import API_KEY_PREFIX, new_api_key
from tests.api.endpoints import METHODS, Endpoint, endpoints, example, resolved
from tests.api.refusals import assert_no_faults, faults, refused
from tests.clients import Client

# The directory of keys and accounts is tested on each database by tests/accounts.
pytestmark = pytest.mark.databases("sqlite")

RESOURCES = ("contacts", "deals", "companies", "tickets")


def new_key(hub: Hub, client: Client, *scopes: str, expires_at: int | None = None) -> IssuedKey:
    def work(tx: Connection) -> IssuedKey:
        return keys.create(tx, client.account.id, scopes=scopes, expires_at=expires_at)

    return hub.database.transact(work)


def with_key(client: Client, key: str) -> Callable[..., Any]:
    """Return `client.call` with another key."""

    def call(method: str, path: str, json: Any = None, **options: Any) -> Any:
        headers = {**options.pop("headers", {}), "service-apikey": key}
        return client.call(method, path, json, headers=headers, **options)

    return call


# --- no valid key ----------------------------------------------------------------------------

NOT_KEYS = {
    "none": None,
    "an empty one": "",
    "blanks": "   ",
    "another form": "secret",
    "one that was never issued": new_api_key(),
    "a wrong checksum": new_api_key()[:-1] + "_",
    "the prefix alone": API_KEY_PREFIX,
    "a very long one": "x" * 50_000,
    "not ASCII": "clé",
    "not UTF-8": "\xff\xfe",
    "NUL": "crmhub_\0",
    "SQL": "' or '1'='1",
    "Basic": "Basic dXNlcjpwYXNz",
}


@pytest.mark.parametrize("key", NOT_KEYS.values(), ids=NOT_KEYS)
def test_a_request_without_a_valid_key_is_401(
    app: flask.Flask, client: Client, key: str | None
) -> None:
    headers = {} if key is None else {"service-apikey": key}
    answer = app.test_client().get(f"{client.base}/contacts", headers=headers)
    assert "service-apikey" in refused(answer, 401)
    assert key is None or not key.strip() or key not in answer.text


def test_401_comes_before_everything_else(app: flask.Flask, client: Client) -> None:
    """Whoever has no key learns nothing: not what there is, and not what would be wrong."""
    http = app.test_client()
    paths = {each.path(client) for each in endpoints(app) if each.of_api}
    paths |= {f"{client.base}{tail}" for tail in ("", "/", "/nothing", "/contacts/%00", "/a/b/c/d")}
    assert_no_faults(
        (
            (method, path),
            faults(
                http.open(
                    path,
                    method=method,
                    query_string="limit=x",
                    data=b"{" + b" " * 2_000_000,
                    content_type="text/plain",
                ),
                401,
            ),
        )
        for path in sorted(paths)
        for method in (*METHODS, "OPTIONS")
    )


def test_every_refused_key_gets_the_same_401(
    app: flask.Flask, hub: Hub, client: Client, other: Client
) -> None:
    def body(path: str, key: str) -> dict[str, str]:
        answer = app.test_client().get(path, headers={"service-apikey": key})
        refused(answer, 401)
        words: dict[str, str] = dict(answer.json)  # type: ignore[arg-type]
        del words["timestamp"]
        return words

    expired, revoked = new_key(hub, client), new_key(hub, client)
    with hub.database.reading() as connection:
        end = "update api_key set expires_at = 1 where account_id = :account_id and id = :id"
        connection.run(end, {"account_id": client.account.id, "id": expired.key_id})
    hub.database.transact(lambda tx: keys.revoke(tx, client.account.id, revoked.key_id))
    hub.database.transact(lambda tx: changes.set_disabled(tx, other.account.id, True))
    mine, theirs = f"{client.base}/contacts", f"{other.base}/contacts"
    wrong = body(mine, new_api_key())
    for path, key in [
        ("/nobody/api/v1/contacts", new_api_key()),
        ("/nobody/api/v1/contacts", client.key),
        ("/admin/api/v1/contacts", client.key),
        (theirs, client.key),
        (theirs, other.key),
        (mine, other.key),
        (mine, "nonsense"),
        (mine, expired.api_key),
        (mine, revoked.api_key),
    ]:
        assert body(path, key) == wrong, (path, key)


def test_the_key_is_taken_from_its_header_alone(app: flask.Flask, client: Client) -> None:
    http = app.test_client()
    path = f"{client.base}/contacts"
    refused(http.get(path, query_string={"service-apikey": client.key}), 401)
    refused(http.get(path, headers={"Authorization": f"Bearer {client.key}"}), 401)
    http.set_cookie("service-apikey", client.key)
    refused(http.get(path), 401)


def test_the_name_of_the_header_is_taken_in_any_case(app: flask.Flask, client: Client) -> None:
    path = f"{client.base}/contacts"
    for name in ("Service-ApiKey", "SERVICE-APIKEY"):
        assert app.test_client().get(path, headers={name: client.key}).status_code == 200


def test_a_client_id_is_taken_as_it_is_written(client: Client) -> None:
    upper = client.base.replace(client.account.client_id, client.account.client_id.upper())
    refused(client._http.get(f"{upper}/contacts", headers={"service-apikey": client.key}), 401)


# --- guesses ---------------------------------------------------------------------------------


@pytest.fixture
def counted(app: flask.Flask) -> Iterator[flask.Flask]:
    """The application with a fresh count of misses, behind a proxy on 127.0.0.1."""
    hub: Hub = app.extensions["crmhub"]
    settings = replace(hub.settings, workers=1, trusted_proxies=(ip_network("127.0.0.1"),))
    app.extensions["crmhub"] = replace(hub, settings=settings)
    yield app
    app.extensions["crmhub"] = hub


def test_wrong_keys_are_throttled_and_right_ones_are_not(
    counted: flask.Flask, client: Client
) -> None:
    wrong = with_key(client, new_api_key())
    assert [wrong("GET", "/contacts").status_code for _ in range(62)] == [401] * 60 + [429] * 2
    answer = wrong("DELETE", "/nothing")
    assert "check the key" in refused(answer, 429)
    assert 1 <= int(answer.headers["Retry-After"]) <= 60
    assert client.get("/contacts").status_code == 200
    # No key is no guess.
    refused(with_key(client, "")("GET", "/contacts"), 401)
    elsewhere = {"REMOTE_ADDR": "203.0.113.9"}
    refused(wrong("GET", "/contacts", environ_overrides=elsewhere), 401)


def test_who_names_another_address_for_each_guess_is_throttled_with_the_proxy(
    counted: flask.Flask, client: Client
) -> None:
    def guess(forwarded: str, key: str = "wrong", peer: str = "127.0.0.1") -> int:
        headers = {"X-Forwarded-For": forwarded}
        environ = {"REMOTE_ADDR": peer}
        call = with_key(client, key)
        status: int = call(
            "GET", "/contacts", headers=headers, environ_overrides=environ
        ).status_code
        return status

    assert {guess(f"10.0.{n // 256}.{n % 256}") for n in range(300)} == {401}
    assert guess("203.0.113.7") == 429
    assert guess("203.0.113.7", client.key) == 200
    # Nobody has passed that on for them.
    assert guess("203.0.113.7", peer="203.0.113.8") == 401


# --- keys that end ---------------------------------------------------------------------------


# --- scopes ----------------------------------------------------------------------------------


def right_of(endpoint: Endpoint) -> str:
    """Return the right that an endpoint of the API needs: search and batch read are reading.

    Subscriptions to events have one scope alone.
    """
    if resource_of(endpoint) == "events":
        return "write"
    reading = endpoint.method == "GET" or endpoint.rule.endswith(("/search", "/batch/read"))
    return "read" if reading else "write"


def resource_of(endpoint: Endpoint) -> str:
    """Return the resource that an endpoint is about; "" for what any key may read."""
    first = endpoint.rule.removeprefix("/<client_id>/api/v1/").partition("/")[0]
    return {
        "workflows": "contacts",
        "usage": "",
        "sync": "",
        # It needs the scope of what the action wrote: see test_action_states.
        "actions": "",
        "properties": "*",
        "pipelines": "*",
    }.get(first, first)


def scoped(app: flask.Flask, client: Client) -> list[tuple[str, str, Endpoint]]:
    """Return path and scope of every endpoint; those of any resource once for each."""
    found = []
    for endpoint in endpoints(app):
        if not endpoint.of_api or not (resource := resource_of(endpoint)):
            continue
        listed = {
            each["name"]: resolved(each["schema"], endpoint.document).get("enum")
            for each in endpoint.path_parameters
        }
        kinds = listed["resource"] if resource == "*" else [resource]
        found += [
            (endpoint.path(client, resource=kind), f"{kind}:{right_of(endpoint)}", endpoint)
            for kind in kinds
        ]
    return found


def test_every_endpoint_needs_its_scope_and_no_other(
    app: flask.Flask, hub: Hub, client: Client
) -> None:
    """Without the scope 403, with that alone whatever the request is worth, but not 403."""
    http = app.test_client()
    every = {scope for _, scope, _ in scoped(app, client)}
    of_records = {f"{each}:{right}" for each in RESOURCES for right in ("read", "write")}
    assert every == of_records | {"events:write"}
    only = {scope: new_key(hub, client, scope).api_key for scope in every}
    without = {scope: new_key(hub, client, *(every - {scope})).api_key for scope in every}
    problems = []
    for path, scope, endpoint in scoped(app, client):
        options: dict[str, Any] = {}
        if endpoint.body_schema is not None:
            options["json"] = example(endpoint.body_schema, endpoint.document)
            if "types" in options["json"]:
                # Events of records need the scope of these records, too.
                options["json"]["types"] = ["connection.failing"]
        for key, allowed in ((without[scope], False), (only[scope], True)):
            headers = {"service-apikey": key}
            answer = http.open(path, method=endpoint.method, headers=headers, **options)
            found = [] if allowed else faults(answer, 403)
            if not allowed and not found and scope not in answer.text:
                found = [f"{scope} is not named: {answer.text}"]
            if allowed and answer.status_code in (401, 403, 405, 500):
                found = [answer.text]
            problems.append(((endpoint.method, path, allowed), found))
    assert len(problems) > 100
    assert_no_faults(problems)


def test_403_comes_before_a_body_is_read(hub: Hub, client: Client) -> None:
    call = with_key(client, new_key(hub, client, "contacts:read").api_key)
    refused(call("POST", "/contacts", data=b"{", content_type="application/json"), 403)
    refused(call("DELETE", "/contacts/1"), 403)
    refused(call("GET", "/deals?limit=x"), 403)


def test_a_path_of_nothing_is_404_whatever_the_scopes(hub: Hub, client: Client) -> None:
    call = with_key(client, new_key(hub, client, "deals:read").api_key)
    refused(call("GET", "/nothing"), 404)
    refused(call("PUT", "/contacts"), 405)


# --- keys ------------------------------------------------------------------------------------


def test_a_key_is_recognisable_and_holds_160_random_bits(client: Client) -> None:
    assert client.key.startswith("crmhub_")
    assert len(client.key.removeprefix("crmhub_")) - 6 >= 27  # of 62 characters each
    assert new_api_key() != new_api_key()
