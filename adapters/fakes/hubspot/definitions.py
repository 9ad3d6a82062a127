"""The properties, pipelines and owners that a new HubSpot account has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from adapters.fakes.hubspot.answers import iso

Definition = dict[str, Any]
Options = Mapping[str, str] | tuple[tuple[str, str], ...]
"""The labels of values."""

KINDS = ("contacts", "deals", "tickets")
SINGULAR = {"contacts": "contact", "deals": "deal", "tickets": "ticket"}
TYPE_IDS = {"contacts": "0-1", "deals": "0-3", "tickets": "0-5"}
LINK_TYPES: Mapping[int, tuple[str, str]] = {
    3: ("deals", "contacts"),
    4: ("contacts", "deals"),
    16: ("tickets", "contacts"),
    15: ("contacts", "tickets"),
    27: ("deals", "tickets"),
    28: ("tickets", "deals"),
    449: ("contacts", "contacts"),
    451: ("deals", "deals"),
    452: ("tickets", "tickets"),
}
"""The kinds that an association type links, by its id in HubSpot's guide and SDK."""
CHANGED_AT = {
    "contacts": "lastmodifieddate",
    "deals": "hs_lastmodifieddate",
    "tickets": "hs_lastmodifieddate",
}
"""The property with the time of a record's last change."""
SHOWN = {
    "contacts": ("email", "firstname", "lastname"),
    "deals": ("amount", "closedate", "dealname", "dealstage", "pipeline"),
    "tickets": (
        "content",
        "hs_pipeline",
        "hs_pipeline_stage",
        "hs_ticket_category",
        "hs_ticket_priority",
        "subject",
    ),
}
"""The properties in a response to a request that names none."""
PIPELINE = {"deals": "pipeline", "tickets": "hs_pipeline"}
STAGE = {"deals": "dealstage", "tickets": "hs_pipeline_stage"}
LIFECYCLE = {
    "subscriber": "Subscriber",
    "lead": "Lead",
    "marketingqualifiedlead": "Marketing Qualified Lead",
    "salesqualifiedlead": "Sales Qualified Lead",
    "opportunity": "Opportunity",
    "customer": "Customer",
    "evangelist": "Evangelist",
    "other": "Other",
}
_FIRST_DAY = iso(1_577_836_800_000)  # 2020-01-01, when HubSpot's own definitions were made
_FIELD_TYPES = {
    "string": "text",
    "number": "number",
    "date": "date",
    "datetime": "date",
    "bool": "booleancheckbox",
    "enumeration": "select",
    "phone_number": "phonenumber",
}


def definition(
    name: str,
    label: str,
    type_: str = "string",
    *,
    kind: str,
    field_type: str | None = None,
    options: Options = (),
    external: str | None = None,
    read_only: bool = False,
    unique: bool = False,
    hint: str | None = None,
    sensitivity: str = "non_sensitive",
    own: bool = True,
) -> Definition:
    """Return a property definition with all fields that HubSpot's responses have.

    The parameters are the values of these fields. `own` is True for a property that HubSpot itself
    defines, and False for a custom property.
    """
    if type_ == "bool" and not options:
        options = {"true": "Yes", "false": "No"}
    hinted = "numberDisplayHint" if type_ == "number" else "textDisplayHint"
    return {
        "name": name,
        "label": label,
        "type": type_,
        "fieldType": field_type or _FIELD_TYPES[type_],
        "groupName": f"{SINGULAR[kind]}information",
        "description": "",
        "options": [
            {"label": shown, "value": value, "displayOrder": place, "hidden": False}
            for place, (value, shown) in enumerate(dict(options).items())
        ],
        "displayOrder": -1,
        "hasUniqueValue": unique,
        "hidden": False,
        "formField": not read_only,
        "calculated": False,
        "externalOptions": external is not None,
        **({"referencedObjectType": external} if external else {}),
        "hubspotDefined": own,
        "dataSensitivity": sensitivity,
        **({hinted: hint} if hint else {}),
        "modificationMetadata": {
            "archivable": not own,
            "readOnlyDefinition": own,
            "readOnlyValue": read_only,
            **({"readOnlyOptions": own} if type_ == "enumeration" else {}),
        },
        "createdAt": _FIRST_DAY,
        "updatedAt": _FIRST_DAY,
        "archived": False,
    }


_PHONE = {"field_type": "phonenumber", "hint": "phone_number"}
_READ_ONLY = {"read_only": True}
_CHECKBOX = {"field_type": "checkbox"}
_RADIO = {"field_type": "radio"}
_AREA = {"field_type": "textarea"}


def _same(*values: str) -> dict[str, str]:
    return dict(zip(values, values, strict=True))


_Row = tuple[str, str, str, Mapping[str, Any]]
# Name, label, type, and what else is unusual of a definition.
_OF_ALL: tuple[_Row, ...] = (
    ("hs_object_id", "Record ID", "number", _READ_ONLY),
    ("createdate", "Create Date", "datetime", _READ_ONLY),
    ("hubspot_owner_id", "Owner", "enumeration", {"external": "OWNER"}),
    ("hs_created_by_user_id", "Created by user ID", "number", _READ_ONLY),
    ("hs_merged_object_ids", "Merged record IDs", "enumeration", _CHECKBOX | _READ_ONLY),
    ("hs_object_source", "Record creation source", "string", _READ_ONLY),
)
_OF: Mapping[str, tuple[_Row, ...]] = {
    "contacts": (
        ("email", "Email", "string", {"hint": "email"}),
        (
            "hs_additional_emails",
            "Additional email addresses",
            "enumeration",
            _CHECKBOX | _READ_ONLY,
        ),
        ("firstname", "First Name", "string", {}),
        ("lastname", "Last Name", "string", {}),
        ("salutation", "Salutation", "string", {}),
        ("phone", "Phone Number", "string", _PHONE),
        ("mobilephone", "Mobile Phone Number", "string", _PHONE),
        ("fax", "Fax Number", "string", {"field_type": "phonenumber"}),
        (
            "hs_searchable_calculated_phone_number",
            "Calculated Phone Number",
            "phone_number",
            _READ_ONLY,
        ),
        (
            "hs_searchable_calculated_mobile_number",
            "Calculated Mobile Number",
            "phone_number",
            _READ_ONLY,
        ),
        ("company", "Company Name", "string", {}),
        ("jobtitle", "Job Title", "string", {}),
        ("website", "Website URL", "string", {"hint": "domain_name"}),
        ("address", "Street Address", "string", {}),
        ("city", "City", "string", {}),
        ("state", "State/Region", "string", {}),
        ("zip", "Postal Code", "string", {}),
        ("country", "Country/Region", "string", {}),
        ("message", "Message", "string", _AREA),
        ("date_of_birth", "Date of birth", "string", {}),
        ("annualrevenue", "Annual Revenue", "string", {}),
        (
            "numemployees",
            "Number of Employees",
            "enumeration",
            {"options": _same("1-5", "5-25", "25-50", "50-100")},
        ),
        (
            "hs_language",
            "Preferred language",
            "enumeration",
            {"options": {"de": "German", "en": "English", "es": "Spanish", "fr": "French"}},
        ),
        ("lifecyclestage", "Lifecycle Stage", "enumeration", _RADIO | {"options": LIFECYCLE}),
        (
            "hs_lead_status",
            "Lead Status",
            "enumeration",
            _RADIO
            | {
                "options": {
                    "NEW": "New",
                    "OPEN": "Open",
                    "IN_PROGRESS": "In Progress",
                    "OPEN_DEAL": "Open Deal",
                    "UNQUALIFIED": "Unqualified",
                    "ATTEMPTED_TO_CONTACT": "Attempted to Contact",
                    "CONNECTED": "Connected",
                    "BAD_TIMING": "Bad Timing",
                }
            },
        ),
        (
            "hs_legal_basis",
            "Legal basis for processing contact's data",
            "enumeration",
            _CHECKBOX
            | {
                "options": _same(
                    "Legitimate interest – prospect/lead",
                    "Freely given consent from contact",
                    "Performance of a contract",
                    "Not applicable",
                )
            },
        ),
        ("hs_email_optout", "Unsubscribed from all email", "bool", _READ_ONLY),
        ("num_associated_deals", "Number of Associated Deals", "number", _READ_ONLY),
        ("closedate", "Close Date", "datetime", {}),
        ("hs_persona", "Persona", "enumeration", _RADIO),
    ),
    "deals": (
        ("dealname", "Deal Name", "string", {}),
        ("pipeline", "Pipeline", "enumeration", {"external": "PIPELINE"}),
        ("dealstage", "Deal Stage", "enumeration", _RADIO | {"external": "PIPELINE_STAGE"}),
        ("amount", "Amount", "number", {}),
        ("closedate", "Close Date", "datetime", {}),
        ("description", "Deal Description", "string", _AREA),
        (
            "dealtype",
            "Deal Type",
            "enumeration",
            _RADIO
            | {"options": {"newbusiness": "New Business", "existingbusiness": "Existing Business"}},
        ),
        (
            "hs_priority",
            "Priority",
            "enumeration",
            {"options": {"low": "Low", "medium": "Medium", "high": "High"}},
        ),
        ("hs_next_step", "Next step", "string", {}),
        (
            "deal_currency_code",
            "Currency",
            "enumeration",
            {"options": {"EUR": "Euro", "USD": "US Dollar"}},
        ),
        ("hs_is_closed", "Is Deal Closed?", "bool", _READ_ONLY),
        ("hs_is_closed_won", "Is Closed Won", "bool", _READ_ONLY),
        ("hs_deal_stage_probability", "Deal probability", "number", _READ_ONLY),
    ),
    "tickets": (
        ("subject", "Ticket name", "string", {}),
        ("content", "Ticket description", "string", _AREA),
        ("hs_pipeline", "Pipeline", "enumeration", {"external": "PIPELINE"}),
        ("hs_pipeline_stage", "Ticket status", "enumeration", {"external": "PIPELINE_STAGE"}),
        (
            "hs_ticket_priority",
            "Priority",
            "enumeration",
            {"options": {"LOW": "Low", "MEDIUM": "Medium", "HIGH": "High", "URGENT": "Urgent"}},
        ),
        (
            "hs_ticket_category",
            "Category",
            "enumeration",
            _CHECKBOX
            | {
                "options": {
                    "PRODUCT_ISSUE": "Product issue",
                    "BILLING_ISSUE": "Billing issue",
                    "FEATURE_REQUEST": "Feature request",
                    "GENERAL_INQUIRY": "General inquiry",
                }
            },
        ),
        (
            "source_type",
            "Source",
            "enumeration",
            {"options": {"CHAT": "Chat", "EMAIL": "Email", "FORM": "Form", "PHONE": "Phone"}},
        ),
        ("closed_date", "Close date", "datetime", {}),
    ),
}


def starter_definitions(kind: str) -> dict[str, Definition]:
    """Return the property definitions of a new account for a kind of record, by name."""
    changed_at = (CHANGED_AT[kind], "Last Modified Date", "datetime", _READ_ONLY)
    return {
        name: definition(name, label, type_, kind=kind, **more)
        for name, label, type_, more in (*_OF_ALL, changed_at, *_OF[kind])
    }


_STAGES: Mapping[str, tuple[tuple[str, str, Mapping[str, str]], ...]] = {
    "deals": tuple(
        (id_, label, {"isClosed": str(chance in ("0.0", "1.0")).lower(), "probability": chance})
        for id_, label, chance in (
            ("appointmentscheduled", "Appointment Scheduled", "0.2"),
            ("qualifiedtobuy", "Qualified To Buy", "0.4"),
            ("presentationscheduled", "Presentation Scheduled", "0.6"),
            ("decisionmakerboughtin", "Decision Maker Bought-In", "0.8"),
            ("contractsent", "Contract Sent", "0.9"),
            ("closedwon", "Closed Won", "1.0"),
            ("closedlost", "Closed Lost", "0.0"),
        )
    ),
    "tickets": (
        ("1", "New", {"ticketState": "OPEN"}),
        ("2", "Waiting on contact", {"ticketState": "OPEN"}),
        ("3", "Waiting on us", {"ticketState": "OPEN"}),
        ("4", "Closed", {"ticketState": "CLOSED"}),
    ),
}
_DATED = {"createdAt": _FIRST_DAY, "updatedAt": _FIRST_DAY, "archived": False}


def starter_pipelines(kind: str) -> dict[str, dict[str, Any]]:
    """Return the pipelines of a new account for a kind of record, by id."""
    named = {"deals": ("default", "Sales Pipeline"), "tickets": ("0", "Support Pipeline")}
    if kind not in named:
        return {}
    id_, label = named[kind]
    stages = [
        {
            "id": stage_id,
            "label": name,
            "displayOrder": place,
            "metadata": metadata,
            "writePermissions": "CRM_PERMISSIONS_ENFORCEMENT",
            **_DATED,
        }
        for place, (stage_id, name, metadata) in enumerate(_STAGES[kind])
    ]
    return {id_: {"id": id_, "label": label, "displayOrder": 0, "stages": stages, **_DATED}}


def starter_owners() -> Iterator[dict[str, Any]]:
    """Yield the owners (HubSpot users) of a new account; one has left.

    As in HubSpot, the `id` of an owner differs from the `userId`.
    """
    for id_, email, first, last, user, archived in (
        ("41629779", "marie@example.com", "Marie", "Curie", 9586504, False),
        ("60158084", "lise@example.com", "Lise", "Meitner", 9586517, False),
        ("60158113", "gone@example.com", "Otto", "Hahn", 9586533, True),
    ):
        yield {
            "id": id_,
            "email": email,
            "firstName": first,
            "lastName": last,
            "type": "PERSON",
            **({} if archived else {"userId": user}),
            "userIdIncludingInactive": user,
            **_DATED,
            "archived": archived,
            "teams": [{"id": "178588", "name": "Sales", "primary": True}],
        }
