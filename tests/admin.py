"""An operator's program in tests: it calls the admin API with a token of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flask
from werkzeug.test import TestResponse

from crmhub.accounts import admin_tokens
from crmhub.database.connection import Connection
from crmhub.hub import Hub

Json = Any


class Admin:
    """Calls the admin API (`get`, `post`, …)."""

    def __init__(self, app: flask.Flask, token: str) -> None:
        self.token = token
        self._http = app.test_client()

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def call(
        self,
        method: str,
        path: str,
        json: Json = None,
        *,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> TestResponse:
        """Send a request under /admin/v1, with the token; `json` None sends no body."""
        if json is not None:
            options["json"] = json
        sent = {**self.headers, **(headers or {})}
        return self._http.open(f"/admin/v1{path}", method=method, headers=sent, **options)

    def get(self, path: str, **options: Any) -> TestResponse:
        return self.call("GET", path, **options)

    def post(self, path: str, json: Json = None, **options: Any) -> TestResponse:
        return self.call("POST", path, json, **options)

    def patch(self, path: str, json: Json, **options: Any) -> TestResponse:
        return self.call("PATCH", path, json, **options)

    def put(self, path: str, json: Json = None, **options: Any) -> TestResponse:
        return self.call("PUT", path, json, **options)

    def delete(self, path: str, **options: Any) -> TestResponse:
        return self.call("DELETE", path, **options)


def open_admin(app: flask.Flask, *scopes: str, expires_at: int | None = None) -> Admin:
    """Return an operator's program with a new token; without scopes it may do everything."""
    hub: Hub = app.extensions["crmhub"]

    def work(tx: Connection) -> admin_tokens.IssuedToken:
        return admin_tokens.create(tx, "tests", scopes=scopes, expires_at=expires_at)

    return Admin(app, hub.database.transact(work).token)


def ok(answer: TestResponse, status: int = 200) -> Json:
    """Return the body of an answer that must have this status."""
    assert answer.status_code == status, answer.text
    return answer.get_json(silent=True)
