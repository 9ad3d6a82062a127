"""The page at `/`: what this service is, and where its console, documentation and health are."""

from __future__ import annotations

import flask

from crmhub import __version__
from crmhub.console.pages import HEADERS, wants_html


def front_page() -> flask.Response:
    """Show the page to browsers; answer other clients with the JSON error for an unknown path."""
    if not wants_html():
        flask.abort(404)
    text = flask.render_template("console/front_page.html", version=__version__)
    response = flask.Response(text, content_type="text/html; charset=utf-8")
    response.headers.extend(HEADERS)
    response.headers["Cache-Control"] = "no-cache"
    response.vary.add("Accept")
    return response
