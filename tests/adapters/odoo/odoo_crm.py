"""The Odoo-like CRM as the conformance tests and the adapter's own tests see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adapters.fakes.odoo import FakeOdoo, Options
from adapters.odoo import OdooAdapter
from crmhub.adapter import Linked
from crmhub.adapter.matching import Lead
from crmhub.adapter.testing import Connection
from crmhub.adapter.translated import join, split
from crmhub.adapter.types import from_html, to_text
from tests.adapters.served_crm import ServedCrm

KEY = {"api_key": Options().api_key}
JSON_RPC = {"interface": "json-rpc", "db": Options().database, "user": Options().user}
JSON_2 = {"interface": "json-2"}
OURS = {
    "contacts": {"mobile": "mobilephone"},
    "deals": {
        "name": "dealname",
        "expected_revenue": "amount",
        "team_id": "pipeline",
        "stage_id": "dealstage",
        "user_id": "hubspot_owner_id",
        "date_deadline": "closedate",
    },
    "tickets": {
        "name": "subject",
        "description": "content",
        "team_id": "hs_pipeline",
        "project_id": "hs_pipeline",
        "stage_id": "hs_pipeline_stage",
        "priority": "hs_ticket_priority",
    },
}


class OdooCrm(ServedCrm):
    """A fake Odoo as `crmhub.adapter.testing.HttpCrm` wants it."""

    def __init__(self, **options: Any) -> None:
        self.fake = FakeOdoo(Options(**options))

    def add_contact(self, properties: Mapping[str, str]) -> str:
        halves = [properties.get(name, "") for name in ("firstname", "lastname")]
        rest = {n: v for n, v in properties.items() if n not in ("firstname", "lastname") and v}
        # Odoo has no contact without a name.
        return self.fake.add("contacts", {"name": join(*halves) or rest["email"], **rest})

    def contacts(self) -> Mapping[str, Mapping[str, str]]:
        people = self._shown("contacts")
        for person in people.values():
            person["firstname"], person["lastname"] = split(person["name"])
        return people

    def delete_contact(self, contact_id: str) -> None:
        self.fake.delete("contacts", contact_id)

    def linked(self, kind: Linked, contact_id: str) -> Mapping[str, Mapping[str, str]]:
        found = self._shown(kind)
        return {one: found[one] for one in self.fake.linked("contacts", contact_id, kind)}

    def _shown(self, kind: str) -> dict[str, dict[str, str]]:
        """Return the records of a kind as texts under the hub's names, with their marks."""
        ours, model = OURS[kind], self.fake.models[kind]
        marks: dict[str, list[str]] = {}
        for external, (of, id, *_) in self.fake.data.external.items():
            if of == model:
                marks.setdefault(str(id), []).append(external)
        return {
            id: {
                ours.get(name, name): from_html(to_text(value)) if value else ""
                for name, value in values.items()
                if name != "write_date"
            }
            | {"mark": ",".join(marks.get(id, ()))}
            for id, values in self.fake.records(kind).items()
        }


def connected(fake: FakeOdoo, **settings: str) -> Connection:
    """Return a connection to a fake, each adapter of which is a process of its own."""
    usual = JSON_2 if fake.options.version >= 19 else JSON_RPC
    tickets = {"tickets": fake.options.tickets, "project": "1"}
    return Connection(OdooAdapter, {"base_url": fake.url, **usual, **tickets, **settings}, KEY)


def person(*, mark: str = "", **values: str) -> Lead:
    """Return a lead with these values, its email and phone among them."""
    email, phone = values.get("email", ""), values.get("phone", "")
    return Lead(values, email=email, phone=phone, mark=mark)
