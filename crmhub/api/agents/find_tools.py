"""The tools find_contacts, search_records and get_record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from crmhub.adapter import Contact
from crmhub.api.agents.answers import (
    FRAME,
    ROOM,
    Listing,
    Page,
    Record,
    Records,
    count_fitting,
    only,
    page,
    read_listings,
    seal,
    selected,
    shorten,
    size,
    state_of,
)
from crmhub.api.agents.tool import (
    RESOURCE,
    Agent,
    Answer,
    Arguments,
    Names,
    Paged,
    RecordId,
    Resource,
    Text,
    Tool,
)
from crmhub.api.http.schemas import ORDERS, SORTS
from crmhub.errors import BadRequest, NotFound, Semantic
from crmhub.helpers import read_crm
from crmhub.helpers.inputs import key_fault, phone_fault
from crmhub.identity.phones import forms, readings
from crmhub.operators.crm import copy_crm
from crmhub.properties import values
from crmhub.properties.kinds import CONTACTS, KINDS, Kind
from crmhub.records import copied
from crmhub.records.search.filters import OPERATORS, Filter, iso
from crmhub.records.writing import missing

_WAYS = ("email", "phone", "query")
# The properties of a contact that a CRM is asked for, unless others are named.
_DEFAULT_NAMES = (
    "firstname",
    "lastname",
    "email",
    "phone",
    "company",
    "jobtitle",
    "lifecyclestage",
    "hs_lead_status",
)
Limit = Annotated[
    int, Field(ge=1, le=100, description="An answer may hold fewer, and then has a cursor.")
]


class FindContacts(Paged):
    email: Text = Field(
        "", max_length=320, description="The whole email address.", examples=["ada@example.com"]
    )
    phone: Text = Field(
        "",
        max_length=60,
        description="The whole number, with country code.",
        examples=["+12025550123"],
    )
    query: Text = Field(
        "",
        max_length=200,
        description="A first name, full name, company or part of an email.",
        examples=["Ada"],
    )
    properties: Names = []
    limit: Limit = 10


@Tool("Find contacts", answers=Records, kinds=["contacts"])
def find_contacts(agent: Agent, given: FindContacts) -> Answer:
    """Find people by email, by phone, or by a part of their name, company or email. Use it before
    you write, to learn a contact's id and what is known already. Send exactly one of email, phone
    and query. Email and phone are looked up in the account's CRM; query searches the hub's own
    contacts and is refused for accounts whose contacts are in another CRM. Do not use it to filter
    by other properties: use search_records. Answers the contacts with their properties; none found
    is an empty list, no error."""
    ways = [name for name in _WAYS if getattr(given, name)]
    if len(ways) != 1:
        raise BadRequest(f"arguments: send exactly one of {', '.join(_WAYS)}, not {len(ways)}.")
    [way] = ways
    if agent.is_remote:
        if way == "query":
            raise Semantic(
                f"query: this account's contacts are in {agent.crm}, which is searched by email or"
                " phone only; send one of these instead."
            )
        contact = _by_identity(agent, way, getattr(given, way), given.properties)
        return page([shorten(_shown(contact))] if contact else [], "", agent.crm)
    searches: list[tuple[Filter, ...]]
    if way == "email":
        searches = [(Filter("email", "EQ", _canonical(agent, "email", given.email)),)]
    elif way == "phone":
        searches = _by_phone(agent, given.phone)
    else:
        searches = _by_words(agent, given.query)
    listings = [Listing(CONTACTS, filters, names=given.properties) for filters in searches]
    _, records, cursor = read_listings(agent, given, listings, given.limit)
    return page(records, cursor, "hub")


def _by_identity(agent: Agent, way: str, text: str, names: Sequence[str]) -> Contact | None:
    meant = [_canonical(agent, way, text)]
    if way == "phone":
        meant = readings(text, agent.account.switches.region)
    asked = list(names or _DEFAULT_NAMES)
    found = (
        read_crm.find_contact(agent.hub, agent.account, **{way: one}, names=asked) for one in meant
    )
    return next(filter(None, found), None)


def _canonical(agent: Agent, way: str, text: str) -> str:
    if fault := phone_fault(text) if way == "phone" else key_fault(text):
        raise Semantic(f"{way}: {fault}")
    try:
        return values.canonical(way, text, region=agent.account.switches.region or None)
    except values.InvalidValue as exc:
        raise Semantic(f"{way}: {exc}") from None


def _shown(contact: Contact) -> Answer:
    known = {name: text for name, text in contact.properties.items() if text}
    shown: Answer = {"id": contact.id, "properties": known}
    return {**shown, "url": contact.url} if contact.url else shown


def _by_phone(agent: Agent, text: str) -> list[tuple[Filter, ...]]:
    number = _canonical(agent, "phone", text)
    alike = tuple(forms(number, agent.account.switches.region))
    catalogue = agent.hub.records.catalogue(agent.account, CONTACTS)
    known = [name for name in ("phone", "mobilephone") if catalogue.get(name)]
    return [
        (
            Filter(name, "IN", values=alike),
            *(Filter(other, "NOT_IN", values=alike) for other in known[:i]),
        )
        for i, name in enumerate(known)
    ]


def _by_words(agent: Agent, text: str) -> list[tuple[Filter, ...]]:
    def has(name: str, part: str) -> Filter:
        return Filter(name, "CONTAINS_TOKEN", part)

    def lacks(name: str, part: str) -> Filter:
        return Filter(name, "NOT_CONTAINS_TOKEN", part)

    first, _, last = text.partition(" ")
    last = last.strip()
    if last:
        searches = [
            (has("firstname", first), has("lastname", last)),
            (has("company", text), lacks("firstname", first)),
            (has("company", text), has("firstname", first), lacks("lastname", last)),
        ]
    else:
        names = ["email"] if "@" in text else ["firstname", "lastname", "email", "company"]
        searches = [
            (has(name, text), *(lacks(other, text) for other in names[:i]))
            for i, name in enumerate(names)
        ]
    catalogue = agent.hub.records.catalogue(agent.account, CONTACTS)
    return [
        filters
        for filters in searches
        if all(catalogue.get(one.property_name) is not None for one in filters)
    ]


FilterValue = Annotated[
    str,
    BeforeValidator(values.from_json),
    WithJsonSchema({"type": ["string", "number", "boolean"]}),
]


class RecordFilter(Arguments):
    property_name: str = Field(
        max_length=100, description="The property's name.", examples=["email"]
    )
    operator: str = Field(
        description="IN and NOT_IN take values; HAS_PROPERTY takes neither.",
        json_schema_extra={"enum": list(OPERATORS)},
    )
    value: FilterValue = Field("", description="For all operators but IN and NOT_IN.")
    values: list[FilterValue] = Field([], max_length=500, description="For IN and NOT_IN.")


class SearchRecords(Paged):
    resource: Resource = Field(description=RESOURCE)
    filters: list[RecordFilter] = Field(
        [],
        max_length=50,
        description="All must match.",
        examples=[[{"propertyName": "lifecyclestage", "operator": "EQ", "value": "lead"}]],
    )
    sort: Literal["updatedAt", "createdAt"] = Field(
        "updatedAt", description="The time by which the records are sorted."
    )
    order: Literal["desc", "asc"] = Field("desc", description="desc: the newest first.")
    properties: Names = []
    limit: Limit = 10


class RecordsFound(Records):
    total: int = Field(description="Matches on all pages.")
    message: str = ""


@Tool("Search records", answers=RecordsFound, kinds=list(KINDS))
def search_records(agent: Agent, given: SearchRecords) -> Answer:
    """List or search the contacts, deals, companies or tickets in the hub by any properties. All
    filters must match; without filters all records are listed, the newest change first. Use it to
    count, to make lists, and to find deals, companies and tickets. Dates are YYYY-MM-DD.
    CONTAINS_TOKEN ignores case; EQ and IN are exact. Call list_properties first when you do not
    know a property's name or its options. For one person, find_contacts is quicker. Answers the
    total and a page of records; continue with the cursor. Records in another CRM are not searched:
    message says so."""
    kind = KINDS[given.resource]
    filters = tuple(
        Filter(
            one.property_name,
            one.operator,
            one.value if "value" in one.model_fields_set else None,
            tuple(one.values) if "values" in one.model_fields_set else None,
        )
        for one in given.filters
    )
    names = given.properties
    synced: Answer = {}
    if agent.is_copied:
        synced = _synced(agent, kind)
        names = [*names, copied.ID] if names else names
    listing = Listing(kind, filters, SORTS[given.sort], ORDERS[given.order], names)
    total, records, cursor = read_listings(agent, given, [listing], given.limit)
    if agent.is_copied:
        found = [{**one, "id": one["properties"][copied.ID]} for one in records]
        return {"total": total, **page(found, cursor, "copy"), **synced}
    words = agent.elsewhere(kind).strip()
    if words and not total:
        raise Semantic(f"resource: the hub itself stores no {kind.name} that match. {words}")
    message = {"message": f"These are the hub's own {kind.name}. {words}"} if words else {}
    return {"total": total, **page(records, cursor, "hub"), **message}


class GetRecord(Paged):
    resource: Resource = Field(description=RESOURCE)
    id: RecordId = Field(description="The record's id, or a value of idProperty.")
    id_property: str = Field(
        "",
        max_length=100,
        description="A unique property by which to read.",
        examples=["email"],
    )
    properties: Names = []


class RecordShown(Record, Page):
    stale: bool = Field(False, description="true: last known values.")
    partial: dict[str, dict[str, int]] = Field(
        {}, description="Values and lists of ids of which only a part is shown."
    )


@Tool("Read one record", answers=RecordShown, kinds=list(KINDS))
def get_record(agent: Agent, given: GetRecord) -> Answer:
    """Read one contact, deal, company or ticket by its id: all properties, the ids of linked
    records, and its times. Use it when you have an id from another tool; use find_contacts or
    search_records when you do not. A contact is read from the account's CRM (a contactId of
    create_or_update_lead works at once, also while the CRM is slow: then stale is true); deals,
    companies and tickets are the hub's own. With idProperty the id is a value of that unique
    property. A long record comes in several answers: continue with the cursor; partial says which
    value was cut where."""
    kind, by = KINDS[given.resource], given.id_property
    remote = agent.is_remote
    if kind is CONTACTS and not by:
        known = read_crm.find_known(agent.hub, agent.account, given.id)
        if not known.crm_id:
            # Its lead still waits: what the hub was sent is all there is.
            frame = {"id": given.id, "source": "hub", "stale": True}
            return _in_parts(agent, given, frame, only(known.values, given.properties))
        if not remote:
            return _own_record(agent, given, kind, known.crm_id)
        asked = given.properties or _DEFAULT_NAMES
        contact = read_crm.read_contact(agent.hub, agent.account, known.crm_id, list(asked))
    elif kind is CONTACTS and remote and by in ("email", "phone"):
        identified = _by_identity(agent, by, given.id, given.properties)
        if identified is None:
            raise NotFound(
                f"id: {agent.crm} has no contact with this {by}; find_contacts finds ids."
            )
        contact = identified
    else:
        return _own_record(agent, given, kind, given.id)
    shown = {**_shown(contact), "source": agent.crm}
    return _in_parts(agent, given, shown, shown.pop("properties"))


def _synced(agent: Agent, kind: Kind) -> Answer:
    """Return up to when the copy has the CRM's changes; raises the errors of `complete_until`."""
    return {"syncedAt": iso(copy_crm.complete_until(agent.hub, agent.account, kind))}


def _own_record(agent: Agent, given: GetRecord, kind: Kind, id: str) -> Answer:
    records, account, by = agent.hub.records, agent.account, given.id_property
    synced: Answer = {}
    if agent.is_copied:
        synced = _synced(agent, kind)
        by = by or copied.ID
    if by:
        stored = records.stored_by(account, kind, by, [id])
    else:
        stored = records.stored(account, kind, [agent.own_id(kind, id, "id")])
    if not stored:
        what = f"There is no {kind.singular} with this {by}." if by else missing(kind, id)
        hint = agent.elsewhere(kind) or " find_contacts and search_records find ids."
        raise NotFound(f"{what}{hint}")
    [record] = stored
    frame = {
        "id": str(record.id),
        "createdAt": iso(record.created_at),
        "updatedAt": iso(record.updated_at),
        "source": agent.stored_in,
        **synced,
    }
    links = {name: [str(id) for id in ids] for name, ids in record.associations.items() if ids}
    if agent.is_copied:
        frame["id"] = record.record().properties[copied.ID]
        links = {
            name: [one.properties[copied.ID] for one in records.read(account, KINDS[name], ids)]
            for name, ids in record.associations.items()
        }
    return _in_parts(agent, given, frame, selected(record.properties, given.properties), links)


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
    links: Mapping[str, list[str]] | None = None,
) -> Answer:
    """The answer that shows what follows the cursor, as much as fits."""
    whole = (properties, links or {})
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
