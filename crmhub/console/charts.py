"""Charts of what was accepted, how it ended, how long it took and how long it waited."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import flask

from crmhub.api.http.authentication import hub
from crmhub.console import chart_drawing, list_filters
from crmhub.console.blueprint import blueprint
from crmhub.console.chart_drawing import Chart, Series
from crmhub.console.list_filters import asked
from crmhub.console.pages import page, refused
from crmhub.console.template_filters import (
    lasted,
    number,
    share,
)
from crmhub.errors import HubError
from crmhub.journal.history import (
    SPANS,
    Part,
    history,
)

_NAMES = {"24h": "24 hours", "7d": "7 days", "30d": "30 days"}
_FORMS = {"24h": "%H:%M", "7d": "%b %d", "30d": "%b %d"}


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
        parts_of_time=parts,
        accepted=sum(part.accepted for part in parts),
        done=sum(part.done for part in parts),
        ended=sum(part.ended for part in parts),
        waiting=parts[-1].waiting,
        charts=_drawn(parts, _FORMS[chosen]),
    )


def _drawn(parts: Sequence[Part], form: str) -> list[Chart]:
    at = [f"{datetime.fromtimestamp(part.begins_at / 1000, UTC):{form}}" for part in parts]
    highest = max(max(part.accepted, part.ended) for part in parts)
    quick = [part.p50 for part in parts if part.p50 is not None]
    slow = [part.p95 for part in parts if part.p95 is not None]
    oldest = [part.oldest for part in parts if part.oldest]
    ended, good = sum(part.ended for part in parts), sum(part.done for part in parts)
    return [
        chart_drawing.chart(
            "actions",
            "Actions",
            f"Bars: how many ended, and how. Line: how many were accepted. {number(ended)} ended in"
            f" this time, of them {number(good)} done.",
            at,
            scale=chart_drawing.even(highest),
            written=lambda value: number(int(value)),
            bars=[
                Series("done", "good", [part.done for part in parts]),
                Series("refused", "late", [part.refused for part in parts]),
                Series("failed or blocked", "bad", [part.dead for part in parts]),
            ],
            lines=[Series("accepted", "plain", [part.accepted for part in parts])],
        ),
        chart_drawing.chart(
            "success",
            "Success",
            "Of what ended, the share that was done."
            + (f" In all {share(good / ended)}." if ended else " Nothing ended in this time."),
            at,
            scale=chart_drawing.PERCENT,
            written=share,
            lines=[Series("done", "good", [part.success for part in parts])],
        ),
        chart_drawing.chart(
            "latency",
            "From acceptance to done",
            "Half of what was done, and 95 of 100, took no longer than this."
            + (f" At worst {lasted(max(slow))}." if slow else " Nothing was done in this time."),
            at,
            scale=chart_drawing.times(min(quick, default=100), max(slow, default=1_000)),
            written=lambda value: lasted(int(value)),
            lines=[
                Series("95 of 100", "late", [part.p95 for part in parts]),
                Series("half", "plain", [part.p50 for part in parts]),
            ],
        ),
        chart_drawing.chart(
            "queue",
            "Age of the queue",
            "The longest that any action had waited until it ended, or waits now."
            + (f" At worst {lasted(max(oldest))}." if oldest else " Nothing waited in this time."),
            at,
            scale=chart_drawing.times(min(oldest, default=100), max(oldest, default=1_000)),
            written=lambda value: lasted(int(value)),
            lines=[Series("oldest", "bad", [part.oldest or None for part in parts])],
        ),
    ]
