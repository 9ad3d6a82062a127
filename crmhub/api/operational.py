"""The operational routes /healthz, /readyz, /metrics and /docs."""

from __future__ import annotations

import flask
from flask_swagger_ui import get_swaggerui_blueprint

from crmhub import metrics
from crmhub.api.http.answers import as_json
from crmhub.api.http.authentication import hub
from crmhub.database.schema import pending
from crmhub.errors import Unavailable
from crmhub.operations.queue_statistics import QueueGauges

_DOCS = {
    "app_name": "crmhub",
    # By default Swagger UI sends the document to an external validator.
    "validatorUrl": None,
    "oauth2RedirectUrl": "/docs/oauth2-redirect.html",
}


def register(app: flask.Flask) -> None:
    """Add the routes /healthz, /readyz, /metrics and /docs to the app."""
    app.add_url_rule("/healthz", view_func=_healthy, endpoint="healthz")
    app.add_url_rule("/readyz", view_func=_ready, endpoint="readyz")
    gauges = QueueGauges(app.extensions["crmhub"].database)
    app.add_url_rule("/metrics", view_func=lambda: _metrics(gauges), endpoint="metrics")
    # The files of Swagger UI come from its package, so that no page loads anything from outside.
    docs = get_swaggerui_blueprint("/docs", "/openapi.json", config=_DOCS)
    docs.after_request(_from_here_only)
    app.register_blueprint(docs)


def _from_here_only(response: flask.Response) -> flask.Response:
    # Swagger UI needs its inline script, inline styles and data images.
    response.headers["Content-Security-Policy"] = (
        "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline';"
        " img-src 'self' data:; frame-ancestors 'none'"
    )
    return response


def _healthy() -> flask.Response:
    """Answer 200 as long as the process runs."""
    return as_json({"status": "ok"})


def _ready() -> flask.Response:
    """Answer 200 if the database is writable and its schema is current, else 503."""
    hub().database.check_writable()
    wrong = pending(hub().database)
    if wrong:
        raise Unavailable(f"The database is not ready: {wrong}.", retry_after=5)
    return as_json({"status": "ready"})


def _metrics(gauges: QueueGauges) -> flask.Response:
    """Answer with the metrics, also if the database is unavailable."""
    return flask.Response(metrics.text(gauges.gauges()), content_type=metrics.CONTENT_TYPE)
