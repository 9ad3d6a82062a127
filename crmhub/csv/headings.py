"""The column titles of HubSpot's exports that differ from the labels of the hub's properties.

https://knowledge.hubspot.com/import-and-export/export-records
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from crmhub.properties.kinds import Kind

# HubSpot adds the portal's time zone to the titles of some times.
_ZONE = re.compile(r" \((?:gmt|utc)[^)]*\)$")
_PLACE = {"state/region": "state", "country/region": "country", "postal code": "zip"}
_COMPANY = ("associated company", "associated company ids", "primary associated company id")
_CONTACT = ("associated contact", "associated contact ids")
_DEAL = ("associated deal", "associated deal ids")
_ONLY_HUBSPOT = {
    "": (
        "record id",
        "object id",
        "create date",
        "created date",
        "last modified date",
        "last activity date",
        "created by user id",
        "updated by user id",
        "record source",
        "number of associated contacts",
        "number of associated deals",
    ),
    "contacts": ("marketing contact status", *_COMPANY, *_DEAL, "associated ticket ids"),
    "deals": (*_COMPANY, *_CONTACT),
    "companies": (*_CONTACT, *_DEAL),
    "tickets": ("ticket id", *_COMPANY, *_CONTACT),
}
_NAMES: Mapping[str, Mapping[str, str]] = {
    "": {
        "hubspot team": "hubspot_team_id",
        "next activity date": "notes_next_activity_date",
        "last contacted": "notes_last_contacted",
    },
    "contacts": {
        "contact owner": "hubspot_owner_id",
        "street address": "address",
        "company name": "company",
        "hubspot score": "hubspotscore",
        "twitter username": "twitterhandle",
        **_PLACE,
    },
    "deals": {
        "deal owner": "hubspot_owner_id",
        "next step": "hs_next_step",
        "amount in company currency": "amount_in_home_currency",
    },
    "companies": {"company owner": "hubspot_owner_id", **_PLACE},
    "tickets": {"ticket owner": "hubspot_owner_id", "resolution": "hs_resolution"},
}


def hubspot_property(kind: Kind, title: str) -> str | None:
    """Return "" for a column only HubSpot can fill in, None for an unknown title or a label."""
    folded = _ZONE.sub("", " ".join(title.casefold().split()))
    for name in (kind.name, ""):
        if folded in _ONLY_HUBSPOT[name]:
            return ""
        if folded in _NAMES[name]:
            return _NAMES[name][folded]
    return None
