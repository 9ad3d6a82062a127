"""The properties, pipelines and owners that a new HubSpot account has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from adapters.fakes.hubspot.answers import iso

Definition = dict[str, Any]
Options = Mapping[str, str] | tuple[tuple[str, str], ...]
"""The labels of values."""

KINDS = ("contacts", "companies", "deals", "tickets", "notes", "tasks")
SINGULAR = {kind: kind.removesuffix("s") for kind in KINDS} | {"companies": "company"}
TYPE_IDS = {
    "contacts": "0-1",
    "companies": "0-2",
    "deals": "0-3",
    "tickets": "0-5",
    "notes": "0-46",
    "tasks": "0-27",
}
LINK_TYPES: Mapping[int, tuple[str, str]] = {
    3: ("deals", "contacts"),
    4: ("contacts", "deals"),
    16: ("tickets", "contacts"),
    15: ("contacts", "tickets"),
    27: ("deals", "tickets"),
    28: ("tickets", "deals"),
    279: ("contacts", "companies"),
    280: ("companies", "contacts"),
    341: ("deals", "companies"),
    342: ("companies", "deals"),
    339: ("tickets", "companies"),
    340: ("companies", "tickets"),
    190: ("notes", "companies"),
    189: ("companies", "notes"),
    202: ("notes", "contacts"),
    201: ("contacts", "notes"),
    214: ("notes", "deals"),
    213: ("deals", "notes"),
    228: ("notes", "tickets"),
    227: ("tickets", "notes"),
    192: ("tasks", "companies"),
    191: ("companies", "tasks"),
    204: ("tasks", "contacts"),
    203: ("contacts", "tasks"),
    216: ("tasks", "deals"),
    215: ("deals", "tasks"),
    230: ("tasks", "tickets"),
    229: ("tickets", "tasks"),
    449: ("contacts", "contacts"),
    451: ("deals", "deals"),
    450: ("companies", "companies"),
    452: ("tickets", "tickets"),
}
"""The kinds that an association type links, by its id in HubSpot's guide and SDK."""
CHANGED_AT = dict.fromkeys(KINDS, "hs_lastmodifieddate") | {"contacts": "lastmodifieddate"}
"""The property with the time of a record's last change."""
SHOWN = {
    "contacts": ("email", "firstname", "lastname"),
    "companies": ("domain", "name"),
    "deals": ("amount", "closedate", "dealname", "dealstage", "pipeline"),
    "tickets": (
        "content",
        "hs_pipeline",
        "hs_pipeline_stage",
        "hs_ticket_category",
        "hs_ticket_priority",
        "subject",
    ),
    "notes": (),
    "tasks": (),
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


# The properties of each kind: labels by type and name.
_OF_ALL = {
    "number": {"hs_object_id": "Record ID", "hs_created_by_user_id": "Created by user ID"},
    "datetime": {"createdate": "Create Date"},
    "enumeration": {"hubspot_owner_id": "Owner", "hs_merged_object_ids": "Merged record IDs"},
    "string": {"hs_object_source": "Record creation source"},
}
_OF: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "contacts": {
        "string": {
            "email": "Email",
            "firstname": "First Name",
            "lastname": "Last Name",
            "salutation": "Salutation",
            "phone": "Phone Number",
            "mobilephone": "Mobile Phone Number",
            "fax": "Fax Number",
            "company": "Company Name",
            "jobtitle": "Job Title",
            "website": "Website URL",
            "address": "Street Address",
            "city": "City",
            "state": "State/Region",
            "zip": "Postal Code",
            "country": "Country/Region",
            "message": "Message",
            "date_of_birth": "Date of birth",
            "annualrevenue": "Annual Revenue",
        },
        "phone_number": {
            "hs_searchable_calculated_phone_number": "Calculated Phone Number",
            "hs_searchable_calculated_mobile_number": "Calculated Mobile Number",
        },
        "enumeration": {
            "hs_additional_emails": "Additional email addresses",
            "numemployees": "Number of Employees",
            "hs_language": "Preferred language",
            "lifecyclestage": "Lifecycle Stage",
            "hs_lead_status": "Lead Status",
            "hs_legal_basis": "Legal basis for processing contact's data",
            "hs_persona": "Persona",
        },
        "bool": {"hs_email_optout": "Unsubscribed from all email"},
        "number": {"num_associated_deals": "Number of Associated Deals"},
        "datetime": {"lastmodifieddate": "Last Modified Date", "closedate": "Close Date"},
    },
    "companies": {
        "string": {
            "name": "Company name",
            "domain": "Company Domain Name",
            "phone": "Phone Number",
            "city": "City",
        },
        "datetime": {"hs_lastmodifieddate": "Last Modified Date"},
    },
    "deals": {
        "string": {
            "dealname": "Deal Name",
            "description": "Deal Description",
            "hs_next_step": "Next step",
        },
        "number": {"amount": "Amount", "hs_deal_stage_probability": "Deal probability"},
        "enumeration": {
            "pipeline": "Pipeline",
            "dealstage": "Deal Stage",
            "dealtype": "Deal Type",
            "hs_priority": "Priority",
            "deal_currency_code": "Currency",
        },
        "datetime": {"hs_lastmodifieddate": "Last Modified Date", "closedate": "Close Date"},
        "bool": {"hs_is_closed": "Is Deal Closed?", "hs_is_closed_won": "Is Closed Won"},
    },
    "tickets": {
        "string": {"subject": "Ticket name", "content": "Ticket description"},
        "enumeration": {
            "hs_pipeline": "Pipeline",
            "hs_pipeline_stage": "Ticket status",
            "hs_ticket_priority": "Priority",
            "hs_ticket_category": "Category",
            "source_type": "Source",
        },
        "datetime": {"hs_lastmodifieddate": "Last Modified Date", "closed_date": "Close date"},
    },
    "notes": {
        "string": {"hs_note_body": "Note body"},
        "datetime": {"hs_lastmodifieddate": "Last Modified Date", "hs_timestamp": "Activity date"},
    },
    "tasks": {
        "string": {"hs_task_subject": "Task Title", "hs_task_body": "Task Notes"},
        "enumeration": {
            "hs_task_priority": "Priority",
            "hs_task_status": "Task Status",
            "hs_task_type": "Task Type",
        },
        "datetime": {"hs_lastmodifieddate": "Last Modified Date", "hs_timestamp": "Due date"},
    },
}
_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "numemployees": {one: one for one in ("1-5", "5-25", "25-50", "50-100")},
    "hs_language": {"de": "German", "en": "English", "es": "Spanish", "fr": "French"},
    "lifecyclestage": LIFECYCLE,
    "hs_lead_status": {
        "NEW": "New",
        "OPEN": "Open",
        "IN_PROGRESS": "In Progress",
        "OPEN_DEAL": "Open Deal",
        "UNQUALIFIED": "Unqualified",
        "ATTEMPTED_TO_CONTACT": "Attempted to Contact",
        "CONNECTED": "Connected",
        "BAD_TIMING": "Bad Timing",
    },
    "hs_legal_basis": {
        one: one
        for one in (
            "Legitimate interest – prospect/lead",
            "Freely given consent from contact",
            "Performance of a contract",
            "Not applicable",
        )
    },
    "dealtype": {"newbusiness": "New Business", "existingbusiness": "Existing Business"},
    "hs_priority": {"low": "Low", "medium": "Medium", "high": "High"},
    "deal_currency_code": {"EUR": "Euro", "USD": "US Dollar"},
    "hs_ticket_priority": {"LOW": "Low", "MEDIUM": "Medium", "HIGH": "High", "URGENT": "Urgent"},
    "hs_ticket_category": {
        "PRODUCT_ISSUE": "Product issue",
        "BILLING_ISSUE": "Billing issue",
        "FEATURE_REQUEST": "Feature request",
        "GENERAL_INQUIRY": "General inquiry",
    },
    "hs_task_priority": {"NONE": "None", "LOW": "Low", "MEDIUM": "Medium", "HIGH": "High"},
    "hs_task_status": {"NOT_STARTED": "Not started", "COMPLETED": "Completed"},
    "hs_task_type": {"TODO": "To-do", "CALL": "Call", "EMAIL": "Email"},
    "source_type": {"CHAT": "Chat", "EMAIL": "Email", "FORM": "Form", "PHONE": "Phone"},
}
_FIELD_TYPES_OF = {
    **dict.fromkeys(("phone", "mobilephone", "fax"), "phonenumber"),
    **dict.fromkeys(("message", "description", "content"), "textarea"),
    **dict.fromkeys(("hs_note_body", "hs_task_body"), "html"),
    **dict.fromkeys(("lifecyclestage", "hs_lead_status", "hs_persona"), "radio"),
    **dict.fromkeys(("dealstage", "dealtype"), "radio"),
    **dict.fromkeys(("hs_additional_emails", "hs_merged_object_ids"), "checkbox"),
    **dict.fromkeys(("hs_legal_basis", "hs_ticket_category"), "checkbox"),
}
_HINTS = {
    "email": "email",
    "phone": "phone_number",
    "mobilephone": "phone_number",
    "website": "domain_name",
}
_EXTERNAL = {
    "hubspot_owner_id": "OWNER",
    "pipeline": "PIPELINE",
    "hs_pipeline": "PIPELINE",
    "dealstage": "PIPELINE_STAGE",
    "hs_pipeline_stage": "PIPELINE_STAGE",
}
_READ_ONLY = {
    *("hs_object_id", "hs_created_by_user_id", "createdate", "hs_merged_object_ids"),
    *("hs_object_source", "lastmodifieddate", "hs_lastmodifieddate", "hs_additional_emails"),
    *("hs_searchable_calculated_phone_number", "hs_searchable_calculated_mobile_number"),
    *("hs_email_optout", "num_associated_deals", "hs_deal_stage_probability"),
    *("hs_is_closed", "hs_is_closed_won"),
}


def starter_definitions(kind: str) -> dict[str, Definition]:
    """Return the property definitions of a new account for a kind of record, by name."""
    return {
        name: definition(
            name,
            label,
            type_,
            kind=kind,
            field_type=_FIELD_TYPES_OF.get(name),
            options=_OPTIONS.get(name, {}),
            external=_EXTERNAL.get(name),
            read_only=name in _READ_ONLY,
            hint=_HINTS.get(name),
        )
        for labels in (_OF_ALL, _OF[kind])
        for type_, named in labels.items()
        for name, label in named.items()
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
