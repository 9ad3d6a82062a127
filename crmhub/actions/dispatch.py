"""The one way a writing helper takes to the CRM.

Every action is a value that knows how to perform itself on a connected adapter, so whatever has
to surround the call (where it is recorded, when it is tried again) has one place: here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from crmhub.accounts.accounts import Account
from crmhub.actions.connecting import connect, told
from crmhub.actions.hub import Hub
from crmhub.adapter import Adapter, Problem

Status = Literal["created", "updated", "unchanged", "queued", "ok"]


@dataclass(frozen=True, slots=True)
class Done:
    """What became of an action; what is empty does not apply."""

    status: Status
    contact_id: str = ""
    record_id: str = ""
    url: str | None = None
    """The record's page, None where the CRM has no pages."""
    refused: tuple[Problem, ...] = ()


class Action(Protocol):
    """A writing helper's call, checked as far as it can be without the CRM."""

    def perform(self, hub: Hub, account: Account, adapter: Adapter) -> Done:
        """Do it in the CRM; raises the adapter's errors and HubError."""


def run(hub: Hub, account: Account, action: Action) -> Done:
    """Perform an action now and return what became of it.

    Raises NotFound, Semantic and Conflict for what the caller can mend, Unavailable for what
    the CRM or the operator must.
    """
    with told(account):
        return action.perform(hub, account, connect(hub, account))
