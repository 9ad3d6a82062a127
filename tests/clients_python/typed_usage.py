"""How programs use the client: `make lint` checks that its types allow this, and no more.

Nothing here runs. Each `type: ignore` is a mistake that mypy must see, or it complains of the
comment.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import assert_type

from crmhub_client import (
    AsyncHub,
    Batch,
    HelperAnswer,
    Hub,
    Page,
    PropertyDefinition,
    Record,
    RecordNote,
    Usage,
)


def use(hub: Hub) -> None:
    assert_type(hub.contacts.create({"email": "a@example.com", "n": 1}), Record)
    hub.deals.create(
        {"amount": Decimal(1), "closedate": date(2026, 3, 1)}, associations={"deals": [1]}
    )
    for record in hub.contacts.all(filters=[("city", "IN", ["A"]), ("city", "HAS_PROPERTY")]):
        assert_type(record, Record)
    assert_type(hub.contacts.search([{"propertyName": "n", "operator": "GT", "value": 1}]), Page)
    assert_type(hub.contacts.count(), int)
    assert_type(hub.contacts.create_many({"n": n} for n in range(3)), Batch)
    assert_type(hub.contacts.create_many([{"email": "a"}]), Batch)
    assert_type(hub.contacts.update_many([(1, {"n": None})]), Batch)
    assert_type(hub.contacts.upsert_many([{"n": 1}, ("a", {"n": 2})], by="email"), Batch)
    assert_type(hub.contacts.archive_many([1]), int)
    assert_type(hub.contacts.add_note(1, [{"from": "Ann", "text": "hi"}]), RecordNote)
    assert_type(hub.properties.list("deals"), list[PropertyDefinition])
    assert_type(hub.usage(), Usage)
    assert_type(hub.helpers().get_properties("c", ["email"]), HelperAnswer)
    hub.contacts.create("a@example.com")  # type: ignore[arg-type]
    hub.contacts.link(1, "people", 2)  # type: ignore[arg-type]
    hub.contacts.search([("city", "LIKE", "A")])  # type: ignore[list-item]
    hub.pipelines.list("contacts")  # type: ignore[arg-type]
    hub.contacts.get()  # type: ignore[call-arg]
    hub.contacts.all(order="up")  # type: ignore[arg-type]


async def use_async(hub: AsyncHub) -> None:
    assert_type(await hub.contacts.create({"email": "a@example.com"}), Record)
    async for record in hub.contacts.all():
        assert_type(record, Record)
    assert_type(await hub.helpers().create_lead("c", "A", "a@example.com"), HelperAnswer)
    for _ in hub.contacts.all():  # type: ignore[attr-defined]
        pass
