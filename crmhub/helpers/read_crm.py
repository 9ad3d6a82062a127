"""Read contacts, properties and pipelines from an account's CRM, for agents.

Before the CRM has a contact, the hub's last known values are returned for its id (`hub-…`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from crmhub.accounts.accounts import Account
from crmhub.adapter import Adapter, Contact, Described, Linked, Pipeline, Written
from crmhub.crm.connection import AWAY, as_hub_errors, connect, sound
from crmhub.crm.copied_definitions import contract_kind
from crmhub.crm.deadlines import is_deferred, within
from crmhub.crm.pulling import copy_found
from crmhub.database.connection import now_ms
from crmhub.errors import NotFound, Unavailable, shortened
from crmhub.helpers.attempts import note_failure
from crmhub.hub import Hub
from crmhub.identity import bindings
from crmhub.properties.kinds import Kind
from crmhub.queue.outages import outage_reason
from crmhub.queue.slots import too_many_at_once
from crmhub.records import copied


@dataclass(frozen=True, slots=True)
class Known:
    crm_id: str
    values: dict[str, str]


def find_known(hub: Hub, account: Account, contact_id: str) -> Known:
    with hub.database.reading() as connection:
        bound = bindings.of_contact(connection, account, contact_id)
    if bound is not None:
        return Known(bound.crm_id, dict(bound.last_values))
    with as_hub_errors(account), sound():
        possible = hub.registry.load(account.connection.adapter).may_be_id(contact_id)
    if not possible:
        raise NotFound("there is no contact %(id)s", id=shortened(contact_id))
    return Known(contact_id, {})


def find_contact(
    hub: Hub, account: Account, *, email: str = "", phone: str = "", names: Sequence[str]
) -> Contact | None:
    with _asking(hub, account) as adapter:
        return adapter.find_contact(email=email, phone=phone, names=names)


def read_contact(hub: Hub, account: Account, crm_id: str, names: Sequence[str]) -> Contact:
    with _asking(hub, account) as adapter:
        return adapter.get_contact(crm_id, names)


def describe(hub: Hub, account: Account, kind: Written) -> list[Described] | None:
    with _asking(hub, account, kind) as adapter:
        return list(adapter.describe(kind)) if adapter.can("describe") else None


def pipelines(hub: Hub, account: Account, kind: Linked) -> list[Pipeline] | None:
    with _asking(hub, account, kind) as adapter:
        return list(adapter.pipelines(kind)) if adapter.can("pipelines") else None


def copy_record(hub: Hub, account: Account, kind: Kind, crm_id: str) -> int | None:
    """Copy a record of the CRM that its copy may lack yet; raises NotFound if the CRM lacks it.

    Return when the CRM was asked (ms since 1970); None, and do nothing, while its definitions are
    unknown.
    """
    asked_at, catalogue = now_ms(), hub.records.catalogues.current(account.id, kind)
    if catalogue.get(copied.ID) is None:
        return None
    names = copied.names(catalogue)
    with _asking(hub, account, kind.name) as adapter:
        found = adapter.get_records(contract_kind(kind), [crm_id], names)
    if not found:
        raise NotFound(f"There is no {kind.singular} with this {copied.ID} in the CRM.")
    copy_found(hub, account, kind, found, asked_at=asked_at)
    return asked_at


@contextmanager
def _asking(hub: Hub, account: Account, kind: str = "contacts") -> Iterator[Adapter]:
    """Raises TooManyRequests if the account uses all of its threads, or Unavailable."""
    if is_deferred():
        raise too_many_at_once()
    if reason := outage_reason(hub.database, account):
        raise Unavailable(f"The account's CRM cannot be asked now. {reason}", retry_after=30)
    with as_hub_errors(account), within(account.switches.deadline_s):
        try:
            with sound():
                yield connect(hub, account)
        except AWAY as exc:
            note_failure(hub, account, exc, record=kind)
            raise
