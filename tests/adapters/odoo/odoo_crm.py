"""The Odoo-like CRM as the conformance tests and the adapter's own tests see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adapters.fakes.kit import KitCrm
from adapters.fakes.odoo import FakeOdoo, Options
from adapters.odoo import OdooAdapter
from crmhub.adapter import Conflict, Written
from crmhub.adapter.testing import Connection
from crmhub.adapter.translated import HALVES, join, split
from crmhub.adapter.types import from_html

KEY = {"api_key": Options().api_key}
JSON_RPC = {"interface": "json-rpc", "db": Options().database, "user": Options().user}
JSON_2 = {"interface": "json-2"}


class OdooCrm(KitCrm):
    """A fake Odoo as `crmhub.adapter.testing.HttpCrm` wants it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(FakeOdoo(Options(**options)), Conflict)

    def add_contact(self, properties: Mapping[str, str]) -> str:
        halves = [properties.get(name, "") for name in HALVES]
        rest = {name: text for name, text in properties.items() if name not in HALVES}
        # Odoo has no contact without a name.
        return super().add_contact({**rest, "name": join(*halves) or rest["email"]})

    def notes(self, kind: Written, record_id: str) -> Mapping[str, str]:
        with self.fake.lock:
            place = (self.fake.own_kind(kind), int(record_id))
            notes = {
                id: one.properties for id, one in self.fake.data.records["mail.message"].items()
            }
            return {
                id: from_html(one["body"])
                for id, one in notes.items()
                if (one["model"], one["res_id"]) == place
            }

    def tasks(self, contact_id: str) -> Mapping[str, Mapping[str, str]]:
        with self.fake.lock:
            data = self.fake.data
            _, model, _ = data.external["base.model_res_partner"]
            activities = {id: one.properties for id, one in data.records["mail.activity"].items()}
            return {
                id: {
                    "subject": one["summary"],
                    "notes": from_html(one["note"] or ""),
                    "due": one["date_deadline"],
                    "owner": str(one["user_id"]),
                }
                for id, one in activities.items()
                if (one["res_model_id"], str(one["res_id"])) == (model, contact_id)
            }

    def shown(self, kind: str) -> dict[str, dict[str, str]]:
        shown = super().shown(kind)
        for record in shown.values():
            record.update({name: from_html(text) for name, text in record.items()})
            if kind == "contacts":
                record["firstname"], record["lastname"] = split(record["name"])
        return shown


def connected(fake: FakeOdoo, **settings: str) -> Connection:
    """Return a connection to a fake, each adapter of which is a process of its own."""
    usual = JSON_2 if fake.options.version >= 19 else JSON_RPC
    tickets = {"tickets": fake.options.tickets, "project": "1"}
    return Connection(OdooAdapter, {"base_url": fake.url, **usual, **tickets, **settings}, KEY)
