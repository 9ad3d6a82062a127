"""Which page of the documents helps with each page and each field of the console."""

from __future__ import annotations

import flask

from crmhub.api import documents

_CONSOLE = "operator/console/"
PAGES = {
    "home": "first-steps/",
    "account": "operator/account-settings/",
    "accounts": "operator/#accounts",
    "new_account": "first-steps/",
    "crm": "operator/crm/",
    "crm_copy": "operator/copies/",
    "fieldmap": "operator/field-map/",
    "bots": "bot-builder/",
    "teams": "operator/teams/",
    "keys": "integrator/#your-first-request-the-api-key-in-service-apikey",
    "properties": "integrator/properties/",
    "records": "integrator/records/",
    "events": "operator/events/",
    "imports": "operator/csv/",
    "duplicates": "operator/duplicates/",
    "activity": "operator/actions/",
    "charts": "operator/actions/",
    "action": "operator/actions/",
    "contact": "operator/actions/",
    "causes": "operator/actions/#why-leads-fail-and-fixing-all-of-them-at-once",
    "cause": "operator/actions/#why-leads-fail-and-fixing-all-of-them-at-once",
    "audit_log": "operator/audit/",
    "users": "operator/console/#roles-and-accounts",
    "tokens": "operator/admin-api/#admin-tokens",
    "workers": "operator/workers/",
    "plans": "integrator/errors/#rate-limits",
    "alerts": "operator/alerts/",
    "profile_second_factor": "operator/console/#second-factor",
    "sign_in": "operator/runbook/#nobody-can-sign-in",
    "setup": "operator/console/#the-first-user",
}
"""By endpoint; one that is missing has the page of its first word, or the page on the console."""

FIELDS = {
    "plan": "integrator/errors/#rate-limits",
    "lead_requires": "bots/contacts/#which-contact-a-lead-means",
    "deadline_s": "bot-builder/#queued-the-crm-is-slow-or-unavailable",
    "strict": "bot-builder/#the-answer",
    "soft_errors": "bot-builder/#errors",
    "require_secret": "bot-builder/#send-a-lead",
    "bare_tokens": "bot-builder/#all-helpers",
    "blank_clears": "bots/values/#empty-variables",
    "phone_identifies": "bots/contacts/#which-contact-a-lead-means",
    "auto_define_properties": "integrator/records/#values",
    "region": "bots/values/#how-values-are-read",
    "account.language": "bots/values/#how-values-are-read",
    "profile.language": "operator/console/",
    "account.rotation": "bots/owners/#agents-in-turn-by-number-getrandomint",
    "portal_alias": "operator/account-settings/",
    "answer_format": "bot-builder/#answers-for-chatfuel-and-manychat",
    "allowed_origins": "bot-builder/#widgets-on-a-website-cors",
    "setting.mark_property": "operator/crm/#marks",
    "setting.mark_field": "operator/crm/#marks",
    "mirror_every_s": "operator/copies/#how-often",
    "teams.rotation": "operator/teams/#owners-by-hours-and-capacity",
    "fallback": "operator/teams/#owners-by-hours-and-capacity",
    "url": "integrator/events/#verify-the-signature-of-a-webhook",
    "role": "operator/console/#roles-and-accounts",
    "scopes": "integrator/#your-first-request-the-api-key-in-service-apikey",
    "queued": "operator/crm/",
}
"""By the name of the field; one that means something else on another page begins with its page."""


def _page() -> str:
    """Return the endpoint of the present page; "" on an unknown path."""
    return (flask.request.endpoint or "").removeprefix("console.")


def of_page(adapter: str = "") -> str:
    """Return the address of the document for the present page.

    `adapter`: a CRM's adapter, whose own page is returned if the documents have one.
    """
    if adapter and documents.has_page(f"crms/{adapter}"):
        return f"{documents.PREFIX}/crms/{adapter}/"
    name = _page()
    return f"{documents.PREFIX}/{PAGES.get(name) or PAGES.get(name.split('_')[0]) or _CONSOLE}"


def of_field(name: str) -> str:
    """Return the address of what the documents say about a field of the present page, or ""."""
    found = FIELDS.get(f"{_page().split('_')[0]}.{name}") or FIELDS.get(name)
    return f"{documents.PREFIX}/{found}" if found else ""
