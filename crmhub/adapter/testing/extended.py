"""Tests of the optional methods for a copy of the CRM's records, and for notes and tasks."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from typing import get_args

import pytest

from crmhub.adapter import (
    Adapter,
    Conflict,
    Denied,
    Event,
    Kind,
    Linked,
    NotFound,
    Record,
    Rejected,
    Saved,
    Unsupported,
)
from crmhub.adapter.testing.base import Base, either, for_each, leaving_out, new_mark
from crmhub.adapter.testing.connection import Connection
from crmhub.adapter.testing.crm import Crm, ExtendedCrm
from crmhub.adapter.testing.linking import each_kind
from crmhub.adapter.testing.reads import changed
from crmhub.adapter.testing.writes import AddNote

_NOW_MS = 600_000
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def _exists(adapter: Adapter, kind: Kind) -> bool:
    return not isinstance(either(Unsupported, lambda: adapter.describe(kind)), Unsupported)


def _told(records: Iterable[Record], title: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the title and the contacts of each record, by id."""
    return {one.id: (one.properties[title], one.links["contacts"]) for one in records}


def _texts_in(body: bytes) -> dict[str, str]:
    """Return the texts of a webhook that is a JSON object; one of them may be its proof."""
    said = json.loads(body)
    named = said.items() if isinstance(said, dict) else ()
    return {name: one for name, one in named if isinstance(one, str)}


def _without_texts(body: bytes) -> bytes:
    texts, said = _texts_in(body), json.loads(body)
    return json.dumps({n: v for n, v in said.items() if n not in texts}).encode() if texts else body


def _altered(value: str) -> str:
    return f"{value[:-1]}{'1' if value[-1:] == '0' else '0'}"


_TASK = {
    "subject": "Call Ann",
    "notes": "It is <urgent>",
    "due": "2031-01-31T09:30:00.000Z",
    "priority": "HIGH",
}


class ExtendedTests(Base):
    def test_changes_begin_with_all_records(self, adapter: Adapter, crm: Crm) -> None:
        self.announced("changed_since")
        # A real CRM may have contacts of its own.
        own, _ = changed(adapter, "contacts", "", [])
        people = {crm.add_contact(one): one for one in (self.person() for _ in range(5))}
        names = ["email", self.text, self.unknown]
        records, _ = changed(adapter, "contacts", "", names)
        expected = {id: {n: one[n] for n in names[:2]} for id, one in people.items()}
        told = {id: dict(one.properties) for id, one in records.items() if id not in own}
        assert (told, own.keys() - records.keys()) == (expected, set())
        times = {one.changed_ms for id, one in records.items() if id not in own}
        assert all(abs(at - time.time() * 1000) < _NOW_MS for at in times), times

    def test_changes_go_on_where_they_ended(self, adapter: Adapter, crm: Crm) -> None:
        self.announced("changed_since")
        ids = [crm.add_contact(self.person()) for _ in range(4)]
        records, pages = changed(adapter, "contacts", "", [self.text])
        own = records.keys() - {*ids}
        for _ in range(2):
            adapter.update_contact(ids[0], {self.text: "Between"})
            adapter.update_contact(ids[1], {self.text: "Changed"})
            adapter.update_contact(ids[0], {self.text: "Changed"})
            crm.delete_contact(ids[2])
            ids[2:3] = [crm.add_contact(self.person()), ids[2]]
            records, pages = changed(adapter, "contacts", pages[-1].next, [self.text])
            assert {*ids[:3]} <= records.keys(), "a change is missing"
            assert {records[id].properties[self.text] for id in ids[:2]} == {"Changed"}
            if "contacts" not in adapter.untold_deletions:
                told = [id for page in pages for id in page.deleted]
                assert ids[3] in told, "a deletion is missing"
            left = {*crm.contacts(), *own}
            assert records.keys() <= left, "a deleted record came back"

    def test_a_merged_contact_is_told_with_the_one_that_is_left(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        self.announced("changed_since")
        if not hasattr(crm, "merge_contacts"):
            pytest.skip("the fake CRM has no merge_contacts: it merges none")
        gone, left = (crm.add_contact(self.person()) for _ in range(2))
        _, pages = changed(adapter, "contacts", "", [])
        left_id = crm.merge_contacts(gone, left) or left
        records, pages = changed(adapter, "contacts", pages[-1].next, [])
        merged = {id: other for page in pages for id, other in page.merged.items()}
        expected = {id: left_id for id in (gone, left) if id != left_id}
        assert (merged, gone in records, left_id in records) == (expected, False, True)

    @each_kind
    def test_a_record_of_each_kind_is_written_and_told_with_its_contact(
        self, adapter: Adapter, crm: Crm, kind: Linked
    ) -> None:
        self.announced("write")
        id, title = crm.add_contact(self.person()), self.titles[kind]
        with self.having(kind):
            made = adapter.create_for_contact(kind, id, self.title(kind, "Before"))
        new, later = self.title(kind, "After"), self.title(kind, "Alone")
        assert adapter.write(kind, made.id, new).outcome == "updated"
        assert crm.linked(kind, id)[made.id][title] == new[title]
        alone = adapter.write(kind, "", later, mark=new_mark())
        assert (alone.outcome, crm.count(kind)) == ("created", 2)
        assert alone.id not in crm.linked(kind, id)
        if adapter.can("changed_since"):
            records, _ = changed(adapter, kind, "", [title])
            assert _told(records.values(), title) == {
                made.id: (new[title], (id,)),
                alone.id: (later[title], ()),
            }

    def test_a_company_is_written_told_and_deleted(self, adapter: Adapter, crm: Crm) -> None:
        self.announced("write")
        sent = {"name": "Acme"}
        with self.having("companies"):
            made = adapter.write("companies", "", sent, mark=new_mark())
        assert "name" in {one.name for one in adapter.describe("companies")}
        [before] = adapter.get_records("companies", [made.id], ["name", self.unknown])
        adapter.write("companies", made.id, {"name": "Acme Ltd."})
        records, _ = changed(adapter, "companies", "", ["name"])
        after = records[made.id].properties
        assert (before.properties, after) == (sent, {"name": "Acme Ltd."})
        count = crm.count("companies")
        assert len(records) == count
        adapter.archive("companies", made.id)
        assert adapter.get_records("companies", [made.id], ["name"]) == []
        assert crm.count("companies") == count - 1

    @each_kind
    def test_records_of_each_kind_are_read_by_their_ids(
        self, adapter: Adapter, crm: Crm, kind: Linked
    ) -> None:
        self.announced("get_records")
        id, title = crm.add_contact(self.person()), self.titles[kind]
        with self.having(kind):
            sent = [self.title(kind, text) for text in ("First", "Second", "Third")]
            ids = [adapter.create_for_contact(kind, id, one).id for one in sent]
        found = adapter.get_records(kind, ["1" * 10_000, *ids[:2], "../contacts"], [title])
        assert _told(found, title) == {
            one: (value[title], (id,)) for one, value in zip(ids[:2], sent, strict=False)
        }
        assert adapter.get_records(kind, [], [title]) == []

    def test_contacts_are_read_by_their_ids_without_deleted_ones(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        self.announced("get_records")
        people = {crm.add_contact(one): one for one in (self.person() for _ in range(150))}
        gone, *ids = people
        crm.delete_contact(gone)
        names = ["email", self.text, self.unknown]
        found = adapter.get_records("contacts", [gone, *ids], names)
        assert len(found) == len(ids), "some are missing, or given twice"
        expected = {id: {n: people[id][n] for n in names[:2]} for id in ids}
        assert {one.id: dict(one.properties) for one in found} == expected
        adapter.update_contact(ids[0], {self.text: "Changed"})
        [after] = adapter.get_records("contacts", [ids[0]], [self.text])
        assert after.properties == {self.text: "Changed"}, "it does not show the latest writes"

    def test_what_cannot_be_written_is_refused(self, adapter: Adapter, crm: Crm) -> None:
        self.announced("write")
        gone = crm.add_contact(self.person())
        id = crm.add_contact(self.person())
        crm.delete_contact(gone)
        for wrong in (gone, f"{id}/../{id}", "1" * 10_000):
            with pytest.raises(NotFound):
                adapter.write("contacts", wrong, {self.text: "Changed"})
        for of in (id, ""):
            sent = self.person(**{self.unknown: "x"})
            saved = either(Rejected, lambda: adapter.write("contacts", of, sent))  # noqa: B023
            if isinstance(saved, Rejected):
                assert [problem.name for problem in saved.problems] == [self.unknown]
            else:
                assert crm.contacts()[saved.id][self.unknown] == "x"

    def test_an_archived_record_is_gone(self, adapter: Adapter, crm: Crm) -> None:
        self.announced("archive")
        id, other = (crm.add_contact(self.person()) for _ in range(2))
        adapter.archive("contacts", id)
        assert list(crm.contacts()) == [other]
        for wrong in (id, f"{other}?x=y", "../contacts", ""):
            with pytest.raises(NotFound):
                adapter.archive("contacts", wrong)
        assert list(crm.contacts()) == [other]

    @each_kind
    def test_an_association_is_made_once_told_and_removed(
        self, adapter: Adapter, crm: Crm, kind: Linked
    ) -> None:
        self.announced("link")
        id, other = (crm.add_contact(self.person()) for _ in range(2))
        made = self._written(adapter, kind)

        def links() -> set[str]:
            [record] = adapter.get_records(kind, [made], [])
            stored = {one for one in (id, other) if made in crm.linked(kind, one)}
            assert stored == {*record.links["contacts"]}, "the record tells other associations"
            return stored

        # An association that exists, or is removed, already is no error, in either order.
        for remove in (True, False, True):
            adapter.link(kind, made, "contacts", id, remove=remove)
            adapter.link("contacts", id, kind, made, remove=remove)
            assert links() == (set() if remove else {id})
        adapter.link("contacts", id, kind, made)
        second = either(Conflict, lambda: adapter.link(kind, made, "contacts", other))
        if isinstance(second, Conflict):
            assert (links(), second.existing_id) == ({id}, id)
            assert f"linked to contact {id}; remove that association first" in second.message
        else:
            assert links() == {id, other}
        adapter.link(kind, made, "contacts", other, remove=True)
        assert links() == {id}, "it removes another association"
        crm.delete_contact(other)
        for wrong in (other, "../contacts", "1" * 10_000):
            for remove in (False, True):
                with pytest.raises(NotFound):
                    adapter.link(kind, made, "contacts", wrong, remove=remove)
                with pytest.raises(NotFound):
                    adapter.link("contacts", id, kind, wrong, remove=remove)
        assert links() == {id}

    @for_each("pair", {" and ".join(pair): pair for pair in combinations(get_args(Kind), 2)})
    def test_associations_are_those_that_records_tell(
        self, adapter: Adapter, crm: Crm, pair: tuple[Kind, Kind]
    ) -> None:
        self.announced("link")
        kind, to = pair
        id, to_id = self._written(adapter, kind), self._written(adapter, to)

        def told(of: Kind, record_id: str, there: Kind) -> tuple[str, ...] | None:
            [record] = adapter.get_records(of, [record_id], [])
            return record.links.get(there)

        refused = either(Unsupported, lambda: adapter.link(kind, id, to, to_id))
        both = told(kind, id, to), told(to, to_id, kind)
        if isinstance(refused, Unsupported):
            assert both == (None, None), "it does not write an association that it tells"
        else:
            assert {*both} <= {(to_id,), (id,), None} != {*both}, f"it tells {both}"
            adapter.link(to, to_id, kind, id, remove=True)
            assert not any((told(kind, id, to), told(to, to_id, kind)))

    @for_each("kind", {"contacts": "contacts", "companies": "companies"})
    def test_two_records_are_merged_into_the_kept_one(
        self, adapter: Adapter, crm: Crm, kind: Kind
    ) -> None:
        self.announced("merge")
        (_, sent), (kept, other, third) = (
            self.new_record(kind),
            (self._written(adapter, kind) for _ in range(3)),
        )
        adapter.write(kind, kept, sent)
        since = changed(adapter, kind, "", [])[1][-1].next if adapter.can("changed_since") else ""
        saved = adapter.merge(kind, kept, other)
        assert saved.outcome == "updated"
        [record] = adapter.get_records(kind, [*{kept, other, saved.id}], list(sent))
        assert (record.id, record.properties) == (saved.id, sent), "the other's values count"
        if since and kind not in adapter.untold_deletions:
            _, pages = changed(adapter, kind, since, [])
            told = {id for page in pages for id in (*page.deleted, *page.merged)}
            assert told >= {kept, other} - {saved.id}, "the merge is not told"
        for wrong in (other, "../contacts", "1" * 10_000):
            for pair in ((saved.id, wrong), (wrong, saved.id)):
                with pytest.raises(NotFound):
                    adapter.merge(kind, *pair)
        with pytest.raises(Rejected):
            adapter.merge(kind, saved.id, saved.id)
        left = adapter.get_records(kind, [saved.id, third], [])
        assert {one.id for one in left} == {saved.id, third}

    def test_deals_and_tickets_are_not_merged(self, adapter: Adapter) -> None:
        self.announced("merge")
        for kind in self.titles:
            with pytest.raises(Unsupported):
                adapter.merge(kind, "1", "2")

    def _written(self, adapter: Adapter, kind: Kind) -> str:
        """Create a record that is linked to no other; return its id."""
        _, sent = self.new_record(kind)
        with self.having(kind):
            return adapter.write(kind, "", sent, mark=new_mark()).id

    def test_a_webhook_of_the_crm_names_what_changed_and_another_is_denied(
        self, connection: Connection, crm: ExtendedCrm
    ) -> None:
        self.announced("events")
        id = crm.add_contact(self.person())
        request, adapter = crm.webhook("contacts", id), connection.adapter()
        calls = connection.outgoing.calls
        assert list(adapter.events(request)) == [Event("contacts", id)]
        forged = [replace(request, headers={}, body=_without_texts(request.body))]
        for name, value in request.headers.items():
            forged.append(replace(request, headers={**request.headers, name: _altered(value)}))
        for name, value in _texts_in(request.body).items():
            altered = json.dumps({**json.loads(request.body), name: _altered(value)})
            forged.append(replace(request, body=altered.encode()))
        said = [either(Denied, lambda: adapter.events(one)) for one in forged]  # noqa: B023
        assert isinstance(said[0], Denied), "it takes a webhook without a proof"
        assert any(isinstance(one, Denied) for one in said[1:]), "it takes any proof"
        assert connection.outgoing.calls == calls, "it sent a request"

    def test_webhooks_are_set_up_once_for_each_kind_and_removed(
        self, connection: Connection, crm: ExtendedCrm
    ) -> None:
        self.announced("watch")
        self.announced("unwatch")
        adapter = connection.adapter()
        kinds = [kind for kind in get_args(Kind) if _exists(adapter, kind)]
        base = "https://hub.test/crm-changes/acme"
        first, other = f"{base}/7a1b", f"{base}/7a1c"
        moved = "https://moved.test/hub/crm-changes/acme/7a1b"
        for address in (first, first, other, moved):
            until = adapter.watch(address)
            assert until is None or until > time.time() * 1000 + _NOW_MS, until
        # A new process sets nothing up again.
        connection.adapter().watch(moved)
        for kind in kinds:
            assert sorted(crm.watchers(kind)) == [other, moved], kind
        for _ in range(2):
            adapter.unwatch(first)
        for kind in kinds:
            assert [*crm.watchers(kind)] == [other], kind
        adapter.unwatch(other)
        for kind in kinds:
            assert not crm.watchers(kind), kind

    def test_a_note_is_added_once_and_as_it_was_written(
        self, adapter: Adapter, crm: ExtendedCrm
    ) -> None:
        self.announced("add_note")
        id, other = (crm.add_contact(self.person()) for _ in range(2))
        texts = [AddNote.text, "x" * adapter.longest_note]
        marks, now_ms = [new_mark() for _ in texts], int(time.time() * 1000)
        saved = [
            adapter.add_note("contacts", id, text, at_ms=now_ms, mark=mark)
            for _ in range(2)
            for text, mark in zip(texts, marks, strict=True)
        ]
        assert [one.id for one in saved[:2]] == [one.id for one in saved[2:]], "it is added twice"
        assert crm.notes("contacts", id) == {saved[0].id: texts[0], saved[1].id: texts[1]}
        assert not crm.notes("contacts", other)
        crm.delete_contact(other)
        with pytest.raises(NotFound):
            adapter.add_note("contacts", other, "x", at_ms=now_ms)

    def test_a_task_is_created_once_with_what_was_sent(
        self, adapter: Adapter, crm: ExtendedCrm
    ) -> None:
        self.announced("create_task")
        id, other = (crm.add_contact(self.person()) for _ in range(2))
        mark = new_mark()
        saved, sent = leaving_out(lambda sent: adapter.create_task(id, sent, mark=mark), _TASK)
        assert isinstance(saved, Saved)
        assert adapter.create_task(id, sent, mark=mark).id == saved.id, "it is created twice"
        [(task_id, stored)] = crm.tasks(id).items()
        assert task_id == saved.id
        if _DAY.fullmatch(stored.get("due", "")):
            sent = {**sent, "due": sent["due"][:10]}
        assert {name: stored.get(name) for name in sent} == sent
        assert not crm.tasks(other)
        crm.delete_contact(other)
        with pytest.raises(NotFound):
            adapter.create_task(other, sent)
