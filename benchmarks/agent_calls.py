"""What tasks of agents are made of: calls of tools, and short forms of the usual ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.agent_world import Item, World

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


def no_tool(call: Caller, world: World) -> None:
    """Stand for a task for which there is no tool."""
    raise Impossible("There is no tool for this.")


def where(name: str, operator: str, value: Any = None) -> dict[str, Any]:
    """Return a filter of search_records."""
    shown = {"propertyName": name, "operator": operator}
    if isinstance(value, list):
        return {**shown, "values": value}
    return shown if value is None else {**shown, "value": value}


def equal(**values: str) -> list[dict[str, Any]]:
    """Return filters by equal values."""
    return [where(name, "EQ", value) for name, value in values.items()]


def search(call: Caller, kind: str, *filters: Any, **more: Any) -> Answer:
    """Search records of a kind, up to 100 of them."""
    return call("search_records", resource=kind, filters=list(filters), **{"limit": 100, **more})


def found_ids(found: Answer) -> set[str]:
    """Return the ids of a whole answer."""
    if found["hasMore"]:
        raise Impossible("The list is longer than one answer.")
    return {one["id"] for one in found["results"]}


def only_id(found: Answer) -> str:
    """Return the id of the only record in an answer."""
    [one] = found["results"]
    return str(one["id"])


def contact_id(call: Caller, name: str) -> str:
    """Find a contact by words."""
    return only_id(call("find_contacts", query=name))


def record_id(call: Caller, kind: str, **values: str) -> str:
    """Find a record by its values."""
    return only_id(search(call, kind, *equal(**values)))


def search_linked(call: Caller, kind: str, to: str, id: str, *filters: Any) -> Answer:
    """Search records that are linked to another one."""
    return search(call, kind, *filters, linkedTo=[{"resource": to, "id": id}])


def amount_of(one: Item) -> int:
    """Return the amount of a deal."""
    return int(one.properties["amount"])


def linked_to(world: World, kind: str, key: str) -> list[Item]:
    """Return the items of a kind that are linked to another one."""
    return [one for one in world.of(kind) if key in one.links]
