"""Sixty tasks that people set an agent: the calls that solve each, and the right answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from benchmarks.agent_world import FAILED_DEAL, FAILED_NAME, Item, World

Answer = Mapping[str, Any]


class Impossible(Exception):
    """No tool does what the task needs, or a tool refused a call."""


class Caller(Protocol):
    """Calls tools; raises Impossible for a refusal."""

    def __call__(self, tool: str, /, **arguments: Any) -> Answer: ...


@dataclass(frozen=True, slots=True)
class Task:
    """`solve` returns the agent's answer, which `is_right` compares with the CRM."""

    kind: str
    sentence: str
    solve: Callable[[Caller, World], Any]
    is_right: Callable[[World, Any], bool]


def _no_tool(call: Caller, world: World) -> None:
    raise Impossible("There is no tool for this.")


def _filter(name: str, operator: str, value: Any = None) -> dict[str, Any]:
    shown = {"propertyName": name, "operator": operator}
    if isinstance(value, list):
        return {**shown, "values": value}
    return shown if value is None else {**shown, "value": value}


def _eq(**values: str) -> list[dict[str, Any]]:
    return [_filter(name, "EQ", value) for name, value in values.items()]


def _search(call: Caller, kind: str, *filters: Any, **more: Any) -> Answer:
    return call("search_records", resource=kind, filters=list(filters), **{"limit": 100, **more})


def _ids(found: Answer) -> set[str]:
    if found["hasMore"]:
        raise Impossible("The list is longer than one answer.")
    return {one["id"] for one in found["results"]}


def _one(found: Answer) -> str:
    [one] = found["results"]
    return str(one["id"])


def _contact(call: Caller, name: str) -> str:
    return _one(call("find_contacts", query=name))


def _record(call: Caller, kind: str, **values: str) -> str:
    return _one(_search(call, kind, *_eq(**values)))


def _links(call: Caller, kind: str, to: str, id: str, *filters: Any) -> Answer:
    return _search(call, kind, *filters, linkedTo=[{"resource": to, "id": id}])


def _amount(one: Item) -> int:
    return int(one.properties["amount"])


def _linked_to(world: World, kind: str, key: str) -> list[Item]:
    return [one for one in world.of(kind) if key in one.links]


# Find


def _find(
    sentence: str, solve: Callable[[Caller, World], Any], right: Callable[[World], Any]
) -> Task:
    return Task("find", sentence, solve, lambda world, answer: answer == right(world))


FIND = [
    _find(
        "What is the email of Ana Silva?",
        lambda call, _: call("find_contacts", query="Ana Silva")["results"][0]["properties"][
            "email"
        ],
        lambda world: "ana.silva@mail0.com",
    ),
    _find(
        "Who is ben.stone@mail2.com?",
        lambda call, _: _one(call("find_contacts", email="ben.stone@mail2.com")),
        lambda world: world.ids["contacts/Ben Stone"],
    ),
    _find(
        "Whose number is +49 309 0182002?",
        lambda call, _: _one(call("find_contacts", phone="+49 30 901820 02")),
        lambda world: world.ids["contacts/Cleo Silva"],
    ),
    _find(
        "Do we know hans@nowhere.com?",
        lambda call, _: len(call("find_contacts", email="hans@nowhere.com")["results"]),
        lambda world: 0,
    ),
    _find(
        "Which contacts of Acme have no phone?",
        lambda call, _: _ids(
            _links(
                call,
                "contacts",
                "companies",
                _record(call, "companies", name="Acme"),
                _filter("phone", "NOT_HAS_PROPERTY"),
            )
        ),
        lambda world: world.ids_of(
            [one for one in world.of("contacts", company="Acme") if "phone" not in one.properties]
        ),
    ),
    _find(
        "Which deals does Ana Silva have?",
        lambda call, _: _ids(_links(call, "deals", "contacts", _contact(call, "Ana Silva"))),
        lambda world: world.ids_of(_linked_to(world, "deals", "contacts/Ana Silva")),
    ),
    _find(
        "Which of our companies have no domain?",
        lambda call, _: _ids(_search(call, "companies", _filter("domain", "NOT_HAS_PROPERTY"))),
        lambda world: world.ids_of(world.of("companies", domain="")),
    ),
    _find(
        "List the customers in Rome.",
        lambda call, _: _ids(
            _search(call, "contacts", *_eq(city="Rome", lifecyclestage="customer"))
        ),
        lambda world: world.ids_of(world.of("contacts", city="Rome", lifecyclestage="customer")),
    ),
    _find(
        "Which urgent tickets are there?",
        lambda call, _: _ids(_search(call, "tickets", *_eq(hs_ticket_priority="URGENT"))),
        lambda world: world.ids_of(world.of("tickets", hs_ticket_priority="URGENT")),
    ),
    _find(
        "Which deals close in August?",
        lambda call, _: _ids(
            _search(
                call,
                "deals",
                _filter("closedate", "GTE", "2026-08-01"),
                _filter("closedate", "LTE", "2026-08-31"),
            )
        ),
        lambda world: world.ids_of(world.of("deals", closedate="2026-08-15")),
    ),
    _find(
        "Give me the emails of the people behind all won deals.",
        lambda call, _: _emails_of_won(call),
        lambda world: {
            world_person(world, one).properties["email"]
            for one in world.of("deals", dealstage="closedwon")
        },
    ),
    _find(
        "What is our largest deal?",
        lambda call, _: max(
            _search(call, "deals", properties=["amount"])["results"],
            key=lambda one: int(one["properties"]["amount"]),
        )["id"],
        lambda world: world.ids["deals/Order 30"],
    ),
    _find(
        "Which tickets mention the invoice?",
        lambda call, _: _ids(
            _search(call, "tickets", _filter("content", "CONTAINS_TOKEN", "invoice"))
        ),
        lambda world: world.ids_of(world.of("tickets", content="The invoice is wrong")),
    ),
    _find("What did Ana and I speak about last week?", _no_tool, lambda world: None),
]


def world_person(world: World, deal: Item) -> Item:
    """Return the contact of a deal."""
    [key] = [key for key in deal.links if key.startswith("contacts/")]
    return next(one for one in world.items if one.key == key)


def _emails_of_won(call: Caller) -> set[str]:
    won = _ids(_search(call, "deals", *_eq(dealstage="closedwon")))
    deals = call("get_record", resource="deals", ids=sorted(won))["results"]
    people = [id for deal in deals for id in deal["associations"]["contacts"]]
    read = call("get_record", resource="contacts", ids=people, properties=["email"])
    return {one["properties"]["email"] for one in read["results"]}


# Count


def _count(
    sentence: str, kind: str, filters: list[dict[str, Any]], right: Callable[[Item], bool]
) -> Task:
    return Task(
        "count",
        sentence,
        lambda call, _: _search(call, kind, *filters, limit=1)["total"],
        lambda world, answer: answer == sum(map(right, world.of(kind))),
    )


def _in_stage(label: str, *more: dict[str, Any]) -> Callable[[Caller, World], Any]:
    """Count deals by a stage that people name by its label."""

    def solve(call: Caller, _: World) -> Any:
        pipelines = call("list_pipelines", resource="deals")["results"]
        [stage] = [
            s["id"] for one in pipelines for s in one["stages"] if s["label"].casefold() == label
        ]
        return _search(call, "deals", *_eq(dealstage=stage), *more, limit=1)["total"]

    return solve


def _is(**values: str) -> Callable[[Item], bool]:
    return lambda one: all(one.properties.get(name) == value for name, value in values.items())


COUNT = [
    _count("How many contacts do we have?", "contacts", [], lambda one: True),
    _count("How many companies?", "companies", [], lambda one: True),
    _count("How many leads are in Berlin?", "contacts",
           _eq(city="Berlin", lifecyclestage="lead"), _is(city="Berlin", lifecyclestage="lead")),
    _count("How many contacts have no phone?", "contacts", [_filter("phone", "NOT_HAS_PROPERTY")],
           lambda one: "phone" not in one.properties),
    _count("How many deals are above 20,000?", "deals", [_filter("amount", "GT", 20000)],
           lambda one: _amount(one) > 20000),
    _count("How many people use a mail2.com address?", "contacts",
           [_filter("email", "CONTAINS_TOKEN", "@mail2.com")],
           lambda one: one.properties["email"].endswith("@mail2.com")),
    _count("How many deals are still open?", "deals",
           [_filter("dealstage", "NOT_IN", ["closedwon", "closedlost"])],
           lambda one: not one.properties["dealstage"].startswith("closed")),
    _count("How many tickets are not urgent?", "tickets",
           [_filter("hs_ticket_priority", "NEQ", "URGENT")],
           lambda one: one.properties["hs_ticket_priority"] != "URGENT"),
    Task("count", "How many deals above 10,000 have the contract sent?",
         _in_stage("contract sent", _filter("amount", "GT", 10000)),
         lambda world, n: n == sum(
             _amount(one) > 10000 for one in world.of("deals", dealstage="contractsent"))),
    Task("count", "What are all won deals worth together?",
         lambda call, _: sum(
             int(one["properties"]["amount"])
             for one in _search(call, "deals", *_eq(dealstage="closedwon"),
                                properties=["amount"])["results"]),
         lambda world, n: n == sum(map(_amount, world.of("deals", dealstage="closedwon")))),
    Task("count", "How many deals does Globex have?",
         lambda call, _: _links(
             call, "deals", "companies", _record(call, "companies", name="Globex"))["total"],
         lambda world, n: n == len(_linked_to(world, "deals", "companies/Globex"))),
]  # fmt: skip


# Create


def _has(world: World, kind: str, **values: str) -> bool:
    same = [
        one
        for one in world.crm.now(kind).values()
        if all(one.get(name) == value for name, value in values.items())
    ]
    return len(same) == 1


def _create(sentence: str, solve: Callable[[Caller, World], Any], kind: str, **values: str) -> Task:
    return Task("create", sentence, solve, lambda world, _: _has(world, kind, **values))


def _made(call: Caller, kind: str, name: str, **properties: Any) -> Answer:
    return call(f"create_{kind}", contactId=_contact(call, name), properties=properties)


CREATE = [
    _create("Add Lena Roth, lena@roth.com.",
            lambda call, _: call("create_or_update_lead", name="Lena Roth", email="lena@roth.com"),
            "contacts", email="lena@roth.com", lastname="Roth"),
    _create("Add Max Roth, max@roth.com, from Oslo, +49 30 5550000.",
            lambda call, _: call("create_or_update_lead", name="Max Roth", email="max@roth.com",
                                 phone="+49305550000", properties={"city": "Oslo"}),
            "contacts", email="max@roth.com", city="Oslo"),
    _create("Open a deal of 5,000 with Ana Silva for a website.",
            lambda call, _: _made(call, "deal", "Ana Silva", dealname="Website", amount=5000),
            "deals", dealname="Website", amount="5000"),
    _create("Create a ticket for Ben Silva: cannot sign in, high priority.",
            lambda call, _: _made(call, "ticket", "Ben Silva", subject="Cannot sign in",
                                  hs_ticket_priority="HIGH"),
            "tickets", subject="Cannot sign in", hs_ticket_priority="HIGH"),
    _create("Add the company Hooli, hooli.com.",
            lambda call, _: call("create_or_update_company", domain="hooli.com", name="Hooli"),
            "companies", domain="hooli.com", name="Hooli"),
    _create("Make sure that Acme, acme.com, is in the CRM.",
            lambda call, _: call("create_or_update_company", domain="www.acme.com", name="Acme"),
            "companies", name="Acme"),
    _create("Add Nora Lind, nora@lind.com, with a deal Consulting.",
            lambda call, _: call("create_deal", properties={"dealname": "Consulting"},
                                 contactId=call("create_or_update_lead", name="Nora Lind",
                                                email="nora@lind.com")["contactId"]),
            "deals", dealname="Consulting"),
    Task("create", "Add Paul Mint, paul@mint.com, who works at Globex.", lambda call, _: call(
        "link_records", resource="contacts", toResource="companies",
        id=call("create_or_update_lead", name="Paul Mint", email="paul@mint.com")["contactId"],
        toId=_record(call, "companies", name="Globex")),
        lambda world, _: any(
            one.get("email") == "paul@mint.com"
            and world.ids["companies/Globex"] in world.crm.linked("contacts", id, "companies")
            for id, one in world.crm.now("contacts").items())),
    _create("Note on Ana Silva that she calls back on Monday.", _no_tool, "notes"),
]  # fmt: skip


# Change


def _change(sentence: str, solve: Callable[[Caller, World], Any], key: str, **values: str) -> Task:
    def is_right(world: World, _: Any) -> bool:
        now = world.values(key)
        return all(now.get(name, "") == value for name, value in values.items())

    return Task("change", sentence, solve, is_right)


def _set(call: Caller, kind: str, id: str, **properties: Any) -> Answer:
    return call("set_properties", resource=kind, id=id, properties=properties)


def _move_deal(call: Caller, name: str, stage: str) -> Answer:
    deals = _links(call, "deals", "contacts", _contact(call, name))
    return _set(call, "deals", _one(deals), dealstage=stage)


CHANGE = [
    _change("Move Cleo Silva's deal to won.",
            lambda call, _: _move_deal(call, "Cleo Silva", "closedwon"),
            "deals/Order 3", dealstage="closedwon"),
    _change("The deal Order 5 is lost.",
            lambda call, _: _set(call, "deals", _one(_search(call, "deals", _filter(
                "dealname", "CONTAINS_TOKEN", "Order 5 of"))), dealstage="closedlost"),
            "deals/Order 5", dealstage="closedlost"),
    _change("Dan Silva moved to Paris.",
            lambda call, _: _set(call, "contacts", _contact(call, "Dan Silva"), city="Paris"),
            "contacts/Dan Silva", city="Paris"),
    _change("Eva Silva's new number is +49 30 7778888.",
            lambda call, _: _set(call, "contacts", _contact(call, "Eva Silva"),
                                 phone="+49307778888"),
            "contacts/Eva Silva", phone="+49307778888"),
    _change("finn.silva@mail2.com is a customer now.",
            lambda call, _: _set(
                call, "contacts",
                _one(call("find_contacts", email="finn.silva@mail2.com")),
                lifecyclestage="customer"),
            "contacts/Finn Silva", lifecyclestage="customer"),
    _change("Raise the amount of Order 7 to 9,900.",
            lambda call, _: _set(call, "deals", _one(_search(call, "deals", _filter(
                "dealname", "CONTAINS_TOKEN", "Order 7 of"))), amount=9900),
            "deals/Order 7", amount="9900"),
    _change("Globex moved to Lisbon.",
            lambda call, _: call("create_or_update_company", domain="globex.com",
                                 properties={"city": "Lisbon"}),
            "companies/Globex", city="Lisbon"),
    _change("Set the ticket Question 2 to urgent.",
            lambda call, _: _set(call, "tickets", _record(call, "tickets", subject="Question 2"),
                                 hs_ticket_priority="URGENT"),
            "tickets/Question 2", hs_ticket_priority="URGENT"),
    _change("Umbrella's website is umbrella.com.",
            lambda call, _: _set(call, "companies", _record(call, "companies", name="Umbrella"),
                                 domain="umbrella.com"),
            "companies/Umbrella", domain="umbrella.com"),
]  # fmt: skip


# Link


def _link(
    sentence: str, kind: str, name: str, to: str, to_name: str, *, remove: bool = False
) -> Task:
    def find(call: Caller, resource: str, text: str) -> str:
        if resource == "contacts":
            return _contact(call, text)
        title = {"companies": "name", "deals": "dealname", "tickets": "subject"}[resource]
        text = f"{text} of" if resource == "deals" else text
        return _one(_search(call, resource, _filter(title, "CONTAINS_TOKEN", text)))

    def solve(call: Caller, _: World) -> Any:
        ids = {"id": find(call, kind, name), "toId": find(call, to, to_name)}
        return call("link_records", resource=kind, toResource=to, remove=remove, **ids)

    def is_right(world: World, _: Any) -> bool:
        return world.are_linked(f"{kind}/{name}", f"{to}/{to_name}") is not remove

    return Task("link", sentence, solve, is_right)


LINK = [
    _link("Ana Stone works at Acme, too.", "contacts", "Ana Stone", "companies", "Acme"),
    _link("Put Order 9 on Initech.", "deals", "Order 9", "companies", "Initech"),
    _link("Add Hugo Berg to the deal Order 10.", "deals", "Order 10", "contacts", "Hugo Berg"),
    _link("The ticket Question 4 is about Order 4.", "tickets", "Question 4", "deals", "Order 4"),
    _link("Ben Silva left Globex.", "contacts", "Ben Silva", "companies", "Globex", remove=True),
    _link("Order 12 is not Umbrella's.", "deals", "Order 12", "companies", "Umbrella", remove=True),
    Task("link", "Which company does Order 1 belong to?",
         lambda call, _: call("get_record", resource="deals", id=_one(_search(
             call, "deals", _filter("dealname", "CONTAINS_TOKEN", "Order 1 of")))
         )["associations"]["companies"],
         lambda world, ids: ids == [world.ids["companies/Acme"]]),
]  # fmt: skip


# Clean up


def _clear_city(call: Caller, _: World) -> None:
    for id in sorted(_ids(_search(call, "tickets", *_eq(hs_ticket_priority="LOW")))):
        _set(call, "tickets", id, content="")


def _leads_to_customers(call: Caller, _: World) -> None:
    wanted = _eq(city="Oslo", lifecyclestage="lead")
    for id in sorted(_ids(_search(call, "contacts", *wanted))):
        _set(call, "contacts", id, lifecyclestage="customer")


CLEAN = [
    Task("clean up", "Which contacts have the same name?",
         lambda call, _: _same_names(call), lambda world, n: n == 0),
    Task("clean up", "Merge the two contacts of Iris Berg.", _no_tool, lambda world, _: False),
    Task("clean up", "Delete the ticket Question 8.", _no_tool, lambda world, _: False),
    Task("clean up", "Empty the text of the tickets of low priority.", _clear_city,
         lambda world, _: not any(one.get("hs_ticket_priority") == "LOW" and one.get("content")
                                  for one in world.crm.now("tickets").values())),
    Task("clean up", "Make all leads in Oslo customers.", _leads_to_customers,
         lambda world, _: not any(one.get("city") == "Oslo" and one.get("lifecyclestage") == "lead"
                                  for one in world.crm.now("contacts").values())),
    Task("clean up", "Remove the phone of Gina Silva, it is wrong.",
         lambda call, _: _set(call, "contacts", _contact(call, "Gina Silva"), phone=""),
         lambda world, _: not world.values("contacts/Gina Silva").get("phone")),
]  # fmt: skip


def _same_names(call: Caller) -> int:
    names, cursor = [], ""
    while True:
        page = _search(call, "contacts", properties=["firstname", "lastname"],
                       **({"cursor": cursor} if cursor else {}))  # fmt: skip
        names += [tuple(sorted(one["properties"].items())) for one in page["results"]]
        cursor = page["cursor"]
        if not cursor:
            return len(names) - len(set(names))


# What failed


def _day(before: int = 0) -> str:
    return (datetime.now(UTC) - timedelta(days=before)).strftime("%Y-%m-%d")


def _sent(listed: Answer, state: str) -> list[Mapping[str, str]]:
    return [one["sent"] for one in listed["results"] if one["state"] == state]


FAILED = [
    Task("failed", "What did not reach the CRM yesterday?",
         lambda call, _: _sent(call("list_failed", since=_day(1), until=_day()), "dead"),
         lambda world, sent: [one["name"] for one in sent] == [FAILED_NAME]),
    Task("failed", "Why is Otto not in the CRM?",
         lambda call, _: [one["reason"] for one in call("list_failed")["results"]
                          if one.get("sent", {}).get("name") == FAILED_NAME],
         lambda world, reasons: reasons == ["lifecyclestage: no such option"]),
    Task("failed", "Which deals are held up, and by what?",
         lambda call, _: [(one["sent"]["dealname"], bool(one["behind"]))
                          for one in call("list_failed")["results"] if one["state"] == "parked"],
         lambda world, held: held == [(FAILED_DEAL, True)]),
    Task("failed", "How many calls were refused today?",
         lambda call, _: call("list_failed", since=_day())["counts"]["refused"],
         lambda world, n: n == 1),
]  # fmt: skip

TASKS = (*FIND, *COUNT, *FAILED, *CREATE, *CHANGE, *LINK, *CLEAN)
"""Those that read first, since a copy may show later what the others write."""
