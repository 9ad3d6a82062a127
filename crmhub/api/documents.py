"""The documents at /docs: the files that hatch_build.py built from the pages of docs/."""

from __future__ import annotations

import re
from functools import lru_cache
from os.path import isfile
from pathlib import Path

import flask
from werkzeug.security import safe_join

import crmhub
from crmhub.api.http.answers import failure
from crmhub.api.http.static_files import StaticFile
from crmhub.errors import HubError, NotFound, Unavailable

PREFIX = "/docs"
BUILT = Path(crmhub.__file__).parent / "documents"
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""Content-Security-Policy: only files of this service load; icons and arrows are data: URLs."""
_MISSING = (
    "The documents are not built. Run `make docs` in the clone of crmhub, or install crmhub from a"
    " wheel. The API reference is at /docs/api/public/."
)
# A name with a hash of its content, as in main.57a0d79d.min.css.
_HASHED = re.compile(r"(?:^|[./])[0-9a-f]{8}\.(?:min\.)?(?:js|css)$")


def register(app: flask.Flask, built: Path = BUILT) -> None:
    app.extensions["crmhub-documents"] = built
    app.add_url_rule(PREFIX, "documents.start", lambda: _to(f"{PREFIX}/"))
    app.add_url_rule(f"{PREFIX}/", view_func=_document, endpoint="documents.index")
    app.add_url_rule(f"{PREFIX}/<path:path>", view_func=_document, endpoint="documents.document")


def has_page(name: str) -> bool:
    """Return whether the documents have a page, such as `crms/odoo`."""
    built: Path = flask.current_app.extensions["crmhub-documents"]
    path = safe_join(str(built), name, "index.html")
    return path is not None and isfile(path)


def secure(response: flask.Response) -> flask.Response:
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["Referrer-Policy"] = "same-origin"
    return response


def _document(path: str = "") -> flask.Response:
    """Return a file of the documents; a directory stands for its index.html.

    An unknown path is answered 404: in HTML for browsers, else in JSON.
    """
    built: Path = flask.current_app.extensions["crmhub-documents"]
    if not (built / "index.html").is_file():
        return _error(Unavailable(_MISSING, retry_after=60), None)
    if path and not path.endswith("/") and _file(built, f"{path}/index.html") is not None:
        # The links of a page are relative to its directory.
        return _to(f"{PREFIX}/{path}/")
    name = f"{path}index.html" if path == "" or path.endswith("/") else path
    file = _file(built, name)
    if file is None:
        missing = NotFound("There is no such page of the documents; /docs/ lists all pages.")
        return _error(missing, built / "404.html")
    immutable = _HASHED.search(name) is not None
    return secure(file.response(flask.request, immutable=immutable))


def _file(built: Path, name: str) -> StaticFile | None:
    """Return the file `name` below `built`; None without one, or if the name leads out."""
    path = safe_join(str(built), name)
    # Path.is_file raises OSError for a name that is too long for the file system.
    if path is None or not isfile(path):
        return None
    status = Path(path).stat()
    return _load(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=256)
def _load(path: str, _modified_ns: int, _size: int) -> StaticFile:
    """Read a file into memory, again after `make docs` has changed it."""
    return StaticFile.load(Path(path))


def _to(address: str) -> flask.Response:
    return flask.Response(status=308, headers={"Location": address})


def _error(error: HubError, page: Path | None) -> flask.Response:
    """Return the response for an error: HTML for browsers, from the file `page`, else JSON."""
    accepted = flask.request.accept_mimetypes
    if accepted.best_match(["application/json", "text/html"]) != "text/html":
        return failure(error)
    response = flask.Response(error.message, error.status, content_type="text/plain; charset=utf-8")
    if page is not None:
        response = flask.Response(page.read_bytes(), error.status, content_type="text/html")
    # Tells `failures.in_shape` to keep this response, although it is no JSON.
    flask.g.is_page = True
    response.headers.extend(error.headers)
    return secure(response)
