"""The fake Pipedrive as the conformance tests and the adapter's own tests see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adapters.fakes.pipedrive import FakePipedrive, Options
from adapters.fakes.pipedrive.answers import moment
from adapters.fakes.pipedrive.catalogue import key_of
from adapters.pipedrive import PipedriveAdapter
from crmhub.adapter import Kind, Linked
from crmhub.adapter.matching import Lead
from crmhub.adapter.testing import Connection
from crmhub.adapter.translated import join, split
from crmhub.adapter.types import to_text
from tests.adapters.served_crm import SearchedCrm

TOKEN = {"api_token": Options().token}
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
_OURS = {
    "title": "dealname",
    "value": "amount",
    "stage_id": "dealstage",
    "pipeline_id": "pipeline",
    "owner_id": "hubspot_owner_id",
    "expected_close_date": "closedate",
}
_OF_TICKETS = {"title": "subject", "stage_id": "hs_pipeline_stage", "pipeline_id": "hs_pipeline"}


class PipedriveCrm(SearchedCrm):
    """A fake Pipedrive without limits, as `crmhub.adapter.testing.HttpCrm` wants it.

    If `tickets` is True, deals in the pipeline SUPPORT are tickets.
    """

    def __init__(self, *, tickets: bool = True, **options: Any) -> None:
        self._tickets = tickets
        usual = {"limit": "none", "search_limit": "none", "daily_tokens": 10_000_000}
        self.fake = FakePipedrive(Options(**(usual | options)))

    @property
    def urls(self) -> Mapping[str, str]:
        return {"login": self.fake.url}

    @property
    def spent(self) -> int:
        return self.fake.windows["daily_tokens"].spent

    def add_contact(self, properties: Mapping[str, str]) -> str:
        given = dict(properties)
        person: dict[str, Any] = {
            "name": join(given.pop("firstname", ""), given.pop("lastname", "")) or "Nobody"
        }
        for listed, name in (("emails", "email"), ("phones", "phone")):
            if text := given.pop(name, ""):
                person[listed] = [{"value": text, "primary": True, "label": "work"}]
        id = self.fake.add("contacts", {**person, "custom_fields": given})
        if not self.fake.requests:
            # It was there before the adapter came: the search finds it, and no list of changes.
            self._make_older(id)
        return id

    def _make_older(self, contact_id: str) -> None:
        """Date a person a day back."""
        with self.fake.lock:
            person = self.fake.stored("contacts")[contact_id]
            made = moment(person.created_at - 86_400_000)
            person.properties = {**person.properties, "add_time": made, "update_time": made}
            person.index()

    def contacts(self) -> Mapping[str, Mapping[str, str]]:
        return {id: _contact(person) for id, person in self.fake.records("contacts").items()}

    def delete_contact(self, contact_id: str) -> None:
        self.fake.delete("contacts", contact_id)

    def linked(self, kind: Linked, contact_id: str) -> Mapping[str, Mapping[str, str]]:
        deals = self._deals(kind)
        ids = self.fake.linked("contacts", contact_id, "deals")
        return {id: deals[id] for id in ids if id in deals}

    def count(self, kind: Kind) -> int:
        return len(self._deals(kind))

    def _deals(self, kind: str) -> dict[str, dict[str, str]]:
        support = next(one["id"] for one in self.fake.company.pipelines if one["name"] == SUPPORT)
        names = _OF_TICKETS if kind == "tickets" else _OURS
        return {
            id: {names.get(name, name): to_text(value) for name, value in deal.items()}
            for id, deal in self.fake.records("deals").items()
            if (self._tickets and deal["pipeline_id"] == support) == (kind == "tickets")
        }


def _contact(person: Mapping[str, Any]) -> dict[str, str]:
    values = {key: to_text(value) for key, value in person["custom_fields"].items()}
    for listed, name in (("emails", "email"), ("phones", "phone")):
        primary = [entry["value"] for entry in person[listed] if entry["primary"]]
        values[name] = primary[0] if primary else ""
    # A person without a name has the email or the phone in its place.
    named = person["name"] not in (values["email"], values["phone"], "Nobody")
    first, last = split(person["name"]) if named else ("", "")
    return {**values, "firstname": first, "lastname": last}


def connected(
    fake: FakePipedrive, credentials: Mapping[str, str] = TOKEN, **settings: str
) -> Connection:
    """Return a connection to a fake, each adapter of which is a process of its own."""
    usual = {"base_url": fake.url, "oauth_url": fake.url, "support_pipeline": SUPPORT}
    return Connection(PipedriveAdapter, usual | settings, credentials)


def person(
    *, mark: str = "", email_id: str = "", phone_id: str = "", contact_id: str = "", **values: str
) -> Lead:
    """Return a lead with these values, its email and phone among them."""
    return Lead(
        values,
        email=values.get("email", ""),
        phone=values.get("phone", ""),
        mark=mark,
        email_id=email_id,
        phone_id=phone_id,
        contact_id=contact_id,
    )


def calls(fake: FakePipedrive) -> list[str]:
    """Return method and path of every call so far, and forget them."""
    return [f"{one.method} {one.path.removeprefix('/api/')}" for one in fake.take_requests()]
