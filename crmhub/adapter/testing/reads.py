from __future__ import annotations

from collections.abc import Sequence

from crmhub.adapter import Adapter, ChangedPage, Kind, Record
from crmhub.adapter.testing.operation import Operation, State, first_kind


class Reads(Operation):
    """A call that only reads; under a fault, its result must equal the result without faults."""

    reads = True

    def prepare(self) -> None:
        if self.may_find_none:
            self.expected = self.tests.shown(lambda: self.call(self.sound))
        else:
            self.expected = self.call(self.sound)

    def is_right(self, result: object, before: State, after: State) -> bool:
        return result == self.expected


class FindByEmail(Reads):
    name = "find_contact by email"
    may_find_none = True

    def call(self, adapter: Adapter) -> object:
        return adapter.find_contact(email=self.person["email"], names=["email", self.tests.text])


class FindByPhone(Reads):
    name = "find_contact by phone"
    may_find_none = True

    def call(self, adapter: Adapter) -> object:
        return adapter.find_contact(phone=self.person["phone"], names=["phone", self.tests.text])


class Get(Reads):
    name = "get_contact"

    def call(self, adapter: Adapter) -> object:
        return adapter.get_contact(self.id, ["email", self.tests.text, self.tests.unknown])


class Describe(Reads):
    name = feature = "describe"
    may_be_constant = reads_definitions = True

    def call(self, adapter: Adapter) -> object:
        return adapter.describe("contacts")


class Pipelines(Reads):
    name = feature = "pipelines"
    may_be_constant = reads_definitions = True

    def prepare(self) -> None:
        self.kind, self.expected = first_kind(self.tests, self.sound.pipelines)

    def call(self, adapter: Adapter) -> object:
        return adapter.pipelines(self.kind)


class Owners(Reads):
    name = feature = "owners"

    def call(self, adapter: Adapter) -> object:
        return adapter.owners()


class ActiveWorkflow(Reads):
    name = feature = "active_workflow"

    def call(self, adapter: Adapter) -> object:
        return adapter.active_workflow(self.id, since_ms=self.since_ms)


class ChangedSince(Reads):
    name = feature = "changed_since"

    def call(self, adapter: Adapter) -> object:
        records, _ = changed(adapter, "contacts", "", ["email", self.tests.text])
        record = records.get(self.id)
        return record and (record.id, record.properties)


class GetRecords(Reads):
    name = feature = "get_records"

    def call(self, adapter: Adapter) -> object:
        records = adapter.get_records("contacts", [self.id], ["email", self.tests.text])
        return records and (records[0].id, records[0].properties)


class Check(Reads):
    name = feature = "check"
    returns_nothing = True
    expected = None

    def prepare(self) -> None:
        """Do nothing: a check that succeeds returns None."""

    def call(self, adapter: Adapter) -> object:
        adapter.check()
        return None


class FindMarked(Reads):
    """The call `find_marked` for a deal or ticket that an earlier call created."""

    name = feature = "find_marked"

    def prepare(self) -> None:
        titles = {kind: self.tests.title(kind) for kind in self.tests.titles}
        self.kind, _ = first_kind(
            self.tests,
            lambda kind: self.sound.create_for_contact(kind, self.id, titles[kind], mark=self.mark),
        )
        self.sent = titles[self.kind]
        super().prepare()

    def call(self, adapter: Adapter) -> object:
        found = adapter.find_marked(
            self.kind, self.id, self.mark, sent=self.sent, since_ms=self.since_ms
        )
        return found.id if found is not None else None


_PAGES = 1_000


def changed(
    adapter: Adapter, kind: Kind, since: str, names: Sequence[str]
) -> tuple[dict[str, Record], list[ChangedPage]]:
    """Return what changed since: the records that are left, by id, and the pages."""
    pages: list[ChangedPage] = []
    records: dict[str, Record] = {}
    while not pages or pages[-1].more:
        page = adapter.changed_since(kind, pages[-1].next if pages else since, names)
        pages.append(page)
        assert len(pages) < _PAGES, f"the pages never end: {page}"
        records |= {record.id: record for record in page.records}
        for id in {*page.deleted, *page.merged} - {record.id for record in page.records}:
            records.pop(id, None)
    return records, pages
