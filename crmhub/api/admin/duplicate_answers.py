"""The JSON of possible duplicates, as the admin API answers and `crmhub duplicates` prints it."""

from __future__ import annotations

from typing import Any

from crmhub.identity.possible_duplicates import Pair
from crmhub.operations.compare_contacts import Preview, Side
from crmhub.records.search.filters import iso


def pair_shown(pair: Pair) -> dict[str, Any]:
    """Return a pair of possible duplicates without personal data."""
    return {
        "contactIds": list(pair.ids),
        "shares": list(pair.shares),
        "state": pair.state,
        "foundAt": iso(pair.found_at),
        "decidedAt": iso(pair.decided_at) if pair.decided_at else None,
        "decidedBy": pair.decided_by,
        "keptId": pair.kept_id,
        "unmergeUntil": iso(pair.unmerge_until) if pair.unmerge_until else None,
    }


def preview_shown(found: Preview) -> dict[str, Any]:
    """Return a pair with both contacts and the result of a merge."""
    return {
        **pair_shown(found.pair),
        "contacts": [_side_shown(side) for side in found.sides],
        "obstacle": found.obstacle,
        "version": found.version,
        "properties": [
            {
                "name": value.name,
                "label": value.label,
                "from": value.winner,
                "value": value.of[value.winner],
            }
            for value in found.values
        ],
        "moves": dict(found.moves),
    }


def _side_shown(side: Side) -> dict[str, Any]:
    return {
        "contactId": side.id,
        "exists": side.exists,
        "createdAt": iso(side.created_at) if side.created_at else None,
        "url": side.url,
        "error": side.error,
        "properties": dict(side.properties),
    }
