"""Enrolments in workflows, from which getType answers if the CRM cannot report workflows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from crmhub import audit
from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.crm.connection import as_hub_errors, connect
from crmhub.database.connection import Connection, now_ms
from crmhub.database.rows import delete_where, upsert_row
from crmhub.database.statements import Statement, param
from crmhub.database.tables import enrolment
from crmhub.errors import BadRequest, NotFound, shortened
from crmhub.helpers.create_linked import not_found
from crmhub.hub import Hub
from crmhub.identity import merged_contacts
from crmhub.translatable import translatable

_LONGEST_ID = 255
_RIGHT_ID = translatable("send the id of a contact of the CRM")

_e = enrolment.c
_HERE = sa.and_(_e.account_id == param("account_id"), _e.connection_id == param("connection_id"))
_OF_CONTACT = sa.and_(_HERE, _e.contact_id == param("contact_id"))
_LATEST = Statement(
    sa.select(_e.workflow_id)
    .where(_OF_CONTACT, _e.enrolled_at >= param("since"))
    .order_by(_e.enrolled_at.desc(), _e.workflow_id)
    .limit(1)
)
_ENTERED = Statement(sa.select(_e.workflow_id, _e.enrolled_at).where(_OF_CONTACT))
_LIST = Statement(
    sa.select(_e.workflow_id, _e.contact_id, _e.enrolled_at.label("at"))
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


def enrol(
    hub: Hub, account: Account, *, workflow_id: str, contact_id: str, by: Author | None = None
) -> None:
    """Store the time of the entry; raises NotFound, BadRequest for an invalid id, Unavailable."""
    row = _row(account, workflow_id, contact_id)
    try:
        with as_hub_errors(account):
            # The id as the CRM writes it: 7 for 007.
            row["contact_id"] = connect(hub, account).get_contact(str(row["contact_id"]), ()).id
    except NotFound as exc:
        raise not_found("contactId", exc.message.rstrip("."), _RIGHT_ID) from None

    def store(tx: Connection) -> None:
        upsert_row(tx, enrolment, row, {"enrolled_at": now_ms()})
        if by is not None:
            audit.note(tx, by, "enrol", "workflow", str(row["workflow_id"]), account_id=account.id)

    hub.database.transact(store)


def unenrol(
    hub: Hub, account: Account, *, workflow_id: str, contact_id: str, by: Author | None = None
) -> None:
    row = _row(account, workflow_id, contact_id)

    def delete(tx: Connection) -> None:
        row["contact_id"] = merged_contacts.merged_into(tx, account, str(row["contact_id"]))
        if not delete_where(tx, enrolment, row):
            raise NotFound(
                f"Contact {shortened(contact_id)} is not enrolled"
                f" in workflow {shortened(workflow_id)}."
            )
        if by is not None:
            audit.note(
                tx, by, "unenrol", "workflow", str(row["workflow_id"]), account_id=account.id
            )

    hub.database.transact(delete)


def latest(db: Connection, account: Account, contact_id: str, *, since_ms: int) -> str:
    """Return the workflow that the contact entered last, "" if none since `since_ms`."""
    key = account.connection_key | {"contact_id": contact_id, "since": since_ms}
    return db.scalar(_LATEST, key) or ""


def listed(
    db: Connection,
    account: Account,
    *,
    workflow_id: str = "",
    contact_id: str = "",
    after: tuple[str, str] = ("", ""),
    limit: int,
) -> Sequence[Any]:
    """Return rows of `contact_id`, `workflow_id` and `at` (ms since 1970), ordered by the ids.

    `after`: the (contact id, workflow id) of the previous page's last row.
    """
    return db.rows(
        _LIST,
        account.connection_key
        | {
            "after_contact_id": after[0],
            "after_workflow_id": after[1],
            "workflow_id": workflow_id,
            "contact_id": contact_id,
            "limit": limit,
        },
    )


@dataclass(frozen=True, slots=True)
class Moved:
    """When the merged contact had entered workflows, and the kept contact's replaced times or 0."""

    merged: Mapping[str, int]
    kept: Mapping[str, int]


def move(tx: Connection, account: Account, merged_id: str, kept_id: str) -> Moved:
    """Move the enrolments of a merged contact to the kept contact; the later time remains."""
    merged, kept = (_entered(tx, account, contact_id) for contact_id in (merged_id, kept_id))
    later = {name: at for name, at in merged.items() if at > kept.get(name, 0)}
    for name, at in later.items():
        _set_entered(tx, account, kept_id, name, at)
    for name in merged:
        _set_entered(tx, account, merged_id, name, 0)
    return Moved(merged, {name: kept.get(name, 0) for name in later})


def move_back(tx: Connection, account: Account, merged_id: str, kept_id: str, moved: Moved) -> None:
    """Undo `move`, but for workflows that the kept contact has entered or left since."""
    now = _entered(tx, account, kept_id)
    for name, before in moved.kept.items():
        if now.get(name) == moved.merged[name]:
            _set_entered(tx, account, kept_id, name, before)
    for name, at in moved.merged.items():
        _set_entered(tx, account, merged_id, name, at)


def _entered(tx: Connection, account: Account, contact_id: str) -> dict[str, int]:
    rows = tx.rows(_ENTERED, account.connection_key | {"contact_id": contact_id})
    return {row.workflow_id: row.enrolled_at for row in rows}


def _set_entered(tx: Connection, account: Account, contact_id: str, name: str, at: int) -> None:
    """Store when a contact entered the workflow; 0 deletes the stored time."""
    row = account.connection_key | {"contact_id": contact_id, "workflow_id": name}
    if at:
        upsert_row(tx, enrolment, row, {"enrolled_at": at})
    else:
        delete_where(tx, enrolment, row)


def _row(account: Account, workflow_id: str, contact_id: str) -> dict[str, str | int]:
    row: dict[str, str | int] = account.connection_key
    for name, where, text in (
        ("workflow_id", "workflowId", workflow_id),
        ("contact_id", "contactId", contact_id),
    ):
        if not text.strip() or len(text) > _LONGEST_ID or not text.isprintable():
            raise BadRequest(f"{where}: send 1 to {_LONGEST_ID} printable characters")
        row[name] = text.strip()
    return row
