"""How an account is connected to Pipedrive: settings, guides for people, and OAuth.

Sources: Pipedrive's pages on the API token, on OAuth and on rate limits, August 2026.
"""

from __future__ import annotations

from collections.abc import Mapping

from crmhub.adapter import Guide, OAuth, Problem, Setting, Step
from crmhub.adapter.oauth import connect_guide, oauth_settings, token_or_oauth

SCOPES = ("base", "contacts:full", "deals:full", "users:read")
"""The scopes (rights of an app) that the adapter needs."""

SETTINGS = (
    Setting(
        "base_url",
        "Company address",
        "url",
        help="Such as https://acme.pipedrive.com. Not needed with the Connect button.",
    ),
    Setting(
        "mark_field",
        "Field for the hub's marks",
        help="Name or API key of a custom text field of people and deals. It prevents duplicates"
        " after a lost answer. Optional.",
    ),
    Setting(
        "support_pipeline",
        "Pipeline for tickets",
        help="Name or id. Pipedrive has no tickets; they become deals in this pipeline. Optional.",
    ),
    Setting(
        "daily_tokens",
        "API tokens per day",
        "integer",
        help="30,000 for each seat, times 2 on Growth, 5 on Premium, 7 on Ultimate.",
        default="30000",
    ),
    Setting(
        "oauth_url",
        "OAuth address",
        "url",
        help="Another one only for a fake Pipedrive.",
        default="https://oauth.pipedrive.com",
    ),
    Setting(
        "api_token",
        "API token",
        help="Of a user who sees all people. Or fill in the OAuth fields below.",
        secret=True,
    ),
    *oauth_settings("Pipedrive"),
)

_DOCS = "https://pipedrive.readme.io/docs"
_HELP = "https://support.pipedrive.com/en/article"
GUIDES = (
    Guide(
        "With an API token",
        (
            Step(
                "In Pipedrive, open your account menu, Company settings > Personal preferences >"
                " API, and copy the token into the field API token.",
                f"{_DOCS}/how-to-find-the-api-token",
                "Pipedrive on the API token",
            ),
            Step("The token has the rights of its user, who must see and edit all people."),
        ),
    ),
    connect_guide(
        Step(
            "Once for all your customers: create an app in Pipedrive's Developer Hub.",
            f"{_DOCS}/marketplace-creating-a-proper-app",
            "Pipedrive on apps",
        ),
        "callback URL",
        SCOPES,
    ),
    Guide(
        "The field for marks",
        (
            Step(
                "Recommended: in Company settings > Data fields, add a custom field of the type"
                " Text to people and to deals, and enter its name as the field for marks.",
                f"{_HELP}/custom-fields",
                "Pipedrive on custom fields",
                codes=("crmhub mark",),
            ),
            Step("By it the hub finds out whether a record was written when an answer was lost."),
        ),
    ),
)
"""What a person does in Pipedrive before an account is connected."""


def clash(settings: Mapping[str, str], credentials: Mapping[str, str]) -> Problem | str:
    if refused := token_or_oauth(credentials, "api_token"):
        return refused
    if credentials["api_token"] and not settings["base_url"]:
        return Problem("base_url", "Enter your company's address, https://COMPANY.pipedrive.com.")
    return ""


def oauth(settings: Mapping[str, str]) -> OAuth:
    """Pipedrive takes the scopes from the app, and ignores those of the request."""
    url = f"{settings['oauth_url'].rstrip('/')}/oauth"
    return OAuth(
        authorize_url=f"{url}/authorize",
        token_url=f"{url}/token",
        scopes=SCOPES,
        client_auth="basic",
        account_field="api_domain",
        replaces=("api_token",),
    )
