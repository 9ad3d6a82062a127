"""The blueprint on which every page of the console is registered."""

from __future__ import annotations

import flask

PREFIX = "/console"

blueprint = flask.Blueprint(
    "console",
    __name__,
    url_prefix=PREFIX,
    template_folder="templates",
    static_folder="static",
)


def is_ours(path: str) -> bool:
    """Return whether a path belongs to the console; `/console-2/api/v1` is an account's path."""
    return path.startswith(PREFIX) and path[len(PREFIX) :][:1] in ("", "/")
