"""The helper getType, which returns a contact's active workflow."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal

import sqlalchemy as sa

from crmhub import adapter as contract
from crmhub.accounts.accounts import Account
from crmhub.adapter import Adapter, Contact
from crmhub.adapter.phones import identity_of
from crmhub.crm.connection import AWAY, as_hub_errors, connect, sound
from crmhub.crm.deadlines import is_deferred, within
from crmhub.database.connection import now_ms
from crmhub.database.drivers import Unwritable
from crmhub.database.statements import Statement, equals, in_list, one_of
from crmhub.database.tables import action, binding
from crmhub.errors import Semantic, Unavailable, shortened
from crmhub.helpers import enrolments
from crmhub.helpers.attempts import note_failure
from crmhub.helpers.inputs import filled, phone_fault
from crmhub.hub import Hub
from crmhub.identity import bindings, chats
from crmhub.identity.phones import readings
from crmhub.queue.outages import outage_reason
from crmhub.queue.slots import too_many_at_once
from crmhub.translatable import join_texts, named, translatable

_HOUR_MS = 3_600_000
_MOST_HOURS = 1_000_000
"""The greatest number of hours, over a century; larger numbers are reduced to this one."""
_COME_BACK_S = 5
NOT_ASKED = translatable("The account's CRM cannot be asked now.")

_a, _b = action.c, binding.c
_LEAD_WAITS = Statement(
    sa.select(_b.hub_id)
    .where(
        *equals(binding, "account_id", "connection_id"),
        _b.crm_id.is_(None),
        in_list(_b.phone, "phones"),
        sa.exists(
            sa.select(sa.literal_column("1")).where(
                *equals(action, "account_id", "connection_id"),
                _a.person == _b.person,
                _a.kind == "createLead",
                one_of(_a.state, "running", "queued"),
            )
        ),
    )
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class ActiveWorkflow:
    """`workflow_id` or the `reason`; `stale`: the CRM was unavailable or lacks the contact yet."""

    workflow_id: str
    reason: str = ""
    stale: bool = False


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call of getType with the starts (ms since 1970) of its periods, which are in hours."""

    number: str
    look_back: Decimal
    since: int
    silence: Decimal
    quiet_since: int


def get_type(
    hub: Hub, account: Account, *, phone: str, look_back: Decimal, silence: Decimal
) -> ActiveWorkflow:
    """Return the last workflow entered by the contact with this phone.

    `look_back`: the hours that count. `silence`: the hours since the last helper call that must
    have passed, or 0. If the CRM is unavailable or must not be waited for, the hub answers, or
    raises Unavailable or TooManyRequests. Raises Semantic for a blank phone, an unreplaced
    variable, or negative hours.
    """
    asked = _Asked(
        filled(phone, "contactnumber"),
        look_back,
        _hours_ago(look_back, "interval"),
        silence,
        _hours_ago(silence, "lastChatInterval"),
    )
    if fault := phone_fault(asked.number):
        return ActiveWorkflow("", fault)
    with as_hub_errors(account), within(account.switches.deadline_s):
        if is_deferred():
            if known := _last_known(hub, account, asked):
                return known
            raise too_many_at_once()
        if reason := outage_reason(hub.database, account):
            if known := _last_known(hub, account, asked):
                return known
            raise Unavailable(join_texts(" ", (NOT_ASKED, reason)), retry_after=_COME_BACK_S)
        try:
            with sound():
                adapter = connect(hub, account)
                contact = _contact(hub, account, adapter, asked.number)
                if contact is None:
                    nobody = translatable(
                        "no contact has the phone %(phone)s", phone=shortened(asked.number)
                    )
                    return _of_waiting_lead(hub, account, asked) or ActiveWorkflow("", nobody)
                return _active_now(hub, account, adapter, contact.id, asked)
        except (*AWAY, Unwritable) as exc:
            # Without a writable database no call can be counted, so the CRM is not called.
            if not isinstance(exc, Unwritable):
                note_failure(hub, account, exc, record="workflows")
            if known := _last_known(hub, account, asked):
                return known
            raise


def _last_known(hub: Hub, account: Account, asked: _Asked) -> ActiveWorkflow | None:
    phones = readings(asked.number, account.switches.region)
    contact_id = next(filter(None, (_seen_with(hub, account, phone) for phone in phones)), "")
    if not contact_id:
        return _of_waiting_lead(hub, account, asked)
    with sound():
        adapter = connect(hub, account)
        if adapter.can("active_workflow"):
            return None
    return replace(_active_now(hub, account, adapter, contact_id, asked), stale=True)


def _of_waiting_lead(hub: Hub, account: Account, asked: _Asked) -> ActiveWorkflow | None:
    with hub.database.reading() as connection:
        phones = [identity_of(one) for one in readings(asked.number, account.switches.region)]
        waits = connection.row(_LEAD_WAITS, account.connection_key | {"phones": phones})
    if waits is None:
        return None
    reason = translatable(
        "the lead with the phone %(phone)s has not reached the CRM yet",
        phone=shortened(asked.number),
    )
    return ActiveWorkflow("", reason, stale=True)


def _active_now(
    hub: Hub, account: Account, adapter: Adapter, contact_id: str, asked: _Asked
) -> ActiveWorkflow:
    with hub.database.reading() as connection:
        last_chat = chats.last_chat(connection, account, contact_id)
    chats.note_chat_of_contact(hub.database, account, contact_id)
    if asked.silence and last_chat > asked.quiet_since:
        hours = (now_ms() - last_chat) / _HOUR_MS
        return ActiveWorkflow(
            "",
            translatable(
                "the contact's last chat was %(hours)s hours ago, less than lastChatInterval"
                " (%(silence)s)",
                hours=f"{hours:.1f}",
                silence=shortened(str(asked.silence)),
            ),
        )
    if adapter.can("active_workflow"):
        workflow_id = adapter.active_workflow(contact_id, since_ms=asked.since)
    else:
        with hub.database.reading() as connection:
            workflow_id = enrolments.latest(connection, account, contact_id, since_ms=asked.since)
    if not workflow_id:
        hours_back = shortened(str(asked.look_back))
        reason = translatable(
            "the contact entered no workflow in the last %(hours)s hours", hours=hours_back
        )
        return ActiveWorkflow("", reason)
    return ActiveWorkflow(workflow_id)


def _contact(hub: Hub, account: Account, adapter: Adapter, number: str) -> Contact | None:
    for phone in readings(number, account.switches.region):
        # The contact of the newest binding first, since the CRM's search may lag.
        if contact_id := _seen_with(hub, account, phone):
            with suppress(contract.NotFound):
                contact = adapter.get_contact(contact_id, adapter.phone_names)
                if adapter.has_phone(contact, phone):
                    return contact
        if (found := adapter.find_contact(phone=phone)) is not None:
            return found
    return None


def _seen_with(hub: Hub, account: Account, phone: str) -> str:
    with hub.database.reading() as connection:
        return bindings.find_candidates(
            connection, account, before="", hub_id="", phone=phone
        ).phone_id


def _hours_ago(hours: Decimal, where: str) -> int:
    if hours < 0:
        fault = translatable("it is negative; send hours from 0 on")
        raise Semantic(named(where, fault))
    return now_ms() - int(min(hours, Decimal(_MOST_HOURS)) * _HOUR_MS)
