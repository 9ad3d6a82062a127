"""The column titles of HubSpot's exports that differ from the labels of the hub's properties.

HubSpot exports the labels of its properties (https://knowledge.hubspot.com/import-and-export/
export-records). Most are equal to the hub's labels; this module lists the others.
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
    """Return the name of the property with this title in HubSpot's exports.

    Returns "" for a column that only HubSpot can fill in, such as "Record ID", which is not an id
    of the hub. Returns None if HubSpot's title is unknown or equal to the property's label.
    """
    folded = _ZONE.sub("", " ".join(title.casefold().split()))
    return _OF_KIND[kind.name].get(folded, _OF_ALL.get(folded))
