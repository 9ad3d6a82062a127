"""Import all modules with pages of the console, and add the console to the app."""

from __future__ import annotations

from pathlib import Path

import flask
from flask_bootstrap import Bootstrap5

from crmhub import __version__
from crmhub.api.http import static_files
from crmhub.api.http.static_files import StaticFiles
from crmhub.console import (  # noqa: F401
    accounts,
    activity,
    alerts,
    audit_log,
    bots,
    connection,
    copies,
    credentials,
    duplicates,
    events,
    failures,
    field_map,
    first_steps,
    help,
    imports,
    one_action,
    overview,
    properties,
    reader_language,
    records,
    saved_views,
    sign_in,
    teams,
    template_filters,
    users,
)
from crmhub.console.banner import Banner
from crmhub.console.pages import HEADERS, ask_to_sign_in, fault_of, has_focus, wants_html
from crmhub.console.sessions import NotSignedIn, blueprint


def register(app: flask.Flask) -> None:
    # Bootstrap's files come from its package: no page loads a file from another host.
    app.config["BOOTSTRAP_SERVE_LOCAL"] = True
    Bootstrap5(app)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    reader_language.register(app)
    template_filters.register(app)
    app.add_template_global(fault_of)
    app.add_template_global(has_focus)
    app.add_template_global(reader_language.reader_language)
    app.add_template_global(help.of_page, "help_of_page")
    app.add_template_global(help.of_field, "help_of_field")
    app.extensions["crmhub.console.banner"] = Banner()
    app.register_blueprint(blueprint)
    app.add_url_rule("/", view_func=front_page)
    for endpoint, folder, pattern in (
        ("console.static", blueprint.static_folder, "*"),
        # The package has many themes; the pages use this file.
        ("bootstrap.static", app.blueprints["bootstrap"].static_folder, "css/bootstrap.min.css"),
    ):
        static_files.serve(app, endpoint, StaticFiles(Path(folder or ""), pattern))
    app.register_error_handler(NotSignedIn, ask_to_sign_in)


def front_page() -> flask.Response:
    """Show the page to browsers; answer other clients with the JSON error for an unknown path."""
    if not wants_html():
        flask.abort(404)
    text = flask.render_template("console/front_page.html", version=__version__)
    response = flask.Response(text, content_type="text/html; charset=utf-8")
    response.headers.extend(HEADERS)
    response.headers["Cache-Control"] = "no-cache"
    response.vary.update(["Accept", "Accept-Language"])
    return response
