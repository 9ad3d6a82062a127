"""The helpers and other actions that the journal stores, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crmhub.helpers.assign_owner import AssignOwner
from crmhub.helpers.attempts import Action
from crmhub.helpers.contact_properties import SetProperties
from crmhub.helpers.create_lead import CreateLead
from crmhub.helpers.create_linked import CreateDeal, CreateTicket
from crmhub.helpers.create_task import CreateTask
from crmhub.helpers.notes import AddNote
from crmhub.helpers.record_writes import WRITE_OF_KIND

HELPERS: dict[str, type[Action]] = {
    one.kind: one for one in (CreateLead, SetProperties, CreateDeal, CreateTicket)
}
"""The helpers that write the properties which bots send."""
CALLS: dict[str, type[Action]] = {
    **HELPERS,
    **{one.kind: one for one in (AddNote, CreateTask, AssignOwner)},
}
ACTIONS: dict[str, type[Action]] = {**CALLS, **{one.kind: one for one in WRITE_OF_KIND.values()}}
"""The actions that the journal stores: the helpers' calls, and writes of single records."""


def action_of(kind: str, request: Mapping[str, Any]) -> Action:
    return ACTIONS[kind](**request)
