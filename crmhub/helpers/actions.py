"""The helpers whose calls the journal stores, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crmhub.helpers.attempts import Action
from crmhub.helpers.contact_properties import SetProperties
from crmhub.helpers.create_lead import CreateLead
from crmhub.helpers.create_linked import CreateDeal, CreateTicket

HELPERS: dict[str, type[Action]] = {
    one.kind: one for one in (CreateLead, SetProperties, CreateDeal, CreateTicket)
}


def action_of(helper: str, request: Mapping[str, Any]) -> Action:
    return HELPERS[helper](**request)
