"""Prints answers as bytes; the stored JSON of records is copied without parsing it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import flask
import orjson

from crmhub.errors import HubError
from crmhub.records.associations import Links
from crmhub.records.search.filters import iso
from crmhub.records.search.pages import Page
from crmhub.records.search.query import Listed
from crmhub.records.writing import Record, Stored

_ALWAYS = ("deals", "companies")
_SOMETIMES = ("contacts", "tickets")


class JsonAnswer(flask.Response):
    """A JSON answer that is sent without Werkzeug's final checks of its headers.

    Werkzeug would copy all headers and check each one again, which takes longer than sending them.
    """

    default_mimetype = "application/json"
    automatically_set_content_length = False
    value: Any = None
    """The JSON value that the body was printed from, if there is one."""

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        body = b"".join(self.iter_encoded())
        start_response(self.status, [*self.headers, ("Content-Length", str(len(body)))])
        return () if environ["REQUEST_METHOD"] == "HEAD" else (body,)


def as_json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> JsonAnswer:
    """Return an answer with a JSON value."""
    response = JsonAnswer(orjson.dumps(value), status, headers)
    response.value = value
    return response


def nothing() -> flask.Response:
    """Return an empty answer with status 204."""
    response = flask.Response(status=204)
    del response.headers["Content-Type"]
    return response


def failure(error: HubError) -> flask.Response:
    """Return the answer for an error: category, message, timestamp, status."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    body = {
        "category": error.category,
        "message": error.message,
        "timestamp": now,
        "status": "error",
    }
    return JsonAnswer(orjson.dumps(body), error.status, error.headers)


def links_shown(links: Links, requested: Iterable[str] = ()) -> dict[str, list[int]]:
    """Return a record's links as JSON.

    Deals and companies are always shown; contacts and tickets if there are any, or if they are
    `requested`.
    """
    requested = set(requested)
    shown = {name: links.get(name, []) for name in _ALWAYS}
    for name in _SOMETIMES:
        if links.get(name) or name in requested:
            shown[name] = links.get(name, [])
    return shown


def record_shown(
    record: Record | Stored,
    *,
    properties: tuple[str, ...] | None = None,
    requested: Iterable[str] = (),
) -> dict[str, Any]:
    """Return a whole record as JSON, with all properties or the named ones."""
    shown: Any = record.properties
    if properties is not None:
        shown = _select_properties(
            shown if isinstance(record, Record) else orjson.loads(shown), properties
        )
    elif isinstance(record, Stored):
        shown = orjson.Fragment(shown)
    return {
        "id": record.id,
        "properties": shown,
        "associations": links_shown(record.associations, requested),
        "createdAt": iso(record.created_at),
        "updatedAt": iso(record.updated_at),
    }


def _select_properties(properties: dict[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """Return the named properties."""
    return {name: properties[name] for name in names if name in properties}


def page_shown(
    page: Page, *, properties: tuple[str, ...] | None, include: tuple[str, ...]
) -> bytes:
    """Return a page of records as JSON, with all properties or the named ones."""
    shown = []
    for listed in page.records:
        text = listed.properties
        if properties is not None:
            text = orjson.dumps(_select_properties(orjson.loads(text), properties)).decode()
        beside = _included(listed, page.links, include) if include else ""
        shown.append(f'{{"id":{listed.id},"properties":{text}{beside}}}')
    return page_frame(f"[{','.join(shown)}]".encode(), page.cursor, page.total)


def _included(listed: Listed, links: Mapping[int, Links], include: tuple[str, ...]) -> str:
    """Return the fields that `include` names as JSON text to append after the properties."""
    shown: dict[str, Any] = {}
    for field in include:
        if field == "associations":
            shown[field] = links_shown(links.get(listed.id, {}))
        else:
            shown[field] = iso(listed.created_at if field == "createdAt" else listed.updated_at)
    return "," + orjson.dumps(shown)[1:-1].decode()


def page_frame(results: bytes, cursor: str, total: int | None = None) -> bytes:
    """Return a page around its printed results; lists whose counting is slow have no total."""
    link = f"?cursor={cursor}" if cursor else ""
    return b'{%b"results":%b,"cursor":{"next":"%b","nextLink":"%b"},"hasMore":%b}' % (
        b"" if total is None else b'"total":%d,' % total,
        results,
        cursor.encode(),
        link.encode(),
        b"true" if cursor else b"false",
    )
