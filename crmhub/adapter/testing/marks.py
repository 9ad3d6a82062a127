"""Tests of `find_marked`, which finds the record of a lost answer and no other."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import pytest

from crmhub.adapter import Adapter, ContactWrite, Kind, Linked, Saved, Unavailable, Unsupported
from crmhub.adapter.testing.base import (
    HOURS,
    NEW_RECORDS,
    Base,
    either,
    for_each,
    new_mark,
    phone_number,
)
from crmhub.adapter.testing.crm import Crm, LaggingCrm
from crmhub.adapter.testing.linking import each_kind
from crmhub.adapter.upserts import upsert_contact

each_new_record = for_each("of", {one: one for one in NEW_RECORDS})


def _later(outcome: object) -> bool:
    return isinstance(outcome, Unavailable) and outcome.retry_after is not None


class MarkTests(Base):
    @pytest.fixture(autouse=True)
    def _began(self) -> None:
        self.since_ms = int(time.time() * 1000)

    def _write(
        self,
        adapter: Adapter,
        kind: Linked,
        contact_id: str,
        mark: str,
        sent: Mapping[str, str],
    ) -> Saved:
        self.announced("find_marked")
        with self.having(kind):
            return adapter.create_for_contact(kind, contact_id, sent, mark=mark)

    def _id(
        self,
        adapter: Adapter,
        kind: Kind,
        contact_id: str,
        mark: str,
        sent: Mapping[str, str],
        *,
        later: float = 0.0,
    ) -> str:
        """Return "" for none; the lost write began `later` seconds after the start of the test."""
        since_ms = self.since_ms + int(later * 1000)
        record = adapter.find_marked(kind, contact_id, mark, sent=sent, since_ms=since_ms)
        return "" if record is None else record.id

    def _takes_two(self, crm: Crm, kind: Linked) -> tuple[str, dict[str, str]]:
        """Skip the test if titles must be unique in the CRM."""
        if kind in self.adapter_class.unique_titles:
            pytest.skip(f"{self.adapter_class.title} takes a title of {kind} only once")
        return crm.add_contact(self.person()), self.title(kind)

    @each_kind
    def test_a_write_is_found_by_its_mark(self, adapter: Adapter, crm: Crm, kind: Linked) -> None:
        ids = [crm.add_contact(self.person()) for _ in range(2)]
        mark, other = new_mark(), new_mark()
        sent = self.title(kind)
        self._write(adapter, kind, ids[0], new_mark(), self.title(kind, "Before"))
        made = self._write(adapter, kind, ids[0], mark, sent)
        self._write(adapter, kind, ids[0], new_mark(), self.title(kind, "After"))
        assert self._id(adapter, kind, ids[0], mark, sent) == made.id
        assert self._id(adapter, kind, ids[1], other, sent) == ""

    @each_kind
    def test_what_was_never_written_is_not_found(
        self, adapter: Adapter, crm: Crm, kind: Linked
    ) -> None:
        id = crm.add_contact(self.person())
        self._write(adapter, kind, id, new_mark(), self.title(kind, "Another title"))
        assert self._id(adapter, kind, id, new_mark(), self.title(kind)) == ""

    @each_kind
    def test_a_record_of_another_contact_is_not_taken_for_it(
        self, adapter: Adapter, crm: Crm, kind: Linked
    ) -> None:
        mine, theirs = (crm.add_contact(self.person()) for _ in range(2))
        sent = self.title(kind)
        self._write(adapter, kind, theirs, new_mark(), sent)
        assert self._id(adapter, kind, mine, new_mark(), sent) == ""

    @each_kind
    def test_an_older_record_of_the_same_title_is_not_taken_for_it(
        self, adapter: Adapter, crm: Crm, kind: Linked
    ) -> None:
        id, sent = crm.add_contact(self.person()), self.title(kind)
        self._write(adapter, kind, id, new_mark(), sent)
        assert self._id(adapter, kind, id, new_mark(), sent, later=HOURS) == ""

    @each_kind
    def test_of_two_alike_each_is_found_by_its_own_mark(
        self, adapter: Adapter, crm: Crm, kind: Linked
    ) -> None:
        id, sent = self._takes_two(crm, kind)
        marks = [new_mark() for _ in range(2)]
        if not adapter.can("find_marked") and adapter.may_land_for(kind, sent, contact_id=id):
            made_it = either(Unsupported, lambda: adapter.create_for_contact(kind, id, sent))
            assert isinstance(made_it, Unsupported), (
                "without find_marked, an unanswered write is made twice: override it, or let the"
                " CRM take a mark only once, and may_land_for return 0"
            )
        made = [self._write(adapter, kind, id, mark, sent).id for mark in marks]
        stored = crm.linked(kind, id)[made[0]]
        assert marks[0] in str(stored), (
            f"the mark {marks[0]} is not stored with {kind}, but {stored}; if the CRM has no room"
            " for it, name this test in xfail"
        )
        assert [self._id(adapter, kind, id, mark, sent) for mark in marks] == made
        assert self._id(adapter, kind, id, new_mark(), sent) == ""

    @each_kind
    def test_a_record_of_another_write_is_not_taken_for_it(
        self, adapter: Adapter, crm: Crm, kind: Linked
    ) -> None:
        id, sent = self._takes_two(crm, kind)
        marks = [new_mark() for _ in range(2)]

        def found(mark: str, *others: str) -> str:
            record = adapter.find_apart(
                kind, id, mark, sent=sent, since_ms=self.since_ms, others=others
            )
            return "" if record is None else record.id

        first = self._write(adapter, kind, id, marks[0], sent).id
        assert found(marks[1], first) == "", "find_apart ignores `others`"
        second = self._write(adapter, kind, id, marks[1], sent).id
        assert found(marks[1], first) == second

    @each_kind
    def test_a_write_is_found_or_not_told_while_the_search_lags(
        self, adapter: Adapter, crm: Crm, kind: Linked
    ) -> None:
        id = crm.add_contact(self.person())
        self.lagging(crm)
        mark, sent = new_mark(), self.title(kind)
        made = self._write(adapter, kind, id, mark, sent)
        self._is_found_or_later(adapter, kind, id, mark, sent, made)

    def _is_found_or_later(
        self,
        adapter: Adapter,
        kind: Kind,
        contact_id: str,
        mark: str,
        sent: Mapping[str, str],
        made: Saved,
    ) -> None:
        record = either(Unavailable, lambda: self._id(adapter, kind, contact_id, mark, sent))
        # The hub trusts no lookup before the seconds of `may_land_for` have passed.
        seconds = adapter.may_land_for(kind, sent, contact_id=contact_id)
        assert _later(record) or record == made.id or seconds > adapter.under_way_s, (
            f"find_marked said {record!r} of the new record {made.id}: return it, raise NotYet, or"
            " return more than under_way_s in may_land_for"
        )

    @each_new_record
    def test_a_new_record_of_each_kind_is_found_without_a_contact(
        self, adapter: Adapter, crm: Crm, of: str
    ) -> None:
        kind, mark, sent, made = self._write_alone(adapter, of)
        self._write_alone(adapter, of)
        assert self._id(adapter, kind, "", mark, sent) == made.id
        other = new_mark()
        assert self._id(adapter, kind, "", other, self.new_record(of)[1]) == "", "it was not sent"
        assert self._id(adapter, kind, "", other, sent, later=HOURS) == "", "it was there before"
        record = adapter.find_apart(
            kind, "", other, sent=sent, since_ms=self.since_ms, others=[made.id]
        )
        assert record is None, "find_apart ignores `others`"

    @each_new_record
    def test_a_new_record_is_found_or_not_told_while_the_search_lags(
        self, adapter: Adapter, crm: Crm, of: str
    ) -> None:
        self.lagging(crm)
        kind, mark, sent, made = self._write_alone(adapter, of)
        self._is_found_or_later(adapter, kind, "", mark, sent, made)

    def _write_alone(self, adapter: Adapter, of: str) -> tuple[Kind, str, Mapping[str, str], Saved]:
        for feature in ("find_marked", "write"):
            self.announced(feature)
        (kind, sent), mark = self.new_record(of), new_mark()
        with self.having(kind):
            return kind, mark, sent, adapter.write(kind, "", sent, mark=mark)

    @for_each("by", {"email": "email", "phone": "phone"})
    def test_a_contact_that_was_written_is_found(self, adapter: Adapter, crm: Crm, by: str) -> None:
        self.announced("find_marked")
        crm.add_contact(self.person())
        mine = self.person(phone=phone_number())
        if by == "phone":
            del mine["email"]
        mark = new_mark()
        made = adapter.create_contact(mine, mark=mark)
        record = either(Unavailable, lambda: self._id(adapter, "contacts", "", mark, mine))
        # The search may show a phone late, so an error is right, too.
        assert record == made.id or (by == "phone" and _later(record))

    def test_a_contact_of_a_batch_is_found_like_any_other(self, adapter: Adapter, crm: Crm) -> None:
        for feature in ("find_marked", "write_contacts"):
            self.announced(feature)
        self.lagging(crm)

        def is_found(create: Callable[[Mapping[str, str], str], object]) -> bool:
            mine, mark = self.person(phone=phone_number()), new_mark()
            del mine["email"]
            create(mine, mark)
            record = either(Unavailable, lambda: self._id(adapter, "contacts", "", mark, mine))
            return not _later(record) and record != ""

        alone = is_found(lambda mine, mark: adapter.create_contact(mine, mark=mark))

        def write(mine: Mapping[str, str], mark: str) -> None:
            if adapter.write_contacts([ContactWrite("", mine, mark)]) == [None]:
                adapter.create_contact(mine, mark=mark)

        in_batch = is_found(write)
        assert in_batch or not alone, "a batch keeps no mark"

    @each_kind
    def test_what_cannot_land_late_is_made_once_for_its_mark(
        self, adapter: Adapter, crm: Crm, kind: Linked
    ) -> None:
        sent = self.title(kind)
        id, mark = crm.add_contact(self.person()), new_mark()
        if not adapter.under_way_s or adapter.may_land_for(kind, sent, contact_id=id):
            pytest.skip(f"{self.adapter_class.title} does not say that it takes a mark only once")
        made = [self._write(adapter, kind, id, mark, sent).id for _ in range(2)]
        assert list(crm.linked(kind, id)) == [made[0]]
        assert made[1] == made[0]

    def test_a_contact_that_was_never_written_is_not_found(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        self.announced("find_marked")
        crm.add_contact(self.person())
        mine = self.person()
        assert self._id(adapter, "contacts", "", new_mark(), mine) == ""

    def test_a_lead_that_is_tried_again_finds_what_it_has_made(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        self.announced("find_marked")
        mine, mark = self.person(phone=phone_number()), new_mark()
        del mine["email"]
        if isinstance(crm, LaggingCrm):
            # If the search showed the contact at once, the mark would not be needed.
            crm.search_lag = HOURS
        made = upsert_contact(adapter, self.lead(mine, mark=mark))
        now_ms = int(time.time() * 1000)
        again = self.lead(mine, mark=mark, tried_ms=self.since_ms, written_ms=now_ms)
        saved = either(Unavailable, lambda: upsert_contact(adapter, again))
        assert saved.id == made.id if isinstance(saved, Saved) else _later(saved)
        assert len(crm.contacts()) == 1
        if not isinstance(saved, Saved):
            contact = either(Unavailable, lambda: self._id(adapter, "contacts", "", mark, mine))
            longer = adapter.may_land_for("contacts", mine) > adapter.under_way_s
            assert _later(contact) or longer, "may_land_for leaves out that the search lags"
