"""Fit answers into the characters that an agent's context has for them; cursors give the rest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson
from pydantic import Field

from crmhub.adapter import Problem
from crmhub.api.agents.tool import Agent, Answer, Paged, Shown
from crmhub.errors import BadRequest
from crmhub.properties.kinds import Kind
from crmhub.records.search.cursor import Cursor, sealed, unsealed
from crmhub.records.search.filters import Filter
from crmhub.records.search.pages import PageRequest
from crmhub.records.search.query import Query
from crmhub.search_limits import SearchLimit
from crmhub.secrets import derive

ROOM = 8_000
"""The most characters of an answer."""
FRAME = 400
"""Characters that are kept for an answer's other keys."""
# A value of a list that is longer than this is left out, so that a page shows several records.
_LONG = 500
_RECORD_ROOM = 3_000
_MOST_OMITTED = 40
# A cursor without the ids of shown records is shorter than this.
_CURSOR_ROOM = 900


class Page(Shown):
    cursor: str = Field(description='For the next call; "" at the end.')
    has_more: bool
    source: str = Field(
        description="Where this was read: hub, its own records; copy, the hub's copy of the CRM; or"
        " the name of the account's CRM."
    )
    synced_at: str = Field("", description="Up to when a copy has the CRM's changes.")


class Record(Shown):
    id: str
    properties: dict[str, str]
    associations: dict[str, list[str]] = {}
    created_at: str = ""
    updated_at: str = ""
    url: str = Field("", description="The record's page in the CRM.")
    omitted: dict[str, int] = Field(
        {}, description="Long values, with their lengths: get_record reads them."
    )
    omitted_count: int = 0


class Records(Page):
    results: list[Record]


class Refused(Shown):
    name: str
    reason: str


class Written(Shown):
    status: Literal["created", "updated", "unchanged", "queued", "ok", "dryRun"]
    message: str
    action_id: str = Field("", description="For get_action.")
    refused: list[Refused] = Field(
        [], description="Properties that were not stored, with the reasons."
    )
    url: str = ""
    would_be: str = Field("", description="What a dry run would have done.")
    properties: dict[str, str] = {}


def refused_shown(problems: Iterable[Problem]) -> list[Answer]:
    reasons = {one.name: one.reason for one in problems}
    return [{"name": name[:100], "reason": reason[:300]} for name, reason in reasons.items()][:20]


def size(value: Any) -> int:
    return len(orjson.dumps(value).decode())


def count_fitting(items: Iterable[Any], room: int) -> int:
    count = 0
    for item in items:
        room -= size(item) + 1
        if room < 0:
            break
        count += 1
    return count


def page(results: Sequence[Answer], cursor: str, source: Answer) -> Answer:
    """`source`: as `Agent.reach` returns it."""
    return {"results": results, "cursor": cursor, "hasMore": bool(cursor), **source}


def part_of(
    agent: Agent, given: Paged, items: Sequence[Any], room: int = ROOM - FRAME
) -> tuple[Sequence[Any], str]:
    """Return the items that fit, at least one of them, and the cursor of the rest."""
    start = state_of(agent, given) or 0
    end = start + max(1, count_fitting(items[start:], room))
    return items[start:end], seal(agent, given, end) if end < len(items) else ""


def shorten(record: Mapping[str, Any]) -> Answer:
    """Values that are too long are named in `omitted`."""
    values: dict[str, str] = dict(record["properties"])
    omitted = {name: len(text) for name, text in values.items() if len(text) > _LONG}
    total = size(values)
    for name in sorted(values, key=lambda name: len(values[name]), reverse=True):
        if name not in omitted and total <= _RECORD_ROOM:
            break
        total -= size({name: values[name]})
        omitted[name] = len(values.pop(name))
    shown = {**record, "properties": values}
    if len(omitted) > _MOST_OMITTED or size(omitted) > _RECORD_ROOM // 2:
        return shown | {"omittedCount": len(omitted)}
    return shown | {"omitted": omitted} if omitted else shown


# Cursors: signed, and valid for one account, tool and set of arguments.

_INVALID = (
    "cursor: it does not belong to this call; send the cursor of the previous answer with the same"
    " arguments, or no cursor to start again"
)


def seal(agent: Agent, given: Paged, state: Any) -> str:
    return sealed([_fingerprint(agent, given), state], _key(agent))


def state_of(agent: Agent, given: Paged) -> Any:
    """None without a cursor. Raises BadRequest for another account, tool or arguments."""
    if not given.cursor:
        return None
    try:
        fingerprint, state = unsealed(given.cursor, _key(agent))
    except (BadRequest, ValueError):
        raise BadRequest(_INVALID) from None
    if fingerprint != _fingerprint(agent, given):
        raise BadRequest(_INVALID)
    return state


def _key(agent: Agent) -> bytes:
    return derive(agent.hub.settings.secret_key, "agent cursor")


def _fingerprint(agent: Agent, given: Paged) -> str:
    arguments = given.model_dump(exclude={"cursor", "limit"})
    return digest([agent.account.id, type(given).__name__, arguments])[:16]


def digest(value: Any) -> str:
    """Independent of the order of keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


# Records


@dataclass(frozen=True, slots=True)
class Listing:
    """`names`: () for all."""

    kind: Kind
    filters: tuple[Filter, ...]
    sort: str = "updated_at"
    descending: bool = True
    names: Sequence[str] = ()


def read_listings(
    agent: Agent, given: Paged, listings: Sequence[Listing], limit: int
) -> tuple[int, list[Answer], str]:
    """Return the last listing's total, records, and the cursor.

    No record may match two of the listings.
    """
    number, inside = state_of(agent, given) or (0, None)
    shown: list[Answer] = []
    room, total = ROOM, 0
    for i in range(number, len(listings)):
        if shown and (len(shown) == limit or room < ROOM // 2):
            # A listing without a record is no reason for another page.
            if _read(agent, listings[i], 1, None, ROOM)[1]:
                return total, shown, seal(agent, given, [i, None])
            continue
        total, records, after = _read(agent, listings[i], limit - len(shown), inside, room)
        inside = None
        shown += records
        room -= sum(size(one) + 1 for one in records)
        if after is not None:
            return total, shown, seal(agent, given, [i, after])
    return total, shown, ""


def _read(
    agent: Agent, listing: Listing, limit: int, after: list[Any] | None, room: int
) -> tuple[int, list[Answer], list[Any] | None]:
    records, account = agent.hub.records, agent.account
    patience = SearchLimit(agent.hub.settings.search_timeout_s)
    start = None
    if after is not None:
        start = Cursor(*after)
        start = start._replace(include=tuple(start.include), shown=tuple(start.shown))
    while True:
        query = Query(
            listing.filters, sort=listing.sort, descending=listing.descending, limit=limit
        )
        found = records.page(account, listing.kind, PageRequest(query, start), patience)
        shown = [_shown(agent, one.id, one.properties, listing.names) for one in found.records]
        fitting = count_fitting(shown, room - FRAME - _CURSOR_ROOM)
        if fitting >= len(shown) or limit == 1:
            break
        # Read again as a smaller page, so that its cursor stands behind the last shown record.
        limit = max(1, min(fitting, limit - 1))
    if not found.cursor:
        return found.total, shown, None
    following = records.cursor(account, listing.kind, found.cursor)
    return found.total, shown, list(following._replace(counted="", properties=None, include=()))


def _shown(agent: Agent, id: int, text: str, names: Sequence[str]) -> Answer:
    values: dict[str, str] = orjson.loads(text)
    return shorten({"id": agent.shown_id(id, values), "properties": only(values, names)})


def only(values: dict[str, str], names: Sequence[str]) -> dict[str, str]:
    return {name: values[name] for name in names if name in values} if names else values
