"""The fake Zoho CRM as the conformance tests and the adapter's own tests see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adapters.fakes.answers import Refused
from adapters.fakes.zoho import FakeZoho, Options
from adapters.zoho import ZohoAdapter
from crmhub.adapter import Conflict, Linked
from crmhub.adapter.matching import Lead
from crmhub.adapter.testing import Connection
from crmhub.adapter.types import to_text
from tests.adapters.served_crm import SearchedCrm

_NAMES: Mapping[str, Mapping[str, str]] = {
    "contacts": {
        "First_Name": "firstname",
        "Last_Name": "lastname",
        "Email": "email",
        "Phone": "phone",
        "Mobile": "mobilephone",
    },
    "deals": {
        "Deal_Name": "dealname",
        "Amount": "amount",
        "Pipeline": "pipeline",
        "Stage": "dealstage",
        "Owner": "hubspot_owner_id",
        "Closing_Date": "closedate",
        "Description": "description",
    },
    "tickets": {
        "Subject": "subject",
        "Description": "content",
        "Status": "hs_pipeline_stage",
        "Priority": "hs_ticket_priority",
    },
}
_FAKE = FakeZoho()
SECRETS = {
    "client_id": _FAKE.tokens.client_id,
    "client_secret": _FAKE.tokens.client_secret,
    "refresh_token": _FAKE.tokens.refresh_token,
}


class ZohoCrm(SearchedCrm):
    """A fake Zoho CRM, as `crmhub.adapter.testing.HttpCrm` wants it."""

    def __init__(self, **options: Any) -> None:
        self.fake = FakeZoho(Options(**{"limit": "none", "at_once": None, **options}))
        # The tests fetch more tokens than Zoho gives.
        self.fake.token_requests.change(None, 600.0)

    @property
    def spent(self) -> int:
        return self.fake.credits.spent

    def add_contact(self, properties: Mapping[str, str]) -> str:
        theirs = {ours: name for name, ours in _NAMES["contacts"].items()}
        values = {theirs.get(name, name): text for name, text in properties.items() if text}
        try:
            return self.fake.add("contacts", values)
        except Refused as exc:
            raise Conflict(str(exc)) from exc

    def contacts(self) -> dict[str, dict[str, str]]:
        return {i: _shown("contacts", one) for i, one in self.fake.records("contacts").items()}

    def delete_contact(self, contact_id: str) -> None:
        self.fake.delete("contacts", contact_id)

    def linked(self, kind: Linked, contact_id: str) -> dict[str, dict[str, str]]:
        records = self.fake.records(kind)
        ids = self.fake.linked("contacts", contact_id, kind)
        return {i: _shown(kind, records[i]) for i in ids}


def _shown(kind: str, record: Mapping[str, Any]) -> dict[str, str]:
    texts = {n: to_text(v.get("id") if isinstance(v, dict) else v) for n, v in record.items()}
    return {_NAMES[kind].get(name, name): text for name, text in texts.items()}


def connected(fake: FakeZoho, **settings: str) -> Connection:
    """Return a connection to a fake, each adapter of which is a process of its own."""
    return Connection(ZohoAdapter, {"accounts_url": fake.url, **settings}, SECRETS)


def adapted(fake: FakeZoho, **settings: str) -> ZohoAdapter:
    """Return an adapter that talks to a fake."""
    adapter = connected(fake, **settings).adapter()
    assert isinstance(adapter, ZohoAdapter)
    return adapter


def person(*, mark: str = "", contact_id: str = "", **values: str) -> Lead:
    """Return a lead with these values, its email and phone among them."""
    email, phone = values.get("email", ""), values.get("phone", "")
    return Lead(values, email=email, phone=phone, mark=mark, contact_id=contact_id)


def calls(fake: FakeZoho) -> list[str]:
    """Return method and path of every call so far, and forget them."""
    return [f"{one.method} {one.path}" for one in fake.take_requests()]
