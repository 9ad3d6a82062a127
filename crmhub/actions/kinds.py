"""The helpers whose calls the journal keeps, by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crmhub.actions.contact_properties import SetProperties
from crmhub.actions.deals_and_tickets import CreateDeal, CreateTicket
from crmhub.actions.dispatch import Action
from crmhub.actions.leads import CreateLead

HELPERS: dict[str, type[Action]] = {
    one.kind: one for one in (CreateLead, SetProperties, CreateDeal, CreateTicket)
}


def action_of(helper: str, request: Mapping[str, Any]) -> Action:
    """Return the action that the journal keeps of a helper's call."""
    return HELPERS[helper](**request)
