"""A walk misses nothing that changes while it is read."""

from __future__ import annotations

from crmhub.adapter import Record
from crmhub.adapter.walks import Walk

RECORDS = [Record(id, {}, 1) for id in ("1", "2")]


def test_what_changes_during_the_first_walk_follows_at_once() -> None:
    first = Walk.of("").page(RECORDS, "next", asked=100.0)
    middle = Walk.of(first.next)
    last = middle.page(RECORDS, "", asked=200.0)
    assert (middle.since, middle.cursor, first.more, last.more) == (0.0, "next", True, True)
    assert Walk.of(last.next) == Walk(since=100.0, swept=100.0)


def test_a_walk_begins_where_the_former_one_began() -> None:
    page = Walk(since=100.0).page(RECORDS, "next", asked=300.0)
    last = Walk.of(page.next).page([], "", asked=400.0)
    assert (page.more, last.more) == (True, False)
    assert Walk.of(last.next) == Walk(since=300.0)


def test_one_walk_in_a_quarter_of_an_hour_goes_back_for_the_longest_transactions() -> None:
    began, walk = 10_000.0, Walk()
    reached = []
    for minute in range(33):
        if walk.since:
            reached.append(walk.changed_after)
        pages = [walk.page(RECORDS, "next", asked=began + 60 * minute)]
        assert Walk.of(pages[0].next).changed_after == walk.changed_after
        pages.append(Walk.of(pages[0].next).page([], "", asked=began + 60 * minute + 30))
        walk = Walk.of(pages[1].next)
    swept = {n: at for n, at in enumerate(reached) if at != began + 60 * n - 150}
    # Each begins where nothing could still have been uncommitted at the sweep before.
    assert swept == {15: began - 900, 31: began + 60 * 16 - 900}


def test_a_walk_of_a_former_version_goes_back_at_once() -> None:
    walk = Walk.of('[5000.0, 0.0, ""]')
    assert walk.changed_after == 4100.0
    assert Walk.of(walk.page([], "", asked=5060.0).next) == Walk(since=5060.0, swept=5060.0)


def test_a_deleted_record_is_not_told_as_changed() -> None:
    page = Walk(since=100.0).page(RECORDS, "", asked=300.0, deleted=["1"])
    assert ([one.id for one in page.records], page.deleted) == (["2"], ("1",))
