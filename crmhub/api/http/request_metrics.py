"""Counts answers by what was asked for, never by path: paths hold ids and addresses."""

from __future__ import annotations

from functools import cache

import flask
from werkzeug.routing import Rule

from crmhub import metrics

_HELPERS = ("/chatbot/", "/crm-api-interface/")
_API = "/<client_id>/api/v1/"


def count(rule: Rule | None, status: int, failed_with: int | None, seconds: float) -> None:
    """Count an answer; that of a helper by `failed_with`, where it says 200 to what has failed."""
    if rule is None:
        metrics.answered("none", seconds)
        return
    operation, resource, helper = _asked(rule.endpoint, rule.rule)
    metrics.answered(operation, seconds)
    if helper:
        status = failed_with or status
        metrics.helper_answered(helper, str(status) if status < 300 else f"{status // 100}xx")
    elif rule.rule.startswith(_API):
        metrics.api_answered(resource, operation, f"{status // 100}xx")


@cache
def _asked(endpoint: str, rule: str) -> tuple[str, str, str]:
    """Return the operation, as /openapi.json calls it, the blueprint, and the helper's name or "".

    Blueprint, too, is "" where there is none.
    """
    documented = getattr(flask.current_app.view_functions[endpoint], "documented", None)
    operation = documented.operation_id if documented else endpoint
    resource = endpoint.rpartition(".")[0]
    return operation, resource, rule.split("/")[2] if rule.startswith(_HELPERS) else ""
