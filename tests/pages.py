"""Walks through a listing page by page, as an integrator does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from tests.clients import Client

Page = dict[str, Any]


def fetch(client: Client, path: str, body: Mapping[str, Any] | None = None, link: str = "") -> Page:
    """Return one page of a list, or with a `body` of a search, after a look at its frame."""
    where = f"{path}{link}"
    answer = client.get(where) if body is None else client.post(where, body)
    assert answer.status_code == 200, answer.text
    page: Page = answer.get_json()
    check_frame(page)
    return page


def total(client: Client, resource: str = "contacts") -> int:
    """Return how many records there are, by the public API."""
    n: int = fetch(client, f"/{resource}")["total"]
    return n


def pages(
    client: Client, path: str, body: Mapping[str, Any] | None = None, **params: Any
) -> Iterator[Page]:
    """Give page after page; `params` stand in the query of the first request alone."""
    link = f"?{urlencode(params, quote_via=quote)}" if params else ""
    while True:
        page = fetch(client, path, body, link)
        yield page
        if not page["hasMore"]:
            return
        link = page["cursor"]["nextLink"]


def walk(
    client: Client, path: str, body: Mapping[str, Any] | None = None, **params: Any
) -> list[Any]:
    """Return the results of all pages; their totals must agree."""
    found: list[Any] = []
    totals = set()
    for page in pages(client, path, body, **params):
        found += page["results"]
        totals.add(page["total"])
    assert len(totals) == 1
    return found


def check_frame(page: Page) -> None:
    """Check the shape of a page."""
    assert list(page) == ["total", "results", "cursor", "hasMore"]
    assert list(page["cursor"]) == ["next", "nextLink"]
    following = page["cursor"]["next"]
    assert page["cursor"]["nextLink"] == (f"?cursor={following}" if following else "")
    assert page["hasMore"] is bool(following)
