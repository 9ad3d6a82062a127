"""Make HTTP answers; the stored JSON of records is copied into them without parsing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import flask
import orjson

from crmhub.api.http import flask_proxies
from crmhub.errors import HubError, error_body
from crmhub.records.associations import Links
from crmhub.records.models import Record, Stored
from crmhub.records.search.filters import iso
from crmhub.records.search.pages import Page
from crmhub.records.search.query import Listed

_ALWAYS = ("deals", "companies")
_SOMETIMES = ("contacts", "tickets")


OWN_RECORDS = {"X-Record-Source": "hub"}
"""The header of answers with records: they are the hub's own, not those of the account's CRM."""


def record_source() -> Mapping[str, str]:
    """Return the headers that say where the records of this answer are from."""
    found: Mapping[str, str] = vars(flask_proxies.g()).get("source", OWN_RECORDS)
    return found


class JsonAnswer(flask.Response):
    """A JSON response without Werkzeug's final check of the headers, which takes long."""

    default_mimetype = "application/json"
    automatically_set_content_length = False
    value: Any = None
    """The JSON value that the body contains; None if the body was given as bytes."""
    error: HubError | None = None
    """The error that the body tells, whose message can be translated."""

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        body = b"".join(self.iter_encoded())
        start_response(self.status, [*self.headers, ("Content-Length", str(len(body)))])
        return () if environ["REQUEST_METHOD"] == "HEAD" else (body,)


def as_json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> JsonAnswer:
    response = JsonAnswer(orjson.dumps(value), status, headers)
    response.value = value
    return response


def nothing(status: int = 204) -> flask.Response:
    response = flask.Response(status=status)
    del response.headers["Content-Type"]
    return response


def failure(error: HubError) -> flask.Response:
    body = error_body(error.category, error.message)
    response = JsonAnswer(orjson.dumps(body), error.status, error.headers)
    response.error = error
    return response


def links_shown(links: Links, requested: Iterable[str] = ()) -> dict[str, list[int]]:
    """Return the JSON object with the ids of a record's linked records, by kind of record.

    Deals and companies are always keys; contacts and tickets if the record has such links, or
    `requested` names them.
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
    """`properties`: None for all. `requested`: as for `links_shown`."""
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
    return {name: properties[name] for name in names if name in properties}


def page_shown(
    page: Page, *, properties: tuple[str, ...] | None, include: tuple[str, ...]
) -> bytes:
    """`properties`: None for all. `include` names further fields."""
    shown = []
    for listed in page.records:
        text = listed.properties
        if properties is not None:
            text = orjson.dumps(_select_properties(orjson.loads(text), properties)).decode()
        beside = _included(listed, page.links, include) if include else ""
        if page.archived_at:
            beside += f',"archivedAt":"{iso(page.archived_at[listed.id])}"'
        shown.append(f'{{"id":{listed.id},"properties":{text}{beside}}}')
    return page_frame(f"[{','.join(shown)}]".encode(), page.cursor, page.total)


def _included(listed: Listed, links: Mapping[int, Links], include: tuple[str, ...]) -> str:
    """The fields as JSON text that starts with a comma."""
    shown: dict[str, Any] = {}
    for field in include:
        if field == "associations":
            shown[field] = links_shown(links.get(listed.id, {}))
        else:
            shown[field] = iso(listed.created_at if field == "createdAt" else listed.updated_at)
    return "," + orjson.dumps(shown)[1:-1].decode()


def page_frame(results: bytes, cursor: str, total: int | None = None) -> bytes:
    """Return the JSON of a page of a list; `results` is the JSON array of the items.

    `cursor` is "" on the last page. A `total` of None is left out, where counting would be slow.
    """
    link = f"?cursor={cursor}" if cursor else ""
    return b'{%b"results":%b,"cursor":{"next":"%b","nextLink":"%b"},"hasMore":%b}' % (
        b"" if total is None else b'"total":%d,' % total,
        results,
        cursor.encode(),
        link.encode(),
        b"true" if cursor else b"false",
    )
