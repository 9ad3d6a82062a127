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
    assert Walk.of(last.next) == Walk(since=100.0)


def test_a_walk_begins_where_the_former_one_began() -> None:
    page = Walk(since=100.0).page(RECORDS, "next", asked=300.0)
    last = Walk.of(page.next).page([], "", asked=400.0)
    assert (page.more, last.more) == (True, False)
    assert Walk.of(last.next) == Walk(since=300.0)


def test_a_deleted_record_is_not_told_as_changed() -> None:
    page = Walk(since=100.0).page(RECORDS, "", asked=300.0, deleted=["1"])
    assert ([one.id for one in page.records], page.deleted) == (["2"], ("1",))
