"""How an account is connected to Pipedrive: scopes, settings, and guides for people.

Sources: Pipedrive's pages on the API token, on OAuth and on rate limits, August 2026.
"""

from __future__ import annotations

from crmhub.adapter import Guide, Setting, Step
from crmhub.adapter.oauth import connect_guide, oauth_settings

SCOPES = ("base", "contacts:full", "deals:full", "users:read", "webhooks:full")
_DOCS, _HELP = "https://pipedrive.readme.io/docs", "https://support.pipedrive.com/en/article"
_SITE = "Such as https://acme.pipedrive.com. Not needed with the Connect button."
_MARK = (
    "Name or API key of a custom text field of people and deals. It prevents duplicates after a"
    " lost answer. Optional."
)
_SUPPORT = "Name or id. Pipedrive has no tickets; they become deals in this pipeline. Optional."
_TOKENS = "30,000 for each seat, times 2 on Growth, 5 on Premium, 7 on Ultimate."
_OAUTH, _OAUTH_HELP = "https://oauth.pipedrive.com", "Another one only for a fake Pipedrive."
_HOOK = "Only for webhooks that you create yourself: the password of the user crmhub in them."
_TOKEN = "Of a user who sees all people. Or fill in the OAuth fields below."
SETTINGS = (
    Setting("base_url", "Company address", "url", _SITE),
    Setting("mark_field", "Field for the hub's marks", help=_MARK),
    Setting("support_pipeline", "Pipeline for tickets", help=_SUPPORT),
    Setting("daily_tokens", "API tokens per day", "integer", _TOKENS, default="30000"),
    Setting("oauth_url", "OAuth address", "url", _OAUTH_HELP, default=_OAUTH),
    Setting("api_token", "API token", help=_TOKEN, secret=True),
    Setting("webhook_password", "Password of the webhooks", help=_HOOK, secret=True),
    *oauth_settings("Pipedrive"),
)
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
    Guide(
        "Webhooks, for a copy of Pipedrive",
        (
            Step(
                "The hub creates them itself, if it knows its public https address, and the token's"
                " user or the app (scope webhooks:full) may do so. Else do it yourself:"
            ),
            Step(
                "In Settings > Tools and apps > Webhooks, create webhooks for all actions on"
                " Person, Organization and Deal, with the address that crmhub sync status prints.",
                f"{_DOCS}/guide-for-webhooks-v2",
                "Pipedrive on webhooks",
            ),
            Step(
                "Enter this HTTP Auth username, and a long password that you also enter in the form"
                " as the password of the webhooks.",
                codes=("crmhub",),
            ),
        ),
    ),
)
