"""How an account is connected to HubSpot: settings, guides for people, scopes, and OAuth.

Sources: HubSpot's pages "Make API requests using a service key" and "Working with OAuth", and its
description of the token endpoint (`oauth/2026-09`), November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping

from crmhub.adapter import Guide, Kind, OAuth, Setting, Step
from crmhub.adapter.oauth import connect_guide, oauth_settings

SCOPES: Mapping[Kind, tuple[str, str]] = {
    "contacts": ("crm.objects.contacts.read", "crm.objects.contacts.write"),
    "deals": ("crm.objects.deals.read", "crm.objects.deals.write"),
    "tickets": ("tickets", "tickets"),
}
"""The rights of a token to read and to write records."""
OWNERS_SCOPE = "crm.objects.owners.read"
_NEEDED = tuple(dict.fromkeys([*(one for pair in SCOPES.values() for one in pair), OWNERS_SCOPE]))
_OF_COPIES = ("crm.objects.companies.read", "crm.objects.companies.write")
_API = "https://api.hubapi.com"
_DOCS = "https://developers.hubspot.com/docs/apps/developer-platform/build-apps/authentication"

_TOKEN_HELP = "From a HubSpot service key or private app. Or fill in the OAuth fields below."

SETTINGS = (
    Setting("base_url", "API address", "url", default=_API),
    Setting(
        "api_version",
        "API version",
        choices=("2026-09", "2026-03", "v3"),
        default="2026-09",
        help="HubSpot supports a dated version for 18 months: 2026-09 until March 2028, 2026-03"
        " until September 2027. v3 ends in September 2027, and v4, by which v3 reads links between"
        " records, on 30 March 2027.",
    ),
    Setting(
        "mark_property",
        "Property for the hub's marks",
        default="crmhub_mark",
        help="Internal name of a text property of contacts, deals and tickets. It prevents"
        " duplicates after a lost answer. Optional.",
    ),
    Setting("access_token", "Access token", help=_TOKEN_HELP, secret=True),
    *oauth_settings("HubSpot"),
    Setting(
        "webhook_secret",
        "Client secret for webhooks",
        help="Of the HubSpot app that sends webhooks to the hub. With OAuth, the client secret"
        " above is used without it. Optional.",
        secret=True,
    ),
)

GUIDES = (
    Guide(
        "With an access token",
        (
            Step(
                "In HubSpot, open Development > Keys > Service keys and create a service key."
                " You must be a super admin or have the permission Developer tools access.",
                f"{_DOCS}/account-service-keys",
                "HubSpot on service keys",
            ),
            Step("Add these scopes:", codes=_NEEDED),
            Step("For companies in a copy of the CRM, add these too:", codes=_OF_COPIES),
            Step("Copy the key into the field Access token. The token of a private app works too."),
        ),
    ),
    connect_guide(
        Step(
            "Once for all your customers: create an app with OAuth in HubSpot's developer"
            " platform.",
            f"{_DOCS}/oauth/working-with-oauth",
            "HubSpot on OAuth",
        ),
        "redirect URL",
        ("oauth", *_NEEDED, *_OF_COPIES),
    ),
    Guide(
        "The property for marks",
        (
            Step(
                "Recommended: in Settings > Properties, create a single-line text property with"
                " this internal name for contacts, deals and tickets. Require unique values.",
                "https://knowledge.hubspot.com/properties/create-and-edit-properties",
                "HubSpot on properties",
                codes=("crmhub_mark",),
            ),
            Step("By it the hub finds out whether a record was written when an answer was lost."),
        ),
    ),
)


def oauth(settings: Mapping[str, str]) -> OAuth:
    api = settings["base_url"].rstrip("/")
    # HubSpot's page for people is on another host; any other API, such as a fake, has it itself.
    return OAuth(
        authorize_url=f"{'https://app.hubspot.com' if api == _API else api}/oauth/authorize",
        token_url=f"{api}/oauth/{settings['api_version']}/token",
        scopes=("oauth", *_NEEDED, *_OF_COPIES),
        account_field="hub_id",
        replaces=("access_token",),
    )
