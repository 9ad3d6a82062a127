"""Static files with versioned URLs, long caching and gzip.

`url_for` adds a digest of the content to the URL of each file, as the query parameter `v`. A
request with the digest of this process's file may be cached for a year. Another digest comes from
another release: its answer is revalidated by its ETag.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import flask
from werkzeug.exceptions import PreconditionFailed

from crmhub.errors import NotFound

VERSION = "v"
"""The query parameter with the digest of a file."""
_IMMUTABLE = "public, max-age=31536000, immutable"
_REVALIDATE = "no-cache"
_COMPRESSIBLE = ("text/", "application/javascript", "application/json", "image/svg+xml")


@dataclass(frozen=True)
class StaticFile:
    """A file in memory; `digest` has 20 hexadecimal digits."""

    content: bytes
    media_type: str
    digest: str

    @classmethod
    def of(cls, content: bytes, media_type: str) -> StaticFile:
        return cls(content, media_type, hashlib.sha256(content).hexdigest()[:20])

    @classmethod
    def load(cls, path: Path) -> StaticFile:
        media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        return cls.of(path.read_bytes(), media_type)

    @cached_property
    def gzipped(self) -> bytes | None:
        """None if it would not be smaller."""
        if not self.media_type.startswith(_COMPRESSIBLE):
            return None
        compressed = gzip.compress(self.content, 9, mtime=0)
        return compressed if len(compressed) < len(self.content) else None

    def response(self, request: flask.Request, *, immutable: bool = False) -> flask.Response:
        """Return the response to a GET or HEAD request, 304 if the file is unchanged.

        `immutable`: the content of the requested URL never changes, whatever its query.
        """
        compressed = self.gzipped if request.accept_encodings["gzip"] > 0 else None
        content = self.content if compressed is None else compressed
        response = flask.Response(content, mimetype=self.media_type)
        # Two encodings are two representations, and a strong ETag names one.
        response.set_etag(self.digest if compressed is None else f"{self.digest}-gzip")
        if compressed is not None:
            response.headers["Content-Encoding"] = "gzip"
        if self.gzipped is not None:
            response.vary.add("Accept-Encoding")
        is_current = immutable or request.args.get(VERSION) == self.digest
        response.headers["Cache-Control"] = _IMMUTABLE if is_current else _REVALIDATE
        response.make_conditional(request)
        if response.status_code == 412:
            # Werkzeug would send the content with this status.
            raise PreconditionFailed
        return response


class StaticFiles:
    """The files below a folder, read at first use and kept in memory.

    Only files that are there at the start are served, so no name can leave the folder.
    """

    def __init__(self, folder: Path, pattern: str = "*") -> None:
        self._paths = {
            path.relative_to(folder).as_posix(): path
            for path in sorted(folder.rglob(pattern))
            if path.is_file()
        }
        self._files: dict[str, StaticFile] = {}

    def get(self, name: str) -> StaticFile | None:
        file = self._files.get(name)
        if file is None and name in self._paths:
            file = self._files[name] = StaticFile.load(self._paths[name])
        return file

    def digest(self, name: str) -> str | None:
        file = self.get(name)
        return None if file is None else file.digest

    def view(self, filename: str) -> flask.Response:
        file = self.get(filename)
        if file is None:
            raise NotFound("There is no such file.")
        return file.response(flask.request)


def serve(app: flask.Flask, endpoint: str, files: StaticFiles) -> None:
    """Serve `files` at a registered endpoint with the path argument `filename`.

    Its view is replaced, and URLs that `url_for` builds for it get the digest of their file.
    """
    app.view_functions[endpoint] = files.view

    @app.url_defaults
    def add_version(built: str, values: dict[str, Any]) -> None:
        if built == endpoint and (digest := files.digest(values.get("filename", ""))):
            values[VERSION] = digest
