"""Tasks of agents that only read: what people ask, the calls, and the right answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.agent_calls import (
    Answer,
    Caller,
    Task,
    amount_of,
    contact_id,
    equal,
    found_ids,
    linked_to,
    no_tool,
    only_id,
    record_id,
    search,
    search_linked,
    where,
)
from benchmarks.agent_world import FAILED_DEAL, FAILED_NAME, Item, World

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
        lambda call, _: only_id(call("find_contacts", email="ben.stone@mail2.com")),
        lambda world: world.ids["contacts/Ben Stone"],
    ),
    _find(
        "Whose number is +49 309 0182002?",
        lambda call, _: only_id(call("find_contacts", phone="+49 30 901820 02")),
        lambda world: world.ids["contacts/Cleo Silva"],
    ),
    _find(
        "Do we know hans@nowhere.com?",
        lambda call, _: len(call("find_contacts", email="hans@nowhere.com")["results"]),
        lambda world: 0,
    ),
    _find(
        "Which contacts of Acme have no phone?",
        lambda call, _: found_ids(
            search_linked(
                call,
                "contacts",
                "companies",
                record_id(call, "companies", name="Acme"),
                where("phone", "NOT_HAS_PROPERTY"),
            )
        ),
        lambda world: world.ids_of(
            [one for one in world.of("contacts", company="Acme") if "phone" not in one.properties]
        ),
    ),
    _find(
        "Which deals does Ana Silva have?",
        lambda call, _: found_ids(
            search_linked(call, "deals", "contacts", contact_id(call, "Ana Silva"))
        ),
        lambda world: world.ids_of(linked_to(world, "deals", "contacts/Ana Silva")),
    ),
    _find(
        "Which of our companies have no domain?",
        lambda call, _: found_ids(search(call, "companies", where("domain", "NOT_HAS_PROPERTY"))),
        lambda world: world.ids_of(world.of("companies", domain="")),
    ),
    _find(
        "List the customers in Rome.",
        lambda call, _: found_ids(
            search(call, "contacts", *equal(city="Rome", lifecyclestage="customer"))
        ),
        lambda world: world.ids_of(world.of("contacts", city="Rome", lifecyclestage="customer")),
    ),
    _find(
        "Which urgent tickets are there?",
        lambda call, _: found_ids(search(call, "tickets", *equal(hs_ticket_priority="URGENT"))),
        lambda world: world.ids_of(world.of("tickets", hs_ticket_priority="URGENT")),
    ),
    _find(
        "Which deals close in August?",
        lambda call, _: found_ids(
            search(
                call,
                "deals",
                where("closedate", "GTE", "2026-08-01"),
                where("closedate", "LTE", "2026-08-31"),
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
            search(call, "deals", properties=["amount"])["results"],
            key=lambda one: int(one["properties"]["amount"]),
        )["id"],
        lambda world: world.ids["deals/Order 30"],
    ),
    _find(
        "Which tickets mention the invoice?",
        lambda call, _: found_ids(
            search(call, "tickets", where("content", "CONTAINS_TOKEN", "invoice"))
        ),
        lambda world: world.ids_of(world.of("tickets", content="The invoice is wrong")),
    ),
    _find("What did Ana and I speak about last week?", no_tool, lambda world: None),
]


def world_person(world: World, deal: Item) -> Item:
    """Return the contact of a deal."""
    [key] = [key for key in deal.links if key.startswith("contacts/")]
    return next(one for one in world.items if one.key == key)


def _emails_of_won(call: Caller) -> set[str]:
    won = found_ids(search(call, "deals", *equal(dealstage="closedwon")))
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
        lambda call, _: search(call, kind, *filters, limit=1)["total"],
        lambda world, answer: answer == sum(map(right, world.of(kind))),
    )


def _in_stage(label: str, *more: dict[str, Any]) -> Callable[[Caller, World], Any]:
    """Count deals by a stage that people name by its label."""

    def solve(call: Caller, _: World) -> Any:
        pipelines = call("list_pipelines", resource="deals")["results"]
        [stage] = [
            s["id"] for one in pipelines for s in one["stages"] if s["label"].casefold() == label
        ]
        return search(call, "deals", *equal(dealstage=stage), *more, limit=1)["total"]

    return solve


def _is(**values: str) -> Callable[[Item], bool]:
    return lambda one: all(one.properties.get(name) == value for name, value in values.items())


COUNT = [
    _count("How many contacts do we have?", "contacts", [], lambda one: True),
    _count("How many companies?", "companies", [], lambda one: True),
    _count("How many leads are in Berlin?", "contacts",
           equal(city="Berlin", lifecyclestage="lead"), _is(city="Berlin", lifecyclestage="lead")),
    _count("How many contacts have no phone?", "contacts", [where("phone", "NOT_HAS_PROPERTY")],
           lambda one: "phone" not in one.properties),
    _count("How many deals are above 20,000?", "deals", [where("amount", "GT", 20000)],
           lambda one: amount_of(one) > 20000),
    _count("How many people use a mail2.com address?", "contacts",
           [where("email", "CONTAINS_TOKEN", "@mail2.com")],
           lambda one: one.properties["email"].endswith("@mail2.com")),
    _count("How many deals are still open?", "deals",
           [where("dealstage", "NOT_IN", ["closedwon", "closedlost"])],
           lambda one: not one.properties["dealstage"].startswith("closed")),
    _count("How many tickets are not urgent?", "tickets",
           [where("hs_ticket_priority", "NEQ", "URGENT")],
           lambda one: one.properties["hs_ticket_priority"] != "URGENT"),
    Task("count", "How many deals above 10,000 have the contract sent?",
         _in_stage("contract sent", where("amount", "GT", 10000)),
         lambda world, n: n == sum(
             amount_of(one) > 10000 for one in world.of("deals", dealstage="contractsent"))),
    Task("count", "What are all won deals worth together?",
         lambda call, _: sum(
             int(one["properties"]["amount"])
             for one in search(call, "deals", *equal(dealstage="closedwon"),
                                properties=["amount"])["results"]),
         lambda world, n: n == sum(map(amount_of, world.of("deals", dealstage="closedwon")))),
    Task("count", "How many deals does Globex have?",
         lambda call, _: search_linked(
             call, "deals", "companies", record_id(call, "companies", name="Globex"))["total"],
         lambda world, n: n == len(linked_to(world, "deals", "companies/Globex"))),
]  # fmt: skip


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

QUESTIONS = (*FIND, *COUNT, *FAILED)
