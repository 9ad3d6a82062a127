"""Check, set and preview the field map of an account.

`accounts.field_maps` finds faults within a map; this module compares it with the properties of the
account and of its CRM.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from crmhub import audit
from crmhub.accounts import changes
from crmhub.accounts.accounts import Account
from crmhub.accounts.field_maps import FieldMap, KindMap
from crmhub.adapter import (
    AdapterError,
    Described,
    Kind,
    Problem,
    Rejected,
    Unsupported,
)
from crmhub.adapter.coercion import Misfit, coerced, fitted
from crmhub.audit import Author
from crmhub.crm import stored_connections as connections
from crmhub.database.connection import Connection
from crmhub.errors import BadRequest, Conflict, NotFound, Semantic
from crmhub.helpers.actions import HELPERS, action_of
from crmhub.helpers.attempts import Action, Mapped
from crmhub.hub import Hub, in_transaction
from crmhub.operators.actions import action_queries
from crmhub.operators.crm.field_map_reading import Faulty
from crmhub.operators.crm.mappable_properties import crm_properties, hub_labels, is_identity
from crmhub.operators.form_versions import require_version, version_of
from crmhub.translatable import as_text, join_texts, translatable

_LEAD = ("name", "email", "phone")
# Each suggestion compares a name with all names, so only the first unknown names get one.
_MAX_SUGGESTIONS = 20

Messages = tuple[tuple[str, str], ...]


# --- checking and setting ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Checked:
    """Faults must be corrected; notes are about rules that look wrong but may be intended."""

    faults: Messages = ()
    notes: Messages = ()


def check(hub: Hub, account: Account, field_map: FieldMap) -> Checked:
    """A rule for an undefined name is only a note. Raises Semantic if the CRM cannot be read."""
    faults: list[tuple[str, str]] = []
    notes: list[tuple[str, str]] = []
    for kind, rules in field_map.kinds.items():
        notes += unknown_names(kind, rules, hub_labels(hub, account, kind))
        try:
            theirs = crm_properties(hub, account, kind, rules)
        except Unsupported as exc:
            unchecked = translatable("Whether the CRM's names are right was not checked")
            notes.append((kind, join_texts(" ", (exc.message, unchecked))))
        except AdapterError as exc:
            raise Semantic(
                "Couldn't read the CRM's %(kind)s properties: %(reason)s",
                kind=as_text(kind),
                reason=exc.message,
            ) from exc
        else:
            faults += _faults(kind, rules, theirs)
    return Checked(tuple(faults), tuple(notes))


def unknown_names(kind: Kind, rules: KindMap, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield a note (path, text) for each rule of a property that is not in `names`."""
    for number, name in enumerate(sorted(rules.rules.keys() - set(names))):
        note = translatable("the account's %(kind)s have no such property", kind=as_text(kind))
        yield f"{kind}.{name}", _with_similar(note, name, names, number)


def _faults(
    kind: Kind, rules: KindMap, theirs: Mapping[str, Described]
) -> Iterator[tuple[str, str]]:
    unknown = 0
    for name, rule in rules.rules.items():
        path = f"{kind}.{name}"
        described = theirs.get(rule.to)
        if described is None:
            unknown_name = translatable(
                "%(kind)s have no property %(name)s in the CRM", kind=as_text(kind), name=rule.to
            )
            yield f"{path}.to", _with_similar(unknown_name, rule.to, theirs, unknown)
            unknown += 1
            continue
        if described.read_only:
            reason = translatable(
                "the CRM sets %(name)s itself; name another property", name=rule.to
            )
            yield f"{path}.to", reason
            continue
        values = {f"values.{ours}": value for ours, value in rule.values.items()}
        if rule.constant:
            values["constant"] = rules.crm_value(name, rule.constant)
        for part, value in values.items():
            read_back = kind == "contacts" and part != "constant"
            if fault := _value_fault(described, value, read_back=read_back):
                yield f"{path}.{part}", fault


def _value_fault(described: Described, value: str, *, read_back: bool) -> str:
    """Return why a property of the CRM cannot have this value, "" if it can.

    With `read_back`, the CRM must store it unchanged: if it stores true for yes, it returns true,
    and a rule that maps yes would not recognise it.
    """
    try:
        stored = coerced(described, value)
    except Misfit as exc:
        return translatable(
            "%(name)s of the CRM does not accept it: %(reason)s",
            name=described.name,
            reason=str(exc),
        )
    if read_back and stored != value:
        return translatable(
            "the CRM stores it as %(stored)s; use that, so that getProperties can map it back",
            stored=stored,
        )
    return ""


def _with_similar(fault: str, name: str, names: Collection[str], number: int) -> str:
    """Return the fault of an unknown name with similar names, for the first 20 of them only."""
    similar = difflib.get_close_matches(name[:100], names, n=3) if number < _MAX_SUGGESTIONS else []
    if not similar:
        return fault
    hint = translatable("did you mean %(names)s?", names=" or ".join(similar))
    return join_texts("; ", (fault, hint))


def fingerprint(account: Account) -> str:
    """Of the connection and its field map."""
    return version_of([account.connection.id, account.connection.field_map.to_json()])


def set_field_map(
    hub: Hub,
    client_id: str,
    field_map: FieldMap,
    *,
    by: Author,
    test: bool,
    expected: str | None = None,
) -> tuple[Account, Messages]:
    """Return the account and notes about the map, which only a check with `test` gives.

    `expected`: the `fingerprint` of the account that the caller saw; None skips this comparison.
    Raises NotFound; Faulty if the map has faults; Semantic if the CRM's properties cannot be read;
    Conflict if the account's CRM or map was changed meanwhile.
    """
    account = hub.load_account(client_id)
    notes: Messages = ()
    if test:
        try:
            checked = check(hub, account, field_map)
        except Semantic as exc:
            raise Semantic(
                "Nothing was saved, because the check failed: %(reason)s You can save"
                " without testing.",
                reason=exc.message,
            ) from exc
        if checked.faults:
            raise Faulty(checked.faults, unsaved=True)
        notes = checked.notes
    return _store(hub, account, field_map, by, expected), notes


@in_transaction
def _store(
    hub: Hub,
    tx: Connection,
    account: Account,
    field_map: FieldMap,
    by: Author,
    expected: str | None,
) -> Account:
    before = changes.locked(tx, account.id, hub.plans)
    if before.connection.id != account.connection.id:
        raise Conflict("The account's CRM was changed meanwhile. Nothing was saved.")
    require_version(fingerprint(before), expected, translatable("The field map was"))
    after = connections.set_field_map(tx, account.id, field_map, hub.plans)
    old, new = (each.connection.field_map.flat() for each in (before, after))
    of = str(after.connection.id)
    audit.note(tx, by, "change", "fieldMap", of, account_id=account.id, before=old, after=new)
    hub.forget_after_commit(account.id)
    return after


# --- preview -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sent:
    """A property as sent to the CRM; `of` and `given` are the name and value that the bot uses."""

    name: str
    value: str = field(repr=False)
    of: str
    given: str = field(repr=False)
    source: Literal["bot", "constant", "constantIfEmpty"]


@dataclass(frozen=True, slots=True)
class Preview:
    """What a call would send, and what the CRM would refuse; `note` says why this is unknown."""

    helper: str
    kind: Kind
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
    """Return the properties that a call of a helper would send; nothing is sent.

    `sample`: the call's properties by name, None for the account's newest call. `field_map`:
    replaces the account's. Raises BadRequest for another helper, Semantic if a sample for
    createLead has a property other than name, email and phone, and NotFound without any call.
    """
    if helper not in HELPERS:
        raise BadRequest("helper: must be one of %(helpers)s", helpers=", ".join(HELPERS))
    if field_map is not None:
        connection = replace(account.connection, field_map=field_map)
        account = replace(account, connection=connection)
    action = _newest_call(hub, account, helper) if sample is None else _sample_call(helper, sample)
    return preview_action(hub, account, action)


def preview_action(hub: Hub, account: Account, action: Action) -> Preview:
    mapped, rules = action.mapped(account), account.connection.field_map.of(action.record)
    note, theirs = "", None
    try:
        theirs = crm_properties(hub, account, action.record, rules)
    except AdapterError as exc:
        note = translatable(
            "What the CRM would refuse is not known: %(reason)s", reason=as_text(exc.message)
        )
    sent, refused = check_values(hub, account, action.record, mapped, theirs)
    return Preview(action.kind, action.record, sent, refused, note)


def check_values(
    hub: Hub,
    account: Account,
    kind: Kind,
    mapped: Mapped,
    theirs: Mapping[str, Described] | None,
) -> tuple[tuple[Sent, ...], tuple[Problem, ...]]:
    """Return what would be sent, and what would be refused by the CRM's definitions `theirs`.

    None: they are not known.
    """
    rules = account.connection.field_map.of(kind)
    all_sent = (_sent(rules, mapped, *item) for item in mapped.properties.items())
    sent = tuple(value for value in all_sent if value.name)
    refused = [*mapped.refused, *(Problem(*item) for item in rules.nameless(mapped.properties))]
    if theirs is not None:
        is_remote = hub.registry.load(account.connection.adapter).remote
        refused += _refused(kind, rules, sent, theirs, defines_unknown=not is_remote)
    return sent, tuple(refused)


def _sent(rules: KindMap, mapped: Mapped, name: str, given: str) -> Sent:
    rule = rules.rules.get(name)
    source: Literal["bot", "constant", "constantIfEmpty"] = "bot"
    if name in mapped.initial:
        source = "constantIfEmpty"
    elif rule is not None and rule.constant and rule.when == "always":
        source = "constant"
    return Sent(rules.crm_name(name) or "", rules.crm_value(name, given), name, given, source)


def _refused(
    kind: Kind,
    rules: KindMap,
    sent: Sequence[Sent],
    theirs: Mapping[str, Described],
    *,
    defines_unknown: bool,
) -> list[Problem]:
    """Unless the CRM `defines_unknown` properties."""
    values = {
        prop.name: prop.value
        for prop in sent
        # The adapter itself writes the identity: email, phone and name.
        if not is_identity(kind, prop.name) and not (defines_unknown and prop.name not in theirs)
    }
    try:
        fitted(values, theirs, of=kind)
    except Rejected as exc:
        return [replace(problem, name=rules.hub_name(problem.name)) for problem in exc.problems]
    return []


def _sample_call(helper: str, sample: Mapping[str, str]) -> Action:
    if helper != "createLead":
        id_name = "contact_token" if helper == "setProperties" else "contact_id"
        return action_of(helper, {id_name: "", "properties": dict(sample)})
    if unknown := [name for name in sample if name not in _LEAD]:
        raise Semantic(
            "properties.%(unknown)s: createLead takes %(lead)s",
            unknown=unknown[0][:100],
            lead=", ".join(_LEAD),
        )
    values = {name: sample.get(name, "").strip() for name in _LEAD}
    return action_of(helper, {"contact_token": "", **values})


def _newest_call(hub: Hub, account: Account, helper: str) -> Action:
    selection = action_queries.Wanted(account=account, kinds=(helper,))
    for action in action_queries.listed(hub.database, selection, limit=1):
        shown = action_queries.shown(hub.database, action.id, account)
        return action_of(helper, shown.request)
    raise NotFound("No bot has called %(helper)s yet; give sample properties.", helper=helper)
