"""The tool get_record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pydantic import Field

from crmhub.api.agents.answers import (
    FRAME,
    ROOM,
    Page,
    count_fitting,
    only,
    page,
    seal,
    shorten,
    size,
    state_of,
)
from crmhub.api.agents.find_tools import DEFAULT_NAMES, find_in_crm, shown_contact
from crmhub.api.agents.tool import (
    RESOURCE,
    Agent,
    Answer,
    Names,
    Paged,
    RecordId,
    Resource,
    Tool,
)
from crmhub.errors import BadRequest, NotFound, Semantic, Unavailable
from crmhub.helpers import read_crm
from crmhub.properties.kinds import CONTACTS, KINDS, Kind
from crmhub.records.search.filters import iso

_MOST_RECORDS = 20
_MOST_LINKED = 20
Links = dict[str, list[str]]


class GetRecord(Paged):
    resource: Resource = Field(description=RESOURCE)
    id: RecordId = Field("", description="The record's id, or a value of idProperty.")
    ids: list[RecordId] = Field(
        [],
        max_length=_MOST_RECORDS,
        description="Instead of id, to read several.",
        examples=[["481516234211", "481516234212"]],
    )
    id_property: str = Field(
        "",
        max_length=100,
        description="A unique property by which to read.",
        examples=["email"],
    )
    properties: Names = []


class RecordShown(Page):
    id: str = ""
    properties: dict[str, str] = {}
    associations: dict[str, list[str]] = {}
    created_at: str = ""
    updated_at: str = ""
    url: str = ""
    stale: bool = Field(False, description="true: last known values.")
    partial: dict[str, dict[str, int]] = Field(
        {}, description="Values and lists of ids of which only a part is shown."
    )
    results: list[dict[str, Any]] = Field([], description="Of ids: the records and errors.")


@Tool("Read records", answers=RecordShown, kinds=list(KINDS))
def get_record(agent: Agent, given: GetRecord) -> Answer:
    """Read one contact, deal, company or ticket by its id: all properties, the ids of linked
    records, and its times. Send ids instead of id to read up to 20 at once: results then has each
    record, or the error of its id. Use it when you have an id from another tool; use find_contacts
    or search_records when you do not. A contactId of create_or_update_lead works at once, also
    while the CRM is slow: then stale is true. With idProperty the ids are values of that unique
    property. A long record comes in several answers: continue with the cursor; partial says which
    value was cut where."""
    if bool(given.id) == bool(given.ids):
        raise BadRequest("arguments: send exactly one of id and ids.")
    kind = KINDS[given.resource]
    if given.ids:
        return _several(agent, given, kind)
    return _in_parts(agent, given, *_record(agent, given, kind, given.id))


def _several(agent: Agent, given: GetRecord, kind: Kind) -> Answer:
    remote = agent.is_remote and not agent.is_copied and kind is CONTACTS
    source = {"source": agent.crm} if remote else agent.reach(kind)
    start = state_of(agent, given) or 0
    shown: list[Answer] = []
    room = ROOM - FRAME
    for id in given.ids[start:]:
        try:
            one = _in_list(*_record(agent, given, kind, id, _MOST_LINKED), source)
        except (BadRequest, NotFound, Semantic) as exc:
            one = {"id": id, "error": exc.message}
        room -= size(one) + 1
        if shown and room < 0:
            break
        shown.append(one)
    end = start + len(shown)
    cursor = seal(agent, given, end) if end < len(given.ids) else ""
    return page(shown, cursor, source)


def _in_list(frame: Answer, properties: Mapping[str, str], links: Links, of_page: Answer) -> Answer:
    own = {name: value for name, value in frame.items() if of_page.get(name) != value}
    shown = shorten({**own, "properties": properties})
    return {**shown, "associations": links} if links else shown


def _record(
    agent: Agent, given: GetRecord, kind: Kind, id: str, most: int = 0
) -> tuple[Answer, Mapping[str, str], Links]:
    """Return a record's frame, its properties, and the ids of its links.

    `most`: the most ids of a kind, 0 for all; the frame says what is left out. Raises NotFound.
    """
    by = given.id_property
    live = kind is CONTACTS and agent.is_remote
    if live and by in ("email", "phone"):
        contact = find_in_crm(agent, by, id, given.properties)
        if contact is None:
            raise NotFound(
                f"id: {agent.crm} has no contact with this {by}; find_contacts finds ids."
            )
    elif kind is CONTACTS and not by:
        known = agent.known_contact(id, "id")
        if not known.crm_id:
            # Its lead still waits: what the hub was sent is all there is.
            frame = {"id": id, "source": "hub", "stale": True}
            return frame, only(known.values, given.properties), {}
        if not live:
            return _stored(agent, given, kind, known.crm_id, most)
        if agent.is_copied:
            # The copy has the links, too; but it may be incomplete.
            with suppress(NotFound, Unavailable):
                return _stored(agent, given, kind, known.crm_id, most)
        names = given.properties or DEFAULT_NAMES
        contact = read_crm.read_contact(agent.hub, agent.account, known.crm_id, list(names))
    else:
        return _stored(agent, given, kind, id, most)
    shown = {**shown_contact(contact), "source": agent.crm}
    return shown, shown.pop("properties"), {}


def _stored(
    agent: Agent, given: GetRecord, kind: Kind, id: str, most: int
) -> tuple[Answer, Mapping[str, str], Links]:
    stored = agent.find(kind, id, "id", given.id_property)
    record = stored.record()
    frame = {
        "id": agent.shown_id(record.id, record.properties),
        "createdAt": iso(record.created_at),
        "updatedAt": iso(record.updated_at),
        **agent.reach(kind),
    }
    links = {}
    for name, ids in record.associations.items():
        shown = ids[: most or None]
        if len(shown) < len(ids):
            frame["partial"] = frame.get("partial", {}) | {
                name: {"from": 0, "to": len(shown), "of": len(ids)}
            }
        if shown:
            links[name] = _shown_ids(agent, KINDS[name], shown)
    return frame, only(record.properties, given.properties), links


def _shown_ids(agent: Agent, kind: Kind, ids: Sequence[int]) -> list[str]:
    if not agent.is_copied:
        return [str(id) for id in ids]
    records = agent.hub.records.read(agent.account, kind, ids)
    return [agent.shown_id(one.id, one.properties) for one in records]


# Each piece fits into an answer, even if each of its characters is escaped.
_LONGEST_PIECE = 1_000
_MOST_IDS = 50
Piece = tuple[list[Any], Any]
"""Its section, name and offset, and the part of the value."""


def _pieces(*sections: tuple[Mapping[str, Any], int]) -> Iterator[Piece]:
    for section, (named, longest) in enumerate(sections):
        for name in sorted(named):
            for offset in range(0, max(1, len(named[name])), longest):
                yield [section, name, offset], named[name][offset : offset + longest]


def _in_parts(
    agent: Agent,
    given: GetRecord,
    frame: Answer,
    properties: Mapping[str, str],
    links: Links,
) -> Answer:
    """The answer that shows what follows the cursor, as much as fits."""
    whole = (properties, links)
    # The place, not the number of a piece: the record may change between two answers.
    after = state_of(agent, given) or [0, "", 0]
    pieces = _pieces((whole[0], _LONGEST_PIECE), (whole[1], _MOST_IDS))
    left = [piece for piece in pieces if piece[0] >= after]
    count = max(1, count_fitting(left, ROOM - 2 * FRAME - size(frame)))
    shown: tuple[dict[str, Any], dict[str, Any]] = {}, {}
    partial: dict[str, dict[str, int]] = {}
    for (section, name, offset), value in left[:count]:
        part = shown[section]
        part[name] = part[name] + value if name in part else value
        end, total = offset + len(value), len(whole[section][name])
        partial[name] = {"from": end - len(part[name]), "to": end, "of": total}
    partial = {n: cut for n, cut in partial.items() if cut["to"] - cut["from"] < cut["of"]}
    cursor = seal(agent, given, left[count][0]) if count < len(left) else ""
    return {
        **frame,
        "properties": shown[0],
        **({"associations": shown[1]} if links else {}),
        **({"partial": partial} if partial else {}),
        "cursor": cursor,
        "hasMore": bool(cursor),
    }
