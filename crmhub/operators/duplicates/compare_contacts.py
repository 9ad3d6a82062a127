"""Preview the merge of two contacts of the hub, or compare two contacts of another CRM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from crmhub import adapter as contract
from crmhub.accounts.accounts import Account
from crmhub.adapter import Adapter, AdapterError, BadConfig, is_record_id
from crmhub.crm.connection import ask
from crmhub.crm.deadlines import within
from crmhub.database.connection import Connection
from crmhub.database.statements import count_of, equals
from crmhub.database.tables import binding, enrolment
from crmhub.errors import Conflict, Semantic
from crmhub.hub import Hub
from crmhub.identity import contact_names, possible_duplicates
from crmhub.identity.possible_duplicates import Pair
from crmhub.properties.kinds import CONTACTS
from crmhub.queue.outages import outage_reason
from crmhub.records.merging import combined
from crmhub.records.models import Record
from crmhub.translatable import translatable

COMPARED = ("firstname", "lastname", "email", "phone")

# The most contacts of which a list asks the CRM for the names, and for how long.
_MOST_ASKED = 20
_ASK_S = 3.0

_CONNECTION = ("account_id", "connection_id")
_COUNT_CONVERSATIONS = count_of(binding, *equals(binding, *_CONNECTION, "crm_id"))
_COUNT_ENROLMENTS = count_of(enrolment, *equals(enrolment, *_CONNECTION, "contact_id"))


@dataclass(frozen=True, slots=True)
class Side:
    """One contact of a pair; `created_at` is in ms since 1970, 0 if unknown."""

    id: str
    exists: bool = True
    created_at: int = 0
    url: str = ""
    error: str = ""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def title(self) -> str:
        values = self.properties
        name = " ".join(filter(None, (values.get("firstname"), values.get("lastname"))))
        return name or values.get("email") or values.get("phone") or ""


@dataclass(frozen=True, slots=True)
class Value:
    """A property of two contacts: values `of` each id; a merge keeps that of `winner`."""

    name: str
    label: str
    of: Mapping[str, str] = field(repr=False)
    winner: str

    @property
    def differs(self) -> bool:
        return len({*self.of.values()}) > 1


@dataclass(frozen=True, slots=True)
class Preview:
    """The result that the merge of a pair would have; the first of `sides` is kept.

    `moves` counts what would move to the kept contact. `version` changes when either contact does.
    If the hub cannot merge the pair, `obstacle` says why, and only `pair` and `sides` are set.
    """

    pair: Pair
    sides: tuple[Side, Side]
    obstacle: str = ""
    version: str = ""
    values: tuple[Value, ...] = ()
    moves: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Choice:
    """The contacts of a merge; `taken` names the properties whose value comes from `other`."""

    kept: Record
    other: Record
    taken: frozenset[str]
    version: str

    @property
    def properties(self) -> dict[str, str]:
        return combined(self.kept.properties, self.other.properties, self.taken)


def is_mergeable(hub: Hub, account: Account) -> bool:
    """Whether the account's contacts are the hub's own records."""
    try:
        return not hub.registry.load(account.connection.adapter).remote
    except BadConfig:
        return False


def titles(hub: Hub, account: Account, pairs: Sequence[Pair]) -> dict[str, str]:
    """Return the contacts' names, emails or phones by id, without deleted contacts.

    A CRM is asked only for contacts of whom bots sent nothing, up to `_MOST_ASKED`.
    """
    if not is_mergeable(hub, account):
        return _titles_in_crm(hub, account, list(dict.fromkeys(id for p in pairs for id in p.ids)))
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
    """For contacts in another CRM it shows their present values there.

    If both ids lead to one contact there, the pair is closed as merged. `keep` and `take` are as
    for `choose`. Raises NotFound, and Semantic if they are invalid.
    """
    with hub.database.reading() as db:
        pair = possible_duplicates.find(db, account, one, other)
    if not is_mergeable(hub, account):
        return _preview_in_crm(hub, account, pair)
    try:
        choice = choose(hub, account, pair, keep=keep, take=take or {})
    except Conflict as exc:
        records = _records(hub, account, pair.ids)
        ids = sorted(pair.ids, key=lambda id: (id not in records, id != (keep or pair.kept_id)))
        return Preview(pair, (_side(records, ids[0]), _side(records, ids[1])), exc.message)
    kept, other_record = choice.kept, choice.other
    records = {str(record.id): record for record in (kept, other_record)}
    with hub.database.reading() as db:
        moves = count_moves(db, account, kept, other_record)
    values = [
        Value(
            prop.name,
            prop.label,
            {id: record.properties.get(prop.name, "") for id, record in records.items()},
            str((other_record if prop.name in choice.taken else kept).id),
        )
        for prop in hub.records.catalogue(account, CONTACTS)
        if prop.name in kept.properties or prop.name in other_record.properties
    ]
    sides = (_side(records, str(kept.id)), _side(records, str(other_record.id)))
    return Preview(pair, sides, "", choice.version, tuple(values), moves)


def choose(hub: Hub, account: Account, pair: Pair, *, keep: str, take: Mapping[str, str]) -> Choice:
    """`keep`: a contact's id, "" for the older contact.

    `take`: by property the id of the contact whose value is kept. Raises Semantic for an invalid
    choice, and Conflict if the hub cannot merge the pair.
    """
    if keep and keep not in pair.ids:
        raise Semantic(
            "keep: %(keep)s is not in this pair; send %(ids)s.",
            keep=keep[:60],
            ids=" or ".join(pair.ids),
        )
    if not is_mergeable(hub, account):
        raise Conflict(_obstacle_of_crm(hub, account))
    if pair.state == "merged":
        raise Conflict("The contacts are merged already.")
    records = _records(hub, account, pair.ids)
    if missing := [id for id in pair.ids if id not in records]:
        raise Conflict(_dismiss(missing[0]))
    for name, id in take.items():
        if id not in pair.ids:
            raise Semantic(
                "take.%(name)s: %(id)s is not in this pair; send %(ids)s.",
                name=name[:100],
                id=id[:60],
                ids=" or ".join(pair.ids),
            )
        if not any(name in record.properties for record in records.values()):
            raise Semantic(
                "take.%(name)s: neither contact has a value of this property.", name=name[:100]
            )
    older = min(records.values(), key=lambda record: (record.created_at, record.id))
    kept = records[keep or str(older.id)]
    other = records[pair.but(str(kept.id))]
    # The other contact's value fills an empty property, unless `take` chooses the empty value.
    winners = {**dict.fromkeys(other.properties.keys() - kept.properties, str(other.id)), **take}
    taken = frozenset(name for name, id in winners.items() if id == str(other.id))
    version = "-".join(str(records[id].version) for id in pair.ids)
    return Choice(kept, other, taken, version)


def count_moves(db: Connection, account: Account, kept: Record, other: Record) -> dict[str, int]:
    """Count the links, conversations and enrolments that would move from `other` to `kept`."""
    linked = {
        **kept.associations,
        CONTACTS.name: [*kept.associations.get(CONTACTS.name, ()), kept.id],
    }
    new = {name: {*ids} - {*linked.get(name, ())} for name, ids in other.associations.items()}
    connection = account.connection_key
    return {
        **{name: len(ids) for name, ids in new.items() if ids},
        "conversations": db.scalar(_COUNT_CONVERSATIONS, connection | {"crm_id": str(other.id)}),
        "enrolments": db.scalar(_COUNT_ENROLMENTS, connection | {"contact_id": str(other.id)}),
    }


def _records(hub: Hub, account: Account, ids: Iterable[str]) -> dict[str, Record]:
    """Return live contacts of the hub by id; texts that are no record ids are ignored."""
    record_ids = sorted({int(id) for id in ids if is_record_id(id)})
    return {str(record.id): record for record in hub.records.read(account, CONTACTS, record_ids)}


def _side(records: Mapping[str, Record], id: str) -> Side:
    record = records.get(id)
    if record is None:
        return Side(id, exists=False)
    return Side(id, created_at=record.created_at, properties=record.properties)


def _dismiss(deleted_id: str) -> str:
    return translatable("Contact %(id)s was deleted. Dismiss the pair.", id=deleted_id)


# --- another CRM's contacts --------------------------------------------------------------------


def _obstacle_of_crm(hub: Hub, account: Account) -> str:
    name = account.connection.adapter
    # An adapter that cannot be loaded now has no title.
    with suppress(BadConfig):
        name = hub.registry.load(name).title or name
    return translatable("These contacts are in %(crm)s. Merge them there.", crm=name)


def _preview_in_crm(hub: Hub, account: Account, pair: Pair) -> Preview:
    sides = (Side(pair.one), Side(pair.other))
    if pair.state == "open":
        sides = _ask_crm(hub, account, pair)
        ids = {side.id for side in sides}
        if len(ids) == 1:
            pair = possible_duplicates.close(hub.database, account, pair, ids.pop())
    deleted = [side.id for side in sides if not side.exists]
    obstacle = _dismiss(deleted[0]) if deleted else _obstacle_of_crm(hub, account)
    return Preview(pair, sides, obstacle)


def _titles_in_crm(hub: Hub, account: Account, ids: Sequence[str]) -> dict[str, str]:
    keys = {(account.id, account.connection.id, id): id for id in ids}
    with hub.database.reading() as db:
        names = contact_names.names_of(db, keys)
    titles = {keys[key]: _words(name.title, name.detail) for key, name in names.items()}
    unknown = [id for id in ids if id not in titles][:_MOST_ASKED]
    if not unknown or outage_reason(hub.database, account):
        return titles

    def read(crm: Adapter) -> None:
        for id in unknown:
            side = _get(crm, id)
            titles[id] = _words(side.title, side.properties.get("email") or "")

    # Contacts that the CRM does not return in time are shown by their ids.
    with suppress(AdapterError), within(_ASK_S):
        ask(hub, account, read)
    return titles


def _words(title: str, detail: str) -> str:
    return title if detail in ("", title) else f"{title}, {detail}"


def _ask_crm(hub: Hub, account: Account, pair: Pair) -> tuple[Side, Side]:
    """Read both contacts, or set `error`; a contact that was merged there has another id."""
    error = outage_reason(hub.database, account)
    if not error:
        try:
            return ask(hub, account, lambda crm: (_get(crm, pair.one), _get(crm, pair.other)))
        except AdapterError as exc:
            error = exc.message
    return Side(pair.one, error=error), Side(pair.other, error=error)


def _get(adapter: Adapter, contact_id: str) -> Side:
    try:
        contact = adapter.get_contact(contact_id, COMPARED)
    except contract.NotFound:
        return Side(contact_id, exists=False)
    # The address comes from the CRM; only a web address becomes a link.
    url = contact.url if contact.url.startswith(("https://", "http://")) else ""
    return Side(contact.id, url=url if adapter.record_pages else "", properties=contact.properties)
