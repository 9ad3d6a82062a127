"""What a copy of an account's CRM would hold and take, before its first load."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from crmhub.accounts.accounts import Account
from crmhub.accounts.switches import read_switches
from crmhub.adapter import LacksRight, Unsupported
from crmhub.adapter.http import GENERAL
from crmhub.crm import copied_definitions
from crmhub.crm.connection import as_hub_errors, connect, sound
from crmhub.crm.deadlines import within
from crmhub.errors import HubError, Semantic, listed, shortened
from crmhub.hub import Hub
from crmhub.operators.crm import copy_crm
from crmhub.properties.kinds import KINDS, Kind
from crmhub.records import copies
from crmhub.records.copied import ID, URL
from crmhub.translatable import translatable

_ASK_S = 20.0
EXAMPLE = 10_000
"""The number of records for which minutes and disk are estimated."""
# The load may take a third of the CRM's rate limit; a page of 100 records takes about two calls.
_SHARE, _RECORDS_OF_A_CALL = 1 / 3, 50
# Measured with copies of 4,000 contacts with name, email and phone, without and with 30 more values
# of 15 characters; with indexes.
_BYTES_SQLITE, _BYTES_POSTGRESQL = (800, 80), (2000, 180)


@dataclass(frozen=True, slots=True)
class PlannedProperty:
    """`is_always`: a copy cannot do without it. `is_chosen`: it is copied by the present choice."""

    name: str
    label: str
    is_always: bool
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class PlannedKind:
    """`obstacle`: why the connection cannot read records of this kind, "" if it can."""

    kind: str
    properties: tuple[PlannedProperty, ...]
    obstacle: str = ""


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """Estimates of a load: `minutes` for `EXAMPLE` records, None without a known rate limit.

    Disk: `bytes_of_record` for a record with a name, an email and a phone, and `bytes_of_value` for
    each further value. `obstacle`: why the account cannot have a copy yet, "" if it can.
    """

    kinds: tuple[PlannedKind, ...]
    minutes: float | None
    bytes_of_record: int
    bytes_of_value: int
    obstacle: str


def plan(hub: Hub, account: Account) -> CopyPlan:
    """Ask the account's CRM for the properties that a copy would have; nothing is changed.

    Raises Semantic if the adapter cannot keep a copy, and Unavailable if the CRM does not answer.
    """
    if obstacle := copy_crm.why_impossible(hub, account):
        raise Semantic(obstacle)
    with as_hub_errors(account), within(_ASK_S), sound():
        kinds = tuple(_plan_kind(hub, account, kind) for kind in copies.ORDER)
    calls = hub.budgets.calls_per_minute(account.id, account.connection.id, GENERAL)
    minutes = calls and EXAMPLE / (calls * _SHARE * _RECORDS_OF_A_CALL)
    sizes = _BYTES_SQLITE if hub.database.dialect == "sqlite" else _BYTES_POSTGRESQL
    return CopyPlan(kinds, minutes, *sizes, copy_crm.own_records(hub, account))


def _plan_kind(hub: Hub, account: Account, kind: Kind) -> PlannedKind:
    without_choice = replace(account, switches=replace(account.switches, mirror_properties=""))
    try:
        described, _ = copied_definitions.read(connect(hub, account), without_choice, kind)
    # The token may lack the right to one kind only.
    except (Unsupported, LacksRight) as exc:
        return PlannedKind(kind.name, (), exc.message)
    planned = (
        PlannedProperty(
            one.name,
            one.label,
            copied_definitions.is_always_copied(kind, one.name),
            copied_definitions.is_chosen(account, kind, one.name),
        )
        for one in described
        if one.name not in (ID, URL)
    )
    return PlannedKind(kind.name, tuple(sorted(planned, key=lambda one: one.name)))


def require_known_properties(
    hub: Hub, account: Account, values: Mapping[str, Any], *, path: str = ""
) -> None:
    """Raise Semantic if new values of switches choose properties that the CRM does not have.

    The CRM is asked, so this is not for a transaction. `path` precedes the name of the switch in
    the message. If the CRM does not answer, or the connection may not read a kind, nothing is
    raised: `copy_crm.unknown_properties` names them later.
    """
    read, _ = read_switches(
        {name: values[name] for name in ("mirror", "mirror_properties") if name in values}
    )
    before, after = account.switches, replace(account.switches, **read)
    begins = after.mirror and not before.mirror
    new = after.copied_properties - (frozenset() if begins else before.copied_properties)
    if not new or copy_crm.why_impossible(hub, account):
        return
    try:
        unknown = sorted(new - _names(hub, account, ",".join(new)))
        every = _names(hub, account, "") if unknown else ()
    except HubError:
        return
    crm, problems = hub.registry.title(account.connection.adapter), list[tuple[str, str]]()
    for name in unknown:
        similar = difflib.get_close_matches(name[:100], every, n=3)
        remedy = translatable("did you mean %(names)s?", names=" or ".join(similar))
        if not similar:
            command = f"`crmhub sync plan {account.client_id}`"
            remedy = translatable("%(command)s lists those there are", command=command)
        reason = translatable(
            "%(crm)s has no property %(name)s that can be copied; %(remedy)s",
            crm=crm,
            name=shortened(name),
            remedy=remedy,
        )
        problems.append((f"{path}mirror_properties", reason))
    if problems:
        raise Semantic(listed(problems), fields=problems)


def _names(hub: Hub, account: Account, chosen: str) -> set[str]:
    """Ask the CRM for the names of the properties that a copy with this choice would have."""
    account = replace(account, switches=replace(account.switches, mirror_properties=chosen))
    names = set(copied_definitions.ALWAYS)
    with as_hub_errors(account), within(_ASK_S), sound():
        adapter = connect(hub, account)
        for kind in copies.ORDER:
            try:
                described, _ = copied_definitions.read(adapter, account, kind)
            except Unsupported:
                continue
            names |= {one.name for one in described}
    return names


def choices(
    planned: CopyPlan,
) -> Iterator[tuple[str, list[tuple[PlannedProperty, Sequence[str]]]]]:
    """Yield the properties to choose from by kind of record, "" for those of several kinds.

    A choice is one of names: a name of several kinds is copied of all or of none. With each goes
    the names of its kinds.
    """
    kinds_of: dict[str, list[str]] = {}
    properties: dict[str, PlannedProperty] = {}
    for each in planned.kinds:
        for one in each.properties:
            kinds_of.setdefault(one.name, []).append(each.kind)
            properties.setdefault(one.name, one)
    groups: dict[str, list[tuple[PlannedProperty, Sequence[str]]]] = {}
    for name, kinds in kinds_of.items():
        group = kinds[0] if len(kinds) == 1 else ""
        groups.setdefault(group, []).append((properties[name], kinds))
    for group in (*KINDS, ""):
        if group in groups:
            yield group, groups[group]
