"""The console's charts: actions accepted and finished in each interval, and their duration."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import flask

from crmhub.api.http.authentication import hub
from crmhub.console import list_filters
from crmhub.console.access import needs
from crmhub.console.blueprint import blueprint
from crmhub.console.list_filters import params
from crmhub.console.pages import page, refused
from crmhub.console.sessions import visible_accounts
from crmhub.errors import HubError
from crmhub.operators.actions.history import SPANS, Part, history

_SPAN_LABELS = {"24h": "24 hours", "7d": "7 days", "30d": "30 days"}
_TIME_FORMATS = {"24h": "%H:%M", "7d": "%b %d %H:%M", "30d": "%b %d"}


@blueprint.get("/activity/charts")
@needs("activity")
def charts() -> flask.Response:
    given = params("account", "span")
    span = given.get("span", "24h")
    span = span if span in SPANS else "24h"
    try:
        account = list_filters.account(given)
    except HubError as exc:
        return refused(exc, "activity/charts.html", given=given, chosen=span, spans=_SPAN_LABELS)
    parts = history(hub().database, SPANS[span], account, account_ids=visible_accounts())
    return page(
        "activity/charts.html",
        given=given,
        chosen=span,
        spans=_SPAN_LABELS,
        rows=[(_interval_of(part, span), part) for part in reversed(parts)],
        accepted=sum(part.accepted for part in parts),
        done=sum(part.done for part in parts),
        ended=sum(part.ended for part in parts),
        waiting=parts[-1].waiting,
        slowest=max(part.p95 or 0 for part in parts),
        oldest=max(part.oldest for part in parts),
        # The widest bar stands for this number.
        highest=max(1, *(max(part.accepted, part.ended) for part in parts)),
    )


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval in UTC: its label, and its begin and end as the list's filters take them."""

    label: str
    begin: str
    end: str


def _interval_of(part: Part, span: str) -> Interval:
    begin, end = (
        datetime.fromtimestamp(at / 1000, UTC)
        for at in (part.begins_at, part.begins_at + SPANS[span].part_ms)
    )
    return Interval(
        f"{begin:{_TIME_FORMATS[span]}}", f"{begin:%Y-%m-%d %H:%M}", f"{end:%Y-%m-%d %H:%M}"
    )
