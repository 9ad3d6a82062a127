"""The API reference below /docs/api: a page for the public API, and one for the admin API.

Swagger UI draws the pages, from the files of its Python package: nothing loads from another host.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import flask
import flask_swagger_ui
from markupsafe import Markup

import crmhub
from crmhub.api.documents import PREFIX, secure
from crmhub.api.http.document import PATHS, Document
from crmhub.api.http.static_files import VERSION, StaticFile
from crmhub.errors import NotFound

_OWN = Path(__file__).parent / "static"
# The console, the documents and the reference have one look.
_CONSOLE = Path(crmhub.__file__).parent / "console" / "static"
_SWAGGER_UI = Path(flask_swagger_ui.__file__).parent / "dist"
_FILES = {
    "theme.css": _CONSOLE,
    "icon.svg": _CONSOLE,
    "reference.css": _OWN,
    "reference.js": _OWN,
    "swagger-ui-bundle.js": _SWAGGER_UI,
    "swagger-ui.css": _SWAGGER_UI,
}
_TITLES = {"public": "Public API and webhook helpers", "admin": "Admin API"}
_PAGE = Markup(
    """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} · crmhub</title>
<link rel="stylesheet" href="{files[swagger-ui.css]}">
<link rel="stylesheet" href="{files[theme.css]}">
<link rel="stylesheet" href="{files[reference.css]}">
<link rel="icon" href="{files[icon.svg]}">
</head>
<body>
<header>
<a class="brand" href="../../"><img src="{files[icon.svg]}" alt="">crmhub</a>
<nav aria-label="API reference">
<a href="../../">Documents</a>
{links}
<a href="{path}">OpenAPI document</a>
</nav>
</header>
<div class="columns">
<nav id="menu" aria-label="Operations" hidden></nav>
<div id="reference" data-document="../{part}.json"></div>
<noscript><h1>{title}</h1>
<p>This page needs JavaScript. The <a href="{path}">OpenAPI document</a> holds the same.</p>
</noscript>
</div>
<script src="{files[swagger-ui-bundle.js]}"></script>
<script src="{files[reference.js]}"></script>
</body>
</html>
"""
)
_LINK = Markup('<a href="../{part}/"{current}>{title}</a>')


def register(app: flask.Flask, document: Document) -> None:
    prefix = f"{PREFIX}/api"
    for part in PATHS:
        app.add_url_rule(f"{prefix}/{part}/", f"reference.{part}", _view(part))
        # The page may call its own origin alone, whatever the public address is.
        view = document.view(part, server="/")
        app.add_url_rule(f"{prefix}/{part}.json", f"reference.{part}_json", view)
    app.add_url_rule(f"{prefix}/files/<name>", "reference.file", _file)


def _view(part: str) -> Callable[[], flask.Response]:
    """Return the view of the page of one part; the page is written at its first request."""

    @cache
    def written() -> str:
        links = Markup("\n").join(
            _LINK.format(
                part=other,
                title=title,
                current=Markup(' aria-current="page"') if other == part else "",
            )
            for other, title in _TITLES.items()
        )
        urls = {name: f"../files/{name}?{VERSION}={_load(name).digest}" for name in _FILES}
        return _PAGE.format(
            part=part, path=PATHS[part], title=_TITLES[part], links=links, files=urls
        )

    return lambda: secure(flask.Response(written(), content_type="text/html; charset=utf-8"))


def _file(name: str) -> flask.Response:
    if name not in _FILES:
        raise NotFound("There is no such file.")
    return secure(_load(name).response(flask.request))


@cache
def _load(name: str) -> StaticFile:
    return StaticFile.load(_FILES[name] / name)
