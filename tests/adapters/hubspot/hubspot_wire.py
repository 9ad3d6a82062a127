"""HubSpot's side of the wire, one answer at a time, for tests that look at single requests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import responses

from adapters.hubspot import HubSpotAdapter
from crmhub.adapter.testing import Connection

BASE = "https://api.hubapi.com"
TOKEN = "pat-eu1-0123-secret"
_ANYWHERE = re.compile(re.escape(BASE) + "/.*")


class Wire:
    """What was sent, and what is answered: the answers of `give` in turn, then 404s."""

    def __init__(self, mocked: responses.RequestsMock, **settings: str) -> None:
        self.connection = Connection(HubSpotAdapter, settings, {"access_token": TOKEN})
        adapter = self.connection.adapter()
        assert isinstance(adapter, HubSpotAdapter)
        self.adapter = adapter
        self._mocked = mocked
        self._answers: list[tuple[int, dict[str, str], str]] = []
        for method in ("GET", "POST", "PATCH"):
            mocked.add_callback(method, _ANYWHERE, self._answer)

    def give(self, status: int, body: Any = None, **headers: str) -> Wire:
        """Answer the next request like this; a text goes out as it is."""
        text = body if isinstance(body, str) else "" if body is None else json.dumps(body)
        self._answers.append((status, {k.replace("_", "-"): v for k, v in headers.items()}, text))
        return self

    def _answer(self, request: Any) -> tuple[int, dict[str, str], str]:
        return self._answers.pop(0) if self._answers else (404, {}, '{"message": "none"}')

    @property
    def sent(self) -> list[str]:
        """Method, path and query of each request, the query's names in order."""
        return [_shown(call.request) for call in self._mocked.calls]

    def body(self, at: int = -1) -> Any:
        """The JSON that was sent with one of the requests."""
        return json.loads(self._mocked.calls[at].request.body)

    def headers(self, at: int = -1) -> Mapping[str, str]:
        """The headers of one of the requests."""
        return dict(self._mocked.calls[at].request.headers)


@contextmanager
def wire(**settings: str) -> Iterator[Wire]:
    """Stand in for everything outside this process; sleep takes no time."""
    with (
        responses.RequestsMock(assert_all_requests_are_fired=False) as mocked,
        pytest.MonkeyPatch.context() as monkeypatch,
    ):
        it = Wire(mocked, **settings)
        monkeypatch.setattr("time.sleep", it.connection.sleep)
        yield it


def record(id: str = "7", **properties: str) -> dict[str, Any]:
    """Return a record as HubSpot sends it, with the address of its page."""
    return {
        "id": id,
        "properties": properties,
        "createdAt": "2026-11-21T10:00:00.000Z",
        "updatedAt": "2026-11-21T10:00:00.000Z",
        "archived": False,
        "url": f"https://app.hubspot.com/contacts/1/record/0-1/{id}",
    }


def _shown(request: Any) -> str:
    parts = urlsplit(request.url)
    query = "&".join(f"{name}={value}" for name, value in sorted(parse_qsl(parts.query)))
    return f"{request.method} {parts.path}{f'?{query}' if query else ''}"
