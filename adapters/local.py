"""The adapter for the hub's own records, used by accounts without an external CRM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crmhub.adapter import (
    Adapter,
    Contact,
    Described,
    Kind,
    Linked,
    Pipeline,
    Saved,
    Written,
    is_record_id,
)


class LocalAdapter(Adapter):
    title = "local"
    remote = False
    # An interrupted transaction is rolled back, and marks are unique.
    under_way_s = 0.0
    # More than the body of a request holds: no note is split.
    longest_note = 2_000_000

    @classmethod
    def may_be_id(cls, contact_id: str) -> bool:
        return is_record_id(contact_id)

    def find_contact(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        return self.context.store.find(email=email, phone=phone, names=names)

    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        return self.context.store.get(contact_id, names)

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        return self.context.store.create("contacts", properties, mark=mark)

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        return self.context.store.update(contact_id, properties)

    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        return self.context.store.create(kind, properties, contact_id=contact_id, mark=mark)

    def add_note(
        self, kind: Written, record_id: str, text: str, *, at_ms: int, mark: str = ""
    ) -> Saved:
        return self.context.store.add_note(kind, record_id, text, at_ms=at_ms, mark=mark)

    def create_task(
        self, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        return self.context.store.create_task(contact_id, properties, mark=mark)

    def check(self) -> None:
        """Do nothing, because the hub's own records are in the same database as the account."""

    def describe(self, kind: Kind) -> list[Described]:
        return self.context.store.describe(kind)

    def pipelines(self, kind: Linked) -> list[Pipeline]:
        return self.context.store.pipelines(kind)
