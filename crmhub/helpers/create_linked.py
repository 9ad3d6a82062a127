"""The helpers createDeal and createTicket: create a record that is linked to a contact."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from crmhub import adapter as contract
from crmhub.accounts.accounts import Account
from crmhub.adapter import (
    Adapter,
    Linked,
    Problem,
    Saved,
    Uncertain,
    hold_back_create,
)
from crmhub.adapter.coercion import Listed
from crmhub.crm.connection import Broken, sound
from crmhub.database.connection import Connection, now_ms
from crmhub.errors import HubError, NotFound, shortened
from crmhub.helpers import dispatch
from crmhub.helpers.attempts import Action, Attempt, Done, Mapped, crm_id_of, with_constants
from crmhub.helpers.inputs import NOT_ONE, Sent, filled, usable
from crmhub.helpers.partial_writes import PLACES, PartialWrite, refusal
from crmhub.hub import Hub
from crmhub.identity import bindings, chats
from crmhub.queue.models import New
from crmhub.queue.turns import records_of_others
from crmhub.translatable import as_text, join_texts, named, translatable

_TITLES: Mapping[Linked, str] = {"deals": "dealname", "tickets": "subject"}


def create_for_contact(hub: Hub, account: Account, action: CreateForContact, *, key: str) -> Done:
    """An equal call within a minute creates no second record without another Idempotency-Key.

    Raises NotFound for an unknown contact, and Semantic for an unknown pipeline or stage, or if the
    CRM has no such records.
    """
    require_possible_id(hub, account, action.contact_id)
    return dispatch.run(hub, account, action, key=key)


RIGHT_ID = translatable(
    "send the contactId that createLead answered, or the id of a contact of the CRM"
)


def not_found(where: str, message: str, right: str = RIGHT_ID) -> NotFound:
    """`message`: which record there is not; `right`: what to send instead."""
    return NotFound(named(where, join_texts("; ", (message, right))))


def require_possible_id(hub: Hub, account: Account, text: str) -> None:
    """Raise NotFound for a text that can be no contact's id, and Semantic for an unfilled one."""
    contact_id = filled(text, "contactId")
    if not _may_exist(hub, account, contact_id):
        missing = translatable("there is no contact %(id)s", id=shortened(contact_id))
        raise not_found("contactId", missing)


def bind_contact(tx: Connection, account: Account, text: str) -> tuple[str, str, str]:
    """Note a chat of the contact; return its id, its id in the hub, and its person."""
    contact_id = filled(text, "contactId")
    bound = bindings.of_contact(tx, account, contact_id)
    person = chats.note_chat(tx, account, bound) if bound is not None else ""
    if bound is not None and not person:
        # The binding was erased after it was read.
        bound = bindings.of_contact(tx, account, contact_id)
    # A contact without a binding is named by its id; the CRM checks whether it exists.
    hub_id = bound.hub_id if bound else contact_id
    return contact_id, hub_id, person or (bound.person if bound else contact_id)


def _may_exist(hub: Hub, account: Account, contact_id: str) -> bool:
    try:
        with sound():
            if hub.registry.load(account.connection.adapter).may_be_id(contact_id):
                return True
    except (contract.BadConfig, Broken):
        # Unknown while the adapter is broken: the action is accepted and waits.
        return True
    with hub.database.reading() as connection:
        return bindings.of_contact(connection, account, contact_id) is not None


def identity_of(kind: str, *sent: object) -> str:
    """Return a hash that is equal for actions of a contact that mean the same."""
    text = json.dumps([kind, *sent], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ContactAction(Action):
    """An action for a contact; `contact_id`: the hub's or the CRM's."""

    contact_id: str
    properties: Sent

    def enter(self, tx: Connection, account: Account, mapped: Mapped | None) -> New:
        contact_id, hub_id, person = bind_contact(tx, account, self.contact_id)
        request = {"contact_id": contact_id, "properties": dict(self.properties)}
        identity = identity_of(self.kind, request["properties"])
        return New(self.kind, person, hub_id, request, identity)


@dataclass(frozen=True, slots=True)
class CreateForContact(ContactAction):
    kind: ClassVar[str]
    record: ClassVar[Linked]

    def mapped(self, account: Account) -> Mapped:
        properties, refused = usable(self.properties)
        properties = {name: value for name, value in properties.items() if value.strip()}
        return with_constants(account, self.record, properties, refused)

    def check(self, account: Account, adapter: Adapter | None, mapped: Mapped) -> None:
        """Also refuse every bad property for a strict account."""
        rules, title = account.connection.field_map.of(self.record), _TITLES[self.record]
        own = adapter.own_titles.get(self.record, title) if adapter else title
        titles = {title, own, rules.hub_name(title), rules.hub_name(own)}
        refused = {one.name for one in mapped.refused}
        # A list is no title: only options can be several.
        texts = {n for n, value in mapped.properties.items() if not isinstance(value, Listed)}
        # Without an adapter, a CRM's own name of the title is unknown.
        is_known = adapter is not None or not mapped.properties
        if is_known and not titles & texts:
            is_list = not titles.isdisjoint(mapped.properties)
            words = NOT_ONE if is_list else translatable("it is blank or missing; send a value")
            missing = Problem(rules.hub_name(title), words)
            raise refusal((*mapped.refused, *(() if titles & refused else (missing,))))
        needed = indispensable(account, self.record)
        if (account.switches.strict and refused) or not refused.isdisjoint(needed):
            raise refusal(mapped.refused)

    def perform(self, at: Attempt) -> Done:
        self.check(at.account, at.adapter, at.mapped)
        contact_id = crm_id_of(at)
        partial = PartialWrite(
            at.mapped.properties,
            at.mapped.refused,
            strict=at.account.switches.strict,
            places=indispensable(at.account, self.record),
        )
        while True:
            try:
                saved = self._write(at, contact_id, partial.rest)
                break
            except (contract.Rejected, contract.Conflict) as exc:
                partial.leave_out(exc)
            except contract.NotFound as exc:
                raise not_found("contactId", exc.message) from exc
        return Done(
            saved.outcome,
            contact_id=contact_id,
            record_id=saved.id,
            url=saved.url if at.adapter.record_pages else None,
            refused=(*partial.refused, *saved.refused),
        )

    def _write(self, at: Attempt, contact_id: str, properties: Mapping[str, str]) -> Saved:
        try:
            return self._write_once(at, contact_id, properties)
        except contract.NotFound as exc:
            found = at.adapter.get_contact(contact_id, [])
            if found.id != contact_id:
                return self._write_once(at, found.id, properties)
            # The contact exists, so the CRM's address for such records must be missing.
            words = translatable(
                "%(crm)s takes no %(records)s at its address: %(reason)s.",
                crm=at.adapter.title,
                records=as_text(self.record),
                reason=exc.message,
            )
            raise contract.Unavailable(words) from exc

    def _write_once(self, at: Attempt, contact_id: str, properties: Mapping[str, str]) -> Saved:
        """Return an earlier attempt's record; NotYet while its write may still reach the CRM."""
        adapter, entry = at.adapter, at.entry
        can_tell = adapter.can("find_marked")
        if entry.doubt_since and can_tell:
            if found := self._earlier(at, contact_id, properties, entry.doubt_since):
                return found
            hold_back_create(
                adapter, self.record, properties, entry.written_at, contact_id=contact_id
            )
        began = now_ms()
        try:
            return adapter.create_for_contact(self.record, contact_id, properties, mark=entry.id)
        except Uncertain:
            # If the search fails, it remains unknown whether the record was created.
            with suppress(contract.AdapterError, HubError):
                found = self._earlier(at, contact_id, properties, began) if can_tell else None
                if found is not None:
                    return found
            raise

    def _earlier(
        self, at: Attempt, contact_id: str, properties: Mapping[str, str], since_ms: int
    ) -> Saved | None:
        return at.adapter.find_apart(
            self.record,
            contact_id,
            at.entry.id,
            sent=properties,
            since_ms=since_ms,
            others=records_of_others(at.hub.database, at.entry),
        )


def indispensable(account: Account, kind: Linked) -> Collection[str]:
    """Return the names of properties without which no record is created."""
    rules, names = account.connection.field_map.of(kind), PLACES | {_TITLES[kind]}
    return names.union(map(rules.hub_name, names))


@dataclass(frozen=True, slots=True)
class CreateDeal(CreateForContact):
    kind = "createDeal"
    record = "deals"


@dataclass(frozen=True, slots=True)
class CreateTicket(CreateForContact):
    kind = "createTicket"
    record = "tickets"
