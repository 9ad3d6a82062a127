"""What operators do with an account's field map: see what can be mapped, check, set and try it.

`accounts.field_maps` says what a map is and what is wrong with it by itself; here it is held
against the two catalogues it stands between, the account's own and the CRM's.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from crmhub import audit
from crmhub.accounts import changes
from crmhub.accounts.accounts import Account
from crmhub.accounts.field_maps import IDENTITY, KINDS, WHOLE_NAME, Faulty, FieldMap, KindMap
from crmhub.adapter import AdapterError, Choice, Described, Problem, Rejected, Unsupported, Written
from crmhub.adapter.coercion import Misfit, coerced, fitted
from crmhub.audit import Author
from crmhub.database.connection import Connection
from crmhub.errors import BadRequest, Conflict, NotFound, Semantic
from crmhub.helpers.actions import HELPERS, action_of
from crmhub.helpers.attempts import Action, Mapped
from crmhub.helpers.crm_connection import connect
from crmhub.helpers.deadlines import within
from crmhub.hub import Hub
from crmhub.journal import action_queries
from crmhub.operations import change_account
from crmhub.properties.kinds import KINDS as RECORD_KINDS

_ASK_S = 20.0
_CONTACT_NAMES = (WHOLE_NAME,)
_LEAD = ("name", "email", "phone")

# Each compares a name with all that are known.
_SUGGESTIONS = 20

Told = tuple[tuple[str, str], ...]
"""What is to be said of a map, as (path, words)."""


# --- what can be mapped ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mappable:
    """What a rule of this kind may be about; `unknown` says why `theirs` is empty, if it is."""

    kind: Written
    ours: tuple[str, ...]
    theirs: tuple[Described, ...]
    unknown: str = ""


def mappable(hub: Hub, account: Account) -> list[Mappable]:
    """Return the names that bots usually send and those that the CRM has, for each kind."""
    with within(_ASK_S):
        return [_mappable(hub, account, kind) for kind in KINDS]


def _mappable(hub: Hub, account: Account, kind: Written) -> Mappable:
    ours = [name for name in _known_here(hub, account, kind) if not _is_identity(kind, name)]
    try:
        theirs = _known_there(hub, account, kind, account.connection.field_map.of(kind))
    except AdapterError as exc:
        return Mappable(kind, tuple(ours), (), exc.message)
    writable = (one for one in theirs.values() if not one.read_only)
    return Mappable(
        kind, tuple(ours), tuple(one for one in writable if not _is_identity(kind, one.name))
    )


def _is_identity(kind: Written, name: str) -> bool:
    return kind == "contacts" and name in IDENTITY


def _known_here(hub: Hub, account: Account, kind: Written) -> list[str]:
    known = [
        one.name for one in hub.records.catalogue(account, RECORD_KINDS[kind]) if not one.read_only
    ]
    return [*_CONTACT_NAMES, *known] if kind == "contacts" else known


def _known_there(
    hub: Hub, account: Account, kind: Written, rules: KindMap | None = None
) -> dict[str, Described]:
    """Return the properties of the CRM, those that say where a record stands with their places.

    Raises AdapterError, Unsupported where the adapter cannot tell.
    """
    with within(_ASK_S):
        # What another adapter remembers may be an hour old.
        adapter = connect(hub, account, anew=True)
        known = {one.name: one for one in adapter.describe(kind)}
        if kind == "contacts" or not adapter.can("pipelines"):
            return known
        here = RECORD_KINDS[kind]
        pipelines = adapter.pipelines(kind)
    stages = {stage.value: stage for one in pipelines for stage in one.stages}
    for name, places in (
        (here.pipeline, tuple(Choice(one.id, one.label) for one in pipelines)),
        (here.stage, tuple(stages.values())),
    ):
        theirs = (rules or KindMap()).crm_name(name)
        if theirs in known and not known[theirs].options:
            known[theirs] = replace(known[theirs], type="enumeration", options=places)
    return known


# --- checking and setting ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Checked:
    """What is wrong with a map, and what an operator should know of it all the same."""

    faults: Told = ()
    notes: Told = ()


def check(hub: Hub, account: Account, field_map: FieldMap) -> Checked:
    """Hold a field map against the account's catalogue and against its CRM's.

    A name that the account's catalogue lacks is a note: bots may send any. Raises Semantic when
    the CRM cannot be asked now.
    """
    faults: list[tuple[str, str]] = []
    notes: list[tuple[str, str]] = []
    for kind, rules in field_map.kinds.items():
        notes += strange(kind, rules, _known_here(hub, account, kind))
        try:
            theirs = _known_there(hub, account, kind, rules)
        except Unsupported as exc:
            notes.append((kind, f"{exc.message} Whether the CRM's names are right was not checked"))
        except AdapterError as exc:
            raise Semantic(f"The CRM cannot be asked about its {kind}: {exc.message}") from exc
        else:
            faults += _misfits(kind, rules, theirs)
    return Checked(tuple(faults), tuple(notes))


def strange(kind: Written, rules: KindMap, known: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield which rules are about none of the names that are known of the account."""
    unknown = sorted(rules.rules.keys() - set(known))
    for number, name in enumerate(unknown):
        meant = _meant(name, known, number)
        yield f"{kind}.{name}", f"the account's {kind} have no such property{meant}"


def _misfits(
    kind: Written, rules: KindMap, theirs: Mapping[str, Described]
) -> Iterator[tuple[str, str]]:
    unknown = 0
    for name, rule in rules.rules.items():
        path = f"{kind}.{name}"
        described = theirs.get(rule.to)
        if described is None:
            meant = _meant(rule.to, theirs, unknown)
            unknown += 1
            yield f"{path}.to", f"{kind} have no property {rule.to} in the CRM{meant}"
            continue
        if described.read_only:
            yield f"{path}.to", f"the CRM sets {rule.to} itself; name another property"
            continue
        for ours, value in rule.values.items():
            fault = _misfit(described, value, read_back=kind == "contacts")
            if fault:
                yield f"{path}.values.{ours}", fault
        if rule.constant:
            value = rules.crm_value(name, rule.constant)
            if fault := _misfit(described, value, read_back=False):
                yield f"{path}.constant", fault


def _misfit(described: Described, value: str, *, read_back: bool) -> str:
    """Return why a property of the CRM cannot have this value, or "".

    One that is `read_back` must be as the CRM keeps it: yes, kept as true, would be read as true.
    """
    try:
        kept = coerced(described, value)
    except Misfit as exc:
        return f"{described.name} of the CRM does not take it: {exc}"
    if read_back and kept != value:
        return f"the CRM keeps it as {kept}; give that, so that getProperties knows it again"
    return ""


def _meant(name: str, known: Collection[str], number: int) -> str:
    """Return what was meant by the unknown name of this number, for the first few of them."""
    near = difflib.get_close_matches(name[:100], known, n=3) if number < _SUGGESTIONS else []
    return f"; did you mean {' or '.join(near)}?" if near else ""


def seen(account: Account) -> str:
    """Return what tells the account's field map, of its present CRM, from every other."""
    text = f"{account.connection.id} {account.connection.field_map.to_json()}"
    return hashlib.sha256(text.encode()).hexdigest()


def set_field_map(
    hub: Hub,
    client_id: str,
    field_map: FieldMap,
    *,
    by: Author,
    ask: bool,
    in_place_of: str | None = None,
) -> tuple[Account, Told]:
    """Set the field map of an account's CRM; return the account, and what is to be said of it.

    With `ask` it is checked before. `in_place_of` is the `seen` of the map that it was made from.
    Raises NotFound, Faulty with every fault, Semantic when the CRM cannot be asked, and Conflict
    when the account got another CRM meanwhile, or another map than the one that was seen.
    """
    account = change_account.find(hub, client_id)
    notes: Told = ()
    if ask:
        checked = _asked(hub, account, field_map)
        if checked.faults:
            raise Faulty(checked.faults, "Nothing was saved: ")
        notes = checked.notes

    def work(tx: Connection) -> Account:
        before = changes.locked(tx, account.id, hub.plans)
        if before.connection.id != account.connection.id:
            raise Conflict("The account got another CRM meanwhile, and nothing was saved.")
        if in_place_of is not None and in_place_of != seen(before):
            raise Conflict(
                "The field map was changed by somebody else meanwhile, and nothing was saved."
                " Look at theirs, or save once more to replace it."
            )
        after = changes.set_field_map(tx, account.id, field_map, hub.plans)
        audit.note(
            tx,
            by,
            "change",
            "fieldMap",
            str(after.connection.id),
            account_id=account.id,
            before=before.connection.field_map.flat(),
            after=after.connection.field_map.flat(),
        )
        return after

    changed = hub.database.transact(work)
    hub.directory.forget(account.id)
    return changed, notes


def _asked(hub: Hub, account: Account, field_map: FieldMap) -> Checked:
    try:
        return check(hub, account, field_map)
    except Semantic as exc:
        raise Semantic(
            f"Nothing was saved, for the check failed: {exc.message} Unchecked it can be saved."
        ) from exc


# --- trying it ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sent:
    """A property as the CRM would be sent it.

    `of` is what bots call it and `given` its value there. `source` says where that comes from:
    the bot, a constant, or a constant that is for a contact without a value.
    """

    name: str
    value: str = field(repr=False)
    of: str
    given: str = field(repr=False)
    source: Literal["bot", "constant", "constantIfEmpty"]


@dataclass(frozen=True, slots=True)
class Preview:
    """What a call of a helper would become; `note` says what could not be told."""

    helper: str
    kind: Written
    sent: tuple[Sent, ...]
    refused: tuple[Problem, ...]
    note: str = ""


def preview(
    hub: Hub,
    account: Account,
    helper: str,
    *,
    sample: Mapping[str, str] | None = None,
    field_map: FieldMap | None = None,
) -> Preview:
    """Return what a helper's call would send to the account's CRM; nothing is sent.

    `sample` holds the properties of the call (of createLead name, email and phone); without it
    the account's newest call of that helper is taken. `field_map` stands for the account's own.
    Raises BadRequest for what is no writing helper, Semantic for another property of a lead, and
    NotFound when there was no call yet.
    """
    if helper not in HELPERS:
        raise BadRequest(f"helper: must be one of {', '.join(HELPERS)}")
    if field_map is not None:
        connection = replace(account.connection, field_map=field_map)
        account = replace(account, connection=connection)
    action = _newest(hub, account, helper) if sample is None else _sampled(helper, sample)
    mapped, rules = action.mapped(account), account.connection.field_map.of(action.record)
    sent = tuple(_sent(rules, mapped, *one) for one in mapped.properties.items())
    sent = tuple(one for one in sent if one.name)
    refused = [*mapped.refused, *(Problem(*one) for one in rules.nameless(mapped.properties))]
    note = ""
    try:
        theirs = _known_there(hub, account, action.record, rules)
        refused += _refused(action.record, rules, sent, theirs, open=not _is_remote(hub, account))
    except AdapterError as exc:
        note = f"What the CRM would refuse is not known: {exc.message}"
    return Preview(helper, action.record, sent, tuple(refused), note)


def _sent(rules: KindMap, mapped: Mapped, name: str, given: str) -> Sent:
    rule = rules.rules.get(name)
    source: Literal["bot", "constant", "constantIfEmpty"] = "bot"
    if name in mapped.initial:
        source = "constantIfEmpty"
    elif rule is not None and rule.constant and rule.when == "always":
        source = "constant"
    return Sent(rules.crm_name(name) or "", rules.crm_value(name, given), name, given, source)


def _is_remote(hub: Hub, account: Account) -> bool:
    return hub.registry.load(account.connection.adapter).remote


def _refused(
    kind: Written,
    rules: KindMap,
    sent: Sequence[Sent],
    theirs: Mapping[str, Described],
    *,
    open: bool,
) -> list[Problem]:
    """Return what would be refused; what is `open` defines a property that it does not know."""
    values = {
        one.name: one.value
        for one in sent
        # Who is found by an email or a phone, and what it calls them, is the adapter's affair.
        if not _is_identity(kind, one.name) and not (open and one.name not in theirs)
    }
    try:
        fitted(values, theirs, of=kind)
    except Rejected as exc:
        return [replace(one, name=rules.hub_name(one.name)) for one in exc.problems]
    return []


def _sampled(helper: str, sample: Mapping[str, str]) -> Action:
    if helper != "createLead":
        named = "contact_token" if helper == "setProperties" else "contact_id"
        return action_of(helper, {named: "", "properties": dict(sample)})
    if strange := [name for name in sample if name not in _LEAD]:
        raise Semantic(f"properties.{strange[0][:100]}: createLead takes {', '.join(_LEAD)}")
    given = {name: sample.get(name, "").strip() for name in _LEAD}
    return action_of(helper, {"contact_token": "", **given})


def _newest(hub: Hub, account: Account, helper: str) -> Action:
    wanted = action_queries.Wanted(account=account, kinds=(helper,))
    for one in action_queries.listed(hub.database, wanted, limit=1):
        return action_of(helper, action_queries.shown(hub.database, one.id, account).request)
    raise NotFound(f"No bot has called {helper} yet; give a sample of properties.")
