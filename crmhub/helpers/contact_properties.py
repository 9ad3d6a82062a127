"""The helpers getProperties and setProperties: read and change a conversation's contact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

from crmhub import adapter as contract
from crmhub.accounts.accounts import Account
from crmhub.accounts.field_maps import WHOLE_NAME
from crmhub.adapter import (
    Adapter,
    Conflict,
    Problem,
    Rejected,
    Saved,
    Written,
    hold_back_update,
)
from crmhub.adapter.coercion import Listed
from crmhub.adapter.matching import keep_phones
from crmhub.adapter.phones import PHONES, is_ambiguous
from crmhub.bounds import MAX_ASKED_PROPERTIES
from crmhub.crm.connection import AWAY, as_hub_errors, connect, sound
from crmhub.crm.deadlines import is_deferred, within
from crmhub.database.connection import Connection
from crmhub.database.drivers import Unwritable
from crmhub.errors import BadRequest, NotFound, Semantic, Unavailable, shortened
from crmhub.helpers import dispatch
from crmhub.helpers.attempts import Action, Attempt, Done, Mapped, crm_id_of, newest, note_failure
from crmhub.helpers.inputs import (
    NOT_ONE,
    PHONE_FAULTS,
    Sent,
    filled,
    name_fault,
    name_part_fault,
    name_properties,
    phones_of,
    text_fault,
    usable,
    whole_name_fault,
)
from crmhub.helpers.partial_writes import PartialWrite, with_held, without_added
from crmhub.hub import Hub
from crmhub.identity import resolution
from crmhub.identity.bindings import Binding, of_contact, of_token
from crmhub.identity.chats import note_chat, note_chat_of_contact
from crmhub.queue.models import New
from crmhub.queue.outages import outage_reason
from crmhub.queue.slots import too_many_at_once
from crmhub.translatable import join_texts, named, translatable

_PARTS = ("firstname", "lastname")
_NOTHING_KNOWN = translatable("The account's CRM cannot be asked now, and nothing is known yet.")


@dataclass(frozen=True, slots=True)
class Properties:
    """ "" for a property without a value; `missing`: names that the CRM does not have, or if
    `stale` the hub has not read."""

    values: Mapping[str, str]
    missing: tuple[str, ...]
    url: str | None = None
    stale: bool = False
    """True for the last known values, since the CRM could not be read."""
    refused: tuple[Problem, ...] = ()
    """The requested names that are unreplaced variables; they are not read."""


def get_properties(
    hub: Hub, account: Account, *, contact_token: str, names: Sequence[str]
) -> Properties:
    """Return the CRM's values, or the hub's last known ones as `stale`.

    Those are used if the CRM is unavailable, lacks the contact yet, or must not be waited for.
    `name` is first and last name together. Raises NotFound for a conversation without a contact,
    Semantic if no name is usable, BadRequest for too many, and without last known values
    Unavailable or TooManyRequests.
    """
    token = filled(contact_token, "contactToken")
    asked = list(dict.fromkeys(name.strip() for name in names))
    _count(asked)
    if "" in asked:
        raise Semantic("props: a name in it is blank; send property names only")
    faults = {name: fault for name in asked if (fault := text_fault(name))}
    if len(faults) == len(asked):
        raise Semantic(named("props", faults[asked[0]]))
    known = _known(hub, account, token, [name for name in asked if name not in faults])
    # Only what was asked for; the hub may know more.
    return replace(
        known,
        values={name: known.values.get(name, "") for name in asked},
        missing=tuple(name for name in asked if name not in known.values and name not in faults),
        refused=tuple(Problem(shortened(name), fault) for name, fault in faults.items()),
    )


def _known(hub: Hub, account: Account, token: str, asked: Sequence[str]) -> Properties:
    with hub.database.reading() as connection:
        binding = binding_of_conversation(connection, account, token)
    if not binding.crm_id:
        return _last_known(binding)
    if is_deferred():
        if not binding.last_values:
            raise too_many_at_once()
        return _last_known(binding)
    if reason := outage_reason(hub.database, account):
        return _last_known(binding, reason)
    whole = account.connection.field_map.whole_name
    wanted = [name for name in asked if whole or name != WHOLE_NAME]
    if WHOLE_NAME in asked and not whole:
        wanted += [part for part in _PARTS if part not in wanted]
    with as_hub_errors(account), within(account.switches.deadline_s):
        try:
            with sound():
                adapter = connect(hub, account)
                contact = adapter.get_contact(binding.crm_id, wanted)
        except contract.NotFound as exc:
            raise _gone(exc) from exc
        except (*AWAY, Unwritable) as exc:
            # Without a writable database no call can be counted, so the CRM is not called.
            if not isinstance(exc, Unwritable):
                note_failure(hub, account, exc)
            if not binding.last_values:
                raise
            return _last_known(binding)
    _remember(hub, account, binding, contact.properties)
    known = dict(contact.properties)
    if not whole:
        known[WHOLE_NAME] = _whole_name(known)
    return Properties(known, (), contact.url if adapter.record_pages else None)


def _last_known(binding: Binding, reason: str = "") -> Properties:
    known = binding.last_values
    if not known:
        raise Unavailable(
            join_texts(" ", filter(None, (_NOTHING_KNOWN, reason))),
            retry_after=5,
        )
    # The stored form of the name depends on the field map at the time of storing.
    known = {**known, WHOLE_NAME: known.get(WHOLE_NAME) or _whole_name(known)}
    return Properties(known, (), stale=True)


def _remember(hub: Hub, account: Account, binding: Binding, found: Mapping[str, str]) -> None:
    note_chat_of_contact(hub.database, account, binding.crm_id)
    if all(binding.last_values.get(name) == value for name, value in found.items()):
        return
    with suppress(Unwritable):
        hub.database.transact(
            lambda tx: resolution.set_contact(
                tx, account, binding.hub_id, crm_id=binding.crm_id, values=found
            )
        )


def set_properties(
    hub: Hub, account: Account, *, contact_token: str, properties: Sent, key: str = ""
) -> Done:
    """The value "" deletes; `name` sets first and last name.

    Raises NotFound for a conversation without a contact, Semantic if no value can be stored, and
    BadRequest for too many properties.
    """
    token = filled(contact_token, "contactToken")
    _count(list(properties))
    return dispatch.run(hub, account, SetProperties(token, properties), key=key)


@dataclass(frozen=True, slots=True)
class SetProperties(Action):
    """A call of setProperties; an agent names the contact by `contact_id` instead of the token."""

    kind: ClassVar[str] = "setProperties"
    record: ClassVar[Written] = "contacts"

    contact_token: str
    properties: Sent
    contact_id: str = ""

    def enter(self, tx: Connection, account: Account, mapped: Mapped | None) -> New:
        request = {"contact_token": self.contact_token, "properties": dict(self.properties)}
        if self.contact_id:
            request["contact_id"] = self.contact_id
            bound = of_contact(tx, account, self.contact_id)
            if bound is None:
                # A contact without a binding is named by its id; the CRM checks whether it exists.
                return New(self.kind, self.contact_id, self.contact_id, request)
            binding, person = bound, resolution.person_now(tx, account, bound)
        else:
            binding = binding_of_conversation(tx, account, self.contact_token)
            person = note_chat(tx, account, binding)
            if not person:
                # The binding was erased after it was read; the token may be another person's now.
                binding = binding_of_conversation(tx, account, self.contact_token)
        values = without_added(mapped.properties) if mapped else {}
        resolution.keep_values(tx, account, binding, values)
        return New(self.kind, person or binding.person, binding.hub_id, request)

    def mapped(self, account: Account) -> Mapped:
        whole = account.connection.field_map.whole_name
        names = dict.fromkeys(_PARTS, name_part_fault)
        names[WHOLE_NAME] = whole_name_fault if whole else name_fault
        region = account.switches.region
        properties, refused = usable(self.properties, {**PHONE_FAULTS, **names}, region=region)
        if not account.switches.blank_clears:
            properties = {name: value for name, value in properties.items() if value.strip()}
        if isinstance(properties.get(WHOLE_NAME), Listed):
            del properties[WHOLE_NAME]
            refused.append(Problem(WHOLE_NAME, NOT_ONE))
        if WHOLE_NAME in properties:
            properties = name_properties(properties.pop(WHOLE_NAME), whole=whole) | properties
        return Mapped(properties, tuple(refused))

    def check(self, account: Account, adapter: Adapter | None, mapped: Mapped) -> None:
        # Blank values may change nothing in this account.
        if mapped.properties or mapped.refused:
            Action.check(self, account, adapter, mapped)

    def perform(self, at: Attempt) -> Done:
        account, adapter, mapped = at.account, at.adapter, at.mapped
        contact_id = crm_id_of(at)
        hold_back_update(adapter, at.entry.written_at)
        if not mapped.properties and not mapped.refused:
            return Done("unchanged", contact_id=contact_id)
        partial = PartialWrite(mapped.properties, mapped.refused, strict=account.switches.strict)
        while True:
            try:
                written = newest(at, contact_id, partial.rest)
                for name in self._present_phones(adapter, contact_id, written):
                    del written[name]
                saved = Saved(contact_id, "unchanged")
                if written:
                    held = with_held(account, adapter, contact_id, written)
                    saved = adapter.update_contact(contact_id, held)
                break
            except (Rejected, Conflict) as exc:
                partial.leave_out(exc)
            except contract.NotFound as exc:
                if self.contact_id:
                    raise NotFound(named("contactId", exc.message)) from exc
                raise _gone(exc) from exc
        refused = (*partial.refused, *saved.refused)
        # Of added options no order is kept: the later ones do not replace the earlier ones.
        values = without_added(written)
        for problem in refused:
            values.pop(problem.name, None)
        return Done(
            saved.outcome,
            contact_id=contact_id,
            url=saved.url if adapter.record_pages else None,
            refused=refused,
            values=values,
        )

    def _present_phones(
        self, adapter: Adapter, contact_id: str, properties: Mapping[str, str]
    ) -> list[str]:
        """Compare only phones that may mean another number or have a second form."""
        sent = phones_of(self.properties)
        unsure = [n for n in PHONES if properties.get(n) and is_ambiguous(sent.get(n, ""))]
        if not unsure:
            return []
        stored = adapter.get_contact(contact_id, unsure).properties
        kept = keep_phones(stored, properties, sent)
        return [name for name in unsure if kept[name] == stored.get(name)]


def binding_of_conversation(connection: Connection, account: Account, token: str) -> Binding:
    binding = of_token(connection, account, token)
    if binding is None:
        raise NotFound(
            "contactToken: no contact is bound to this conversation; call createLead with this"
            " contactToken first"
        )
    return binding


def _gone(exc: contract.NotFound) -> NotFound:
    return NotFound("contactToken: %(reason)s any more; call createLead again", reason=exc.message)


def _whole_name(properties: Mapping[str, str]) -> str:
    return " ".join(filter(None, (properties.get(part, "") for part in _PARTS)))


def _count(names: Sequence[str]) -> None:
    if not names:
        raise Semantic("props: it is empty; name at least one property")
    if len(names) > MAX_ASKED_PROPERTIES:
        raise BadRequest(
            "props: %(count)s names; send at most %(most)s in one call",
            count=len(names),
            most=MAX_ASKED_PROPERTIES,
        )
