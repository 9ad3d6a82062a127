"""The roles of console users: which rights each role has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal, get_args

from crmhub.errors import Semantic
from crmhub.translatable import translatable

Role = Literal["owner", "operator", "support", "reader"]
Right = Literal["activity", "decide", "data", "change", "people"]
ROLES: tuple[Role, ...] = get_args(Role)
RIGHTS: tuple[Right, ...] = get_args(Right)

RIGHTS_OF: Mapping[Role, frozenset[Right]] = {
    "owner": frozenset(RIGHTS),
    "operator": frozenset({"activity", "decide", "data", "change"}),
    "support": frozenset({"activity", "decide"}),
    "reader": frozenset({"activity", "data"}),
}
"""The rights of each role.

- `activity`: see accounts, their overview and their activity.
- `decide`: retry and discard actions.
- `data`: see names, emails, phones and all other values, records, settings and the audit log.
- `change`: change accounts, CRMs, keys, records and queued values.
- `people`: see and change console users and tokens of the admin API.
"""

EXPLAINED: Mapping[Role, str] = {
    "owner": translatable("Everything, including users and admin tokens, in all accounts."),
    "operator": translatable("Everything except users and admin tokens."),
    "support": translatable("Sees activity without personal data; retries and discards actions."),
    "reader": translatable("Sees everything except users and admin tokens; changes nothing."),
}


def parse_role(text: str) -> Role:
    for role in ROLES:
        if role == text:
            return role
    raise Semantic(
        "There is no role %(text)s; choose %(roles)s.",
        field="role",
        text=repr(text[:40]),
        roles=", ".join(ROLES),
    )


def parse_accounts(stored: str | None) -> frozenset[int] | None:
    """None means all accounts."""
    return None if stored is None else frozenset(json.loads(stored))
