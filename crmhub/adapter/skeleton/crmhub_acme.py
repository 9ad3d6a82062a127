"""Adapter of crmhub for the CRM Acme: contacts, deals and tickets over Acme's REST API.

This code is a template for a common kind of API, which `tests/fake_acme.py` serves. Adapt both
files to your CRM, one table or hook at a time: first make the fake as strict as the CRM, then
change the adapter until the tests pass. `crmhub.adapter.table_adapter` lists all hooks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from crmhub.adapter import (
    AdapterError,
    Choice,
    Conflict,
    Guide,
    Kind,
    Linked,
    Pipeline,
    Problem,
    Rejected,
    Saved,
    Setting,
    Step,
)
from crmhub.adapter.answers import Answer, objects_in
from crmhub.adapter.creates import Create
from crmhub.adapter.fields import Field
from crmhub.adapter.http import Limit
from crmhub.adapter.rest_adapter import RestAdapter
from crmhub.adapter.tables import Records


class AcmeAdapter(RestAdapter):
    """Adapter for Acme's REST API, which authenticates with an API token."""

    title = "Acme"
    settings = (
        Setting("base_url", "API address", "url", default="https://api.acme.example/v1"),
        Setting("token", "API token", secret=True, required=True),
    )
    guides = (
        Guide(
            "Make an API token",
            (
                Step(
                    "In Acme, open Settings > API and create a token.",
                    "https://acme.example/help/tokens",
                    "Acme's help on tokens",
                ),
                Step("Give it these rights:", codes=("people", "deals")),
            ),
        ),
    )
    limits = (Limit(100, 10.0),)
    mark_name = "reference"
    # Acme's names of the properties that crmhub names differently; others are the same.
    kinds = {
        "contacts": Records("contacts", {"firstname": "first_name", "lastname": "last_name"}),
        "deals": Records("deals", {"dealname": "title", "dealstage": "stage"}, link="contact_id"),
        "tickets": Records(
            "tickets",
            {
                "subject": "title",
                "content": "text",
                "hs_pipeline": "pipeline",
                "hs_pipeline_stage": "stage",
                "hs_ticket_priority": "priority",
            },
            link="contact_id",
        ),
    }

    @staticmethod
    def failure(answer: Answer) -> AdapterError | None:
        """Return the error for Acme's own error codes; None if the HTTP status decides."""
        match answer.status, answer.body:
            case 422, {"errors": dict(errors)} if errors:
                return Rejected([Problem(name, str(why)) for name, why in errors.items()])
            case 409, {"id": int(holder)}:
                return Conflict("Another contact has it.", existing_id=str(holder), name="email")
        return None

    def takes_email_once(self) -> bool:
        return True

    def may_land_for(
        self,
        kind: Kind,
        properties: Mapping[str, str],
        *,
        contact_id: str = "",
    ) -> float:
        # An email is taken once: a second contact would be refused, however late the first lands.
        return 0.0 if kind == "contacts" and properties.get("email") else self.under_way_s

    def find_create(self, create: Create) -> Saved | None:
        return self.marked(create)

    def load_fields(self, kind: Kind) -> Iterator[Field | None]:
        answer = self.listed("GET", "fields", self.kinds[kind].path)
        for item in answer.items():
            if not item.get("name"):
                raise answer.broken("a field has no name")
            yield self.field(
                kind,
                str(item["name"]),
                str(item.get("label")),
                str(item.get("type")),
                [Choice(str(one), str(one).title()) for one in item.get("options") or ()],
                read_only=item.get("read_only") is True,
            )

    def load_pipelines(self, kind: Linked) -> list[Pipeline]:
        answer = self.listed("GET", "pipelines", self.kinds[kind].path)
        return [
            Pipeline(
                answer.id(item),
                str(item.get("name")),
                tuple(
                    Choice(answer.id(stage), str(stage.get("name")))
                    for stage in objects_in(item.get("stages"))
                ),
            )
            for item in answer.items()
        ]

    def check(self) -> None:
        self.call("GET", "me").id()
