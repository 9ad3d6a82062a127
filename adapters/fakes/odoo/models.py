"""The models of the fake Odoo with their fields, as far as the CRM, helpdesk and projects go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from adapters.fakes.fields import Field


@dataclass(slots=True)
class Column(Field):
    """A field of a model; the attributes have the names and meanings of `fields_get`.

    `to` is the model to which a link leads.
    """

    string: str = ""
    store: bool = True
    selection: tuple[tuple[str, str], ...] = ()

    def empty(self) -> Any:
        """Return the value that Odoo answers where nothing is stored."""
        usual: dict[str, Any] = {"integer": 0, "float": 0.0, "monetary": 0.0, "many2many": []}
        return usual.get(self.type, False)


def _column(type_: str, string: str, to: str = "", **more: Any) -> Column:
    return Column(type_, string=string, to=to, **more)


@dataclass(slots=True)
class Model:
    """A model: its label, its fields, the order of its searches, and the values of new records."""

    label: str
    fields: dict[str, Column]
    order: str = "id"
    defaults: Mapping[str, Any] = field(default_factory=dict)


_LOG = {
    "id": _column("integer", "ID", read_only=True),
    "display_name": _column("char", "Display Name", read_only=True, store=False),
    "create_uid": _column("many2one", "Created by", "res.users", read_only=True),
    "create_date": _column("datetime", "Created on", read_only=True),
    "write_date": _column("datetime", "Last Updated on", read_only=True),
}
_NAME = _column("char", "Name", required=True)
_ACTIVE = {"active": _column("boolean", "Active")}
_SEQUENCE = {"sequence": _column("integer", "Sequence")}


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
                "login": _column("char", "Login", required=True),
                "email": _column("char", "Email"),
                "share": _column("boolean", "Share User", read_only=True),
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
            {"name": _NAME, "use_opportunities": _column("boolean", "Pipeline"), **_SEQUENCE},
        ),
        "crm.stage": Model("Stage", {"name": _NAME, **_SEQUENCE, **_stage_link(version)}),
        "helpdesk.ticket": Model(
            "Helpdesk Ticket",
            {
                **_ticket("helpdesk.stage", _four_priorities("Low priority")),
                "team_id": _column("many2one", "Team", "helpdesk.team"),
                "user_id": _column("many2one", "Assigned to", "res.users"),
                "partner_email": _column("char", "Customer Email"),
                "partner_phone": _column("char", "Customer Phone"),
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
                "project_id": _column("many2one", "Project", "project.project"),
                "user_ids": _column("many2many", "Assignees", "res.users"),
            },
            "priority desc, id desc",
            {"active": True, "priority": "0"},
        ),
        "project.project": Model("Project", {"name": _NAME, **_SEQUENCE}),
        "mail.message.subtype": Model("Message subtypes", {"name": _NAME}),
        "mail.message": Model(
            "Message",
            {
                "model": _column("char", "Related Document Model"),
                "res_id": _column("many2one_reference", "Related Document ID"),
                "message_type": _column("selection", "Type", required=True, selection=_MESSAGES),
                "subtype_id": _column("many2one", "Subtype", "mail.message.subtype"),
                "date": _column("datetime", "Date"),
                "body": _column("html", "Contents"),
            },
            "id desc",
            {"message_type": "comment"},
        ),
        "ir.model": Model("Models", {"name": _NAME, "model": _column("char", "Model")}),
        "mail.activity.type": Model("Activity Type", {"name": _NAME}),
        "mail.activity": Model(
            "Activity",
            {
                "res_model_id": _column("many2one", "Document Model", "ir.model", required=True),
                "res_id": _column("many2one_reference", "Related Document ID"),
                "activity_type_id": _column("many2one", "Activity Type", "mail.activity.type"),
                "summary": _column("char", "Summary"),
                "note": _column("html", "Note"),
                "date_deadline": _column("date", "Due Date", required=True),
                "user_id": _column("many2one", "Assigned to", "res.users"),
            },
            "date_deadline, id",
            # The day on which it is planned, and the user of the key.
            {"date_deadline": f"{datetime.now(UTC):%Y-%m-%d}", "user_id": 2},
        ),
        "project.task.type": Model("Task Stage", _stages("project_ids", "project.project")),
    }
    for model in found.values():
        model.fields = {**_LOG, **model.fields}
    return found


def _partner(version: int) -> dict[str, Column]:
    fields = {
        # Of a partner of the type contact only, by a constraint.
        "name": _column("char", "Name"),
        **_ACTIVE,
        "email": _column("char", "Email"),
        "email_normalized": _column("char", "Normalized Email", read_only=True),
        "phone": _column("char", "Phone"),
        "phone_mobile_search": _column("char", "Phone/Mobile", store=False),
        "is_company": _column("boolean", "Is a Company"),
        "partner_share": _column("boolean", "Share Partner", read_only=True),
        "type": _column("selection", "Address Type", selection=_ADDRESSES),
        "lang": _column("selection", "Language", selection=_LANGUAGES),
        "tz": _column("selection", "Timezone", selection=(("UTC", "UTC"), *_ZONES)),
        "parent_id": _column("many2one", "Related Company", "res.partner"),
        "country_id": _column("many2one", "Country", "res.country"),
        "category_id": _column("many2many", "Tags", "res.partner.category"),
        "user_id": _column("many2one", "Salesperson", "res.users"),
        "child_ids": _column("one2many", "Contact", "res.partner"),
        "image_1920": _column("binary", "Image"),
        "comment": _column("html", "Notes"),
        "city": _column("char", "City"),
        "function": _column("char", "Job Position"),
        "website": _column("char", "Website Link"),
        "color": _column("integer", "Color Index"),
        # Made in Studio.
        "x_status": _column("selection", "Status", selection=_STATUSES),
        "x_score": _column("float", "Score"),
        "x_budget": _column("monetary", "Budget"),
        "x_birthday": _column("date", "Birthday"),
        "x_visited": _column("datetime", "Last Visit"),
        "x_newsletter": _column("boolean", "Newsletter"),
    }
    if version < 19:
        fields["mobile"] = _column("char", "Mobile")
    return fields


def _lead(version: int) -> dict[str, Column]:
    fields = {
        "name": _column("char", "Opportunity", required=True),
        **_ACTIVE,
        "type": _column("selection", "Type", required=True, selection=_LEAD_TYPES),
        "partner_id": _column("many2one", "Customer", "res.partner"),
        "email_from": _column("char", "Email"),
        "phone": _column("char", "Phone"),
        "team_id": _column("many2one", "Sales Team", "crm.team"),
        "stage_id": _column("many2one", "Stage", "crm.stage"),
        "user_id": _column("many2one", "Salesperson", "res.users"),
        "expected_revenue": _column("monetary", "Expected Revenue"),
        "date_deadline": _column("date", "Expected Closing"),
        "description": _column("html", "Notes"),
        "priority": _column("selection", "Priority", selection=_four_priorities("Low")),
    }
    if version < 19:
        fields["mobile"] = _column("char", "Mobile")
    return fields


def _ticket(stages: str, priorities: tuple[tuple[str, str], ...]) -> dict[str, Column]:
    return {
        "name": _column("char", "Title", required=True),
        **_ACTIVE,
        "description": _column("html", "Description"),
        "partner_id": _column("many2one", "Customer", "res.partner"),
        "stage_id": _column("many2one", "Stage", stages),
        "priority": _column("selection", "Priority", selection=priorities),
    }


def _stages(link: str, to: str) -> dict[str, Column]:
    return {"name": _NAME, **_SEQUENCE, link: _column("many2many", "Used in", to)}


def _stage_link(version: int) -> dict[str, Column]:
    if version < 19:
        return {"team_id": _column("many2one", "Sales Team", "crm.team")}
    return {"team_ids": _column("many2many", "Sales Teams", "crm.team")}


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
_MESSAGES = (("email", "Incoming Email"), ("comment", "Comment"), ("notification", "System"))
_LANGUAGES = (("en_US", "English (US)"), ("de_DE", "German / Deutsch"))
_ZONES = (("Europe/Berlin", "Europe/Berlin"),)
_STATUSES = (("lead", "Lead"), ("customer", "Customer"))
_LEAD_TYPES = (("lead", "Lead"), ("opportunity", "Opportunity"))
INSTALLED_LANGUAGES = frozenset(code for code, _ in _LANGUAGES)
"""The codes of the languages that the fake has installed."""
