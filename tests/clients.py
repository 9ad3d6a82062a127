"""A caller of the hub in tests: an account of its own, its key and its webhook ids."""

from __future__ import annotations

from collections.abc import Mapping
from random import randrange
from typing import Any

import flask
from werkzeug.test import TestResponse

from crmhub.accounts.accounts import Account
from crmhub.accounts.changes import IssuedIds, set_switches
from crmhub.audit import Author
from crmhub.database.connection import Connection
from crmhub.hub import Hub
from crmhub.operators.accounts.open_account import open_account
from crmhub.secrets import BASE36, token

Json = Any

TESTS = Author("cli", "tests")
"""Who changes things in tests, as the audit log names them."""


class Client:
    """Calls the public API of one account (`get`, `post`, …) and its helpers (`helper`)."""

    def __init__(self, app: flask.Flask, account: Account, ids: IssuedIds) -> None:
        self.hub: Hub = app.extensions["crmhub"]
        self.account = account
        self.ids = ids
        self.base = f"/{account.client_id}/api/v1"
        self.key = ids.api_key
        self._http = app.test_client()
        # Each from elsewhere: what one test guesses is not counted against another.
        self._http.environ_base["REMOTE_ADDR"] = f"198.19.{randrange(256)}.{randrange(256)}"

    def call(
        self,
        method: str,
        path: str,
        json: Json = None,
        *,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> TestResponse:
        """Send a request under the account's base, with its key; `json` None sends no body."""
        sent = {"service-apikey": self.key, **(headers or {})}
        if json is not None:
            options["json"] = json
        return self._http.open(self.base + path, method=method, headers=sent, **options)

    def get(self, path: str, **options: Any) -> TestResponse:
        return self.call("GET", path, **options)

    def post(self, path: str, json: Json, **options: Any) -> TestResponse:
        return self.call("POST", path, json, **options)

    def patch(self, path: str, json: Json, **options: Any) -> TestResponse:
        return self.call("PATCH", path, json, **options)

    def put(self, path: str, json: Json = None, **options: Any) -> TestResponse:
        return self.call("PUT", path, json, **options)

    def delete(self, path: str, **options: Any) -> TestResponse:
        return self.call("DELETE", path, **options)

    def helper(self, path: str, json: Json, **options: Any) -> TestResponse:
        """POST to a webhook helper; `{generated}` and `{portal}` in the path become the ids."""
        path = path.format(generated=self.ids.generated_id, portal=self.ids.portal_id)
        return self._http.post(path, json=json, **options)

    def make(self, resource: str = "contacts", /, **properties: str) -> int:
        """Create a record and return its id; what it must have is filled in."""
        body = {"properties": {**needed(resource), **properties}}
        answer = self.post(f"/{resource}", body)
        assert answer.status_code == 201, answer.text
        id: int = answer.json["id"]  # type: ignore[index]
        return id


def needed(resource: str) -> dict[str, str]:
    """Return the least properties a record of the resource can have."""
    return {
        "contacts": {"firstname": "Ada"},
        "deals": {"dealname": "A deal"},
        "companies": {"name": "A company"},
        "tickets": {"subject": "A ticket"},
    }[resource].copy()


def open_client(app: flask.Flask, *, plan: str = "unlimited", **options: Any) -> Client:
    """Open an account and return a caller of it.

    Its helpers wait as long for the CRM as they ever may, lest a busy machine queue what a test
    expects to be done.
    """
    hub: Hub = app.extensions["crmhub"]
    name = f"test-{token(40, BASE36)}"

    def work(tx: Connection) -> tuple[Account, IssuedIds]:
        account, ids = open_account(hub, name=name, client_id=name, plan=plan, by=TESTS, **options)
        return set_switches(tx, account.id, {"deadline_s": 25}, hub.plans), ids

    return Client(app, *hub.database.transact(work))
