"""Selections of actions (by account, state, contact, age), and their SQL conditions."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.database import tables
from crmhub.database.connection import Connection, containing, now_ms
from crmhub.database.statements import Statement, in_list, one_of, param
from crmhub.errors import BadRequest
from crmhub.operators.actions.action_search import actions_of, phone_forms
from crmhub.queue.models import earliest_id, is_id
from crmhub.translatable import translatable

STATES = ("running", "queued", "done", "refused", "dead", "parked", "discarded")
STATE_WORDS = {
    "running": translatable("in progress"),
    "queued": translatable("queued"),
    "done": translatable("done"),
    "refused": translatable("refused"),
    "dead": translatable("failed"),
    "parked": translatable("blocked"),
    "discarded": translatable("discarded"),
}
"""The words for people of the states; some have another name on the wire."""
# Copied from helpers.actions, whose import takes a third of the time of a short command.
KINDS = (
    "createLead", "setProperties", "createDeal", "createTicket", "addNote", "createTask",
    "assignOwner", "writeContact", "writeDeal", "writeCompany", "writeTicket",
)  # fmt: skip
# These must equal the conditions of the partial indexes, or no database uses them.
STOPPED = ("refused", "dead", "parked", "discarded")
_UNFINISHED = ("running", "queued")

ACTION = tables.action.alias("a")
"""The table of actions, under the alias that the conditions use."""
Conditions = list[sa.ColumnElement[bool]]

_a = ACTION.c
_crm = tables.connection.c
_binding = tables.binding.c
_ALL_ACCOUNTS = sa.select(tables.account.c.id)
_ID_BEGINNING = re.compile(r"act-[0-9a-z]{0,24}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Conditions that select actions of the journal; all must apply, and an empty field is ignored.

    `contact`: an id in the hub or in a CRM. `email`: as a whole. `phone`: in any notation.
    `reason`: a part of the last error's message. `accepted` and `ended`: from the first time until
    before the second (ms since 1970); 0 for no limit. `search`: as in `action_search`. `cause`: the
    key of a group of failures. `fix`: the id of a correction, retry or discard of a group. `after`:
    the last id of the previous page; only older actions follow. `account_ids`: None for all.
    """

    account: Account | None = None
    states: Sequence[str] = ()
    kinds: Sequence[str] = ()
    contact_token: str = ""
    contact: str = ""
    email: str = ""
    phone: str = ""
    reason: str = ""
    older_than_ms: int = 0
    newer_than_ms: int = 0
    accepted: tuple[int, int] = (0, 0)
    ended: tuple[int, int] = (0, 0)
    search: str = ""
    cause: str = ""
    fix: str = ""
    ids: Sequence[str] = ()
    after: str = ""
    account_ids: Collection[int] | None = None

    @property
    def narrows(self) -> bool:
        """True if any field is set, so that not all actions are selected."""
        return self != Wanted()

    @property
    def is_of_few(self) -> bool:
        """True if few actions are selected, by an index that is not in the order of their ids."""
        of_person = self.contact_token or self.contact or self.email or self.phone
        is_search = bool(self.search) and not _ID_BEGINNING.fullmatch(self.search)
        return bool(of_person or is_search or any(self.ended) or self.cause or self.fix)


def conditions_of(connection: Connection, wanted: Wanted) -> tuple[Conditions, dict[str, Any]]:
    """Return the SQL conditions on `ACTION`, and their parameters; raises BadRequest."""
    conditions: Conditions = []
    values: dict[str, Any] = {}

    def add(condition: sa.ColumnElement[bool], **more: Any) -> None:
        conditions.append(condition)
        values.update(more)

    if wanted.account is not None:
        add(_a.account_id == param("account_id"), account_id=wanted.account.id)
    if wanted.account_ids is not None:
        add(in_list(_a.account_id, "visible"), visible=sorted(wanted.account_ids))
    if wanted.states:
        add(of_states(wanted.states))
        if set(wanted.states) <= set(STOPPED):
            add(one_of(_a.state, *STOPPED))
        elif not set(wanted.states) & {"done", *STOPPED}:
            add(one_of(_a.state, *_UNFINISHED))
    if wanted.kinds:
        add(in_list(_a.kind, "kinds"), kinds=wanted.kinds)
    if wanted.ids:
        add(in_list(_a.id, "ids"), ids=wanted.ids)
    if wanted.contact_token:
        has_token = _binding.contact_token == param("token")
        add(_of_people(wanted, has_token), token=wanted.contact_token)
    if wanted.email:
        # The index begins with the account and the connection.
        connections = sa.select(_crm.id)
        if wanted.account is not None:
            connections = connections.where(_crm.account_id == param("account_id"))
        is_theirs = sa.and_(
            _binding.connection_id.in_(connections), _binding.email == param("email")
        )
        add(_of_people(wanted, is_theirs), email=wanted.email.lower())
    if wanted.phone and (phones := phone_forms(wanted.phone, wanted.account)):
        add(_of_people(wanted, in_list(_binding.phone, "phones")), phones=phones)
    if wanted.contact:
        add(in_list(_a.person, "people"), people=_people_of_contact(connection, wanted))
        if wanted.account is None:
            add(_a.account_id.in_(_ALL_ACCOUNTS))
    if wanted.cause:
        add(_a.cause == param("cause"), cause=wanted.cause)
    if wanted.fix:
        add(_a.fix == param("fix"), fix=wanted.fix)
    if wanted.reason:
        part = containing(wanted.reason.lower())
        add(_a.reason != sa.literal_column("''"))
        add(sa.func.lower(_a.reason).like(param("reason"), escape="!"), reason=part)
    if wanted.older_than_ms:
        latest = max(0, now_ms() - wanted.older_than_ms)
        add(_a.id < param("before"), before=earliest_id(latest + 1))
    if wanted.newer_than_ms:
        earliest = max(0, now_ms() - wanted.newer_than_ms)
        add(_a.id >= param("since"), since=earliest_id(earliest))
    if wanted.accepted[0]:
        add(_a.id >= param("accepted_from"), accepted_from=earliest_id(wanted.accepted[0]))
    if wanted.accepted[1]:
        add(_a.id < param("accepted_until"), accepted_until=earliest_id(wanted.accepted[1]))
    if wanted.ended[0]:
        add(_a.finished_at >= param("ended_from"), ended_from=wanted.ended[0])
    if wanted.ended[1]:
        add(_a.finished_at < param("ended_until"), ended_until=wanted.ended[1])
    if wanted.after:
        # A text that is no id would select all actions or none.
        if not is_id(wanted.after):
            raise BadRequest(
                "after: %(after)s is not the id of an action.", after=repr(wanted.after[:60])
            )
        add(_a.id < param("after"), after=wanted.after)
    if _ID_BEGINNING.fullmatch(wanted.search):
        # "~" sorts after the characters of ids.
        add(_a.id >= param("id_from"), id_from=wanted.search)
        add(_a.id < param("id_until"), id_until=f"{wanted.search}~")
    elif wanted.search:
        newest = (
            sa.select(_a.id, _a.account_id, _a.connection_id, _a.person)
            .where(*conditions)
            .order_by(_a.id.desc())
        )
        ids = actions_of(
            connection, wanted.search, wanted.account, newest, values, after=wanted.after
        )
        add(in_list(_a.id, "found"), found=ids)
    return conditions, values


def _of_people(wanted: Wanted, has_value: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """Return the condition that an action's person has such a binding."""
    if wanted.account is not None:
        people = sa.select(_binding.person).where(
            _binding.account_id == param("account_id"), has_value
        )
        return _a.person.in_(people)
    # The condition lists accounts because the indexes begin with the account.
    of_all = sa.select(_binding.account_id, _binding.person).where(
        _binding.account_id.in_(_ALL_ACCOUNTS), has_value
    )
    return sa.tuple_(_a.account_id, _a.person).in_(of_all)


def _people_of_contact(connection: Connection, wanted: Wanted) -> list[str]:
    values: dict[str, Any] = {"contact": wanted.contact}
    parts = []
    for column in (_binding.hub_id, _binding.crm_id):
        is_contact = sa.and_(
            _binding.account_id == _crm.account_id,
            _binding.connection_id == _crm.id,
            column == param("contact"),
        )
        part = sa.select(_binding.person).join_from(tables.connection, tables.binding, is_contact)
        if wanted.account is not None:
            values["account_id"] = wanted.account.id
            part = part.where(_crm.account_id == param("account_id"))
        parts.append(part)
    rows = connection.rows(Statement(sa.union_all(*parts)), values)
    # The person of a contact without a binding is its id in the CRM.
    return sorted({wanted.contact, *(row.person for row in rows)})


def of_states(states: Sequence[str]) -> sa.ColumnElement[bool]:
    """Return the SQL condition for one of these states; raises ValueError for an unknown state."""
    if unknown := set(states) - set(STATES):
        raise ValueError(
            translatable("%(unknown)s: no state of an action", unknown=", ".join(sorted(unknown)))
        )
    return one_of(_a.state, *states)
