"""createDeal and createTicket: a record for a contact, never without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crmhub.accounts.accounts import Account
from crmhub.actions import bindings, dispatch
from crmhub.actions.dispatch import Done
from crmhub.actions.hub import Hub
from crmhub.actions.inputs import Sent, filled, usable
from crmhub.actions.partial import PLACES, refusal, store_what_is_good
from crmhub.adapter import Adapter, Linked, Problem, contract
from crmhub.errors import NotFound

_TITLES: Mapping[Linked, str] = {"deals": "dealname", "tickets": "subject"}


def create_deal(hub: Hub, account: Account, *, contact_id: str, properties: Sent) -> Done:
    """Create a deal for the contact; see `_create`."""
    return _create(hub, account, "deals", contact_id, properties)


def create_ticket(hub: Hub, account: Account, *, contact_id: str, properties: Sent) -> Done:
    """Create a ticket for the contact; see `_create`."""
    return _create(hub, account, "tickets", contact_id, properties)


def _create(hub: Hub, account: Account, kind: Linked, contact_id: str, properties: Sent) -> Done:
    """Create a record linked to the contact, whose id is the hub's or the CRM's own.

    Blank properties are left out. Raises NotFound for the contact, Semantic when the CRM lacks
    something or does not know the pipeline or stage, Unavailable.
    """
    contact = filled(contact_id, "contactId")
    return dispatch.run(hub, account, CreateForContact(kind, contact, properties))


@dataclass(frozen=True, slots=True)
class CreateForContact:
    """A call of createDeal or createTicket."""

    kind: Linked
    contact_id: str
    properties: Sent

    def perform(self, hub: Hub, account: Account, adapter: Adapter) -> Done:
        """Create the record with its link to the contact."""
        contact_id = bindings.crm_id(hub.database, account, self.contact_id)
        properties, refused = usable(self.properties)
        properties = {name: value for name, value in properties.items() if value.strip()}
        if not properties:
            refused.append(Problem(_TITLES[self.kind], "it is blank or missing; send a value"))
        if not properties or any(problem.name in PLACES for problem in refused):
            raise refusal(refused)
        try:
            stored = store_what_is_good(
                lambda rest: adapter.create_for_contact(self.kind, contact_id, rest),
                properties,
                refused,
                strict=account.switches.strict,
            )
        except contract.NotFound as exc:
            raise NotFound(
                f"contactId: {exc.message}; send the contactId that createLead answered,"
                " or the id of a contact of the CRM"
            ) from exc
        bindings.chatted(hub.database, account, contact_id)
        return Done(
            stored.saved.outcome,
            contact_id=contact_id,
            record_id=stored.saved.id,
            url=stored.saved.url if adapter.record_pages else None,
            refused=stored.refused,
        )
