"""The helper getType, which returns a contact's active workflow; and enrolments in workflows.

An enrolment is the hub's record that a contact has entered a workflow. An enrolment belongs to an
account's connection to its CRM. The hub answers from its enrolments if the CRM cannot report the
workflows of a contact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

import sqlalchemy as sa

from crmhub import adapter as contract
from crmhub import audit
from crmhub.accounts.accounts import Account
from crmhub.adapter import Adapter, Contact
from crmhub.audit import Author
from crmhub.database.connection import Connection, now_ms
from crmhub.database.drivers import Unwritable
from crmhub.database.statements import Insert, Statement, in_list, one_of, param, params
from crmhub.database.tables import action, binding, enrolment
from crmhub.errors import BadRequest, NotFound, Semantic, Unavailable
from crmhub.helpers.attempts import note_failure
from crmhub.helpers.crm_connection import AWAY, as_hub_errors, connect, sound
from crmhub.helpers.deadlines import is_deferred, within
from crmhub.helpers.inputs import filled, phone_fault, shortened
from crmhub.hub import Hub
from crmhub.identity import bindings, chats, merged_contacts
from crmhub.identity.bindings import connection_key
from crmhub.identity.phones import readings
from crmhub.journal.slots import too_many_at_once

_HOUR_MS = 3_600_000
_MOST_HOURS = 1_000_000
"""The greatest number of hours, over a century; larger numbers are reduced to this one."""
_LONGEST_ID = 255
_COME_BACK_S = 5

_a, _b, _e = action.c, binding.c, enrolment.c
_KEY_COLUMNS = ("account_id", "connection_id", "contact_id", "workflow_id")
_HERE = sa.and_(_e.account_id == param("account_id"), _e.connection_id == param("connection_id"))
_OF_CONTACT = sa.and_(_HERE, _e.contact_id == param("contact_id"))


def _build_enrol(insert: Insert) -> sa.Insert:
    statement = insert(enrolment).values(params(*_KEY_COLUMNS, "enrolled_at"))
    upsert: sa.Insert = statement.on_conflict_do_update(
        index_elements=_KEY_COLUMNS, set_={"enrolled_at": statement.excluded.enrolled_at}
    )
    return upsert


_ENROL = Statement(_build_enrol)
_UNENROL = Statement(
    sa.delete(enrolment).where(_OF_CONTACT, _e.workflow_id == param("workflow_id"))
)
_OF_CONTACT_SINCE = Statement(
    sa.select(_e.workflow_id)
    .where(_OF_CONTACT, _e.enrolled_at >= param("since"))
    .order_by(_e.enrolled_at.desc(), _e.workflow_id)
    .limit(1)
)
_ENTERED = Statement(sa.select(_e.workflow_id, _e.enrolled_at).where(_OF_CONTACT))
_LIST = Statement(
    sa.select(_e.workflow_id, _e.contact_id, _e.enrolled_at)
    .where(
        _HERE,
        sa.tuple_(_e.contact_id, _e.workflow_id)
        > sa.tuple_(param("after_contact_id"), param("after_workflow_id")),
        param("workflow_id").in_([sa.literal_column("''"), _e.workflow_id]),
        param("contact_id").in_([sa.literal_column("''"), _e.contact_id]),
    )
    .order_by(_e.contact_id, _e.workflow_id)
    .limit(param("limit"))
)
_LEAD_WAITS = Statement(
    sa.select(_b.hub_id)
    .where(
        _b.account_id == param("account_id"),
        _b.connection_id == param("connection_id"),
        _b.crm_id.is_(None),
        in_list(_b.phone, "phones"),
        sa.exists(
            sa.select(sa.literal_column("1")).where(
                _a.account_id == param("account_id"),
                _a.connection_id == param("connection_id"),
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
    """The answer of getType: the id of a contact's active workflow, or "" and the `reason`.

    `stale`: whether the hub answered without the CRM, because the CRM was unavailable or does not
    have the contact yet.
    """

    workflow_id: str
    reason: str = ""
    stale: bool = False


@dataclass(frozen=True, slots=True)
class _Asked:
    """The parameters of a call of getType.

    `number`: the phone of the contact. `look_back`: the number of hours in which the contact must
    have entered the workflow; `since` is their start (ms since 1970). `silence`: the number of
    hours without a helper call for the contact; `quiet_since` is their start.
    """

    number: str
    look_back: Decimal
    since: int
    silence: Decimal
    quiet_since: int


def get_type(
    hub: Hub, account: Account, *, phone: str, look_back: Decimal, silence: Decimal
) -> ActiveWorkflow:
    """Return the workflow that the contact with this phone entered last.

    `look_back`: only workflows entered in the last so many hours count. `silence`: the hours that
    must have passed since the last helper call for the contact; 0 for no such condition.

    The hub answers without the CRM, where it can, if the CRM is unavailable or the call may not
    wait for it. Where it cannot, it raises Unavailable, or TooManyRequests for a call that may not
    wait. Raises Semantic for a blank phone, an unreplaced variable, or negative hours.
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
        if reason := hub.journal.outage_reason(account):
            if known := _last_known(hub, account, asked):
                return known
            raise Unavailable(
                f"The account's CRM cannot be asked now. {reason}", retry_after=_COME_BACK_S
            )
        try:
            with sound():
                adapter = connect(hub, account)
                contact = _contact(hub, account, adapter, asked.number)
                if contact is None:
                    nobody = f"no contact has the phone {shortened(asked.number)}"
                    return _of_waiting_lead(hub, account, asked) or ActiveWorkflow("", nobody)
                return _active_now(hub, account, adapter, contact.id, asked)
        except AWAY as exc:
            note_failure(hub, account, exc, record="workflows")
            if known := _last_known(hub, account, asked):
                return known
            raise
        except Unwritable:
            # No call can be counted, so the CRM cannot be asked.
            if known := _last_known(hub, account, asked):
                return known
            raise


def _last_known(hub: Hub, account: Account, asked: _Asked) -> ActiveWorkflow | None:
    """Return the hub's answer without the CRM; None if only the CRM can answer."""
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
    """Return the answer for a phone whose lead has not reached the CRM yet.

    Return None if there is no unfinished lead with this phone.
    """
    with hub.database.reading() as connection:
        phones = readings(asked.number, account.switches.region)
        waits = connection.row(_LEAD_WAITS, connection_key(account) | {"phones": phones})
    if waits is None:
        return None
    reason = f"the lead with the phone {shortened(asked.number)} has not reached the CRM yet"
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
            f"the contact's last chat was {hours:.1f} hours ago,"
            f" less than lastChatInterval ({shortened(str(asked.silence))})",
        )
    workflow_id = _active(hub, account, adapter, contact_id, asked.since)
    if not workflow_id:
        hours_back = shortened(str(asked.look_back))
        return ActiveWorkflow("", f"the contact entered no workflow in the last {hours_back} hours")
    return ActiveWorkflow(workflow_id)


def enrol(
    hub: Hub, account: Account, *, workflow_id: str, contact_id: str, by: Author | None = None
) -> None:
    """Store the present as the time at which the contact entered the workflow.

    An earlier time is replaced. `by`: the operator, for the audit log; None for a call of the
    public API. Raises NotFound for a contact that the CRM does not have, BadRequest for an invalid
    id, and Unavailable if the CRM or the database is unavailable.
    """
    row = _row(account, workflow_id, contact_id)
    with as_hub_errors(account):
        # The id as the CRM writes it: 7 for 007.
        row["contact_id"] = connect(hub, account).get_contact(str(row["contact_id"]), ()).id

    def work(tx: Connection) -> None:
        tx.run(_ENROL, row)
        if by is not None:
            audit.note(tx, by, "enrol", "workflow", str(row["workflow_id"]), account_id=account.id)

    hub.database.transact(work)


def unenrol(
    hub: Hub, account: Account, *, workflow_id: str, contact_id: str, by: Author | None = None
) -> None:
    """Delete the enrolment of the contact in the workflow; raises NotFound if there is none.

    `by`: the operator, for the audit log; None for a call of the public API.
    """
    row = _row(account, workflow_id, contact_id)

    def work(tx: Connection) -> None:
        row["contact_id"] = merged_contacts.merged_into(tx, account, str(row["contact_id"]))
        if not tx.run(_UNENROL, row):
            raise NotFound(
                f"Contact {shortened(contact_id)} is not enrolled"
                f" in workflow {shortened(workflow_id)}."
            )
        if by is not None:
            audit.note(
                tx, by, "unenrol", "workflow", str(row["workflow_id"]), account_id=account.id
            )

    hub.database.transact(work)


@dataclass(frozen=True, slots=True)
class Enrolment:
    """The hub's record that a contact has entered a workflow.

    `at`: the time in ms since 1970 at which the contact entered the workflow.
    """

    workflow_id: str
    contact_id: str
    at: int


def enrolments(
    db: Connection,
    account: Account,
    *,
    workflow_id: str = "",
    contact_id: str = "",
    after: tuple[str, str] = ("", ""),
    limit: int,
) -> list[Enrolment]:
    """Return up to `limit` enrolments of the account's present connection.

    The enrolments are sorted by contact id, then workflow id. `workflow_id` and `contact_id`: only
    enrolments with these ids; "" for all. `after`: the (contact id, workflow id) of the previous
    page's last enrolment.
    """
    rows = db.rows(
        _LIST,
        connection_key(account)
        | {
            "after_contact_id": after[0],
            "after_workflow_id": after[1],
            "workflow_id": workflow_id,
            "contact_id": contact_id,
            "limit": limit,
        },
    )
    return [Enrolment(*row) for row in rows]


@dataclass(frozen=True, slots=True)
class Moved:
    """The enrolments that `move` changed, as times in ms since 1970 by workflow id.

    `merged`: the times at which the merged contact had entered workflows. `kept`: for the same
    workflows, the times of the kept contact that were replaced; 0 if it had not entered the
    workflow.
    """

    merged: Mapping[str, int]
    kept: Mapping[str, int]


def move(tx: Connection, account: Account, merged_id: str, kept_id: str) -> Moved:
    """Move the enrolments of a merged contact to the kept contact, and return the changes.

    If both contacts had entered a workflow, the later time remains.
    """
    merged, kept = (_entered(tx, account, contact_id) for contact_id in (merged_id, kept_id))
    later = {name: at for name, at in merged.items() if at > kept.get(name, 0)}
    for name, at in later.items():
        _set_entered(tx, account, kept_id, name, at)
    for name in merged:
        _set_entered(tx, account, merged_id, name, 0)
    return Moved(merged, {name: kept.get(name, 0) for name in later})


def move_back(tx: Connection, account: Account, merged_id: str, kept_id: str, moved: Moved) -> None:
    """Undo `move`; `moved` is the result of `move`.

    Workflows that the kept contact has entered or left since stay as they are.
    """
    now = _entered(tx, account, kept_id)
    for name, before in moved.kept.items():
        if now.get(name) == moved.merged[name]:
            _set_entered(tx, account, kept_id, name, before)
    for name, at in moved.merged.items():
        _set_entered(tx, account, merged_id, name, at)


def _entered(tx: Connection, account: Account, contact_id: str) -> dict[str, int]:
    """Return the times at which a contact entered workflows (ms since 1970), by workflow id."""
    rows = tx.rows(_ENTERED, connection_key(account) | {"contact_id": contact_id})
    return {row.workflow_id: row.enrolled_at for row in rows}


def _set_entered(tx: Connection, account: Account, contact_id: str, name: str, at: int) -> None:
    """Store the time at which a contact entered the workflow `name`.

    `at`: the time in ms since 1970; 0 deletes the stored time.
    """
    row = {"contact_id": contact_id, "workflow_id": name, "enrolled_at": at}
    tx.run(_ENROL if at else _UNENROL, connection_key(account) | row)


def _row(account: Account, workflow_id: str, contact_id: str) -> dict[str, str | int]:
    row: dict[str, str | int] = connection_key(account) | {"enrolled_at": now_ms()}
    for name, where, text in (
        ("workflow_id", "workflowId", workflow_id),
        ("contact_id", "contactId", contact_id),
    ):
        if not text.strip() or len(text) > _LONGEST_ID or not text.isprintable():
            raise BadRequest(f"{where}: send 1 to {_LONGEST_ID} printable characters")
        row[name] = text.strip()
    return row


def _contact(hub: Hub, account: Account, adapter: Adapter, number: str) -> Contact | None:
    """Return the contact with this phone, None without one.

    The contact is found by the hub's bindings, or else by a search in the CRM.
    """
    for phone in readings(number, account.switches.region):
        contact = _met(hub, account, adapter, phone) or adapter.find_contact(phone=phone)
        if contact is not None:
            return contact
    return None


def _met(hub: Hub, account: Account, adapter: Adapter, phone: str) -> Contact | None:
    """Return the CRM's contact of the newest binding that has this phone, None without one.

    The CRM's own search may not find a contact that was written a moment ago.
    """
    contact_id = _seen_with(hub, account, phone)
    if not contact_id:
        return None
    try:
        contact = adapter.get_contact(contact_id, adapter.phone_names)
    except contract.NotFound:
        return None
    return contact if adapter.has_phone(contact, phone) else None


def _seen_with(hub: Hub, account: Account, phone: str) -> str:
    with hub.database.reading() as connection:
        return bindings.find_candidates(
            connection, account, before="", hub_id="", phone=phone
        ).phone_id


def _active(hub: Hub, account: Account, adapter: Adapter, contact_id: str, since: int) -> str:
    if adapter.can("active_workflow"):
        return adapter.active_workflow(contact_id, since_ms=since)
    with hub.database.reading() as connection:
        workflow_id: str | None = connection.scalar(
            _OF_CONTACT_SINCE, connection_key(account) | {"contact_id": contact_id, "since": since}
        )
    return workflow_id or ""


def _hours_ago(hours: Decimal, where: str) -> int:
    if hours < 0:
        raise Semantic(f"{where}: it is negative; send hours from 0 on")
    return now_ms() - int(min(hours, Decimal(_MOST_HOURS)) * _HOUR_MS)
