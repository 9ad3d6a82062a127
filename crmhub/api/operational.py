"""The operational routes /healthz, /readyz and /metrics."""

from __future__ import annotations

import flask

from crmhub import metrics
from crmhub.api.http.answers import as_json
from crmhub.api.http.authentication import hub
from crmhub.database.schema import pending
from crmhub.errors import Unavailable
from crmhub.operators.alerts.queue_statistics import QueueGauges


def register(app: flask.Flask) -> None:
    app.add_url_rule("/healthz", view_func=_healthy, endpoint="healthz")
    app.add_url_rule("/readyz", view_func=_ready, endpoint="readyz")
    gauges = QueueGauges(app.extensions["crmhub"].database)
    app.add_url_rule("/metrics", view_func=lambda: _metrics(gauges), endpoint="metrics")


def _healthy() -> flask.Response:
    return as_json({"status": "ok"})


def _ready() -> flask.Response:
    hub().database.check_writable()
    wrong = pending(hub().database)
    if wrong:
        raise Unavailable(f"The database is not ready: {wrong}.", retry_after=5)
    return as_json({"status": "ready"})


def _metrics(gauges: QueueGauges) -> flask.Response:
    """Also if the database is unavailable."""
    return flask.Response(metrics.text(gauges.gauges()), content_type=metrics.CONTENT_TYPE)
