"""Tasks of agents that write: what people order, the calls, and how the CRM is right after them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.agent_calls import (
    Answer,
    Caller,
    Task,
    contact_id,
    equal,
    found_ids,
    no_tool,
    only_id,
    record_id,
    search,
    search_linked,
    where,
)
from benchmarks.agent_world import World

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
    return call(f"create_{kind}", contactId=contact_id(call, name), properties=properties)


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
        toId=record_id(call, "companies", name="Globex")),
        lambda world, _: any(
            one.get("email") == "paul@mint.com"
            and world.ids["companies/Globex"] in world.crm.linked("contacts", id, "companies")
            for id, one in world.crm.now("contacts").items())),
    _create("Note on Ana Silva that she calls back on Monday.", no_tool, "notes"),
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
    deals = search_linked(call, "deals", "contacts", contact_id(call, name))
    return _set(call, "deals", only_id(deals), dealstage=stage)


CHANGE = [
    _change("Move Cleo Silva's deal to won.",
            lambda call, _: _move_deal(call, "Cleo Silva", "closedwon"),
            "deals/Order 3", dealstage="closedwon"),
    _change("The deal Order 5 is lost.",
            lambda call, _: _set(call, "deals", only_id(search(call, "deals", where(
                "dealname", "CONTAINS_TOKEN", "Order 5 of"))), dealstage="closedlost"),
            "deals/Order 5", dealstage="closedlost"),
    _change("Dan Silva moved to Paris.",
            lambda call, _: _set(call, "contacts", contact_id(call, "Dan Silva"), city="Paris"),
            "contacts/Dan Silva", city="Paris"),
    _change("Eva Silva's new number is +49 30 7778888.",
            lambda call, _: _set(call, "contacts", contact_id(call, "Eva Silva"),
                                 phone="+49307778888"),
            "contacts/Eva Silva", phone="+49307778888"),
    _change("finn.silva@mail2.com is a customer now.",
            lambda call, _: _set(
                call, "contacts",
                only_id(call("find_contacts", email="finn.silva@mail2.com")),
                lifecyclestage="customer"),
            "contacts/Finn Silva", lifecyclestage="customer"),
    _change("Raise the amount of Order 7 to 9,900.",
            lambda call, _: _set(call, "deals", only_id(search(call, "deals", where(
                "dealname", "CONTAINS_TOKEN", "Order 7 of"))), amount=9900),
            "deals/Order 7", amount="9900"),
    _change("Globex moved to Lisbon.",
            lambda call, _: call("create_or_update_company", domain="globex.com",
                                 properties={"city": "Lisbon"}),
            "companies/Globex", city="Lisbon"),
    _change("Set the ticket Question 2 to urgent.",
            lambda call, _: _set(call, "tickets", record_id(call, "tickets", subject="Question 2"),
                                 hs_ticket_priority="URGENT"),
            "tickets/Question 2", hs_ticket_priority="URGENT"),
    _change("Umbrella's website is umbrella.com.",
            lambda call, _: _set(call, "companies", record_id(call, "companies", name="Umbrella"),
                                 domain="umbrella.com"),
            "companies/Umbrella", domain="umbrella.com"),
]  # fmt: skip


# Link


def _link(
    sentence: str, kind: str, name: str, to: str, to_name: str, *, remove: bool = False
) -> Task:
    def find(call: Caller, resource: str, text: str) -> str:
        if resource == "contacts":
            return contact_id(call, text)
        title = {"companies": "name", "deals": "dealname", "tickets": "subject"}[resource]
        text = f"{text} of" if resource == "deals" else text
        return only_id(search(call, resource, where(title, "CONTAINS_TOKEN", text)))

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
         lambda call, _: call("get_record", resource="deals", id=only_id(search(
             call, "deals", where("dealname", "CONTAINS_TOKEN", "Order 1 of")))
         )["associations"]["companies"],
         lambda world, ids: ids == [world.ids["companies/Acme"]]),
]  # fmt: skip


# Clean up


def _clear_city(call: Caller, _: World) -> None:
    for id in sorted(found_ids(search(call, "tickets", *equal(hs_ticket_priority="LOW")))):
        _set(call, "tickets", id, content="")


def _leads_to_customers(call: Caller, _: World) -> None:
    wanted = equal(city="Oslo", lifecyclestage="lead")
    for id in sorted(found_ids(search(call, "contacts", *wanted))):
        _set(call, "contacts", id, lifecyclestage="customer")


CLEAN = [
    Task("clean up", "Which contacts have the same name?",
         lambda call, _: _same_names(call), lambda world, n: n == 0),
    Task("clean up", "Merge the two contacts of Iris Berg.", no_tool, lambda world, _: False),
    Task("clean up", "Delete the ticket Question 8.", no_tool, lambda world, _: False),
    Task("clean up", "Empty the text of the tickets of low priority.", _clear_city,
         lambda world, _: not any(one.get("hs_ticket_priority") == "LOW" and one.get("content")
                                  for one in world.crm.now("tickets").values())),
    Task("clean up", "Make all leads in Oslo customers.", _leads_to_customers,
         lambda world, _: not any(one.get("city") == "Oslo" and one.get("lifecyclestage") == "lead"
                                  for one in world.crm.now("contacts").values())),
    Task("clean up", "Remove the phone of Gina Silva, it is wrong.",
         lambda call, _: _set(call, "contacts", contact_id(call, "Gina Silva"), phone=""),
         lambda world, _: not world.values("contacts/Gina Silva").get("phone")),
]  # fmt: skip


def _same_names(call: Caller) -> int:
    names, cursor = [], ""
    while True:
        page = search(call, "contacts", properties=["firstname", "lastname"],
                       **({"cursor": cursor} if cursor else {}))  # fmt: skip
        names += [tuple(sorted(one["properties"].items())) for one in page["results"]]
        cursor = page["cursor"]
        if not cursor:
            return len(names) - len(set(names))


ORDERS = (*CREATE, *CHANGE, *LINK, *CLEAN)
