"""The column titles of HubSpot's exports that differ from the labels of the hub's properties.

https://knowledge.hubspot.com/import-and-export/export-records
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from crmhub.properties.kinds import Kind

# HubSpot adds the portal's time zone to the titles of some times.
_ZONE = re.compile(r" \((?:gmt|utc)[^)]*\)$")
_OF_ALL = {
    "record id": "",
    "object id": "",
    "create date": "",
    "created date": "",
    "last modified date": "",
    "last activity date": "",
    "created by user id": "",
    "updated by user id": "",
    "record source": "",
    "number of associated contacts": "",
    "number of associated deals": "",
    "hubspot team": "hubspot_team_id",
    "next activity date": "notes_next_activity_date",
    "last contacted": "notes_last_contacted",
}
_OF_KIND: Mapping[str, Mapping[str, str]] = {
    "contacts": {
        "contact owner": "hubspot_owner_id",
        "marketing contact status": "",
        "street address": "address",
        "state/region": "state",
        "country/region": "country",
        "postal code": "zip",
        "company name": "company",
        "hubspot score": "hubspotscore",
        "twitter username": "twitterhandle",
        "associated company": "",
        "associated company ids": "",
        "primary associated company id": "",
        "associated deal": "",
        "associated deal ids": "",
        "associated ticket ids": "",
    },
    "deals": {
        "deal owner": "hubspot_owner_id",
        "next step": "hs_next_step",
        "amount in company currency": "amount_in_home_currency",
        "associated company": "",
        "associated company ids": "",
        "primary associated company id": "",
        "associated contact": "",
        "associated contact ids": "",
    },
    "companies": {
        "company owner": "hubspot_owner_id",
        "state/region": "state",
        "country/region": "country",
        "postal code": "zip",
        "associated contact": "",
        "associated contact ids": "",
        "associated deal": "",
        "associated deal ids": "",
    },
    "tickets": {
        "ticket owner": "hubspot_owner_id",
        "ticket id": "",
        "resolution": "hs_resolution",
        "associated company": "",
        "associated company ids": "",
        "primary associated company id": "",
        "associated contact": "",
        "associated contact ids": "",
    },
}


def hubspot_property(kind: Kind, title: str) -> str | None:
    """Return "" for a column only HubSpot can fill in, None for an unknown title or a label."""
    folded = _ZONE.sub("", " ".join(title.casefold().split()))
    return _OF_KIND[kind.name].get(folded, _OF_ALL.get(folded))
