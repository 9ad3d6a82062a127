"""What the hub remembers of the people its bots talk to, for each connection to a CRM.

A row is an acquaintance: a `hub_id` that is valid for ever, and the contact of the CRM it stands
for as soon as that is known. A conversation (its `contactToken`) points to one row at a time; when
it turns out to be about somebody else, the token moves to another row and the old row stays what
it was. Rows of one person share `person`, by which what is done for that person keeps its order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.database.advisory_locks import hold, hold_all
from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.drivers import Unwritable
from crmhub.database.statements import Statement, param, params
from crmhub.database.tables import account as account_table
from crmhub.database.tables import action, binding
from crmhub.errors import NotFound
from crmhub.identity import merged_contacts
from crmhub.secrets import BASE36
from crmhub.secrets import token as random_token

HUB_ID = "hub-"
LONGEST = 255
"""Characters of a token or an id: what an index of both databases can hold."""
# Reading often must not mean writing often: within this time a chat counts as one call.
_SAME_CALL_MS = 5_000
_MOST_VALUES = 200
# A phone that more contacts were said to have is a switchboard's.
_MOST_SHARING = 50
# --- statements --------------------------------------------------------------------------------

_b = binding.c
_other = binding.alias("other")
_HERE = sa.and_(_b.account_id == param("account_id"), _b.connection_id == param("connection_id"))
_OTHERS_HERE = sa.and_(
    _other.c.account_id == param("account_id"), _other.c.connection_id == param("connection_id")
)
_IS_ROW = sa.and_(_HERE, _b.hub_id == param("hub_id"))
_COLUMNS = {"token": _b.contact_token, "email": _b.email, "phone": _b.phone}
_ROW = (
    _b.hub_id,
    _b.person,
    _b.crm_id,
    _b.email,
    _b.last_values,
    _b.contact_token.is_(None).label("free"),
)


def _newest_with(column: sa.ColumnElement[Any]) -> Statement:
    newest = (_b.last_chat_at.desc(), _b.hub_id)
    return Statement(
        sa.select(*_ROW).where(_HERE, column == param("value")).order_by(*newest).limit(1)
    )


def _updating(**values: Any) -> Statement:
    return Statement(sa.update(binding).where(_IS_ROW).values(values))


_BY_TOKEN = _newest_with(_b.contact_token)
_BY_HUB_ID = _newest_with(_b.hub_id)
_BY_CRM_ID = _newest_with(_b.crm_id)
# Of several contacts the oldest.
_CONTACT_WITH_PHONE = Statement(
    sa.select(_b.crm_id)
    .where(_HERE, _b.phone == param("phone"), _b.crm_id.is_not(None))
    .order_by(_b.created_at, _b.hub_id)
    .limit(1)
)
_OF_CRM_ID = Statement(
    sa.select(_b.hub_id, _b.person, _b.accepted)
    .where(_HERE, _b.crm_id == param("crm_id"))
    .order_by(_b.created_at, _b.hub_id)
)
_OTHERS_WITH_PHONE = Statement(
    sa.select(*_ROW)
    .where(_HERE, _b.phone == param("phone"), _b.crm_id != param("besides"))
    .order_by(_b.created_at, _b.hub_id)
    .limit(param("most"))
)
_SET_CRM_ID = Statement(
    sa.update(binding)
    .where(_IS_ROW, sa.or_(_b.crm_id.is_(None), _b.crm_id != param("crm_id")))
    .values(crm_id=param("crm_id"), accepted=None)
)
_UNITE = tuple(
    Statement(
        sa.update(table)
        .where(
            table.c.account_id == param("account_id"),
            table.c.connection_id == param("connection_id"),
            table.c.person == param("former"),
        )
        .values(params("person"))
    )
    for table in (binding, action)
)
_ACCEPTED = Statement(
    sa.select(_b.accepted)
    .where(_HERE, _b.person == param("person"), _b.accepted.is_not(None))
    .order_by(_b.last_chat_at.desc())
    .limit(20)
)
# Across accounts: the token alone says whose conversation it is.
_ACCOUNTS_OF_TOKEN = Statement(
    sa.select(_b.account_id)
    .distinct()
    .join_from(
        binding,
        account_table,
        sa.and_(
            account_table.c.id == _b.account_id,
            account_table.c.connection_id == _b.connection_id,
        ),
    )
    .where(_b.contact_token == param("token"))
    .limit(1000)
)
_LAST_CHAT = Statement(
    sa.select(sa.func.max(_b.last_chat_at)).where(_HERE, _b.crm_id == param("crm_id"))
)
_NOTE_SAID = Statement(
    sa.update(binding)
    .where(_IS_ROW)
    .values(
        last_chat_at=param("last_chat_at"),
        email=sa.func.coalesce(param("email"), _b.email),
        phone=sa.func.coalesce(param("phone"), _b.phone),
        last_values=sa.func.coalesce(param("last_values"), _b.last_values),
    )
    .returning(_b.person)
)
_PERSON_NOW = Statement(sa.select(_b.person).where(_IS_ROW).with_for_update())
_TO_SETTLE = Statement(
    sa.select(
        *_ROW,
        _b.accepted,
        sa.select(_other.c.person)
        .where(
            _OTHERS_HERE,
            _other.c.crm_id == param("crm_id"),
            _other.c.hub_id != param("hub_id"),
        )
        .order_by(_other.c.created_at, _other.c.hub_id)
        .limit(1)
        .scalar_subquery()
        .label("other_person"),
        sa.exists(
            sa.select(sa.literal_column("1"))
            .select_from(action)
            .where(action.c.account_id == param("account_id"), action.c.person == param("crm_id"))
        ).label("named_by_crm_id"),
    ).where(_IS_ROW)
)
_SET_CONTACT = _updating(**params("crm_id", "last_values", "accepted"))
_SET_LAST_VALUES = _updating(**params("last_values"))
_SET_TOKEN = _updating(**params("contact_token"))
_NOTE_CHAT = Statement(
    sa.update(binding).where(_IS_ROW).values(params("last_chat_at")).returning(_b.person)
)
_ADD = Statement(
    sa.insert(binding).values(
        params(
            "account_id",
            "connection_id",
            "hub_id",
            "person",
            "contact_token",
            "crm_id",
            "email",
            "phone",
            "last_values",
            "last_chat_at",
            "created_at",
        )
    )
)
_CLEAR_TOKEN = Statement(
    sa.update(binding).where(_HERE, _b.contact_token == param("token")).values(contact_token=None)
)
# No index is to answer what is null: after an outage that may be all.
_NO_CONTACT = sa.func.coalesce(_b.crm_id, "") == ""
_OTHERS_WITHOUT_CONTACT = {
    "email": Statement(
        sa.select(_b.hub_id).where(
            _HERE, _b.hub_id != param("hub_id"), _NO_CONTACT, _b.email == param("email")
        )
    ),
    # Where neither has an email.
    "phone": Statement(
        sa.select(_b.hub_id).where(
            _HERE,
            _b.hub_id != param("hub_id"),
            _NO_CONTACT,
            _b.phone == param("phone"),
            sa.func.coalesce(_b.email, "") == "",
            sa.exists(
                sa.select(sa.literal_column("1")).where(
                    _OTHERS_HERE,
                    _other.c.hub_id == param("hub_id"),
                    sa.func.coalesce(_other.c.email, "") == "",
                )
            ),
        )
    ),
}
_SET_SAID = {
    name: Statement(sa.update(binding).where(_IS_ROW).values({column.name: param("said")}))
    for name, column in _COLUMNS.items()
}
_PERSON_ALIKE = Statement(
    sa.select(_other.c.person)
    .select_from(binding)
    .join(
        _other,
        sa.and_(
            _other.c.account_id == _b.account_id,
            _other.c.connection_id == _b.connection_id,
            _other.c.hub_id != _b.hub_id,
            sa.or_(
                _other.c.email == _b.email,
                sa.and_(_other.c.email.is_(None), _b.email.is_(None), _other.c.phone == _b.phone),
            ),
        ),
    )
    .where(_IS_ROW)
    .order_by(_other.c.created_at, _other.c.hub_id)
    .limit(1)
)


@cache
def _with_any(names: tuple[str, ...]) -> Statement:
    """Return the query of the newest row with this token, this email and this phone."""
    newest = (_b.last_chat_at.desc(), _b.hub_id)
    parts = [
        sa.select(
            sa.select(sa.literal_column(f"'{name}'").label("said"), *_ROW)
            .where(_HERE, _COLUMNS[name] == param(name))
            .order_by(*newest)
            .limit(1)
            .subquery(name)
        )
        for name in names
    ]
    return Statement(sa.union_all(*parts))


def same_contact(of: Any) -> sa.ColumnElement[bool]:
    """Return that an action is for the same contact as `hub_id`, the hub's id or the CRM's own.

    `of` is the table `action` or an alias of it. Actions of one `person` may be for several
    contacts. As long as the CRM has not told who somebody is, one email is one contact, and one
    phone is where no email is known.
    """
    own, meant = binding.alias("o"), binding.alias("m")
    is_own = sa.and_(_of_action(own, of), own.c.hub_id == of.c.hub_id)
    unknown = sa.or_(meant.c.crm_id.is_(None), own.c.crm_id.is_(None))
    no_email = sa.and_(meant.c.email.is_(None), own.c.email.is_(None))
    alike = sa.or_(meant.c.email == own.c.email, sa.and_(no_email, meant.c.phone == own.c.phone))
    by_crm_id: sa.Select[Any] = sa.select(sa.literal_column("1")).where(
        is_own, own.c.crm_id == param("hub_id")
    )
    by_values: sa.Select[Any] = (
        sa.select(sa.literal_column("1"))
        .select_from(meant.outerjoin(own, is_own))
        .where(
            _of_action(meant, of),
            meant.c.hub_id == param("hub_id"),
            sa.or_(meant.c.crm_id.in_([of.c.hub_id, own.c.crm_id]), sa.and_(unknown, alike)),
        )
    )
    return sa.or_(
        of.c.hub_id == param("hub_id"),
        sa.exists(by_crm_id.correlate(of)),
        sa.exists(by_values.correlate(of)),
    )


def _of_action(row: Any, of: Any) -> sa.ColumnElement[bool]:
    return sa.and_(row.c.account_id == of.c.account_id, row.c.connection_id == of.c.connection_id)


@dataclass(frozen=True, slots=True)
class Bound:
    """An acquaintance; `crm_id` is "" as long as the CRM has not been told of them."""

    hub_id: str
    person: str
    crm_id: str
    email: str
    last_values: Mapping[str, str]
    free: bool = True
    """Whether no conversation is about them."""


@dataclass(frozen=True, slots=True)
class Known:
    """Whom the hub was told of: by the conversation, the email and the phone, "" for nobody."""

    contact_id: str
    email_id: str
    phone_id: str
    by_phone: bool
    """Whether the conversation has never said an email: its phone alone led to its contact."""


# --- reading ---------------------------------------------------------------------------------


def of_token(connection: Connection, account: Account, token: str) -> Bound | None:
    """Return whom the conversation is about, None when the hub was never told."""
    return _bound(connection, account, _BY_TOKEN, token)


def of_hub_id(connection: Connection, account: Account, hub_id: str) -> Bound | None:
    """Return the acquaintance of this hub id."""
    return _bound(connection, account, _BY_HUB_ID, hub_id)


def of_contact(connection: Connection, account: Account, contact_id: str) -> Bound | None:
    """Return the acquaintance of an id as a bot has it: the hub's, or the CRM's own.

    None for an id of the CRM that the hub has not seen. Raises NotFound for one of the hub's form
    that it never issued for this connection.
    """
    if not contact_id.startswith(HUB_ID):
        crm_id = merged_contacts.merged_into(connection, account, contact_id[:LONGEST])
        return _bound(connection, account, _BY_CRM_ID, crm_id)
    found = of_hub_id(connection, account, contact_id)
    if found is None:
        raise NotFound(
            f"contactId: {contact_id} is not a contact of this account's CRM;"
            " send the contactId that createLead answered"
        )
    return found


def known(
    connection: Connection, account: Account, *, before: str, hub_id: str, phone: str
) -> Known:
    """Return the CRM's ids of whom a lead may be about.

    `before` is the hub's id of whom the conversation was about until this lead, `hub_id` that of
    whom it is about now, which the email has decided where these are two.
    """
    mine = of_hub_id(connection, account, before) if before else None
    theirs = of_hub_id(connection, account, hub_id) if hub_id != before else None
    phone_id: str | None = phone and connection.scalar(
        _CONTACT_WITH_PHONE, _of(account) | {"phone": phone[:LONGEST]}
    )
    return Known(
        mine.crm_id if mine else "",
        theirs.crm_id if theirs else "",
        phone_id or "",
        by_phone=mine is not None and not mine.email,
    )


@dataclass(frozen=True, slots=True)
class Acquaintances:
    """The acquaintances that are one contact of the CRM: hub ids and persons, the oldest first.

    `accepted` says when each value of the contact was accepted last (ms).
    """

    hub_ids: tuple[str, ...]
    persons: tuple[str, ...]
    accepted: Mapping[str, int]


def of_crm_id(connection: Connection, account: Account, crm_id: str) -> Acquaintances:
    """Return the acquaintances that are this contact of the CRM."""
    rows = connection.rows(_OF_CRM_ID, _of(account) | {"crm_id": crm_id})
    return Acquaintances(
        tuple(row.hub_id for row in rows),
        tuple(dict.fromkeys(row.person for row in rows)),
        _latest(json.loads(row.accepted) for row in rows if row.accepted),
    )


def hold_phone(tx: Connection, account: Account, phone: str) -> None:
    """Let no other outcome with this phone be recorded until the transaction ends."""
    hold(tx, account.id, account.connection.id, "outcome of phone", phone[:LONGEST])


def with_phone(
    connection: Connection, account: Account, phone: str, *, besides: str
) -> Bound | None:
    """Return the oldest acquaintance of another contact that took this phone, None for none."""
    rows = connection.rows(
        _OTHERS_WITH_PHONE,
        _of(account) | {"phone": phone[:LONGEST], "besides": besides, "most": _MOST_SHARING},
    )
    known = (_as_bound(row) for row in rows)
    return next((one for one in known if one.last_values.get("phone") == phone), None)


def set_crm_id(tx: Connection, account: Account, hub_id: str, crm_id: str) -> bool:
    """Note which contact of the CRM an acquaintance is; return whether that was not known."""
    changed = tx.run(_SET_CRM_ID, _of(account) | {"hub_id": hub_id, "crm_id": crm_id})
    return bool(changed)


def unite(tx: Connection, account: Account, persons: Iterable[str], into: str) -> None:
    """Let these persons be one from now on: their actions keep one order."""
    for person in persons:
        for statement in _UNITE:
            tx.run(statement, _of(account) | {"former": person, "person": into})


def last_accepted(tx: Connection, account: Account, person: str) -> int:
    """Return when a value of a person was accepted last (ms), 0 for never."""
    rows = tx.rows(_ACCEPTED, _of(account) | {"person": person})
    return max((at for row in rows for at in json.loads(row.accepted).values()), default=0)


def _latest(several: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the latest of the times under each name; the names used last, up to a number."""
    latest: dict[str, int] = {}
    for times in several:
        for name, moment in times.items():
            latest[name] = max(moment, latest.pop(name, 0))
    return dict(list(latest.items())[-_MOST_VALUES:])


def accounts_of_token(database: Database, token: str) -> list[int]:
    """Return the accounts whose present connection holds this token (no more than a thousand)."""
    with database.reading() as connection:
        rows = connection.rows(_ACCOUNTS_OF_TOKEN, {"token": token})
    return [row.account_id for row in rows]


def last_chat(connection: Connection, account: Account, crm_id: str) -> int:
    """Return when a helper was last called for this contact, in ms; 0 for never."""
    moment: int | None = connection.scalar(_LAST_CHAT, _of(account) | {"crm_id": crm_id})
    return moment or 0


# --- writing ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Met:
    """Whom a lead is about: `bound` from now on, `before` the conversation's one until now.

    `new` says that nobody can know of this person yet.
    """

    bound: Bound
    before: str
    new: bool = False


def meet(
    tx: Connection,
    account: Account,
    *,
    token: str,
    email: str,
    phone: str,
    values: Mapping[str, str] | None = None,
) -> Met:
    """Let a conversation be about whoever has this email, and note what was said.

    With another email than before it may be about somebody else, which only the CRM can tell: so
    it gets a hub id of its own, and whoever it was about keeps the old one. `values` are kept, to
    be read until the CRM knows them.
    """
    said = {"token": token, "email": email[:LONGEST], "phone": phone[:LONGEST]}
    said = {name: text for name, text in said.items() if text}
    # Calls of one conversation, or of one person, at once would each see nobody.
    hold_all(tx, [(account.id, account.connection.id, *one) for one in said.items()])
    found = _all_of(tx, account, said)
    before, theirs = found.get("token"), found.get("email")
    if before is not None and _may_be(before, said.get("email", "")):
        bound = before
    elif theirs is not None and theirs.free:
        bound = theirs
        _point(tx, account, token, theirs)
    else:
        alike = theirs or before or found.get("phone")
        person = _person_now(tx, account, alike) if alike else _new_id()
        if before is not None:
            _unpoint(tx, account, token)
        crm_id = theirs.crm_id if theirs else ""
        kept = dict(values or {})
        if before is not None and theirs is None and not (before.email or before.crm_id):
            # What the conversation has said so far, as long as the CRM does not know it.
            kept = {**before.last_values, **kept}
        bound = _add(tx, account, person, crm_id, said, {} if crm_id else kept)
        return Met(bound, before.hub_id if before else "", new=alike is None)
    person = tx.scalar(
        _NOTE_SAID,
        _of(account)
        | {"hub_id": bound.hub_id, "last_chat_at": now_ms()}
        | {"email": said.get("email"), "phone": said.get("phone")}
        | {"last_values": _kept(bound, values) if values else None},
    )
    bound = replace(bound, person=person or bound.person)
    return Met(bound, before.hub_id if before is not None else "")


def _person_now(tx: Connection, account: Account, bound: Bound) -> str:
    """Return the person this is now, and until the transaction ends; see `note_chat`."""
    person: str | None = tx.scalar(_PERSON_NOW, _of(account) | {"hub_id": bound.hub_id})
    return person or bound.person


def _may_be(before: Bound, email: str) -> bool:
    """Return whether this email leaves the conversation with whom it was about."""
    # With another email, or a first one, it may be about another contact.
    return not email or before.email == email


def settle(
    tx: Connection,
    account: Account,
    hub_id: str,
    *,
    crm_id: str,
    values: Mapping[str, str],
    accepted: Mapping[str, int] | None = None,
) -> None:
    """Note which contact of the CRM an acquaintance is, and the values of that contact now.

    `accepted` says when each of the values was accepted (ms), None for values that were read.
    Acquaintances that turn out to be one contact are one person from then on.
    """
    # Who is made acquainted with this contact at once would not see that it is the same.
    crm_id = merged_contacts.hold_contact(tx, account, crm_id)
    here = _of(account) | {"hub_id": hub_id, "crm_id": crm_id}
    row = tx.row(_TO_SETTLE, here)
    if row is None:
        return
    bound = _as_bound(row)
    changed = _merged(bound.last_values, values)
    if bound.crm_id == crm_id and changed == bound.last_values and not accepted:
        return
    former = json.loads(row.accepted or "{}") if bound.crm_id == crm_id else {}
    latest = _latest([former, accepted or {}])
    tx.run(
        _SET_CONTACT,
        here
        | {"last_values": json.dumps(changed)}
        | {"accepted": json.dumps(latest) if latest else None},
    )
    person = row.other_person or bound.person
    # What was accepted for the contact by the CRM's id, before anyone here was known to be it.
    named = [crm_id] if row.named_by_crm_id else []
    unite(tx, account, {bound.person, *named} - {person}, person)


def remember(tx: Connection, account: Account, bound: Bound, values: Mapping[str, str]) -> None:
    """Keep what was said of somebody whom the CRM does not know yet, to be read meanwhile."""
    if (kept := _kept(bound, values)) is not None:
        tx.run(_SET_LAST_VALUES, _of(account) | {"hub_id": bound.hub_id, "last_values": kept})


def acquaint(tx: Connection, account: Account, crm_id: str) -> Bound:
    """Return the acquaintance of a contact of the CRM that a bot named, made when there is none."""
    crm_id = merged_contacts.hold_contact(tx, account, crm_id)
    found = _bound(tx, account, _BY_CRM_ID, crm_id)
    # What was accepted for the contact before it was known here has its id for the person, too.
    return found or _add(tx, account, crm_id, crm_id, {}, {})


def chatted(database: Database, account: Account, crm_id: str) -> None:
    """Note that a helper was called for this contact just now."""
    with database.reading() as connection:
        # It lies ahead where the clock was set back.
        if abs(now_ms() - last_chat(connection, account, crm_id)) < _SAME_CALL_MS:
            return

    def work(tx: Connection) -> None:
        bound = acquaint(tx, account, crm_id)
        note_chat(tx, account, bound)

    # What is read is answered, also where nothing can be written.
    with suppress(Unwritable):
        database.transact(work)


def note_chat(tx: Connection, account: Account, bound: Bound) -> str:
    """Note that a helper was called for them just now; return their person, "" once erased.

    It may have turned out to be another one since it was read, and stays this one until the
    transaction ends.
    """
    # Not in all rows of a contact of the CRM: each of their conversations has left one.
    person: str | None = tx.scalar(
        _NOTE_CHAT, _of(account) | {"hub_id": bound.hub_id, "last_chat_at": now_ms()}
    )
    return person or ""


def _add(
    tx: Connection,
    account: Account,
    person: str,
    crm_id: str,
    said: Mapping[str, str],
    values: Mapping[str, str],
) -> Bound:
    """Add an acquaintance with the token, email and phone that were said."""
    now = now_ms()
    here = _of(account) | {
        "hub_id": _new_id(),
        "person": person,
        "contact_token": said.get("token"),
        "crm_id": crm_id or None,
        "email": said.get("email"),
        "phone": said.get("phone"),
        "last_values": json.dumps(_merged({}, values)) if values else None,
        "last_chat_at": now,
        "created_at": now,
    }
    tx.run(_ADD, here)
    email = said.get("email", "")
    return Bound(here["hub_id"], person, crm_id, email, dict(values), free="token" not in said)


def _point(tx: Connection, account: Account, token: str, bound: Bound) -> None:
    _unpoint(tx, account, token)
    tx.run(_SET_TOKEN, _of(account) | {"contact_token": token, "hub_id": bound.hub_id})


def _unpoint(tx: Connection, account: Account, token: str) -> None:
    tx.run(_CLEAR_TOKEN, _of(account) | {"token": token})


def settle_others(
    tx: Connection, account: Account, hub_id: str, *, crm_id: str, values: Mapping[str, str]
) -> None:
    """Note which contact of the CRM others are who have the email that a lead has stored.

    Or its phone, where neither has an email. Their own leads may have failed.
    """
    email, phone = values.get("email", "")[:LONGEST], values.get("phone", "")[:LONGEST]
    if not (email or phone):
        return
    others = tx.rows(
        _OTHERS_WITHOUT_CONTACT["email" if email else "phone"],
        _of(account) | {"hub_id": hub_id} | ({"email": email} if email else {"phone": phone}),
    )
    for other in sorted(row.hub_id for row in others):
        settle(tx, account, other, crm_id=crm_id, values={})


def correct(
    tx: Connection,
    account: Account,
    hub_id: str,
    *,
    said: Mapping[str, str],
    values: Mapping[str, str],
) -> None:
    """Note corrected values of an acquaintance; `said` are its email and phone, "" for none.

    It is one person from then on with whoever has its email, or its phone where neither has an
    email.
    """
    said = {name: text[:LONGEST] for name, text in said.items()}
    hold_all(tx, [(account.id, account.connection.id, *one) for one in said.items() if one[1]])
    bound = of_hub_id(tx, account, hub_id)
    if bound is None:
        return
    person = _person_now(tx, account, bound)
    remember(tx, account, bound, values)
    here = _of(account) | {"hub_id": hub_id}
    for name, text in said.items():
        tx.run(_SET_SAID[name], here | {"said": text or None})
    if not said:
        return
    other: str | None = tx.scalar(_PERSON_ALIKE, here)
    if other and other != person:
        unite(tx, account, [person], other)


def _all_of(connection: Connection, account: Account, said: Mapping[str, str]) -> dict[str, Bound]:
    """Return the acquaintances that have this token, email and phone, by these words."""
    rows = connection.rows(_with_any(tuple(said)), {**_of(account), **said})
    return {row.said: _as_bound(row) for row in rows}


def _bound(
    connection: Connection, account: Account, statement: Statement, value: str
) -> Bound | None:
    row = connection.row(statement, _of(account) | {"value": value})
    return None if row is None else _as_bound(row)


def _as_bound(row: Any) -> Bound:
    return Bound(
        row.hub_id,
        row.person,
        row.crm_id or "",
        row.email or "",
        json.loads(row.last_values or "{}"),
        free=bool(row.free),
    )


def _kept(bound: Bound, values: Mapping[str, str]) -> str | None:
    """Return the last values with these, None for whom the CRM has: it tells what it took."""
    return None if bound.crm_id else json.dumps(_merged(bound.last_values, values))


def _merged(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    values = {**old, **new}
    return dict(list(values.items())[-_MOST_VALUES:])


def _new_id() -> str:
    return HUB_ID + random_token(96, BASE36)


def _of(account: Account) -> dict[str, Any]:
    return {"account_id": account.id, "connection_id": account.connection.id}
