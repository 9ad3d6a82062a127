from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from crmhub.adapter import Contact
from crmhub.api.agents import cursors
from crmhub.api.agents.agent import Agent
from crmhub.api.agents.fitting import FRAME, ROOM, count_fitting, shorten
from crmhub.properties.kinds import Kind
from crmhub.records.search.filters import Filter
from crmhub.records.search.pages import PageRequest
from crmhub.records.search.query import Listed, Query

DEFAULT_NAMES = (
    "firstname",
    "lastname",
    "email",
    "phone",
    "company",
    "jobtitle",
    "lifecyclestage",
    "hs_lead_status",
)
"""The properties of a contact that a CRM is asked for, unless others are named."""
# A cursor without the ids of shown records is shorter than this.
_CURSOR_ROOM = 900


@dataclass(frozen=True, slots=True)
class Listing:
    kind: Kind
    filters: tuple[Filter, ...]
    sort: str = "updated_at"
    descending: bool = True
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """`after` is the state for what follows."""

    total: int
    records: list[dict[str, Any]]
    after: list[Any] | None


def read_part(
    agent: Agent, listing: Listing, *, limit: int, after: list[Any] | None, room: int
) -> Part:
    records, account = agent.hub.records, agent.account
    while True:
        query = Query(
            listing.filters, sort=listing.sort, descending=listing.descending, limit=limit
        )
        start = None if after is None else cursors.to_listing(after)
        page = records.page(account, listing.kind, PageRequest(query, start), agent.search_limit())
        shown = [shorten(listed_shown(one, listing.names)) for one in page.records]
        following = None
        if page.cursor:
            following = cursors.of_listing(records.cursor(account, listing.kind, page.cursor))
        fitting = count_fitting(shown, room - FRAME - _CURSOR_ROOM)
        if fitting >= len(shown) or limit == 1:
            return Part(page.total, shown, following)
        # Read again as a smaller page, so that its cursor stands behind the last shown record.
        limit = max(1, min(fitting, limit - 1))


def read_parts(
    agent: Agent, listings: Sequence[Listing], *, limit: int, after: list[Any] | None
) -> Part:
    """No record may match two of the searches."""
    number, inside = (0, None) if after is None else (after[0], after[1])
    shown: list[dict[str, Any]] = []
    room = ROOM
    for i in range(number, len(listings)):
        if shown and (len(shown) == limit or room < ROOM // 2):
            # A search without a result is no reason for another page.
            if read_part(agent, listings[i], limit=1, after=None, room=ROOM).records:
                return Part(0, shown, [i, None])
            continue
        part = read_part(agent, listings[i], limit=limit - len(shown), after=inside, room=room)
        inside = None
        shown += part.records
        room -= sum(map(_size, part.records))
        if part.after is not None:
            return Part(0, shown, [i, part.after])
    return Part(0, shown, None)


def listed_shown(record: Listed, names: Sequence[str] = ()) -> dict[str, Any]:
    """`names`: () for all."""
    return {"id": str(record.id), "properties": selected(record.properties, names)}


def selected(text: str, names: Sequence[str]) -> dict[str, str]:
    values: dict[str, str] = orjson.loads(text)
    return {name: values[name] for name in names if name in values} if names else values


def contact_shown(contact: Contact) -> dict[str, Any]:
    values = {name: text for name, text in contact.properties.items() if text}
    shown: dict[str, Any] = {"id": contact.id, "properties": values}
    return {**shown, "url": contact.url} if contact.url else shown


def _size(record: dict[str, Any]) -> int:
    return len(orjson.dumps(record).decode()) + 1
