"""Two contacts side by side: what a merge of them would do, or what their CRM shows of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.adapter import Adapter, AdapterError, BadConfig, contract
from crmhub.database.connection import Connection
from crmhub.database.statements import Statement, param
from crmhub.database.tables import binding, enrolment
from crmhub.errors import Conflict, Semantic
from crmhub.helpers.crm_connection import ask
from crmhub.hub import Hub
from crmhub.identity import possible_duplicates
from crmhub.identity.possible_duplicates import Pair
from crmhub.properties.kinds import CONTACTS
from crmhub.records.merging import combined
from crmhub.records.writing import Record

_RECORD_ID = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)
COMPARED = ("firstname", "lastname", "email", "phone")
"""The properties that are read of a contact in another CRM."""

_COUNT_CONVERSATIONS = Statement(
    sa.select(sa.func.count())
    .select_from(binding)
    .where(
        binding.c.account_id == param("account_id"),
        binding.c.connection_id == param("connection_id"),
        binding.c.crm_id == param("crm_id"),
    )
)
_COUNT_ENROLMENTS = Statement(
    sa.select(sa.func.count())
    .select_from(enrolment)
    .where(
        enrolment.c.account_id == param("account_id"),
        enrolment.c.connection_id == param("connection_id"),
        enrolment.c.contact_id == param("contact_id"),
    )
)


@dataclass(frozen=True, slots=True)
class Side:
    """A contact of a pair as operators see it; `error` says why the CRM does not show it."""

    id: str
    exists: bool = True
    created_at: int = 0
    url: str = ""
    error: str = ""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def title(self) -> str:
        """What people call the contact, "" when it has no such value."""
        held = self.properties
        name = " ".join(filter(None, (held.get("firstname"), held.get("lastname"))))
        return name or held.get("email") or held.get("phone") or ""


@dataclass(frozen=True, slots=True)
class Value:
    """A property that either contact has: `of` maps both ids to its value, `winner` is an id."""

    name: str
    label: str
    of: Mapping[str, str] = field(repr=False)
    winner: str

    @property
    def differs(self) -> bool:
        """Whether there is a choice."""
        return len({*self.of.values()}) > 1


@dataclass(frozen=True, slots=True)
class Preview:
    """What a merge would do.

    `sides` are the kept contact and the other one, `moves` counts what goes from the other one to
    the kept one. `version` changes with the values of either contact. `obstacle` says why the hub
    cannot merge the pair; then only `pair` and `sides` are filled in.
    """

    pair: Pair
    sides: tuple[Side, Side]
    obstacle: str = ""
    version: str = ""
    values: tuple[Value, ...] = ()
    moves: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Choice:
    """What an operator has chosen: `taken` are the properties that come from the other contact."""

    kept: Record
    other: Record
    taken: frozenset[str]
    version: str

    @property
    def properties(self) -> dict[str, str]:
        """The values of the kept contact after the merge."""
        return combined(self.kept.properties, self.other.properties, self.taken)


def is_mergeable(hub: Hub, account: Account) -> bool:
    """Return whether the account's contacts are the hub's own records, which the hub can merge."""
    try:
        return not hub.registry.load(account.connection.adapter).remote
    except BadConfig:
        return False


def titles(hub: Hub, account: Account, pairs: Sequence[Pair]) -> dict[str, str]:
    """Return what people call the contacts of the pairs, by id; of another CRM's none."""
    if not is_mergeable(hub, account):
        return {}
    records = _records(hub, account, (id for pair in pairs for id in pair.ids))
    return {id: _side(records, id).title for id in records}


def preview(
    hub: Hub,
    account: Account,
    one: str,
    other: str,
    *,
    keep: str = "",
    take: Mapping[str, str] | None = None,
) -> Preview:
    """Return what a merge of a pair would do; nothing is changed.

    `keep` is the id of the contact to keep, by default of the older one; `take` maps a property to
    the id of the contact whose value wins. Of another CRM's contacts it returns what that shows; a
    pair that turns out to be one contact there is closed. Raises NotFound for the pair, Semantic
    for `keep` and `take`.
    """
    with hub.database.reading() as db:
        pair = possible_duplicates.find(db, account, one, other)
    if not is_mergeable(hub, account):
        return _elsewhere(hub, account, pair)
    try:
        choice = choose(hub, account, pair, keep=keep, take=take or {})
    except Conflict as exc:
        records = _records(hub, account, pair.ids)
        ids = sorted(pair.ids, key=lambda id: (id not in records, id != (keep or pair.kept_id)))
        return Preview(pair, (_side(records, ids[0]), _side(records, ids[1])), exc.message)
    kept, loser = choice.kept, choice.other
    records = {str(record.id): record for record in (kept, loser)}
    held = {**kept.properties, **loser.properties}
    with hub.database.reading() as db:
        moves = count_moves(db, account, kept, loser)
    values = [
        Value(
            known.name,
            known.label,
            {id: record.properties.get(known.name, "") for id, record in records.items()},
            str((loser if known.name in choice.taken else kept).id),
        )
        for known in hub.records.catalogue(account, CONTACTS)
        if known.name in held
    ]
    sides = (_side(records, str(kept.id)), _side(records, str(loser.id)))
    return Preview(pair, sides, "", choice.version, tuple(values), moves)


def choose(hub: Hub, account: Account, pair: Pair, *, keep: str, take: Mapping[str, str]) -> Choice:
    """Return the contacts of a pair as they are to be merged; see `preview`.

    Raises Semantic for `keep` and `take`, Conflict when the hub cannot merge the pair.
    """
    if keep and keep not in pair.ids:
        raise Semantic(f"keep: {keep[:60]} is not in this pair; send {' or '.join(pair.ids)}.")
    if not is_mergeable(hub, account):
        raise Conflict(_merge_there(hub, account))
    if pair.state == "merged":
        raise Conflict("The contacts are merged already.")
    records = _records(hub, account, pair.ids)
    if missing := [id for id in pair.ids if id not in records]:
        raise Conflict(f"Contact {missing[0]} was deleted. Dismiss the pair.")
    for name, id in take.items():
        if id not in pair.ids:
            raise Semantic(
                f"take.{name[:100]}: {id[:60]} is not in this pair; send {' or '.join(pair.ids)}."
            )
        if not any(name in record.properties for record in records.values()):
            raise Semantic(f"take.{name[:100]}: neither contact has a value of this property.")
    older = min(records.values(), key=lambda record: (record.created_at, record.id))
    kept = records[keep or str(older.id)]
    loser = records[pair.but(str(kept.id))]
    # What only the other contact has fills a blank, unless the blank is chosen.
    winners = {**dict.fromkeys(loser.properties.keys() - kept.properties, str(loser.id)), **take}
    taken = frozenset(name for name, id in winners.items() if id == str(loser.id))
    version = "-".join(str(records[id].version) for id in pair.ids)
    return Choice(kept, loser, taken, version)


def count_moves(db: Connection, account: Account, kept: Record, loser: Record) -> dict[str, int]:
    """Count what a merge moves: links that the kept contact lacks, conversations, enrolments."""
    held = {
        **kept.associations,
        CONTACTS.name: [*kept.associations.get(CONTACTS.name, ()), kept.id],
    }
    new = {name: {*ids} - {*held.get(name, ())} for name, ids in loser.associations.items()}
    here = {"account_id": account.id, "connection_id": account.connection.id}
    return {
        **{name: len(ids) for name, ids in new.items() if ids},
        "conversations": db.scalar(_COUNT_CONVERSATIONS, here | {"crm_id": str(loser.id)}),
        "enrolments": db.scalar(_COUNT_ENROLMENTS, here | {"contact_id": str(loser.id)}),
    }


def _records(hub: Hub, account: Account, ids: Iterable[str]) -> dict[str, Record]:
    """Return those of the contacts that are records of the hub, by id."""
    wanted = sorted({int(id) for id in ids if _RECORD_ID.fullmatch(id)})
    return {str(record.id): record for record in hub.records.read(account, CONTACTS, wanted)}


def _side(records: Mapping[str, Record], id: str) -> Side:
    record = records.get(id)
    if record is None:
        return Side(id, exists=False)
    return Side(id, created_at=record.created_at, properties=record.properties)


# --- another CRM's contacts --------------------------------------------------------------------


def _merge_there(hub: Hub, account: Account) -> str:
    name = account.connection.adapter
    # An adapter that cannot be loaded now is known by its name alone.
    with suppress(BadConfig):
        name = hub.registry.load(name).title or name
    return f"These contacts are in {name}. Merge them there."


def _elsewhere(hub: Hub, account: Account, pair: Pair) -> Preview:
    """Return a pair with what its CRM shows of both contacts now."""
    sides = (Side(pair.one), Side(pair.other))
    if pair.state == "open":
        sides = _ask_crm(hub, account, pair)
        ids = {side.id for side in sides}
        if len(ids) == 1:
            pair = possible_duplicates.close(hub.database, account, pair, ids.pop())
    return Preview(pair, sides, _merge_there(hub, account))


def _ask_crm(hub: Hub, account: Account, pair: Pair) -> tuple[Side, Side]:
    """Return both contacts as their CRM shows them, under the ids that it has for them now."""

    def look(adapter: Adapter, contact_id: str) -> Side:
        try:
            found = adapter.get_contact(contact_id, COMPARED)
        except contract.NotFound:
            return Side(contact_id, exists=False)
        url = found.url if adapter.record_pages else ""
        return Side(found.id, url=_page(url), properties=found.properties)

    if reason := hub.journal.outage_reason(account):
        return Side(pair.one, error=reason), Side(pair.other, error=reason)
    try:
        return ask(hub, account, lambda crm: (look(crm, pair.one), look(crm, pair.other)))
    except AdapterError as exc:
        return Side(pair.one, error=exc.message), Side(pair.other, error=exc.message)


def _page(url: str) -> str:
    """Return the address of a record's page, "" for anything that is no link to follow."""
    return url if url.startswith(("https://", "http://")) else ""
