"""The fake Pipedrive as the conformance tests and the adapter's own tests see it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from adapters.fakes.kit import LaggingKitCrm
from adapters.fakes.pipedrive import FakePipedrive, Options
from adapters.fakes.pipedrive.catalogue import key_of
from adapters.fakes.pipedrive.fake import moment
from adapters.pipedrive import PipedriveAdapter
from crmhub.adapter import Conflict, WebhookRequest
from crmhub.adapter.testing import Connection
from crmhub.adapter.translated import HALVES, join, split
from crmhub.adapter.types import from_html

PASSWORD = "password-of-the-webhooks"
TOKEN = {"api_token": Options().token, "webhook_password": PASSWORD}
OAUTH = {
    "client_id": Options().client_id,
    "client_secret": Options().client_secret,
    "refresh_token": Options().refresh_token,
}
INTEREST, SCORE, BUDGET, ANNIVERSARY, REMARKS, JOB, TOPICS, HOME = (
    key_of("persons", name)
    for name in ("Interest", "Score", "Budget", "Anniversary", "Remarks", "Job", "Topics", "Home")
)
HIGH = str(int(INTEREST[:4], 16) + 1)
"""The id of an option of the field INTEREST."""
SUPPORT = "Support"
OTHER_READINGS: Mapping[str, Any] = {
    "tickets": False,
    "marks": True,
    "keeps_channel": False,
    "deleted": "gone",
    "phone_search": "text",
    "names_field": True,
}
"""Options of the fake: the other readings of what Pipedrive's documents leave open."""
_ENTITIES = {"contacts": "person", "companies": "organization"}
_OF_TICKETS = {
    "dealname": "subject",
    "dealstage": "hs_pipeline_stage",
    "pipeline": "hs_pipeline",
}


class PipedriveCrm(LaggingKitCrm):
    """A fake Pipedrive without limits, as `crmhub.adapter.testing.HttpCrm` wants it.

    If `tickets` is True, deals in the pipeline SUPPORT are tickets.
    """

    def __init__(self, *, tickets: bool = True, **options: Any) -> None:
        self._tickets = tickets
        usual = {"limit": "none", "search_limit": "none", "daily_tokens": 10_000_000}
        super().__init__(FakePipedrive(Options(**(usual | options))), Conflict)

    @property
    def urls(self) -> Mapping[str, str]:
        return {"login": self.fake.url}

    @property
    def spent(self) -> int:
        return int(self.fake.windows["daily_tokens"].spent)

    def add_contact(self, properties: Mapping[str, str]) -> str:
        halves = [properties.get(name, "") for name in HALVES]
        rest = {name: text for name, text in properties.items() if name not in HALVES}
        id = super().add_contact({**rest, "name": join(*halves) or "Nobody"})
        if not self.fake.requests:
            # It was there before the adapter came: the search finds it, and no list of changes.
            self._make_older(id)
        return id

    def _make_older(self, contact_id: str) -> None:
        """Date a person five minutes back."""
        with self.fake.lock:
            person = self.fake.stored("contacts")[contact_id]
            made = moment(person.created_at - 300_000)
            person.properties = {**person.properties, "add_time": made, "update_time": made}
            person.index()

    def shown(self, kind: str) -> dict[str, dict[str, str]]:
        if kind == "contacts":
            return {id: _contact(person) for id, person in super().shown(kind).items()}
        if kind == "companies":
            return super().shown(kind)
        support = next(str(one["id"]) for one in self.fake.pipelines if one["name"] == SUPPORT)
        names = _OF_TICKETS if kind == "tickets" else {}
        return {
            id: {names.get(name, name): text for name, text in deal.items()}
            for id, deal in super().shown("deals").items()
            if (self._tickets and deal["pipeline"] == support) == (kind == "tickets")
        }

    def notes(self, kind: str, record_id: str) -> Mapping[str, str]:
        link = "person_id" if kind == "contacts" else "deal_id"
        return {
            str(one["id"]): from_html(one["content"])
            for one in self.fake.added["notes"]
            if one.get(link) == int(record_id)
        }

    def tasks(self, contact_id: str) -> Mapping[str, Mapping[str, str]]:
        return {
            str(one["id"]): {
                "subject": one["subject"],
                "notes": from_html(one["note"] or ""),
                "due": f"{one['due_date']}T{one['due_time']}:00.000Z",
            }
            for one in self.fake.added["activities"]
            if one.get("person_id") == int(contact_id)
        }

    def webhook(self, kind: str, record_id: str) -> WebhookRequest:
        entity = _ENTITIES.get(kind, "deal")
        meta = {"action": "change", "entity": entity, "entity_id": record_id}
        pair = base64.b64encode(f"crmhub:{PASSWORD}".encode()).decode()
        body = json.dumps({"meta": meta, "data": {"id": int(record_id)}, "previous": {}})
        headers = {"authorization": f"Basic {pair}", "content-type": "application/json"}
        return WebhookRequest("POST", "https://hub.test/", headers, body.encode())

    def watchers(self, kind: str) -> list[str]:
        entity = _ENTITIES.get(kind, "deal")
        found = self.fake.webhooks.all.values()
        return [one["subscription_url"] for one in found if one["event_object"] == entity]

    def linked(self, kind: str, contact_id: str) -> Mapping[str, Mapping[str, str]]:
        ids = self.fake.linked("contacts", contact_id, "deals")
        return {id: deal for id, deal in self.shown(kind).items() if id in ids}


def _contact(person: Mapping[str, str]) -> dict[str, str]:
    # A person without a name has the email or the phone in its place.
    named = person["name"] not in (person["email"], person["phone"], "Nobody")
    first, last = split(person["name"]) if named else ("", "")
    return {**person, "firstname": first, "lastname": last}


def connected(
    fake: FakePipedrive,
    credentials: Mapping[str, str] = TOKEN,
    adapter_class: type[PipedriveAdapter] = PipedriveAdapter,
    **settings: str,
) -> Connection:
    """Return a connection to a fake, each adapter of which is a process of its own."""
    usual = {"base_url": fake.url, "oauth_url": fake.url, "support_pipeline": SUPPORT}
    return Connection(adapter_class, usual | settings, credentials)


def calls(fake: FakePipedrive) -> list[str]:
    """Return method and path of every call so far, and forget them."""
    return [f"{one.method} {one.path.removeprefix('/api/')}" for one in fake.take_requests()]
