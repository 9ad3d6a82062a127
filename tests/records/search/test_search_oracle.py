"""Search against the oracle: random records, random filters, every plan, on both databases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from crmhub.hub import Hub
from crmhub.records.search import costs, page_reader, plans
from crmhub.records.search import pages as listing
from tests.catalogue_properties import define
from tests.clients import Client
from tests.pages import pages
from tests.records.search.made_up import GROUP, OPTIONS, TYPES, filters_on, properties, times
from tests.records.search.oracle import SORTS, Oracle, Stored
from tests.records.times import set_former_dates, set_times

ORACLE = Oracle({**TYPES, GROUP: "string"})
ORDERS = ("desc", "asc")
# A walk goes from page to page in the same way, however long it is.
MOST_PAGES = 6
# Bytes of a page that has room for a record or a few.
SMALL_PAGE = 600
# How each plan is brought about though there are few records.
WALK = {"SMALL_RESULT": 0, "WALK_PER_MATCH": 1e9}
GUESS = {
    "SMALL_RESULT": 0,
    "WALK_PER_MATCH": 0,
    "GUESSED_PART": 0,
}
FETCH = {"SMALL_RESULT": 0, "WALK_PER_MATCH": 0, "GUESSED_PART": 1}


def guess(tested: int) -> dict[str, float]:
    return {
        **GUESS,
        "TESTED_AFTER_GUESS": tested,
        "TESTED_AFTER_GUESS_EARLY": tested,
        "READ_PER_GUESS": 1,
    }


PLANS: dict[str, dict[str, float]] = {
    "few at once": {"SMALL_RESULT": 10},
    "walks": WALK,
    "walks on": {**WALK, "SMALL_RESULT": 3, "WALK_FACTOR": 0, "LONGER_WALK": 3, "GUESSED_PART": 1},
    "gives up walking": {**WALK, "LONGEST_WALK": 4},
    "fetches ids": FETCH,
    "guesses": guess(3),
    "guesses the end": GUESS,
    "guesses in vain": guess(0),
}


@pytest.fixture(params=PLANS)
def plan(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Bring about one plan, and see to it that it was taken."""
    taken: Counter[str] = Counter()
    walks: Callable[..., Any] = plans.Search._walk
    fetches: Callable[..., Any] = plans.Search._fetch
    guesses: Callable[..., Any] = plans.Search._guess
    fews: Callable[..., Any] = plans.Search.small_result

    def walk(self: plans.Search, walk: Any, until: int) -> Any:
        before = walk.documents
        found = walks(self, walk, until)
        taken["gives up walking" if found is None else "walks on" if before else "walks"] += 1
        return found

    def fetch(self: plans.Search, *args: Any, **options: Any) -> Any:
        taken["fetches ids"] += 1
        return fetches(self, *args, **options)

    def guess(self: plans.Search, *args: Any) -> Any:
        found = guesses(self, *args)
        taken["guesses in vain" if found is None else "guesses"] += 1
        taken["guesses the end"] += found is not None and len(found) < self._wanted
        return found

    def few(self: plans.Search) -> Any:
        found = fews(self)
        taken["few at once"] += found is not None
        return found

    monkeypatch.setattr(plans.Search, "small_result", few)
    monkeypatch.setattr(plans.Search, "_walk", walk)
    monkeypatch.setattr(plans.Search, "_fetch", fetch)
    monkeypatch.setattr(plans.Search, "_guess", guess)
    for name, value in PLANS[request.param].items():
        monkeypatch.setattr(costs, name, value)
    yield request.param
    assert taken[request.param] > 5


@pytest.fixture
def searcher(client: Client) -> Client:
    """A caller whose contacts have a property of each type."""
    for name, type in TYPES.items():
        define(client, "contacts", name, type, options=OPTIONS if "choice" in name else ())
    return client


def store(
    hub: Hub,
    client: Client,
    sent: Sequence[dict[str, str]],
    moments: Sequence[tuple[int, int]],
) -> list[Stored]:
    """Create contacts that were created and updated at given times."""
    answer = client.post("/contacts/batch/create", {"inputs": [{"properties": p} for p in sent]})
    assert answer.status_code == 201, answer.text
    ids = [each["id"] for each in answer.json]  # type: ignore[union-attr]
    set_times(hub, client, "contacts", ids, moments)
    return [
        Stored(id, created, updated, each)
        for id, each, (created, updated) in zip(ids, sent, moments, strict=True)
    ]


def clear(client: Client, records: Sequence[Stored]) -> None:
    answer = client.post("/contacts/batch/archive", {"inputs": [{"id": r.id} for r in records]})
    assert answer.status_code == 204, answer.text


@st.composite
def datasets(draw: st.DrawFn) -> Any:
    """Give properties and times of 24 contacts, three groups of which follow each other."""
    sent = draw(st.lists(properties, min_size=24, max_size=24))
    grouped = [{GROUP: f"g{i // 8}", **each} for i, each in enumerate(sent)]
    return grouped, [draw(moments_of(2 - i // 8)) for i in range(24)]


@st.composite
def moments_of(draw: st.DrawFn, group: int) -> tuple[int, int]:
    """Give when a contact was created and, then or later, changed: the older, the later."""
    created = draw(times) - group * 10**9
    return created, max(created, draw(times) + group * 10**9)


@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    # Making 24 records smaller takes minutes, and the filters say enough.
    phases=set(Phase) - {Phase.shrink, Phase.explain},
    report_multiple_bugs=False,
)
@given(data=st.data())
def test_search_answers_what_the_contract_says(
    searcher: Client, hub: Hub, plan: str, data: st.DataObject
) -> None:
    sent, moments = data.draw(datasets())
    records = store(hub, searcher, sent, moments)
    ids = [each.id for each in records]
    former = data.draw(st.sampled_from([0, 12, 24]))
    set_former_dates(hub, searcher, ids[:former], behind=data.draw(st.booleans()))
    try:
        for _ in range(12):
            filters = data.draw(filters_on(sent, ids))
            if plan == "few at once":
                # Else luck decides how often a filter asks for a given value.
                group = data.draw(st.sampled_from(["g0", "g1", "g2"]))
                one = {"propertyName": GROUP, "operator": "EQ", "value": group}
                filters = data.draw(st.permutations([one, *filters]))
            elif plan.startswith("guesses") and data.draw(st.booleans()):
                # Few of the others let through what lies together.
                groups = data.draw(st.sampled_from([["g0", "g1"], ["g1", "g2"], ["g2"]]))
                filters = [{"propertyName": GROUP, "operator": "IN", "values": groups}]
            elif plan.startswith("guesses") and data.draw(st.booleans()):
                filters = [
                    {
                        "propertyName": name,
                        "operator": data.draw(st.sampled_from(["EQ", "EQ", "NEQ"])),
                        "value": data.draw(st.sampled_from(values)),
                    }
                    for name, values in ((GROUP, ["g0", "g1", "g2"]), ("p_bool", ["true", "false"]))
                ]
            sort = data.draw(st.sampled_from([*SORTS]))
            order = data.draw(st.sampled_from(ORDERS))
            expected = ORACLE.search(records, filters, sort=sort, order=order)
            limit = data.draw(st.sampled_from(limits(len(expected))))
            check(searcher, filters, expected, sort=sort, order=order, limit=limit)
    finally:
        clear(searcher, records)


@settings(
    max_examples=4,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=set(Phase) - {Phase.shrink, Phase.explain},
    report_multiple_bugs=False,
)
@given(data=st.data())
def test_pages_that_end_early_hold_all_there_is(
    searcher: Client,
    hub: Hub,
    plan: str,
    monkeypatch: pytest.MonkeyPatch,
    data: st.DataObject,
) -> None:
    for module in (page_reader, listing):
        monkeypatch.setattr(module, "MAX_PAGE_BYTES", SMALL_PAGE)
    # Most of the texts are larger than that, and read by a statement of their own.
    monkeypatch.setattr(page_reader, "LEAST_LARGE", 50)
    test = test_search_answers_what_the_contract_says.hypothesis.inner_test  # type: ignore[attr-defined]
    test(searcher, hub, plan, data)


def limits(found: int) -> list[int]:
    """Return the limits under which a walk through so many records takes a few pages."""
    return [limit for limit in (1, 2, 7, 100) if found <= limit * MOST_PAGES]


def check(client: Client, filters: Sequence[Any], expected: Sequence[Stored], **query: Any) -> None:
    """Walk through a search and compare total, records, order and values with the oracle's."""
    found = []
    for page in pages(client, "/contacts/search", {"filters": filters}, **query):
        assert page["total"] == len(expected), filters
        texts = [orjson.dumps(each["properties"]) for each in page["results"]]
        # Each fits, unless it is the only one.
        assert len(texts) == 1 or sum(map(len, texts)) <= page_reader.MAX_PAGE_BYTES
        found += page["results"]
    assert [each["id"] for each in found] == [each.id for each in expected], filters
    assert [each["properties"] for each in found] == [ORACLE.shown(each) for each in expected]
