"""The endpoints of the fake HubSpot for the account: owners, account details, API usage."""

from __future__ import annotations

from typing import Any

from adapters.fakes.answers import Answer
from adapters.fakes.hubspot.answers import iso, not_found
from adapters.fakes.hubspot.calls import Call
from adapters.fakes.records import now_ms

_DAY_MS = 86_400_000


def list_owners(call: Call) -> Answer:
    """Respond with a page of the account's owners (HubSpot users).

    With the query parameter `email`, only the owner with this email is listed.
    """
    limit = call.integer("limit", 100, most=500)
    start = call.cursor()
    email = (call.given("email") or "").lower()
    owners = [
        owner
        for owner in call.portal.owners
        if owner["archived"] == call.flag("archived") and email in ("", owner["email"])
    ]
    body: dict[str, Any] = {"results": owners[start : start + limit]}
    if start + limit < len(owners):
        body["paging"] = {"next": {"after": str(start + limit)}}
    return Answer(200, body)


def read_owner(call: Call) -> Answer:
    """Respond with one owner (HubSpot user), found by owner id or by user id."""
    key = call.given("idProperty") or "id"
    for owner in call.portal.owners:
        if owner["archived"] == call.flag("archived") and str(owner.get(key)) == call.at["id"]:
            return Answer(200, owner)
    raise not_found(f"Owner {call.at['id']} not found", category="OBJECT_NOT_FOUND")


def details(call: Call) -> Answer:
    """Respond with the account's details: portal id, time zone, domain of the web app."""
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
    """Respond with the number of API calls made today.

    The response also contains the time at which this number returns to 0: midnight UTC.
    """
    now = now_ms()
    day = {
        "name": "private-apps-api-calls-daily",
        "usageLimit": call.portal.daily.most,
        "currentUsage": call.portal.daily.calls,
        "collectedAt": iso(now),
        "fetchStatus": "SUCCESS",
        "resetsAt": iso(now - now % _DAY_MS + _DAY_MS),
    }
    return Answer(200, {"results": [day]})
