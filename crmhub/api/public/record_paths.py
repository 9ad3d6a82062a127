"""Parse the parts of a request that identify records: kind, id, If-Match and If-None-Match."""

from __future__ import annotations

import re

import flask
from werkzeug.routing import BaseConverter

from crmhub.api.http import flask_proxies
from crmhub.api.http.schemas import HIGHEST_ID
from crmhub.errors import BadRequest, NotFound, Semantic
from crmhub.properties.kinds import KINDS, Kind
from crmhub.records.writing import missing

# Compressing proxies make an ETag weak (nginx) or add the encoding to it (Apache, Caddy, Jetty).
_ETAG = re.compile(r'(?:W/)?"([0-9]{1,9})(?:--?[a-z]{2,10})?"')


class RecordId(BaseConverter):
    """URL converter for record ids; it skips `search` and `merge`, so GET of these gets 405."""

    regex = r"(?!(?:search|merge)\Z)[^/]+"
    # Without this, Werkzeug would not accept the path with a slash at its end.
    part_isolating = True


def kind_in_path(name: str) -> Kind:
    """Raises NotFound."""
    if name not in KINDS:
        raise NotFound(f"There are no {name[:60]}; records are {', '.join(KINDS)}.")
    return KINDS[name]


def number(kind: Kind, id: str) -> int:
    """Raises BadRequest for no number, NotFound if out of range."""
    if not (id.isascii() and id.isdigit()):
        raise BadRequest(f"id: {id[:60]!r} is not a number.")
    # Longer than any id: parsing it would waste time.
    value = int(id) if len(id) < 20 else 0
    if not 0 < value <= HIGHEST_ID:
        raise NotFound(missing(kind, id))
    return value


def linkable_number(kind: Kind, to_id: str) -> int:
    """Raises BadRequest, Semantic if out of range."""
    try:
        return number(kind, to_id)
    except NotFound as exc:
        raise Semantic(f"toId: {exc.message}") from None


def if_match() -> frozenset[int] | None:
    """The record versions that the header allows, None for all. Raises BadRequest."""
    header = flask.request.headers.get("If-Match")
    if header is None or header.strip() == "*":
        return None
    tags = [each.strip() for each in header.split(",")]
    versions = [match[1] for each in tags if (match := _ETAG.fullmatch(each))]
    if len(versions) != len(tags):
        raise BadRequest('If-Match: send the ETag of the record as it was given, such as "3".')
    return frozenset(map(int, versions))


def is_unmodified(version: int) -> bool:
    """Whether the header If-None-Match names this version of a record."""
    header = flask_proxies.request().environ.get("HTTP_IF_NONE_MATCH")
    if header is None:
        return False
    matches = (_ETAG.fullmatch(each.strip()) for each in header.split(","))
    return header.strip() == "*" or any(match and int(match[1]) == version for match in matches)
