"""The endpoints about the account: who owns records, what it is, how much it has called."""

from __future__ import annotations

from typing import Any

from adapters.hubspot.fake.answers import (
    Answer,
    iso,
    not_found,
)
from adapters.hubspot.fake.calls import Call
from adapters.hubspot.fake.portal import now_ms

_DAY_MS = 86_400_000


def list_owners(call: Call) -> Answer:
    """A page of owners, of one e-mail address when it is given."""
    limit = call.integer("limit", 100, most=500)
    start = call.cursor()
    email = (call.given("email") or "").lower()
    found = [
        one
        for one in call.portal.owners
        if one["archived"] == call.flag("archived") and email in ("", one["email"])
    ]
    body: dict[str, Any] = {"results": found[start : start + limit]}
    if start + limit < len(found):
        body["paging"] = {"next": {"after": str(start + limit)}}
    return Answer(200, body)


def read_owner(call: Call) -> Answer:
    """One owner by id, or by the id of the user."""
    key = call.given("idProperty") or "id"
    for one in call.portal.owners:
        if one["archived"] == call.flag("archived") and str(one.get(key)) == call.at["id"]:
            return Answer(200, one)
    raise not_found(f"Owner {call.at['id']} not found", category="OBJECT_NOT_FOUND")


def details(call: Call) -> Answer:
    """What the account is."""
    return Answer(
        200,
        {
            "portalId": call.portal.portal_id,
            "accountType": "DEVELOPER_TEST",
            "timeZone": "US/Eastern",
            "companyCurrency": "USD",
            "additionalCurrencies": ["EUR"],
            "utcOffset": "-05:00",
            "utcOffsetMilliseconds": -18_000_000,
            "uiDomain": "app.hubspot.com",
            "dataHostingLocation": "na1",
        },
    )


def usage(call: Call) -> Answer:
    """How many of the day's calls are used; the day ends at midnight."""
    now = now_ms()
    one = {
        "name": "private-apps-api-calls-daily",
        "usageLimit": call.portal.daily_limit,
        "currentUsage": call.portal.called_today,
        "collectedAt": iso(now),
        "fetchStatus": "SUCCESS",
        "resetsAt": iso(now - now % _DAY_MS + _DAY_MS),
    }
    return Answer(200, {"results": [one]})
