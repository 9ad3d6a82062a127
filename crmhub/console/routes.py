"""Import all modules with pages of the console, and add the console to the app."""

from __future__ import annotations

from pathlib import Path

import flask
from flask_bootstrap import Bootstrap5

from crmhub.api.http import static_files
from crmhub.api.http.static_files import StaticFiles
from crmhub.console import (
    account,
    accounts,
    activity,
    admin_tokens,
    audit_log,
    banner,
    bots,
    charts,
    connecting,
    connection,
    duplicates,
    event_deliveries,
    events,
    exports,
    field_faults,
    field_map,
    front_page,
    imports,
    keys,
    links,
    one_action,
    overview,
    plans,
    profile,
    properties,
    records,
    setup,
    sign_in,
    template_filters,
    users,
)
from crmhub.console.blueprint import blueprint
from crmhub.console.pages import ask_to_sign_in
from crmhub.console.sessions import NotSignedIn

__all__ = [
    "account",
    "accounts",
    "activity",
    "admin_tokens",
    "audit_log",
    "bots",
    "charts",
    "connecting",
    "connection",
    "duplicates",
    "event_deliveries",
    "events",
    "exports",
    "field_map",
    "front_page",
    "imports",
    "keys",
    "links",
    "one_action",
    "overview",
    "plans",
    "profile",
    "properties",
    "records",
    "register",
    "setup",
    "sign_in",
    "users",
]


def register(app: flask.Flask) -> None:
    # Bootstrap's files come from its package: no page loads a file from another host.
    app.config["BOOTSTRAP_SERVE_LOCAL"] = True
    Bootstrap5(app)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    template_filters.register(app)
    field_faults.register(app)
    banner.register(app)
    app.register_blueprint(blueprint)
    app.add_url_rule("/", view_func=front_page.front_page)
    for endpoint, folder, pattern in (
        ("console.static", blueprint.static_folder, "*"),
        # The package has many themes; the pages use this file.
        ("bootstrap.static", app.blueprints["bootstrap"].static_folder, "css/bootstrap.min.css"),
    ):
        static_files.serve(app, endpoint, StaticFiles(Path(folder or ""), pattern))
    app.register_error_handler(NotSignedIn, ask_to_sign_in)
