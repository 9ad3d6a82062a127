"""Links from an action to the rules of the field map that may fix what the CRM refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import flask

from crmhub.accounts.accounts import Account
from crmhub.accounts.field_maps import IDENTITY
from crmhub.adapter import Rejected
from crmhub.helpers.actions import HELPERS
from crmhub.operators.actions.action_queries import Full

_MAX_LINKS = 20
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}", re.ASCII)


@dataclass(frozen=True, slots=True)
class RuleLink:
    """A refused property, by the name that bots use, and the URL of its rule or of a new one."""

    name: str
    url: str


def rule_links(action: Full, account: Account) -> list[RuleLink]:
    """Return a link for each property that the CRM refused, at most 20; none for a former CRM."""
    if action.summary.connection_id != account.connection.id:
        return []
    kind = HELPERS[action.summary.kind].record
    identity = IDENTITY if kind == "contacts" else ()
    names = dict.fromkeys(name for name in _refused_names(action) if name not in identity)
    return [
        RuleLink(
            name,
            flask.url_for(
                "console.fieldmap",
                client_id=account.client_id,
                kind=kind,
                name=name,
                action=action.summary.id,
            ),
        )
        for name in list(names)[:_MAX_LINKS]
    ]


def _refused_names(action: Full) -> Iterator[str]:
    """Yield the names of the properties that the CRM refused in the last attempt."""
    for problem in (action.result or {}).get("refused") or ():
        yield problem["name"]
    if not action.tries or action.tries[-1].outcome != Rejected.__name__:
        return
    # `Rejected` joins its problems as "name: reason; name: reason".
    sent = action.request.get("properties") or {}
    for part in action.tries[-1].message.split("; "):
        name, colon, _ = part.partition(": ")
        if colon and (name in sent or _NAME.fullmatch(name)):
            yield name
