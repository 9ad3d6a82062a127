"""The models of the fake Odoo with their fields, as far as the CRM, helpdesk and projects go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a model; the attributes have the names and meanings of `fields_get`.

    `relation` is the model to which a link leads.
    """

    type: str
    string: str
    required: bool = False
    readonly: bool = False
    store: bool = True
    relation: str = ""
    selection: tuple[tuple[str, str], ...] = ()

    def empty(self) -> Any:
        """Return the value that Odoo answers where nothing is stored."""
        usual: dict[str, Any] = {"integer": 0, "float": 0.0, "monetary": 0.0, "many2many": []}
        return usual.get(self.type, False)


@dataclass(slots=True)
class Model:
    """A model: its label, its fields, the order of its searches, and the values of new records."""

    label: str
    fields: dict[str, Field]
    order: str = "id"
    defaults: Mapping[str, Any] = field(default_factory=dict)


_LOG = {
    "id": Field("integer", "ID", readonly=True),
    "display_name": Field("char", "Display Name", readonly=True, store=False),
    "create_uid": Field("many2one", "Created by", readonly=True, relation="res.users"),
    "create_date": Field("datetime", "Created on", readonly=True),
    "write_date": Field("datetime", "Last Updated on", readonly=True),
}
_NAME = Field("char", "Name", required=True)
_ACTIVE = {"active": Field("boolean", "Active")}
_SEQUENCE = {"sequence": Field("integer", "Sequence")}


def models(version: int) -> dict[str, Model]:
    """Return the models of an Odoo of this major version, by their technical names."""
    found = {
        "res.partner": Model(
            "Contact",
            _partner(version),
            "name, id desc",
            {"active": True, "type": "contact", "is_company": False, "partner_share": True},
        ),
        "res.partner.category": Model("Tag", {"name": _NAME}),
        "res.country": Model("Country", {"name": _NAME}),
        "res.users": Model(
            "User",
            {
                "name": _NAME,
                "login": Field("char", "Login", required=True),
                "email": Field("char", "Email"),
                "share": Field("boolean", "Share User", readonly=True),
                **_ACTIVE,
            },
            defaults={"active": True, "share": False},
        ),
        "crm.lead": Model(
            "Lead/Opportunity",
            _lead(version),
            "priority desc, id desc",
            # The salesperson is the user who creates it: that of the key.
            {"active": True, "type": "lead", "priority": "0", "user_id": 2},
        ),
        "crm.team": Model(
            "Sales Team",
            {"name": _NAME, "use_opportunities": Field("boolean", "Pipeline"), **_SEQUENCE},
        ),
        "crm.stage": Model("Stage", {"name": _NAME, **_SEQUENCE, **_stage_link(version)}),
        "helpdesk.ticket": Model(
            "Helpdesk Ticket",
            {
                **_ticket("helpdesk.stage", _four_priorities("Low priority")),
                "team_id": Field("many2one", "Team", relation="helpdesk.team"),
                "user_id": Field("many2one", "Assigned to", relation="res.users"),
                "partner_email": Field("char", "Customer Email"),
                "partner_phone": Field("char", "Customer Phone"),
            },
            "priority desc, id desc",
            {"active": True, "priority": "0"},
        ),
        "helpdesk.team": Model("Helpdesk Team", {"name": _NAME, **_SEQUENCE}),
        "helpdesk.stage": Model("Helpdesk Stage", _stages("team_ids", "helpdesk.team")),
        "project.task": Model(
            "Task",
            {
                **_ticket("project.task.type", _task_priorities(version)),
                "project_id": Field("many2one", "Project", relation="project.project"),
                "user_ids": Field("many2many", "Assignees", relation="res.users"),
            },
            "priority desc, id desc",
            {"active": True, "priority": "0"},
        ),
        "project.project": Model("Project", {"name": _NAME, **_SEQUENCE}),
        "project.task.type": Model("Task Stage", _stages("project_ids", "project.project")),
    }
    for model in found.values():
        model.fields = {**_LOG, **model.fields}
    return found


def _partner(version: int) -> dict[str, Field]:
    fields = {
        # Of a partner of the type contact only, by a constraint.
        "name": Field("char", "Name"),
        **_ACTIVE,
        "email": Field("char", "Email"),
        "email_normalized": Field("char", "Normalized Email", readonly=True),
        "phone": Field("char", "Phone"),
        "phone_mobile_search": Field("char", "Phone/Mobile", store=False),
        "is_company": Field("boolean", "Is a Company"),
        "partner_share": Field("boolean", "Share Partner", readonly=True),
        "type": Field("selection", "Address Type", selection=_ADDRESSES),
        "lang": Field("selection", "Language", selection=_LANGUAGES),
        "tz": Field("selection", "Timezone", selection=(("UTC", "UTC"), *_ZONES)),
        "parent_id": Field("many2one", "Related Company", relation="res.partner"),
        "country_id": Field("many2one", "Country", relation="res.country"),
        "category_id": Field("many2many", "Tags", relation="res.partner.category"),
        "user_id": Field("many2one", "Salesperson", relation="res.users"),
        "child_ids": Field("one2many", "Contact", relation="res.partner"),
        "image_1920": Field("binary", "Image"),
        "comment": Field("html", "Notes"),
        "function": Field("char", "Job Position"),
        "website": Field("char", "Website Link"),
        "color": Field("integer", "Color Index"),
        # Made in Studio.
        "x_status": Field("selection", "Status", selection=_STATUSES),
        "x_score": Field("float", "Score"),
        "x_budget": Field("monetary", "Budget"),
        "x_birthday": Field("date", "Birthday"),
        "x_visited": Field("datetime", "Last Visit"),
        "x_newsletter": Field("boolean", "Newsletter"),
    }
    if version < 19:
        fields["mobile"] = Field("char", "Mobile")
    return fields


def _lead(version: int) -> dict[str, Field]:
    fields = {
        "name": Field("char", "Opportunity", required=True),
        **_ACTIVE,
        "type": Field("selection", "Type", required=True, selection=_LEAD_TYPES),
        "partner_id": Field("many2one", "Customer", relation="res.partner"),
        "email_from": Field("char", "Email"),
        "phone": Field("char", "Phone"),
        "team_id": Field("many2one", "Sales Team", relation="crm.team"),
        "stage_id": Field("many2one", "Stage", relation="crm.stage"),
        "user_id": Field("many2one", "Salesperson", relation="res.users"),
        "expected_revenue": Field("monetary", "Expected Revenue"),
        "date_deadline": Field("date", "Expected Closing"),
        "description": Field("html", "Notes"),
        "priority": Field("selection", "Priority", selection=_four_priorities("Low")),
    }
    if version < 19:
        fields["mobile"] = Field("char", "Mobile")
    return fields


def _ticket(stages: str, priorities: tuple[tuple[str, str], ...]) -> dict[str, Field]:
    return {
        "name": Field("char", "Title", required=True),
        **_ACTIVE,
        "description": Field("html", "Description"),
        "partner_id": Field("many2one", "Customer", relation="res.partner"),
        "stage_id": Field("many2one", "Stage", relation=stages),
        "priority": Field("selection", "Priority", selection=priorities),
    }


def _stages(link: str, to: str) -> dict[str, Field]:
    return {"name": _NAME, **_SEQUENCE, link: Field("many2many", "Used in", relation=to)}


def _stage_link(version: int) -> dict[str, Field]:
    if version < 19:
        return {"team_id": Field("many2one", "Sales Team", relation="crm.team")}
    return {"team_ids": Field("many2many", "Sales Teams", relation="crm.team")}


def _four_priorities(lowest: str) -> tuple[tuple[str, str], ...]:
    rest = lowest.removeprefix("Low")
    return ("0", lowest), ("1", f"Medium{rest}"), ("2", f"High{rest}"), ("3", "Urgent")


def _task_priorities(version: int) -> tuple[tuple[str, str], ...]:
    return _four_priorities("Low") if version >= 19 else (("0", "Low"), ("1", "High"))


_ADDRESSES = (
    ("contact", "Contact"),
    ("invoice", "Invoice Address"),
    ("delivery", "Delivery Address"),
    ("other", "Other Address"),
)
_LANGUAGES = (("en_US", "English (US)"), ("de_DE", "German / Deutsch"))
_ZONES = (("Europe/Berlin", "Europe/Berlin"),)
_STATUSES = (("lead", "Lead"), ("customer", "Customer"))
_LEAD_TYPES = (("lead", "Lead"), ("opportunity", "Opportunity"))
INSTALLED_LANGUAGES = frozenset(code for code, _ in _LANGUAGES)
"""The codes of the languages that the fake has installed."""
