"""How an account is connected to Zoho CRM: settings, guides for people, scopes, addresses of OAuth.

Sources: Zoho's pages "OAuth authentication" and "API limits" of the CRM API v8, November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from crmhub.adapter import Guide, OAuth, Setting, Step
from crmhub.adapter.oauth import connect_guide, oauth_settings

CENTRES = ("com", "eu", "uk", "in", "com.au", "com.cn", "jp", "ca", "sa")
"""The data centres of Zoho, as the ends of its addresses."""
_ACCOUNTS = "accounts."
EDITIONS: Mapping[str, tuple[int, int]] = {
    "free": (5_000, 5),
    "standard": (50_000, 10),
    "professional": (50_000, 15),
    "enterprise": (50_000, 20),
    "ultimate": (50_000, 25),
}
"""The credits in 24 hours and the simultaneous calls of each edition.

Paid editions have further credits for each user, so an account may have more.
"""
_MODULES = ("contacts", "deals", "cases", "accounts")
_RIGHTS = ("READ", "CREATE", "UPDATE", "DELETE")
SCOPE = (
    ",".join(f"ZohoCRM.modules.{of}.{right}" for of in _MODULES for right in _RIGHTS)
    + ",ZohoCRM.modules.notes.READ,ZohoCRM.modules.notes.CREATE,ZohoCRM.modules.tasks.READ"
    ",ZohoCRM.modules.tasks.CREATE,ZohoCRM.coql.READ,ZohoCRM.settings.fields.READ,ZohoCRM.settings.layouts.READ"
    ",ZohoCRM.settings.pipeline.READ,ZohoCRM.users.READ,ZohoCRM.notifications.ALL"
)
SCOPES = tuple(SCOPE.split(","))
SETTINGS = (
    Setting(
        "data_centre",
        "Data centre",
        choices=CENTRES,
        default="com",
        help="The end of the address at which you use Zoho CRM, such as eu of crm.zoho.eu."
        " For one that is not in the list, enter the login address.",
    ),
    Setting(
        "edition",
        "Edition",
        choices=tuple(EDITIONS),
        default="standard",
        help="The edition of Zoho CRM, which decides how many calls the hub may make.",
    ),
    Setting(
        "mark_field",
        "Field for the hub's marks",
        help="API name of a text field of contacts, deals and cases, such as crmhub_mark. It"
        " prevents duplicates after a lost answer. Recommended.",
    ),
    Setting(
        "run_workflows",
        "Run workflows, approvals and blueprints",
        "boolean",
        default="true",
        help="Whether Zoho runs them for the records that the hub writes.",
    ),
    Setting(
        "accounts_url",
        "Login address",
        "url",
        help="Only for a data centre that is not in the list, such as https://accounts.zoho.ae.",
    ),
    Setting(
        "webhook_token",
        "Token of the notifications",
        help="Only for a channel that you enable yourself: its token, of at most 50 characters.",
        secret=True,
    ),
    *oauth_settings("Zoho"),
)

_CONSOLE = ("https://api-console.zoho.com/", "Zoho's API console")
_ADD_CLIENT = (
    "In the API console of your data centre, add a client of the type Server-based Applications."
)
_SELF_CLIENT = "In the API console, add a Self Client. Under Generate Code, enter these scopes:"
_EXCHANGE = "Exchange the code for a refresh token within its minutes, and enter the token."
_ADD_FIELD = (
    "Recommended: in Setup > Modules and Fields, add a single-line field with this name to"
    " Contacts, Deals and Cases. Let it not allow duplicate values."
)
_NAME_FIELD = (
    "Enter its API name in the form. By it the hub finds out whether a record was written when an"
    " answer was lost."
)
GUIDES = (
    connect_guide(Step(_ADD_CLIENT, *_CONSOLE), "authorized redirect URI"),
    Guide(
        "With a refresh token",
        (Step(_SELF_CLIENT, *_CONSOLE, codes=(SCOPE,)), Step(_EXCHANGE)),
    ),
    Guide("The field for marks", (Step(_ADD_FIELD, codes=("crmhub_mark",)), Step(_NAME_FIELD))),
)


def oauth(settings: Mapping[str, str]) -> OAuth:
    address = f"{accounts_url(settings)}/oauth/v2"
    more = {"access_type": "offline", "prompt": "consent"}
    return OAuth(f"{address}/auth", f"{address}/token", scopes=(SCOPE,), parameters=more)


def accounts_url(settings: Mapping[str, str]) -> str:
    return settings["accounts_url"].rstrip("/") or f"https://{_ACCOUNTS}{_domain(settings)}"


def api_url(settings: Mapping[str, str]) -> str:
    return f"https://www.zohoapis.{_domain(settings).partition('.')[2]}"


def page_url(settings: Mapping[str, str], tab: str, record_id: str) -> str:
    return f"https://crm.{_domain(settings)}/crm/tab/{tab}/{record_id}"


def _domain(settings: Mapping[str, str]) -> str:
    """Return the domain of the login address, or the setting's if that is not Zoho's, as a fake."""
    host = urlsplit(settings["accounts_url"]).hostname or ""
    if host.startswith(_ACCOUNTS):
        return host.removeprefix(_ACCOUNTS)
    centre = settings["data_centre"]
    return f"zohocloud.{centre}" if centre == "ca" else f"zoho.{centre}"
