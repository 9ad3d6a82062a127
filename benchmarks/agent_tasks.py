"""Count the tasks of people that an agent does through the tools of `POST /mcp`.

    python -m benchmarks.agent_tasks [--sqlite] [--all]

No model takes part: each of the 60 tasks is a fixed sequence of calls that a model would make. The
answer is compared with the CRM. They are done for an account whose records are the hub's own, for
one of a HubSpot-like CRM with a copy, and for one without. It ends with 1 if fewer than 45 tasks of
the first or 40 of the second are done in at most three calls, or if any answer is false.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import requests

from adapters.fakes.hubspot.fake import FakeHubSpot, Options
from benchmarks.agent_calls import Impossible
from benchmarks.agent_orders import ORDERS
from benchmarks.agent_questions import QUESTIONS
from benchmarks.agent_world import HubSpotRecords, OwnRecords, World, plant_failures
from benchmarks.places import BENCHMARKS, TOKEN, Place, parser, place
from crmhub.errors import Unavailable
from crmhub.operators.accounts.change_account import change
from crmhub.operators.crm import copy_crm

# First those that read: a copy may show later what the others write in the CRM.
TASKS = (*QUESTIONS, *ORDERS)
_MOST_CALLS = 3
_AIMS = {"local": 45, "copy": 40, "no copy": 0}
_OUTCOMES = ("done", "long", "impossible", "false")
_PATIENCE_S = 120.0


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--sqlite", action="store_true")
    command.add_argument("--all", action="store_true", help="print the outcome of each task")
    options = command.parse_args()
    with place(options.sqlite) as here:
        sys.exit(0 if _run(here, options) else 1)


def _run(here: Place, options: argparse.Namespace) -> bool:
    fakes = {
        name: FakeHubSpot(Options(token=TOKEN, limit="none", search_limit="none"))
        for name in ("copy", "no copy")
    }
    for fake in fakes.values():
        fake.start()
    try:
        reached = [_of_account(here, name, aim, fakes, options) for name, aim in _AIMS.items()]
    finally:
        for fake in fakes.values():
            fake.stop()
    return all(reached)


def _of_account(
    here: Place, name: str, aim: int, fakes: Mapping[str, FakeHubSpot], options: argparse.Namespace
) -> bool:
    fake = fakes.get(name)
    client_id = name.replace(" ", "-")
    ids = here.account(str(fake.url) if fake else "", client_id)
    hub = here.hub()
    try:
        account = hub.load_account(client_id)
        world = World(HubSpotRecords(fake) if fake else OwnRecords(hub, account))
        world.fill()
        plant_failures(hub, account)
        with here.server(workers=1, threads=8) as service:
            if name == "copy":
                change(hub, client_id, {"mirror": True}, by=BENCHMARKS)
                _wait_for_copy(hub, client_id)
            url = "http://{}:{}/mcp".format(*service.address)
            outcomes = _outcomes(url, ids.api_key, world, print_all=options.all)
    finally:
        hub.close()
    return _report(name, aim, outcomes)


def _wait_for_copy(hub: Any, client_id: str) -> None:
    until = time.monotonic() + _PATIENCE_S
    account = hub.load_account(client_id)
    while not all(one.is_complete for one in copy_crm.states(hub, account)):
        if time.monotonic() > until:
            raise Unavailable(f"The copy is not complete: {copy_crm.states(hub, account)}")
        time.sleep(0.2)


@dataclass(slots=True)
class _Caller:
    url: str
    key: str
    calls: int = field(default=0)

    def __call__(self, tool: str, /, **arguments: Any) -> Mapping[str, Any]:
        self.calls += 1
        params = {"name": tool, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"Authorization": f"Bearer {self.key}"}
        answer = requests.post(self.url, json=body, headers=headers, timeout=60)
        answer.raise_for_status()
        result = answer.json()["result"]
        content: Mapping[str, Any] = result["structuredContent"]
        if result.get("isError"):
            raise Impossible(content["message"])
        return content


def _outcomes(
    url: str, key: str, world: World, *, print_all: bool
) -> Mapping[tuple[str, str], int]:
    counts = Counter[tuple[str, str]]()
    for task in TASKS:
        caller = _Caller(url, key)
        words: Any = ""
        try:
            words = task.solve(caller, world)
            right = task.is_right(world, words)
            outcome = "false" if not right else "done" if caller.calls <= _MOST_CALLS else "long"
        except Impossible as exc:
            outcome, words = "impossible", exc
        # A model would see that an answer lacks what it expects, and would not call it a success.
        except (KeyError, ValueError, IndexError) as exc:
            outcome, words = "false", repr(exc)
        counts[task.kind, outcome] += 1
        if print_all or outcome == "false":
            print(f"  {outcome}, {caller.calls} calls: {task.sentence} {str(words)[:160]}")
    return counts


def _report(name: str, aim: int, outcomes: Mapping[tuple[str, str], int]) -> bool:
    kinds = list(dict.fromkeys(task.kind for task in TASKS))
    print(f"{name:<12}" + "".join(f"{outcome:>12}" for outcome in _OUTCOMES))
    totals = {one: sum(outcomes.get((kind, one), 0) for kind in kinds) for one in _OUTCOMES}
    for kind in kinds:
        row = [outcomes.get((kind, outcome), 0) for outcome in _OUTCOMES]
        print(f"  {kind:<10}" + "".join(f"{n:>12}" for n in row))
    print(f"  {'all':<10}" + "".join(f"{totals[one]:>12}" for one in _OUTCOMES))
    print(f"  aim: at least {aim} done of {len(TASKS)}, none false")
    return totals["done"] >= aim and not totals["false"]


if __name__ == "__main__":
    main()
