"""The Flask blueprint on which all pages of the console are registered."""

from __future__ import annotations

import re

import flask

PREFIX = "/console"
MAX_UPLOAD_BYTES = 20 * 1024 * 1024
"""For a CSV file with its form."""
_UPLOAD = re.compile(rf"{PREFIX}/accounts/[^/]+/imports")

blueprint = flask.Blueprint(
    "console",
    __name__,
    url_prefix=PREFIX,
    template_folder="templates",
    static_folder="static",
)


def is_ours(path: str) -> bool:
    """Return whether a path is `/console` or below; `/console-2/api/v1` belongs to an account."""
    return path.startswith(PREFIX) and path[len(PREFIX) :][:1] in ("", "/")


def is_upload(method: str, path: str) -> bool:
    return method == "POST" and _UPLOAD.fullmatch(path) is not None
