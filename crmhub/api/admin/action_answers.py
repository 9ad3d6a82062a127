"""The JSON of actions, as the admin API answers and `crmhub actions` prints it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from crmhub.journal.action_queries import Full, Summary
from crmhub.records.search.filters import iso


def summary_shown(one: Summary) -> dict[str, Any]:
    """Return an action's line in a list."""
    return {
        "actionId": one.id,
        "clientId": one.client_id,
        "helper": one.kind,
        "state": one.state,
        "contactId": one.hub_id,
        "tries": one.attempts,
        "reason": one.reason,
        "acceptedAt": iso(one.created_at),
        "nextTryAt": iso(one.run_at) if one.state in ("running", "queued") else None,
        "endedAt": iso(one.finished_at) if one.finished_at else None,
        "parkedBehind": one.behind,
    }


def action_shown(found: Full) -> dict[str, Any]:
    """Return an action with its request, its attempts and its result."""
    attempts = [
        {**asdict(one), "at": iso(one.began_at), "correlationId": one.correlation_id}
        for one in found.tries
    ]
    for one in attempts:
        del one["began_at"], one["correlation_id"]
    return {
        **summary_shown(found.summary),
        "request": found.request,
        "mapped": found.mapped or {},
        "result": found.result or {},
        "versions": [{**asdict(one), "at": iso(one.at)} for one in found.versions],
        "corrected": {name: iso(moment) for name, moment in found.corrected.items()},
        "blocked": list(found.blocked),
        "attempts": attempts,
    }
