"""The properties, pipelines and owners that a new HubSpot account has."""

from __future__ import annotations

from typing import Any

from adapters.fakes.hubspot.answers import iso

Definition = dict[str, Any]

KINDS = ("contacts", "deals", "tickets", "companies")
SINGULAR = {"contacts": "contact", "deals": "deal", "tickets": "ticket", "companies": "company"}
TYPE_IDS = {"contacts": "0-1", "companies": "0-2", "deals": "0-3", "tickets": "0-5"}
GROUPS = {
    "contacts": "contactinformation",
    "deals": "dealinformation",
    "tickets": "ticketinformation",
    "companies": "companyinformation",
}
# The property with the time of a record's last change; contacts have another name for it.
CHANGED_AT = dict.fromkeys(KINDS, "hs_lastmodifieddate") | {"contacts": "lastmodifieddate"}
# The properties in a response to a request that names no properties.
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
    "companies": ("domain", "name"),
}
PIPELINE = {"deals": "pipeline", "tickets": "hs_pipeline"}
STAGE = {"deals": "dealstage", "tickets": "hs_pipeline_stage"}
LIFECYCLE = (
    ("subscriber", "Subscriber"),
    ("lead", "Lead"),
    ("marketingqualifiedlead", "Marketing Qualified Lead"),
    ("salesqualifiedlead", "Sales Qualified Lead"),
    ("opportunity", "Opportunity"),
    ("customer", "Customer"),
    ("evangelist", "Evangelist"),
    ("other", "Other"),
)
_FIRST_DAY = 1_577_836_800_000  # 2020-01-01, when HubSpot's own definitions were made

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
    group: str,
    field_type: str | None = None,
    options: tuple[tuple[str, str], ...] = (),
    external: str | None = None,
    read_only: bool = False,
    unique: bool = False,
    hint: str | None = None,
    sensitivity: str = "non_sensitive",
    own: bool = True,
) -> Definition:
    """Return a property definition with all fields that HubSpot's responses have.

    The parameters are the values of these fields. `options` lists (value, label) pairs. `own` is
    True for a property that HubSpot itself defines, and False for a custom property.
    """
    if type_ == "bool" and not options:
        options = (("true", "Yes"), ("false", "No"))
    hinted = "numberDisplayHint" if type_ == "number" else "textDisplayHint"
    return {
        "name": name,
        "label": label,
        "type": type_,
        "fieldType": field_type or _FIELD_TYPES[type_],
        "groupName": group,
        "description": "",
        "options": [
            {"label": shown, "value": value, "displayOrder": place, "hidden": False}
            for place, (value, shown) in enumerate(options)
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
        "createdAt": iso(_FIRST_DAY),
        "updatedAt": iso(_FIRST_DAY),
        "archived": False,
    }


def _common(kind: str) -> list[Definition]:
    group = GROUPS[kind]
    return [
        definition("hs_object_id", "Record ID", "number", group=group, read_only=True),
        definition("createdate", "Create Date", "datetime", group=group, read_only=True),
        definition(CHANGED_AT[kind], "Last Modified Date", "datetime", group=group, read_only=True),
        definition("hubspot_owner_id", "Owner", "enumeration", group=group, external="OWNER"),
        definition(
            "hs_created_by_user_id", "Created by user ID", "number", group=group, read_only=True
        ),
        definition(
            "hs_merged_object_ids",
            "Merged record IDs",
            "enumeration",
            group=group,
            field_type="checkbox",
            read_only=True,
        ),
        definition("hs_object_source", "Record creation source", group=group, read_only=True),
    ]


def _contacts() -> list[Definition]:
    def of(name: str, label: str, type_: str = "string", **more: Any) -> Definition:
        return definition(name, label, type_, group="contactinformation", **more)

    return [
        of("email", "Email", hint="email"),
        of(
            "hs_additional_emails",
            "Additional email addresses",
            "enumeration",
            field_type="checkbox",
            read_only=True,
        ),
        of("firstname", "First Name"),
        of("lastname", "Last Name"),
        of("salutation", "Salutation"),
        of("phone", "Phone Number", field_type="phonenumber", hint="phone_number"),
        of("mobilephone", "Mobile Phone Number", field_type="phonenumber", hint="phone_number"),
        of("fax", "Fax Number", field_type="phonenumber"),
        of(
            "hs_searchable_calculated_phone_number",
            "Calculated Phone Number",
            "phone_number",
            read_only=True,
        ),
        of(
            "hs_searchable_calculated_mobile_number",
            "Calculated Mobile Number",
            "phone_number",
            read_only=True,
        ),
        of("company", "Company Name"),
        of("jobtitle", "Job Title"),
        of("website", "Website URL", hint="domain_name"),
        of("address", "Street Address"),
        of("city", "City"),
        of("state", "State/Region"),
        of("zip", "Postal Code"),
        of("country", "Country/Region"),
        of("message", "Message", field_type="textarea"),
        of("date_of_birth", "Date of birth"),
        of("annualrevenue", "Annual Revenue"),
        of(
            "numemployees",
            "Number of Employees",
            "enumeration",
            options=(("1-5", "1-5"), ("5-25", "5-25"), ("25-50", "25-50"), ("50-100", "50-100")),
        ),
        of(
            "hs_language",
            "Preferred language",
            "enumeration",
            options=(("de", "German"), ("en", "English"), ("es", "Spanish"), ("fr", "French")),
        ),
        of(
            "lifecyclestage",
            "Lifecycle Stage",
            "enumeration",
            field_type="radio",
            options=LIFECYCLE,
        ),
        of(
            "hs_lead_status",
            "Lead Status",
            "enumeration",
            field_type="radio",
            options=(
                ("NEW", "New"),
                ("OPEN", "Open"),
                ("IN_PROGRESS", "In Progress"),
                ("OPEN_DEAL", "Open Deal"),
                ("UNQUALIFIED", "Unqualified"),
                ("ATTEMPTED_TO_CONTACT", "Attempted to Contact"),
                ("CONNECTED", "Connected"),
                ("BAD_TIMING", "Bad Timing"),
            ),
        ),
        of(
            "hs_legal_basis",
            "Legal basis for processing contact's data",
            "enumeration",
            field_type="checkbox",
            options=(
                ("Legitimate interest – prospect/lead", "Legitimate interest – prospect/lead"),
                ("Freely given consent from contact", "Freely given consent from contact"),
                ("Performance of a contract", "Performance of a contract"),
                ("Not applicable", "Not applicable"),
            ),
        ),
        of("hs_email_optout", "Unsubscribed from all email", "bool", read_only=True),
        of("num_associated_deals", "Number of Associated Deals", "number", read_only=True),
        of("closedate", "Close Date", "datetime"),
        of("hs_persona", "Persona", "enumeration", field_type="radio"),
    ]


def _deals() -> list[Definition]:
    def of(name: str, label: str, type_: str = "string", **more: Any) -> Definition:
        return definition(name, label, type_, group="dealinformation", **more)

    return [
        of("dealname", "Deal Name"),
        of("pipeline", "Pipeline", "enumeration", external="PIPELINE"),
        of("dealstage", "Deal Stage", "enumeration", field_type="radio", external="PIPELINE_STAGE"),
        of("amount", "Amount", "number"),
        of("closedate", "Close Date", "datetime"),
        of("description", "Deal Description", field_type="textarea"),
        of(
            "dealtype",
            "Deal Type",
            "enumeration",
            field_type="radio",
            options=(("newbusiness", "New Business"), ("existingbusiness", "Existing Business")),
        ),
        of(
            "hs_priority",
            "Priority",
            "enumeration",
            options=(("low", "Low"), ("medium", "Medium"), ("high", "High")),
        ),
        of("hs_next_step", "Next step"),
        of(
            "deal_currency_code",
            "Currency",
            "enumeration",
            options=(("EUR", "Euro"), ("USD", "US Dollar")),
        ),
        of("hs_is_closed", "Is Deal Closed?", "bool", read_only=True),
        of("hs_is_closed_won", "Is Closed Won", "bool", read_only=True),
        of("hs_deal_stage_probability", "Deal probability", "number", read_only=True),
    ]


def _tickets() -> list[Definition]:
    def of(name: str, label: str, type_: str = "string", **more: Any) -> Definition:
        return definition(name, label, type_, group="ticketinformation", **more)

    return [
        of("subject", "Ticket name"),
        of("content", "Ticket description", field_type="textarea"),
        of("hs_pipeline", "Pipeline", "enumeration", external="PIPELINE"),
        of("hs_pipeline_stage", "Ticket status", "enumeration", external="PIPELINE_STAGE"),
        of(
            "hs_ticket_priority",
            "Priority",
            "enumeration",
            options=(("LOW", "Low"), ("MEDIUM", "Medium"), ("HIGH", "High"), ("URGENT", "Urgent")),
        ),
        of(
            "hs_ticket_category",
            "Category",
            "enumeration",
            field_type="checkbox",
            options=(
                ("PRODUCT_ISSUE", "Product issue"),
                ("BILLING_ISSUE", "Billing issue"),
                ("FEATURE_REQUEST", "Feature request"),
                ("GENERAL_INQUIRY", "General inquiry"),
            ),
        ),
        of(
            "source_type",
            "Source",
            "enumeration",
            options=(("CHAT", "Chat"), ("EMAIL", "Email"), ("FORM", "Form"), ("PHONE", "Phone")),
        ),
        of("closed_date", "Close date", "datetime"),
    ]


def _companies() -> list[Definition]:
    def of(name: str, label: str, type_: str = "string", **more: Any) -> Definition:
        return definition(name, label, type_, group="companyinformation", **more)

    return [
        of("name", "Company name"),
        of("domain", "Company Domain Name", hint="domain_name"),
        of("phone", "Phone Number", field_type="phonenumber", hint="phone_number"),
        of("address", "Street Address"),
        of("city", "City"),
        of("state", "State/Region"),
        of("zip", "Postal Code"),
        of("country", "Country/Region"),
        of("description", "Description", field_type="textarea"),
        of("website", "Website URL"),
        of("numberofemployees", "Number of Employees", "number"),
        of("annualrevenue", "Annual Revenue", "number"),
        of(
            "industry",
            "Industry",
            "enumeration",
            options=(
                ("COMPUTER_SOFTWARE", "Computer Software"),
                ("INSURANCE", "Insurance"),
                ("RETAIL", "Retail"),
                ("BANKING", "Banking"),
            ),
        ),
        of(
            "lifecyclestage",
            "Lifecycle Stage",
            "enumeration",
            field_type="radio",
            options=LIFECYCLE,
        ),
    ]


_OF = {"contacts": _contacts, "deals": _deals, "tickets": _tickets, "companies": _companies}


def starter_definitions(kind: str) -> dict[str, Definition]:
    """Return the property definitions of a new account for a kind of record, by name."""
    return {definition_["name"]: definition_ for definition_ in (*_common(kind), *_OF[kind]())}


def mark(kind: str) -> Definition:
    """Return the definition of crmhub_mark, a property whose values must be unique.

    The hub writes its mark, a text by which it recognizes a record later, into this property.
    """
    return definition("crmhub_mark", "crmhub mark", group=GROUPS[kind], unique=True, own=False)


def stage(id_: str, label: str, order: int, metadata: dict[str, str], at: str) -> dict[str, Any]:
    """Return a stage of a pipeline in the format of HubSpot's responses.

    `order` is the stage's place in the pipeline. `at` is the time of its creation and last change,
    as text.
    """
    return {
        "id": id_,
        "label": label,
        "displayOrder": order,
        "metadata": metadata,
        "createdAt": at,
        "updatedAt": at,
        "archived": False,
        "writePermissions": "CRM_PERMISSIONS_ENFORCEMENT",
    }


def _pipeline(id_: str, label: str, stages: list[dict[str, Any]]) -> dict[str, Any]:
    at = iso(_FIRST_DAY)
    return {
        "id": id_,
        "label": label,
        "displayOrder": 0,
        "stages": stages,
        "createdAt": at,
        "updatedAt": at,
        "archived": False,
    }


_DEAL_STAGES = (
    ("appointmentscheduled", "Appointment Scheduled", "0.2"),
    ("qualifiedtobuy", "Qualified To Buy", "0.4"),
    ("presentationscheduled", "Presentation Scheduled", "0.6"),
    ("decisionmakerboughtin", "Decision Maker Bought-In", "0.8"),
    ("contractsent", "Contract Sent", "0.9"),
    ("closedwon", "Closed Won", "1.0"),
    ("closedlost", "Closed Lost", "0.0"),
)
_TICKET_STAGES = (
    ("1", "New", "OPEN"),
    ("2", "Waiting on contact", "OPEN"),
    ("3", "Waiting on us", "OPEN"),
    ("4", "Closed", "CLOSED"),
)


def starter_pipelines(kind: str) -> dict[str, dict[str, Any]]:
    """Return the pipelines of a new account for a kind of record, by id."""
    at = iso(_FIRST_DAY)
    if kind == "deals":
        stages = [
            stage(id_, label, place, {"isClosed": _closed(chance), "probability": chance}, at)
            for place, (id_, label, chance) in enumerate(_DEAL_STAGES)
        ]
        return {"default": _pipeline("default", "Sales Pipeline", stages)}
    if kind == "tickets":
        stages = [
            stage(id_, label, place, {"ticketState": state}, at)
            for place, (id_, label, state) in enumerate(_TICKET_STAGES)
        ]
        return {"0": _pipeline("0", "Support Pipeline", stages)}
    return {}


def _closed(probability: str) -> str:
    return "true" if probability in ("0.0", "1.0") else "false"


def starter_owners() -> list[dict[str, Any]]:
    """Return the owners (HubSpot users) of a new account: two active and one archived owner.

    As in HubSpot, the `id` of an owner differs from the `userId`.
    """
    people = (
        ("41629779", "marie@example.com", "Marie", "Curie", 9586504, False),
        ("60158084", "lise@example.com", "Lise", "Meitner", 9586517, False),
        ("60158113", "gone@example.com", "Otto", "Hahn", 9586533, True),
    )
    return [
        {
            "id": id_,
            "email": email,
            "firstName": first,
            "lastName": last,
            "type": "PERSON",
            **({} if archived else {"userId": user}),
            "userIdIncludingInactive": user,
            "createdAt": iso(_FIRST_DAY),
            "updatedAt": iso(_FIRST_DAY),
            "archived": archived,
            "teams": [{"id": "178588", "name": "Sales", "primary": True}],
        }
        for id_, email, first, last, user, archived in people
    ]
