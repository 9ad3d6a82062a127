"""The properties that the field map of an account can map: those of bots and those of the CRM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from crmhub.accounts.accounts import Account
from crmhub.accounts.field_maps import IDENTITY, KINDS, WHOLE_NAME, KindMap
from crmhub.adapter import (
    Adapter,
    AdapterError,
    Choice,
    Described,
    Kind,
    LacksRight,
    Pipeline,
    Unsupported,
    Written,
)
from crmhub.crm.connection import AWAY, ask, connect
from crmhub.crm.deadlines import within
from crmhub.hub import Hub
from crmhub.properties.kinds import KINDS as RECORD_KINDS

_ASK_S = 20.0
# What the helpers send of new records, by the hub's names.
_SENT: Mapping[Written, tuple[str, ...]] = {
    "contacts": (WHOLE_NAME, "firstname", "lastname", *IDENTITY),
    "deals": ("dealname", "pipeline", "dealstage"),
    "tickets": ("subject", "hs_pipeline", "hs_pipeline_stage", "hs_ticket_priority"),
}


@dataclass(frozen=True, slots=True)
class Mappable:
    """`ours`: labels by the bots' name. `unknown`: why the CRM, and so `theirs`, cannot be read."""

    kind: Written
    ours: Mapping[str, str]
    theirs: tuple[Described, ...]
    unknown: str = ""


def mappable(hub: Hub, account: Account, *, seconds: float = _ASK_S) -> list[Mappable]:
    """Return what can be mapped; an unavailable CRM is asked for one kind only."""
    found: list[Mappable] = []
    unavailable = ""
    with within(seconds):
        for kind in KINDS:
            labels = hub_labels(hub, account, kind).items()
            ours = {name: label for name, label in labels if not is_identity(kind, name)}
            theirs: Mapping[str, Described] = {}
            unknown = unavailable
            if not unavailable:
                try:
                    rules = account.connection.field_map.of(kind)
                    theirs = crm_properties(hub, account, kind, rules)
                except AdapterError as exc:
                    unknown = exc.message
                    # A missing right may be about this kind only.
                    if isinstance(exc, AWAY) and not isinstance(exc, LacksRight):
                        unavailable = unknown
            writable = tuple(
                prop
                for prop in theirs.values()
                if not (prop.read_only or is_identity(kind, prop.name))
            )
            found.append(Mappable(kind, ours, writable, unknown))
    return found


def unfilled(hub: Hub, account: Account) -> list[str]:
    """Return a warning for each property that the CRM requires, and that neither the helpers nor a
    constant fill.
    """
    warnings: list[str] = []
    with within(_ASK_S):
        for kind in KINDS:
            rules = account.connection.field_map.of(kind)
            filled = {rules.crm_name(name) for name in _SENT[kind]}
            filled |= {rule.to for rule in rules.rules.values() if rule.constant}
            try:
                described = ask(hub, account, lambda adapter: adapter.describe(kind))  # noqa: B023
            # A connection test has its own errors.
            except AdapterError as exc:
                if isinstance(exc, AWAY) and not isinstance(exc, LacksRight):
                    break
                continue
            how = "" if kind == "contacts" else ", or let the bot send it"
            warnings += [
                f"The CRM requires {one.name} of new {kind}."
                f" Set a constant for {one.name} in the field map{how}."
                for one in described
                if one.required and not one.read_only and one.name not in filled
            ]
    return warnings


def is_identity(kind: Kind, name: str) -> bool:
    return kind == "contacts" and name in IDENTITY


def hub_labels(hub: Hub, account: Account, kind: Written) -> dict[str, str]:
    """Of the writable properties, by name; a contact's first is `name`."""
    catalogue = hub.records.catalogue(account, RECORD_KINDS[kind])
    labels = {prop.name: prop.label for prop in catalogue if not prop.read_only}
    return {WHOLE_NAME: "Full name", **labels} if kind == "contacts" else labels


def crm_properties(
    hub: Hub, account: Account, kind: Kind, rules: KindMap, adapter: Adapter | None = None
) -> dict[str, Described]:
    """Read the definitions of the CRM's properties by name, with pipelines and stages as options.

    `adapter`: None for one that remembers no definitions. Raises AdapterError, and Unsupported if
    the adapter cannot describe properties.
    """
    with within(_ASK_S):
        # A cached adapter may remember definitions for an hour.
        adapter = adapter or connect(hub, account, anew=True)
        properties = {prop.name: prop for prop in adapter.describe(kind)}
        if kind == "contacts" or kind == "companies" or not adapter.can("pipelines"):
            return properties
        record_kind = RECORD_KINDS[kind]
        pipelines: Sequence[Pipeline] = ()
        # A CRM may have pipelines for another kind of records only.
        with suppress(Unsupported):
            pipelines = adapter.pipelines(kind)
    stages = {stage.value: stage for pipeline in pipelines for stage in pipeline.stages}
    choices = tuple(Choice(pipeline.id, pipeline.label) for pipeline in pipelines if pipeline.id)
    for name, options in (
        (record_kind.pipeline, choices),
        (record_kind.stage, tuple(stages.values())),
    ):
        crm_name = rules.crm_name(name)
        if crm_name in properties and not properties[crm_name].options:
            properties[crm_name] = replace(
                properties[crm_name], type="enumeration", options=options
            )
    return properties
