"""What people read of alerts: one text for a group of them, in plain words and their time zone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from crmhub.operators.alerts.alerts import ENDED

TEST = "alert.test"
"""The type of a test message."""
# More accounts with the same alert are one line; more names are counted.
_MOST_LINES, _MOST_NAMES = 3, 10
# What follows the account or accounts, by the type of the message; of one thing and of several.
# After a text without a full stop, the message says since when.
_SAYS: Mapping[str, str | tuple[str, str]] = {
    "credentials.refused": "{crm} refuses the credentials, or its settings are wrong. Leads wait",
    "credentials.accepted": "{crm} can be used again.",
    "queue.old": (
        "1 action for {crm} waits too long,",
        "{count} actions for {crm} wait too long, the oldest",
    ),
    "queue.caught_up": "no action for {crm} waits too long any more.",
    "copy.behind": "the copy of {crm} is behind",
    "copy.caught_up": "the copy of {crm} has caught up.",
    "keys.expiring": (
        "1 API key expires soon, on {day}.",
        "{count} API keys expire soon, the first on {day}.",
    ),
    "keys.settled": "no API key expires soon any more.",
    "events.switched_off": (
        "1 event subscription was switched off after 5 days of failed calls,",
        "{count} event subscriptions were switched off after 5 days of failed calls, the first",
    ),
    "events.settled": "no event subscription is switched off any more.",
    "actions.dead": (
        "1 action for {crm} failed{blocked},",
        "{count} actions for {crm} failed{blocked}, the first",
    ),
    "actions.decided": "no failed action for {crm} is left.",
}
_PAGES: Mapping[str, str] = {
    "credentials.refused": "/console/accounts/{client_id}/crm",
    "queue.old": "/console/activity?account={client_id}&state=queued",
    "copy.behind": "/console/accounts/{client_id}/crm",
    "keys.expiring": "/console/accounts/{client_id}/keys",
    "events.switched_off": "/console/accounts/{client_id}/events",
    "actions.dead": "/console/activity/causes?account={client_id}",
}
"""The page of the console that shows how to fix it."""


@dataclass(frozen=True, slots=True)
class Text:
    title: str
    body: str


def write(
    alerts: Sequence[tuple[str, Mapping[str, Any]]],
    *,
    zone: ZoneInfo,
    title_of: Callable[[str], str],
    public_url: str | None,
) -> Text:
    """Return one text about `alerts`, each of which is the type and data of a message.

    `title_of` returns the name of a CRM by that of its adapter.
    """
    by_cause: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for type, data in alerts:
        by_cause[type, data.get("adapter", "")].append(data)
    begun: list[str] = []
    ended: list[str] = []
    for (type, adapter), many in by_cause.items():
        if type == TEST:
            begun.append("This is a test: alerts of crmhub arrive here.")
            continue
        crm = title_of(adapter) if adapter else ""
        lines = ended if type in ENDED.values() else begun
        groups = [many] if len(many) > _MOST_LINES else [[data] for data in many]
        lines += [_line(type, crm, group, zone, public_url) for group in groups]
    if len(begun) + len(ended) == 1:
        [line] = begun or ended
        return Text(line.partition("\n")[0], line)
    parts = [("{} to look at", begun), ("{} over", ended)]
    counts = [text.format(len(lines)) for text, lines in parts if lines]
    blocks = ["\n".join(f"- {line}" for line in lines) for lines in (begun, ended) if lines]
    if begun and ended:
        blocks[1] = f"Over:\n{blocks[1]}"
    return Text(f"Alerts: {', '.join(counts)}", "\n\n".join(blocks))


def _line(
    type: str,
    crm: str,
    group: Sequence[Mapping[str, Any]],
    zone: ZoneInfo,
    public_url: str | None,
) -> str:
    names = sorted(str(data["clientId"]) for data in group)
    shown = ", ".join(names[:_MOST_NAMES])
    if len(names) > _MOST_NAMES:
        shown += f" and {len(names) - _MOST_NAMES} others"
    count = sum(_sum(group, name) for name in ("actions", "keys", "subscriptions"))
    blocked = _sum(group, "blocked")
    form = _SAYS[type]
    says = (form if isinstance(form, str) else form[count != 1]).format(
        crm=crm,
        count=count,
        blocked=f", and {blocked} wait{'s' * (blocked == 1)} for {'it' if count == 1 else 'them'}"
        if blocked
        else "",
        day=_first(group, "expiresAt", zone)[:10],
    )
    if not says.endswith("."):
        says += f" since {_first(group, 'since', zone)}."
    accounts = f" ({len(names)} accounts)" if len(names) > 1 else ""
    page = _PAGES.get(type)
    if public_url is None or page is None:
        return f"{shown}{accounts}: {says}"
    path = page.format(client_id=names[0]) if len(names) == 1 else "/console"
    return f"{shown}{accounts}: {says}\n  {public_url}{path}"


def _sum(group: Sequence[Mapping[str, Any]], name: str) -> int:
    return sum(int(data.get(name) or 0) for data in group)


def _first(group: Sequence[Mapping[str, Any]], name: str, zone: ZoneInfo) -> str:
    """Return the earliest of these times in words, "" if there is none."""
    times = [str(data[name]) for data in group if data.get(name)]
    if not times:
        return ""
    return f"{datetime.fromisoformat(min(times)).astimezone(zone):%Y-%m-%d %H:%M %Z}"
