"""The names of properties that bots send to every CRM: those of HubSpot, with examples."""

from __future__ import annotations

from collections.abc import Mapping

from crmhub.adapter.values import Written

BOT_NAMES: Mapping[Written, Mapping[str, str]] = {
    "contacts": {
        "email": "ada@example.com",
        "phone": "+12025550188",
        "firstname": "Ada",
        "lastname": "Lovelace",
        "mobilephone": "+12025550189",
        "jobtitle": "Engineer",
        "company": "Analytical Engines",
        "website": "https://example.com/",
        "address": "12 St James's Square",
        "city": "London",
        "state": "England",
        "zip": "SW1Y 4JH",
        "country": "United Kingdom",
        "lifecyclestage": "lead",
        "hs_lead_status": "NEW",
        "hubspot_owner_id": "7",
    },
    "deals": {
        "dealname": "An engine",
        "amount": "1250",
        "pipeline": "default",
        "dealstage": "qualifiedtobuy",
        "closedate": "2031-01-31",
        "dealtype": "newbusiness",
        "description": "With cards",
        "hubspot_owner_id": "7",
    },
    "tickets": {
        "subject": "It is broken",
        "content": "Please call",
        "hs_pipeline": "0",
        "hs_pipeline_stage": "1",
        "hs_ticket_priority": "HIGH",
        "hs_ticket_category": "PRODUCT_ISSUE",
        "hubspot_owner_id": "7",
    },
}
"""Examples of values by name. An adapter stores each property, or refuses it by this name."""
