"""What the hub remembers of the people its bots talk to, for each connection to a CRM.

A row is an acquaintance: a `hub_id` that is valid for ever, and the contact of the CRM it stands
for as soon as that is known. A conversation (its `contactToken`) points to one row at a time; when
it turns out to be about somebody else, the token moves to another row and the old row stays what
it was. Rows of one person share `person`, by which what is done for that person keeps its order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from crmhub.accounts.accounts import Account
from crmhub.database.advisory_locks import hold, hold_all
from crmhub.database.connection import (
    Connection,
    Database,
    now_ms,
)
from crmhub.database.drivers import Unwritable
from crmhub.errors import NotFound
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
_HERE = "account_id = :account and connection_id = :connection"
_ROW = "hub_id, person, crm_id, email, last_values, contact_token is null"
_OF_ACTION = "account_id = a.account_id and {0}.connection_id = a.connection_id and {0}.hub_id"
SAME_CONTACT = (
    "(a.hub_id = :hub_id or exists (select 1 from binding o"
    f" where o.{_OF_ACTION.format('o')} = a.hub_id and o.crm_id = :hub_id)"
    f" or exists (select 1 from binding m left join binding o on o.{_OF_ACTION.format('o')}"
    f" = a.hub_id where m.{_OF_ACTION.format('m')} = :hub_id"
    " and (m.crm_id in (a.hub_id, o.crm_id) or ((m.crm_id is null or o.crm_id is null)"
    " and (m.email = o.email"
    " or (m.email is null and o.email is null and m.phone = o.phone))))))"
)
"""SQL: the action `a` is for the same contact as `:hub_id`, the hub's id or the CRM's own.

Those of one `person` may be several contacts. As long as the CRM has not told who somebody is, one
email is one contact, and one phone is where no email is known.
"""


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
    return _bound(connection, account, "contact_token = :it", token)


def of_hub_id(connection: Connection, account: Account, hub_id: str) -> Bound | None:
    """Return the acquaintance of this hub id."""
    return _bound(connection, account, "hub_id = :it", hub_id)


def of_contact(connection: Connection, account: Account, contact_id: str) -> Bound | None:
    """Return the acquaintance of an id as a bot has it: the hub's, or the CRM's own.

    None for an id of the CRM that the hub has not seen. Raises NotFound for one of the hub's form
    that it never issued for this connection.
    """
    if not contact_id.startswith(HUB_ID):
        crm_id = merged_into(connection, account, contact_id[:LONGEST])
        return _bound(connection, account, "crm_id = :it", crm_id)
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
        f"select crm_id from binding where {_HERE} and phone = :phone and crm_id is not null"
        # Of several contacts the oldest.
        " order by created_at, hub_id limit 1",
        _of(account) | {"phone": phone[:LONGEST]},
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
    rows = connection.rows(
        f"select hub_id, person, accepted from binding where {_HERE} and crm_id = :crm_id"
        " order by created_at, hub_id",
        _of(account) | {"crm_id": crm_id},
    )
    return Acquaintances(
        tuple(hub_id for hub_id, _, _ in rows),
        tuple(dict.fromkeys(person for _, person, _ in rows)),
        _latest(json.loads(times) for _, _, times in rows if times),
    )


def hold_phone(tx: Connection, account: Account, phone: str) -> None:
    """Let no other outcome with this phone be recorded until the transaction ends."""
    hold(tx, account.id, account.connection.id, "outcome of phone", phone[:LONGEST])


def with_phone(
    connection: Connection, account: Account, phone: str, *, besides: str
) -> Bound | None:
    """Return the oldest acquaintance of another contact that took this phone, None for none."""
    rows = connection.rows(
        f"select {_ROW} from binding where {_HERE} and phone = :phone and crm_id <> :besides"
        " order by created_at, hub_id limit :most",
        _of(account) | {"phone": phone[:LONGEST], "besides": besides, "most": _MOST_SHARING},
    )
    known = (_as_bound(row) for row in rows)
    return next((one for one in known if one.last_values.get("phone") == phone), None)


def set_crm_id(tx: Connection, account: Account, hub_id: str, crm_id: str) -> bool:
    """Note which contact of the CRM an acquaintance is; return whether that was not known."""
    changed = tx.run(
        f"update binding set crm_id = :crm_id, accepted = null where {_HERE} and hub_id = :hub_id"
        " and (crm_id is null or crm_id <> :crm_id)",
        _of(account) | {"hub_id": hub_id, "crm_id": crm_id},
    )
    return bool(changed)


def unite(tx: Connection, account: Account, persons: Iterable[str], into: str) -> None:
    """Let these persons be one from now on: their actions keep one order."""
    for person in persons:
        for table in ("binding", "action"):
            tx.run(
                f"update {table} set person = :into where {_HERE} and person = :person",
                _of(account) | {"person": person, "into": into},
            )


def last_accepted(tx: Connection, account: Account, person: str) -> int:
    """Return when a value of a person was accepted last (ms), 0 for never."""
    rows = tx.rows(
        f"select accepted from binding where {_HERE} and person = :person"
        " and accepted is not null order by last_chat_at desc limit 20",
        _of(account) | {"person": person},
    )
    return max((at for (times,) in rows for at in json.loads(times).values()), default=0)


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
        rows = connection.rows(
            "select distinct b.account_id from binding b join account a"
            " on a.id = b.account_id and a.connection_id = b.connection_id"
            " where b.contact_token = :token limit 1000",
            {"token": token},
        )
    return [row[0] for row in rows]


def last_chat(connection: Connection, account: Account, crm_id: str) -> int:
    """Return when a helper was last called for this contact, in ms; 0 for never."""
    moment: int | None = connection.scalar(
        f"select max(last_chat_at) from binding where {_HERE} and crm_id = :crm_id",
        _of(account) | {"crm_id": crm_id},
    )
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
        "update binding set last_chat_at = :now,"
        " email = coalesce(:email, email), phone = coalesce(:phone, phone),"
        " last_values = coalesce(:last_values, last_values)"
        f" where {_HERE} and hub_id = :hub_id returning person",
        _of(account)
        | {"hub_id": bound.hub_id, "now": now_ms()}
        | {"email": said.get("email"), "phone": said.get("phone")}
        | {"last_values": _kept(bound, values) if values else None},
    )
    bound = replace(bound, person=person or bound.person)
    return Met(bound, before.hub_id if before is not None else "")


def _person_now(tx: Connection, account: Account, bound: Bound) -> str:
    """Return the person this is now, and until the transaction ends; see `note_chat`."""
    person: str | None = tx.scalar(
        f"select person from binding where {_HERE} and hub_id = :hub_id{tx.for_update}",
        _of(account) | {"hub_id": bound.hub_id},
    )
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
    crm_id = hold_contact(tx, account, crm_id)
    here = _of(account) | {"hub_id": hub_id, "crm_id": crm_id}
    row = tx.row(
        f"select {_ROW}, accepted, (select o.person from binding o where o.account_id = :account"
        " and o.connection_id = :connection and o.crm_id = :crm_id and o.hub_id <> :hub_id"
        " order by o.created_at, o.hub_id limit 1), exists (select 1 from action a"
        " where a.account_id = :account and a.person = :crm_id)"
        f" from binding where {_HERE} and hub_id = :hub_id",
        here,
    )
    if row is None:
        return
    bound, (times, other, named) = _as_bound(row[:-3]), row[-3:]
    changed = _merged(bound.last_values, values)
    if bound.crm_id == crm_id and changed == bound.last_values and not accepted:
        return
    former = json.loads(times or "{}") if bound.crm_id == crm_id else {}
    latest = _latest([former, accepted or {}])
    tx.run(
        "update binding set crm_id = :crm_id, last_values = :last_values, accepted = :accepted"
        f" where {_HERE} and hub_id = :hub_id",
        here
        | {"last_values": json.dumps(changed)}
        | {"accepted": json.dumps(latest) if latest else None},
    )
    person = other or bound.person
    # What was accepted for the contact by the CRM's id, before anyone here was known to be it.
    unite(tx, account, {bound.person, *([crm_id] if named else [])} - {person}, person)


def remember(tx: Connection, account: Account, bound: Bound, values: Mapping[str, str]) -> None:
    """Keep what was said of somebody whom the CRM does not know yet, to be read meanwhile."""
    if (kept := _kept(bound, values)) is not None:
        tx.run(
            f"update binding set last_values = :last_values where {_HERE} and hub_id = :hub_id",
            _of(account) | {"hub_id": bound.hub_id, "last_values": kept},
        )


def acquaint(tx: Connection, account: Account, crm_id: str) -> Bound:
    """Return the acquaintance of a contact of the CRM that a bot named, made when there is none."""
    crm_id = hold_contact(tx, account, crm_id)
    found = _bound(tx, account, "crm_id = :it", crm_id)
    # What was accepted for the contact before it was known here has its id for the person, too.
    return found or _add(tx, account, crm_id, crm_id, {}, {})


def chatted(database: Database, account: Account, crm_id: str) -> None:
    """Note that a helper was called for this contact just now."""
    here = _of(account) | {"crm_id": crm_id, "now": now_ms()}
    with database.reading() as connection:
        # It lies ahead where the clock was set back.
        if abs(here["now"] - last_chat(connection, account, crm_id)) < _SAME_CALL_MS:
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
    person: str | None = tx.scalar(
        # Not in all rows of a contact of the CRM: each of their conversations has left one.
        f"update binding set last_chat_at = :now where {_HERE} and hub_id = :hub_id"
        " returning person",
        _of(account) | {"hub_id": bound.hub_id, "now": now_ms()},
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
    here = _of(account) | {
        "hub_id": _new_id(),
        "person": person,
        "token": said.get("token"),
        "crm_id": crm_id or None,
        "email": said.get("email"),
        "phone": said.get("phone"),
        "last_values": json.dumps(_merged({}, values)) if values else None,
        "now": now_ms(),
    }
    tx.run(
        "insert into binding (account_id, connection_id, hub_id, person, contact_token, crm_id,"
        " email, phone, last_values, last_chat_at, created_at) values (:account, :connection,"
        " :hub_id, :person, :token, :crm_id, :email, :phone, :last_values, :now, :now)",
        here,
    )
    email = said.get("email", "")
    return Bound(here["hub_id"], person, crm_id, email, dict(values), free="token" not in said)


def _point(tx: Connection, account: Account, token: str, bound: Bound) -> None:
    _unpoint(tx, account, token)
    tx.run(
        f"update binding set contact_token = :token where {_HERE} and hub_id = :hub_id",
        _of(account) | {"token": token, "hub_id": bound.hub_id},
    )


def _unpoint(tx: Connection, account: Account, token: str) -> None:
    tx.run(
        f"update binding set contact_token = null where {_HERE} and contact_token = :token",
        _of(account) | {"token": token},
    )


def settle_others(
    tx: Connection, account: Account, hub_id: str, *, crm_id: str, values: Mapping[str, str]
) -> None:
    """Note which contact of the CRM others are who have the email that a lead has stored.

    Or its phone, where neither has an email. Their own leads may have failed.
    """
    email, phone = values.get("email", "")[:LONGEST], values.get("phone", "")[:LONGEST]
    if not (email or phone):
        return
    # No index is to answer what is null: after an outage that may be all.
    alike = (
        "o.email = :email"
        if email
        else "o.phone = :phone and coalesce(o.email, '') = '' and exists (select 1 from binding m"
        " where m.account_id = o.account_id and m.connection_id = o.connection_id"
        " and m.hub_id = :hub_id and coalesce(m.email, '') = '')"
    )
    others = tx.rows(
        "select o.hub_id from binding o where o.account_id = :account"
        " and o.connection_id = :connection and o.hub_id <> :hub_id"
        f" and coalesce(o.crm_id, '') = '' and {alike}",
        _of(account) | {"hub_id": hub_id, "email": email, "phone": phone},
    )
    for (other,) in sorted(others):
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
        tx.run(
            f"update binding set {_COLUMNS[name]} = :it where {_HERE} and hub_id = :hub_id",
            here | {"it": text or None},
        )
    if not said:
        return
    other: str | None = tx.scalar(
        "select o.person from binding m join binding o on o.account_id = m.account_id"
        " and o.connection_id = m.connection_id and o.hub_id <> m.hub_id and (o.email = m.email"
        " or (o.email is null and m.email is null and o.phone = m.phone))"
        " where m.account_id = :account and m.connection_id = :connection and m.hub_id = :hub_id"
        " order by o.created_at, o.hub_id limit 1",
        here,
    )
    if other and other != person:
        for table in ("binding", "action"):
            tx.run(
                f"update {table} set person = :person where {_HERE} and person = :former",
                here | {"person": other, "former": person},
            )


_COLUMNS = {"token": "contact_token", "email": "email", "phone": "phone"}


def _all_of(connection: Connection, account: Account, said: Mapping[str, str]) -> dict[str, Bound]:
    """Return the acquaintances that have this token, email and phone, by these words."""
    parts = [
        f"select * from (select '{name}', {_ROW} from binding where {_HERE}"
        f" and {_COLUMNS[name]} = :{name} order by last_chat_at desc, hub_id limit 1) as {name}"
        for name in said
    ]
    rows = connection.rows(" union all ".join(parts), {**_of(account), **said})
    return {row[0]: _as_bound(row[1:]) for row in rows}


def _bound(connection: Connection, account: Account, where: str, it: str) -> Bound | None:
    row = connection.row(
        f"select {_ROW} from binding where {_HERE} and {where}"
        " order by last_chat_at desc, hub_id limit 1",
        _of(account) | {"it": it},
    )
    return None if row is None else _as_bound(row)


def _as_bound(row: Sequence[Any]) -> Bound:
    hub_id, person, crm_id, email, values, free = row
    known_values = json.loads(values or "{}")
    return Bound(hub_id, person, crm_id or "", email or "", known_values, free=bool(free))


def _kept(bound: Bound, values: Mapping[str, str]) -> str | None:
    """Return the last values with these, None for whom the CRM has: it tells what it took."""
    return None if bound.crm_id else json.dumps(_merged(bound.last_values, values))


def _merged(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    values = {**old, **new}
    return dict(list(values.items())[-_MOST_VALUES:])


def _new_id() -> str:
    return HUB_ID + random_token(96, BASE36)


def _of(account: Account) -> dict[str, Any]:
    return {"account": account.id, "connection": account.connection.id}


# --- merged contacts -------------------------------------------------------------------------


def merged_into(connection: Connection, account: Account, crm_id: str) -> str:
    """Return the contact that this contact of the CRM was merged into, else its own id."""
    kept_id: str | None = connection.scalar(
        f"select kept_id from possible_duplicate where {_HERE} and merged_id = :crm_id",
        _of(account) | {"crm_id": crm_id},
    )
    return kept_id or crm_id


def with_former_email(connection: Connection, account: Account, email: str) -> str:
    """Return the contact that got another email when it was merged, "" for none."""
    kept_id: str | None = connection.scalar(
        f"select kept_id from possible_duplicate where {_HERE} and email = :email"
        " order by decided_at limit 1",
        _of(account) | {"email": email},
    )
    return kept_id or ""


def hold_contact(tx: Connection, account: Account, crm_id: str) -> str:
    """Hold a contact of the CRM, or the one it was merged into, and return its id."""
    hold_contacts(tx, account, [crm_id])
    kept_id = merged_into(tx, account, crm_id)
    if kept_id != crm_id:
        hold_contacts(tx, account, [kept_id])
    return kept_id


def hold_contacts(tx: Connection, account: Account, crm_ids: Sequence[str]) -> None:
    """Let nobody else bind to these contacts of the CRM until the transaction ends."""
    names = [(account.id, account.connection.id, "contact", crm_id) for crm_id in sorted(crm_ids)]
    hold_all(tx, names)


def hold_actions(tx: Connection, account: Account, crm_ids: Sequence[str]) -> None:
    """Let nobody else change the unfinished actions of these contacts until the transaction ends.

    An outcome is recorded under the lock of its action, then under that of its contact: who needs
    both calls this before `hold_contacts`.
    """
    among, params = tx.among("crm_id", "ids", crm_ids)
    rows = tx.rows(
        f"select distinct person from binding where {_HERE} and {among}", _of(account) | params
    )
    among, params = tx.among("person", "persons", sorted({*crm_ids, *(row[0] for row in rows)}))
    tx.rows(
        f"select 1 from action where account_id = :account and {among}"
        f" and state in ('running', 'queued') order by id{tx.for_update}",
        _of(account) | params,
    )


@dataclass(frozen=True, slots=True)
class Joined:
    """What `join` changed: the hub ids that led to the merged contact, and former persons.

    `persons` maps ids, as actions name their contact, to their person before it became `person`.
    """

    person: str
    hub_ids: tuple[str, ...]
    persons: Mapping[str, str]


def join(tx: Connection, account: Account, merged_id: str, kept_id: str) -> Joined:
    """Let the bindings of a merged contact lead to the kept one; both are one person from then on.

    The caller holds both contacts. The actions of both keep the order of their acceptance.
    """
    here = _of(account) | {"merged": merged_id, "kept": kept_id}
    rows = tx.rows(
        f"select hub_id, person, crm_id from binding where {_HERE} and crm_id in (:merged, :kept)"
        f" order by created_at, hub_id{tx.for_update}",
        here,
    )
    of_kept = [person for _, person, crm_id in rows if crm_id == kept_id]
    of_merged = [person for _, person, crm_id in rows if crm_id == merged_id]
    person = [*of_kept, *of_merged, kept_id][0]
    # Actions may name a contact by the CRM's id, which is then their person as long as no binding
    # is known.
    own = {merged_id: [*of_merged, merged_id][0], kept_id: [*of_kept, kept_id][0]}
    former = sorted({*of_kept, *of_merged, *own, *own.values()} - {person})
    among, params = tx.among("person", "former", former)
    changed = tx.rows(
        f"select hub_id, person from binding where {_HERE} and {among}", _of(account) | params
    )
    tx.run(f"update binding set crm_id = :kept where {_HERE} and crm_id = :merged", here)
    for table in ("binding", "action"):
        tx.run(
            f"update {table} set person = :person where {_HERE} and {among}",
            _of(account) | params | {"person": person},
        )
    hub_ids = tuple(hub_id for hub_id, _, crm_id in rows if crm_id == merged_id)
    return Joined(person, hub_ids, {**own, **dict(changed)})


def part(tx: Connection, account: Account, merged_id: str, kept_id: str, joined: Joined) -> None:
    """Let the bindings that `join` has moved lead to their former contact again.

    They have their former person again, and so have their actions, also those accepted since.
    """
    here = _of(account) | {"merged": merged_id, "kept": kept_id, "joined": joined.person}
    among, params = tx.among("hub_id", "hub_ids", joined.hub_ids)
    tx.run(
        f"update binding set crm_id = :merged where {_HERE} and crm_id = :kept and {among}",
        here | params,
    )
    for person in sorted({*joined.persons.values()} - {joined.person}):
        ids = sorted(id for id, former in joined.persons.items() if former == person)
        among, params = tx.among("hub_id", "hub_ids", ids)
        for table in ("binding", "action"):
            tx.run(
                f"update {table} set person = :person"
                f" where {_HERE} and person = :joined and {among}",
                here | params | {"person": person},
            )
