"""How many actions were accepted, how they ended and how long they took: a bar per interval."""

from __future__ import annotations

from datetime import UTC, datetime

import flask

from crmhub.api.http.authentication import hub
from crmhub.console import list_filters
from crmhub.console.blueprint import blueprint
from crmhub.console.list_filters import asked
from crmhub.console.pages import page, refused
from crmhub.errors import HubError
from crmhub.journal.history import (
    SPANS,
    Part,
    history,
)

_NAMES = {"24h": "24 hours", "7d": "7 days", "30d": "30 days"}
_FORMS = {"24h": "%H:%M", "7d": "%b %d %H:%M", "30d": "%b %d"}


@blueprint.get("/activity/charts")
def charts() -> flask.Response:
    """Show how actions fared over time, of one account or all."""
    given = asked("account", "span")
    chosen = given.get("span", "24h")
    chosen = chosen if chosen in SPANS else "24h"
    try:
        account = list_filters.account(given)
    except HubError as exc:
        return refused(exc, "activity/charts.html", given=given, chosen=chosen, spans=_NAMES)
    parts = history(hub().database, SPANS[chosen], account)
    return page(
        "activity/charts.html",
        given=given,
        chosen=chosen,
        spans=_NAMES,
        rows=[(_begins(part, chosen), part) for part in reversed(parts)],
        accepted=sum(part.accepted for part in parts),
        done=sum(part.done for part in parts),
        ended=sum(part.ended for part in parts),
        waiting=parts[-1].waiting,
        slowest=max(part.p95 or 0 for part in parts),
        oldest=max(part.oldest for part in parts),
        # The full width of a bar.
        highest=max(1, *(max(part.accepted, part.ended) for part in parts)),
    )


def _begins(part: Part, span: str) -> str:
    return f"{datetime.fromtimestamp(part.begins_at / 1000, UTC):{_FORMS[span]}}"
