"""The Flask blueprint on which all pages of the console are registered."""

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
    """Return whether a URL path belongs to the console: `/console` or a path below it.

    A path such as `/console-2/api/v1` belongs to an account.
    """
    return path.startswith(PREFIX) and path[len(PREFIX) :][:1] in ("", "/")
