"""The properties and pipelines that a new account starts with, named as in HubSpot.

Properties whose options differ between companies (owners, personas, industries) are strings here,
so that no value is refused. `createdate`, `lastmodifieddate` and `hs_object_id` are fields of the
record. None is read-only, because the hub computes no values.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from crmhub.properties.definitions import Pipeline, Property, Stage
from crmhub.properties.values import Option


def _P(name: str, label: str, type: str, description: str = "", **more: Any) -> Property:
    return Property(0, name, label, type, description, built_in=True, **more)


def _options(text: str) -> tuple[Option, ...]:
    """Return the options of a text such as "low=Low; high=High"."""
    return tuple(Option(*option.split("=")) for option in text.split("; "))


_LIFECYCLE_STAGES = _options(
    "subscriber=Subscriber; lead=Lead; marketingqualifiedlead=Marketing Qualified Lead; "
    "salesqualifiedlead=Sales Qualified Lead; opportunity=Opportunity; customer=Customer; "
    "evangelist=Evangelist; other=Other"
)
_LEAD_STATUSES = _options(
    "NEW=New; OPEN=Open; IN_PROGRESS=In Progress; OPEN_DEAL=Open Deal; "
    "UNQUALIFIED=Unqualified; ATTEMPTED_TO_CONTACT=Attempted to Contact; CONNECTED=Connected; "
    "BAD_TIMING=Bad Timing"
)
_BUYING_ROLES = _options(
    "BLOCKER=Blocker; BUDGET_HOLDER=Budget Holder; CHAMPION=Champion; "
    "DECISION_MAKER=Decision Maker; END_USER=End User; EXECUTIVE_SPONSOR=Executive Sponsor; "
    "INFLUENCER=Influencer; LEGAL_AND_COMPLIANCE=Legal & Compliance; OTHER=Other"
)
_DEAL_TYPES = _options("newbusiness=New Business; existingbusiness=Existing Business")
_DEAL_PRIORITIES = _options("low=Low; medium=Medium; high=High")
_FORECAST_CATEGORIES = _options(
    "OMIT=Not forecasted; PIPELINE=Pipeline; BEST_CASE=Best case; COMMIT=Commit; CLOSED=Closed won"
)
_COMPANY_TYPES = _options(
    "PROSPECT=Prospect; PARTNER=Partner; RESELLER=Reseller; VENDOR=Vendor; OTHER=Other"
)
_TICKET_PRIORITIES = _options("LOW=Low; MEDIUM=Medium; HIGH=High; URGENT=Urgent")
_TICKET_CATEGORIES = _options(
    "PRODUCT_ISSUE=Product issue; BILLING_ISSUE=Billing issue; "
    "FEATURE_REQUEST=Feature request; GENERAL_INQUIRY=General inquiry"
)
_TICKET_SOURCES = _options("CHAT=Chat; EMAIL=Email; FORM=Form; PHONE=Phone")

# The same on every kind of record.
_OWNER = _P("hubspot_owner_id", "Owner", "string", "Id of the person the record is assigned to")
_TEAM = _P("hubspot_team_id", "Team", "string", "Id of the owner's team")
_LAST_CONTACTED = _P(
    "notes_last_contacted", "Last contacted", "datetime", "When somebody was last in touch"
)
_NEXT_ACTIVITY = _P(
    "notes_next_activity_date", "Next activity date", "datetime", "When somebody will be in touch"
)

_CONTACTS = (
    _P("firstname", "First name", "string"),
    _P("lastname", "Last name", "string"),
    _P("email", "Email", "email", "Identifies the contact: no two have the same", unique=True),
    _P("phone", "Phone number", "phone"),
    _P("mobilephone", "Mobile phone number", "phone"),
    _P("hs_whatsapp_phone_number", "WhatsApp phone number", "phone"),
    _P("fax", "Fax number", "phone"),
    _P("work_email", "Work email", "email", "A second address; it identifies nobody"),
    _P("salutation", "Salutation", "string"),
    _P("gender", "Gender", "string"),
    _P("date_of_birth", "Date of birth", "string", "As the contact writes it"),
    _P("marital_status", "Marital status", "string"),
    _P("relationship_status", "Relationship status", "string"),
    _P("company", "Company name", "string"),
    _P("jobtitle", "Job title", "string"),
    _P("job_function", "Job function", "string"),
    _P("seniority", "Seniority", "string"),
    _P("industry", "Industry", "string"),
    _P("annualrevenue", "Annual revenue", "string", "Of the contact's company, in any words"),
    _P("numemployees", "Number of employees", "string", "A number or a range, such as 5-25"),
    _P("company_size", "Company size", "string"),
    _P("website", "Website URL", "url"),
    _P("address", "Street address", "string"),
    _P("city", "City", "string"),
    _P("state", "State or region", "string"),
    _P("zip", "Postal code", "string"),
    _P("country", "Country or region", "string"),
    _P("hs_language", "Preferred language", "string", "A language code, such as en or pt-br"),
    _P("hs_timezone", "Time zone", "string"),
    _P(
        "lifecyclestage",
        "Lifecycle stage",
        "enumeration",
        "How far the contact has come towards being a customer",
        options=_LIFECYCLE_STAGES,
    ),
    _P(
        "hs_lead_status",
        "Lead status",
        "enumeration",
        "What sales has done about the lead",
        options=_LEAD_STATUSES,
    ),
    _P(
        "hs_buying_role",
        "Buying role",
        "multi_enumeration",
        "The parts the contact plays in a sale",
        options=_BUYING_ROLES,
    ),
    _P("hs_persona", "Persona", "string"),
    _P("hubspotscore", "Score", "number"),
    _OWNER,
    _TEAM,
    _P("message", "Message", "text", "What the contact wrote to you"),
    _P("closedate", "Close date", "datetime", "When the contact became a customer"),
    _P("total_revenue", "Total revenue", "currency", "Of all deals won with the contact"),
    _P("hs_email_optout", "Unsubscribed from all email", "bool"),
    _LAST_CONTACTED,
    _NEXT_ACTIVITY,
    _P("twitterhandle", "X (Twitter) username", "string"),
    _P("twitterbio", "X (Twitter) bio", "text"),
    _P("hs_linkedin_url", "LinkedIn URL", "url"),
    _P("linkedinbio", "LinkedIn bio", "text"),
    _P("school", "School", "string"),
    _P("degree", "Degree", "string"),
    _P("field_of_study", "Field of study", "string"),
    _P("graduation_date", "Graduation date", "string"),
    _P("start_date", "Start date", "string", "Of the contact's present job"),
    _P("hs_google_click_id", "Google ad click id", "string"),
    _P("hs_facebook_click_id", "Facebook ad click id", "string"),
)

_DEALS = (
    _P("dealname", "Deal name", "string", required=True),
    _P(
        "pipeline",
        "Pipeline",
        "enumeration",
        "The pipeline the deal goes through",
        options_from="pipelines",
    ),
    _P(
        "dealstage",
        "Deal stage",
        "enumeration",
        "The stage the deal has reached in its pipeline",
        options_from="stages",
    ),
    _P("amount", "Amount", "currency"),
    _P("deal_currency_code", "Currency", "string", "Of the amounts: an ISO 4217 code like EUR"),
    _P("amount_in_home_currency", "Amount in company currency", "currency"),
    _P("closedate", "Close date", "datetime", "When the deal was or should be closed"),
    _P("dealtype", "Deal type", "enumeration", options=_DEAL_TYPES),
    _P("description", "Deal description", "text"),
    _OWNER,
    _TEAM,
    _P("hs_priority", "Priority", "enumeration", options=_DEAL_PRIORITIES),
    _P("hs_next_step", "Next step", "text"),
    _P("closed_won_reason", "Closed won reason", "text"),
    _P("closed_lost_reason", "Closed lost reason", "text"),
    _P(
        "hs_manual_forecast_category",
        "Forecast category",
        "enumeration",
        options=_FORECAST_CATEGORIES,
    ),
    _P("hs_forecast_probability", "Forecast probability", "number", "Between 0 and 1"),
    _P("hs_acv", "Annual contract value", "currency"),
    _P("hs_arr", "Annual recurring revenue", "currency"),
    _P("hs_mrr", "Monthly recurring revenue", "currency"),
    _P("hs_tcv", "Total contract value", "currency"),
    _LAST_CONTACTED,
    _NEXT_ACTIVITY,
)

_COMPANIES = (
    _P("name", "Company name", "string", required=True),
    _P("domain", "Company domain name", "string", "The host of its website, like example.com"),
    _P("website", "Website URL", "url"),
    _P("industry", "Industry", "string"),
    _P("type", "Type", "enumeration", options=_COMPANY_TYPES),
    _P("description", "Description", "text"),
    _P("about_us", "About us", "text"),
    _P("numberofemployees", "Number of employees", "number"),
    _P("annualrevenue", "Annual revenue", "currency"),
    _P("total_revenue", "Total revenue", "currency", "Of all deals won with the company"),
    _P("total_money_raised", "Total money raised", "string"),
    _P("founded_year", "Year founded", "string"),
    _P("is_public", "Is public", "bool", "Its shares are traded publicly"),
    _P("phone", "Phone number", "phone"),
    _P("address", "Street address", "string"),
    _P("address2", "Street address 2", "string"),
    _P("city", "City", "string"),
    _P("state", "State or region", "string"),
    _P("zip", "Postal code", "string"),
    _P("country", "Country or region", "string"),
    _P("timezone", "Time zone", "string"),
    _P(
        "lifecyclestage",
        "Lifecycle stage",
        "enumeration",
        "How far the company has come towards being a customer",
        options=_LIFECYCLE_STAGES,
    ),
    _P(
        "hs_lead_status",
        "Lead status",
        "enumeration",
        "What sales has done about the lead",
        options=_LEAD_STATUSES,
    ),
    _P("closedate", "Close date", "datetime", "When the company became a customer"),
    _OWNER,
    _TEAM,
    _P("web_technologies", "Web technologies", "string"),
    _P("linkedin_company_page", "LinkedIn company page", "url"),
    _P("linkedinbio", "LinkedIn bio", "text"),
    _P("facebook_company_page", "Facebook company page", "url"),
    _P("twitterhandle", "X (Twitter) username", "string"),
    _P("twitterbio", "X (Twitter) bio", "text"),
    _LAST_CONTACTED,
    _NEXT_ACTIVITY,
)

_TICKETS = (
    _P("subject", "Ticket name", "string", required=True),
    _P("content", "Ticket description", "text"),
    _P(
        "hs_pipeline",
        "Pipeline",
        "enumeration",
        "The pipeline the ticket goes through",
        options_from="pipelines",
    ),
    _P(
        "hs_pipeline_stage",
        "Ticket status",
        "enumeration",
        "The stage the ticket has reached in its pipeline",
        options_from="stages",
    ),
    _P(
        "hs_ticket_priority",
        "Priority",
        "enumeration",
        options=_TICKET_PRIORITIES,
        any_case=True,
    ),
    _P("hs_ticket_category", "Category", "multi_enumeration", options=_TICKET_CATEGORIES),
    _P("source_type", "Source", "enumeration", options=_TICKET_SOURCES),
    _P("hs_resolution", "Resolution", "text"),
    _P("closed_date", "Close date", "datetime"),
    _P("first_agent_reply_date", "First agent response date", "datetime"),
    _P("last_reply_date", "Last customer reply date", "datetime"),
    _P("hs_file_upload", "File upload", "string", "Addresses or ids of the files"),
    _OWNER,
    _TEAM,
    _LAST_CONTACTED,
    _NEXT_ACTIVITY,
)

DEFAULT_PROPERTIES: Mapping[str, tuple[Property, ...]] = MappingProxyType(
    {"contacts": _CONTACTS, "deals": _DEALS, "companies": _COMPANIES, "tickets": _TICKETS}
)

DEFAULT_PIPELINES: Mapping[str, tuple[Pipeline, ...]] = MappingProxyType(
    {
        "deals": (
            Pipeline(
                "default",
                "Sales Pipeline",
                (
                    Stage("appointmentscheduled", "Appointment Scheduled", "0.2"),
                    Stage("qualifiedtobuy", "Qualified To Buy", "0.4"),
                    Stage("presentationscheduled", "Presentation Scheduled", "0.6"),
                    Stage("decisionmakerboughtin", "Decision Maker Bought-In", "0.8"),
                    Stage("contractsent", "Contract Sent", "0.9"),
                    Stage("closedwon", "Closed Won", "1.0", closed=True),
                    Stage("closedlost", "Closed Lost", "0.0", closed=True),
                ),
            ),
        ),
        "tickets": (
            Pipeline(
                "0",
                "Support Pipeline",
                (
                    Stage("1", "New"),
                    Stage("2", "Waiting on contact"),
                    Stage("3", "Waiting on us"),
                    Stage("4", "Closed", closed=True),
                ),
            ),
        ),
    }
)
