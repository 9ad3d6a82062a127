"""Whether the hub is up, how it does, what it speaks: /healthz, /readyz, /metrics, /docs."""

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
    # Else it shows the document to a validator elsewhere, and loads a badge from there.
    "validatorUrl": None,
    "oauth2RedirectUrl": "/docs/oauth2-redirect.html",
}


def register(app: flask.Flask) -> None:
    """Add the routes to `app`."""
    app.add_url_rule("/healthz", view_func=_healthy, endpoint="healthz")
    app.add_url_rule("/readyz", view_func=_ready, endpoint="readyz")
    gauges = QueueGauges(app.extensions["crmhub"].database)
    app.add_url_rule("/metrics", view_func=lambda: _metrics(gauges), endpoint="metrics")
    # Swagger UI comes with its package and is served from here: no page loads from elsewhere.
    docs = get_swaggerui_blueprint("/docs", "/openapi.json", config=_DOCS)
    docs.after_request(_from_here_only)
    app.register_blueprint(docs)


def _from_here_only(response: flask.Response) -> flask.Response:
    # The page starts by a script of its own and draws with styles and images made in place.
    response.headers["Content-Security-Policy"] = (
        "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline';"
        " img-src 'self' data:; frame-ancestors 'none'"
    )
    return response


def _healthy() -> flask.Response:
    """Answer while the process can answer at all."""
    return as_json({"status": "ok"})


def _ready() -> flask.Response:
    """Answer 200 when the database can be written and its schema is the newest, else 503."""
    hub().database.check_writable()
    wrong = pending(hub().database)
    if wrong:
        raise Unavailable(f"The database is not ready: {wrong}.", retry_after=5)
    return as_json({"status": "ready"})


def _metrics(gauges: QueueGauges) -> flask.Response:
    """Answer what Prometheus asks for, the database away or not."""
    return flask.Response(metrics.text(gauges.gauges()), content_type=metrics.CONTENT_TYPE)
