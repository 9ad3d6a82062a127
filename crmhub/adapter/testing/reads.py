from __future__ import annotations

from crmhub.adapter import (
    Adapter,
)
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
