"""What pages show of persons, actions and addresses, as far as the user's role allows.

All names that activity pages show come from here, and all actions with what a bot has sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from crmhub.api.http.authentication import hub
from crmhub.console.sessions import signed_in
from crmhub.events.subscriptions import Subscription
from crmhub.identity.contact_names import ContactName
from crmhub.operators.actions import action_queries
from crmhub.operators.actions.action_queries import Full, Summary
from crmhub.operators.actions.personal_data import hide_in_action
from crmhub.operators.crm.copy_crm import CopyState
from crmhub.operators.crm.crm_states import CrmState
from crmhub.queue.hidden_values import hide_in_text


def names_of(actions: Sequence[Summary]) -> dict[str, ContactName]:
    """Return the known names of the contacts of actions, by action id; none without the right."""
    return action_queries.names_of(hub().database, actions) if signed_in().may("data") else {}


def visible_action(action: Full) -> Full:
    return action if signed_in().may("data") else hide_in_action(action)


def visible_states(states: Mapping[int, list[CrmState]]) -> dict[int, list[CrmState]]:
    return {
        account_id: [replace(one, reason=visible_text(one.reason)) for one in several]
        for account_id, several in states.items()
    }


def visible_copies(copies: Sequence[CopyState]) -> list[CopyState]:
    return [
        replace(one, failure=visible_text(one.failure), warning=visible_text(one.warning))
        for one in copies
    ]


def visible_text(text: str) -> str:
    return text if signed_in().may("data") else hide_in_text(text)


def visible_url(subscription: Subscription) -> str:
    """Hide the URL's path, which may contain a secret, from users who may not change."""
    if signed_in().may("change"):
        return subscription.url
    parts = urlsplit(subscription.url)
    return f"{parts.scheme}://{parts.netloc}/…"
