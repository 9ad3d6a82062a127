from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crmhub.adapter import Contact
from crmhub.api.agents import cursors
from crmhub.api.agents import schemas as s
from crmhub.api.agents.agent import Agent
from crmhub.api.agents.fitting import FRAME, ROOM, Parts, Rest, shorten
from crmhub.api.agents.ids import elsewhere, own_id, source
from crmhub.api.agents.record_answers import (
    DEFAULT_NAMES,
    Listing,
    Part,
    contact_shown,
    read_part,
    read_parts,
    selected,
)
from crmhub.api.agents.tool import Answer, Arguments, Tool
from crmhub.api.http.schemas import ORDERS, SORTS
from crmhub.errors import BadRequest, NotFound, Semantic
from crmhub.helpers import read_crm
from crmhub.helpers.inputs import key_fault, phone_fault
from crmhub.identity.phones import forms, readings
from crmhub.properties import values
from crmhub.properties.kinds import CONTACTS, KINDS, Kind
from crmhub.properties.values import from_json
from crmhub.records.search.filters import OPERATORS, Filter, iso
from crmhub.records.writing import missing

_WAYS = ("email", "phone", "query")


def _find_contacts(agent: Agent, arguments: Arguments) -> Answer:
    ways = [name for name in _WAYS if arguments.get(name)]
    if len(ways) != 1:
        raise BadRequest(f"arguments: send exactly one of {', '.join(_WAYS)}, not {len(ways)}.")
    names = tuple(arguments.get("properties", ()))
    text = arguments[ways[0]].strip()
    remote = read_crm.is_remote(agent.hub, agent.account)
    if remote and ways[0] == "query":
        title = read_crm.crm_title(agent.hub, agent.account)
        raise Semantic(
            f"query: this account's contacts are in {title}, which is searched by email or phone"
            " only; send one of these instead."
        )
    if remote or ways[0] == "email":
        return _found(agent, _by_identity(agent, ways[0], text, names), names, remote=remote)
    searches = _by_phone(agent, text) if ways[0] == "phone" else _by_words(agent, text)
    listings = [Listing(CONTACTS, filters, names=names) for filters in searches]
    after = cursors.state_of(agent, "find_contacts", arguments)
    part = read_parts(agent, listings, limit=arguments.get("limit", 10), after=after)
    return _page(agent, "find_contacts", arguments, part) | {"source": "hub"}


def _by_identity(agent: Agent, way: str, text: str, names: Sequence[str]) -> Contact | None:
    meant = [_canonical(agent, way, text)]
    if way == "phone":
        meant = readings(text, agent.account.switches.region)
    asked = list(names or DEFAULT_NAMES)
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


def _found(
    agent: Agent, contact: Contact | None, names: tuple[str, ...], *, remote: bool
) -> Answer:
    results = [] if contact is None else [contact_shown(contact)]
    if contact is not None and not remote:
        stored = agent.hub.records.stored(agent.account, CONTACTS, [int(contact.id)])
        results = [
            {"id": contact.id, "properties": selected(one.properties, names)} for one in stored
        ]
    shown = [shorten(one) for one in results]
    came_from = source(agent, remote=remote)
    return {"results": shown, "cursor": "", "hasMore": False, "source": came_from}


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
    catalogue = agent.hub.records.catalogue(agent.account, CONTACTS)

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
    return [
        filters
        for filters in searches
        if all(catalogue.get(one.property_name) is not None for one in filters)
    ]


def _page(agent: Agent, tool: str, arguments: Arguments, part: Part) -> Answer:
    cursor = "" if part.after is None else cursors.seal(agent, tool, arguments, part.after)
    return {"results": part.records, "cursor": cursor, "hasMore": bool(cursor)}


FIND_CONTACTS = Tool(
    name="find_contacts",
    title="Find contacts",
    description=(
        "Find people by email, by phone, or by a part of their name, company or email. Use it"
        " before you write, to learn a contact's id and what is known already. Send exactly one of"
        " email, phone and query. Email and phone are looked up in the account's CRM; query"
        " searches the hub's own contacts and is refused for accounts whose contacts are in another"
        " CRM. Do not use it to filter by other properties: use search_records. Answers the"
        " contacts with their properties; none found is an empty list, no error."
    ),
    takes=s.takes(
        (),
        email=s.text("The whole email address.", "ada@example.com", maxLength=320),
        phone=s.text("The whole number, with country code.", "+12025550123", maxLength=60),
        query=s.text("A first name, full name, company or part of an email.", "Ada", maxLength=200),
        properties=s.NAMES,
        limit=s.LIMIT,
        cursor=s.CURSOR,
    ),
    answers=s.page(s.RECORD, ["id", "properties"], source=s.SOURCE),
    run=_find_contacts,
    kinds=("contacts",),
)


def _search_records(agent: Agent, arguments: Arguments) -> Answer:
    kind = KINDS[arguments["resource"]]
    listing = Listing(
        kind,
        tuple(_filter(one) for one in arguments.get("filters", ())),
        sort=SORTS[arguments.get("sort", "updatedAt")],
        descending=ORDERS[arguments.get("order", "desc")],
        names=tuple(arguments.get("properties", ())),
    )
    after = cursors.state_of(agent, "search_records", arguments)
    part = read_part(agent, listing, limit=arguments.get("limit", 10), after=after, room=ROOM)
    words = elsewhere(agent, kind).strip()
    if words and not part.total:
        raise Semantic(f"resource: the hub itself stores no {kind.name} that match. {words}")
    shown = {"total": part.total, **_page(agent, "search_records", arguments, part)}
    message = {"message": f"These are the hub's own {kind.name}. {words}"} if words else {}
    return {**shown, "source": "hub", **message}


def _filter(given: dict[str, Any]) -> Filter:
    value, several = given.get("value"), given.get("values")
    return Filter(
        given["propertyName"],
        given["operator"],
        None if value is None else from_json(value),
        None if several is None else tuple(from_json(one) for one in several),
    )


_SCALAR = {"type": ["string", "number", "boolean"], "maxLength": 4000}
SEARCH_RECORDS = Tool(
    name="search_records",
    title="Search records",
    description=(
        "List or search the hub's own contacts, deals, companies or tickets by any properties. All"
        " filters must match; without filters all records are listed, the newest change first. Use"
        " it to count, to make lists, and to find deals, companies and tickets. Dates are"
        " YYYY-MM-DD. CONTAINS_TOKEN ignores case; EQ and IN are exact. Call list_properties first"
        " when you do not know a property's name or its options. For one person, find_contacts is"
        " quicker. Answers the total and a page of records; continue with the cursor. Records in"
        " another CRM are not searched: message says so."
    ),
    takes=s.takes(
        ("resource",),
        resource=s.resource(),
        filters={
            "type": "array",
            "maxItems": 50,
            "description": "All must match.",
            "examples": [[{"propertyName": "lifecyclestage", "operator": "EQ", "value": "lead"}]],
            "items": {
                "type": "object",
                "properties": {
                    "propertyName": s.text("The property's name.", "email", maxLength=100),
                    "operator": {
                        "type": "string",
                        "enum": list(OPERATORS),
                        "description": "IN and NOT_IN take values; HAS_PROPERTY takes neither.",
                    },
                    "value": {**_SCALAR, "description": "For all operators but IN and NOT_IN."},
                    "values": {
                        "type": "array",
                        "items": _SCALAR,
                        "maxItems": 500,
                        "description": "For IN and NOT_IN.",
                    },
                },
                "required": ["propertyName", "operator"],
                "additionalProperties": False,
            },
        },
        sort={
            "type": "string",
            "enum": ["updatedAt", "createdAt"],
            "default": "updatedAt",
            "description": "The time by which the records are sorted.",
        },
        order={
            "type": "string",
            "enum": ["desc", "asc"],
            "default": "desc",
            "description": "desc: the newest first.",
        },
        properties=s.NAMES,
        limit=s.LIMIT,
        cursor=s.CURSOR,
    ),
    answers=s.page(
        s.RECORD,
        ["id", "properties"],
        total={"type": "integer", "description": "Matches on all pages."},
        source=s.SOURCE,
        message={"type": "string"},
    ),
    run=_search_records,
    kinds=s.RESOURCES,
    chooses=True,
)


def _get_record(agent: Agent, arguments: Arguments) -> Answer:
    kind = KINDS[arguments["resource"]]
    names = tuple(arguments.get("properties", ()))
    by, id = arguments.get("idProperty"), str(arguments["id"]).strip()
    remote = read_crm.is_remote(agent.hub, agent.account)
    if kind is CONTACTS and by is None:
        frame, found, links = _contact(agent, id, names, remote=remote)
    elif kind is CONTACTS and remote and by in ("email", "phone"):
        contact = _by_identity(agent, by, id, names)
        if contact is None:
            title = source(agent, remote=True)
            raise NotFound(f"id: {title} has no contact with this {by}; find_contacts finds ids.")
        frame, found, links = _theirs(agent, contact)
    else:
        frame, found, links = _own_record(agent, kind, arguments, names)
    state = cursors.state_of(agent, "get_record", arguments)
    parts = Parts(ROOM - FRAME - len(str(frame)))
    rest = parts.take(found, links, None if state is None else Rest(*state))
    cursor = "" if rest is None else cursors.seal(agent, "get_record", arguments, list(rest))
    shown: Answer = {**frame, "properties": parts.values}
    if links:
        shown["associations"] = parts.links
    if parts.partial:
        shown["partial"] = parts.partial
    return {**shown, "cursor": cursor, "hasMore": bool(cursor)}


Found = tuple[Answer, dict[str, str], dict[str, list[str]]]


def _contact(agent: Agent, id: str, names: tuple[str, ...], *, remote: bool) -> Found:
    known = read_crm.find_known(agent.hub, agent.account, id)
    if not known.crm_id:
        # Its lead still waits: what the hub was sent is all there is.
        frame = {"id": id, "source": "hub", "stale": True}
        return frame, _only(known.values, names), {}
    if not remote:
        arguments = {"id": known.crm_id}
        return _own_record(agent, CONTACTS, arguments, names)
    contact = read_crm.read_contact(
        agent.hub, agent.account, known.crm_id, list(names or DEFAULT_NAMES)
    )
    return _theirs(agent, contact)


def _theirs(agent: Agent, contact: Contact) -> Found:
    shown = contact_shown(contact)
    found: dict[str, str] = shown.pop("properties")
    return {**shown, "source": source(agent, remote=True)}, found, {}


def _only(found: dict[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {name: found[name] for name in names if name in found} if names else found


def _own_record(agent: Agent, kind: Kind, arguments: Arguments, names: tuple[str, ...]) -> Found:
    records, account = agent.hub.records, agent.account
    by, id = arguments.get("idProperty"), str(arguments["id"]).strip()
    if by is None:
        stored = records.stored(account, kind, [own_id(agent, kind, id, "id")])
    else:
        stored = records.stored_by(account, kind, by, [id])
    if not stored:
        what = missing(kind, id) if by is None else f"There is no {kind.singular} with this {by}."
        raise NotFound(
            f"{what}{elsewhere(agent, kind) or ' find_contacts and search_records find ids.'}"
        )
    record = stored[0]
    frame = {
        "id": str(record.id),
        "createdAt": iso(record.created_at),
        "updatedAt": iso(record.updated_at),
        "source": "hub",
    }
    links = {name: [str(id) for id in ids] for name, ids in record.associations.items() if ids}
    return frame, selected(record.properties, names), links


GET_RECORD = Tool(
    name="get_record",
    title="Read one record",
    description=(
        "Read one contact, deal, company or ticket by its id: all properties, the ids of linked"
        " records, and its times. Use it when you have an id from another tool; use find_contacts"
        " or search_records when you do not. A contact is read from the account's CRM (a contactId"
        " of create_or_update_lead works at once, also while the CRM is slow: then stale is true);"
        " deals, companies and tickets are the hub's own. With idProperty the id is a value of that"
        " unique property. A long record comes in several answers: continue with the cursor;"
        " partial says which value was cut where."
    ),
    takes=s.takes(
        ("resource", "id"),
        resource=s.resource(),
        id=s.record_id("The record's id, or a value of idProperty."),
        idProperty=s.text("A unique property by which to read.", "email", maxLength=100),
        properties=s.NAMES,
        cursor=s.CURSOR,
    ),
    answers=s.answer(
        ["id", "properties", "cursor", "hasMore"],
        **s.RECORD,
        source=s.SOURCE,
        stale={"type": "boolean", "description": "true: last known values."},
        partial={
            "type": "object",
            "description": "Values and lists of ids of which only a part is shown.",
            "additionalProperties": {"type": "object"},
        },
        cursor={"type": "string"},
        hasMore={"type": "boolean"},
    ),
    run=_get_record,
    kinds=s.RESOURCES,
    chooses=True,
)
