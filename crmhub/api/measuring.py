"""Counts answers by what was asked for, never by path: paths hold ids and addresses."""

from __future__ import annotations

from functools import cache

import flask

from crmhub import metrics

_HELPERS = ("/chatbot/", "/crm-api-interface/")
_API = "/<client_id>/api/v1/"


def count(status: int, seconds: float) -> None:
    """Count the answer to the present request."""
    request = flask.request
    rule = request.url_rule
    if rule is None:
        metrics.answered("none", seconds)
        return
    operation, helper = _asked(rule.endpoint, rule.rule)
    metrics.answered(operation, seconds)
    if helper:
        # A soft error is counted as what it stands for.
        status = flask.g.get("failed_with", status)
        metrics.helper_answered(helper, str(status) if status < 300 else f"{status // 100}xx")
    elif rule.rule.startswith(_API):
        metrics.api_answered(request.blueprint or "", operation, f"{status // 100}xx")


@cache
def _asked(endpoint: str, rule: str) -> tuple[str, str]:
    """Return the operation, as /openapi.json calls it, and the helper's name or ""."""
    documented = getattr(flask.current_app.view_functions[endpoint], "_apidoc", {})
    operation = documented.get("manual_doc", {}).get("operationId", endpoint)
    return operation, rule.split("/")[2] if rule.startswith(_HELPERS) else ""
