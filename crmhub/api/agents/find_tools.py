"""The tools find_contacts and search_records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from crmhub.adapter import Contact
from crmhub.api.agents.answers import (
    Listing,
    Records,
    page,
    read_listings,
    shorten,
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
from crmhub.bounds import MAX_FILTER_VALUES
from crmhub.errors import BadRequest, Semantic
from crmhub.helpers import read_crm
from crmhub.helpers.inputs import key_fault, phone_fault
from crmhub.identity.phones import forms, readings
from crmhub.properties import values
from crmhub.properties.kinds import CONTACTS, KINDS, Kind
from crmhub.records import copied
from crmhub.records.search.filters import OPERATORS, Filter, iso

_WAYS = ("email", "phone", "query")
# The properties of a contact that a CRM is asked for, unless others are named.
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
    contacts or its copy of the CRM's, and is refused without these. Do not use it to filter by
    other properties: use search_records. Answers the contacts with their properties; none found is
    an empty list, no error."""
    ways = [name for name in _WAYS if getattr(given, name)]
    if len(ways) != 1:
        raise BadRequest(f"arguments: send exactly one of {', '.join(_WAYS)}, not {len(ways)}.")
    [way] = ways
    if agent.is_remote and way != "query":
        contact = find_in_crm(agent, way, getattr(given, way), given.properties)
        source = {"source": agent.crm}
        return page([shorten(shown_contact(contact))] if contact else [], "", source)
    try:
        source = agent.reach(CONTACTS, "search")
    except Semantic as exc:
        raise Semantic(f"query: {exc.message} email and phone are looked up there.") from None
    searches: list[tuple[Filter, ...]]
    if way == "email":
        searches = [(Filter("email", "EQ", _canonical(agent, "email", given.email)),)]
    elif way == "phone":
        searches = _by_phone(agent, given.phone)
    else:
        searches = _by_words(agent, given.query)
    listings = [Listing(CONTACTS, filters, names=given.properties) for filters in searches]
    _, records, cursor = read_listings(agent, given, listings, given.limit)
    return page(records, cursor, source)


def find_in_crm(agent: Agent, way: str, text: str, names: Sequence[str]) -> Contact | None:
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


def shown_contact(contact: Contact) -> Answer:
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


class LinkedTo(Arguments):
    resource: Resource = Field(description=RESOURCE)
    id: RecordId = Field(description="Its id.")


class SearchRecords(Paged):
    resource: Resource = Field(description=RESOURCE)
    filters: list[RecordFilter] = Field(
        [],
        max_length=50,
        description="All must match.",
        examples=[[{"propertyName": "lifecyclestage", "operator": "EQ", "value": "lead"}]],
    )
    linked_to: list[LinkedTo] = Field(
        [],
        max_length=3,
        description="Only records that are linked to all of these.",
        examples=[[{"resource": "companies", "id": "481516234211"}]],
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
    """List or search the account's contacts, deals, companies or tickets by any properties. All
    filters must match; without filters all records are listed, the newest change first. Use it to
    count, to make lists, to find deals, companies and tickets, and with linkedTo for the deals of a
    person or the contacts of a company. Dates are YYYY-MM-DD. CONTAINS_TOKEN ignores case; EQ and
    IN are exact. Call list_properties first when you do not know a property's name or its options.
    For one person, find_contacts is quicker. Answers the total and a page of records; continue with
    the cursor. Refused if the hub cannot know: do not take that for none."""
    kind = KINDS[given.resource]
    source = agent.reach(kind, "search")
    filters = tuple(
        Filter(
            _property_name(agent, kind, one, i),
            one.operator,
            one.value if "value" in one.model_fields_set else None,
            tuple(one.values) if "values" in one.model_fields_set else None,
        )
        for i, one in enumerate(given.filters)
    )
    if given.linked_to:
        linked = _linked(agent, given, kind)
        if not linked:
            return {"total": 0, **page([], "", source)}
        filters += (Filter("id", "IN", values=tuple(map(str, linked))),)
    listing = Listing(kind, filters, SORTS[given.sort], ORDERS[given.order], given.properties)
    total, records, cursor = read_listings(agent, given, [listing], given.limit)
    found = {"total": total, **page(records, cursor, source)}
    if agent.is_copied and "sort" in given.model_fields_set and given.sort == "updatedAt":
        return {**found, "message": f"updatedAt: {_OF_COPY}, since {_copied_since(agent, kind)}."}
    return found


_OF_COPY = "in a copy this is when the hub saw the change"
_IDS, _CHANGED = ("id", "hs_object_id"), ("updatedAt", "lastmodifieddate")


def _copied_since(agent: Agent, kind: Kind) -> str:
    row = agent.hub.records.copy_states.of(agent.account, kind)
    return iso(row.complete_at) if row is not None and row.complete_at else ""


def _property_name(agent: Agent, kind: Kind, given: RecordFilter, index: int) -> str:
    """Return the property that a filter of the account's records means.

    Raises Semantic where the copy cannot say what the filter asks.
    """
    name, operator = given.property_name, given.operator
    if agent.is_copied and name in _IDS:
        if operator not in ("EQ", "NEQ", "IN", "NOT_IN"):
            raise Semantic(f"filters[{index}].operator: of {name}, send EQ, NEQ, IN or NOT_IN.")
        return copied.ID
    if agent.is_copied and name in _CHANGED:
        since = _copied_since(agent, kind)
        # Its first load counts as no change.
        if not (operator in ("GT", "GTE") and given.value[:10] > since[:10]):
            raise Semantic(
                f"filters[{index}].propertyName: {_OF_COPY}, since {since}. Send GT or GTE with a"
                " later day, or find the CRM's own property: list_properties with query modified."
            )
    return name


def _linked(agent: Agent, given: SearchRecords, kind: Kind) -> list[int]:
    """Return the hub's ids of the records of `kind` that are linked to all of `linkedTo`."""
    common: set[int] | None = None
    for i, one in enumerate(given.linked_to):
        search_records.require(agent, [one.resource])
        other = agent.find(KINDS[one.resource], one.id, f"linkedTo[{i}].id")
        ids = set(other.associations.get(kind.name, ()))
        common = ids if common is None else common & ids
    linked = sorted(common or ())
    if len(linked) > MAX_FILTER_VALUES:
        raise Semantic(
            f"linkedTo: {len(linked)} {kind.name} are linked, more than {MAX_FILTER_VALUES};"
            " filter by a property instead."
        )
    return linked
