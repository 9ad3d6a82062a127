"""The property definitions and pipelines of a copied account: those of its CRM."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import get_args

from crmhub.accounts.accounts import Account
from crmhub.adapter import Adapter, Described, Linked, Unsupported
from crmhub.adapter import Kind as ContractKind
from crmhub.adapter import Pipeline as CrmPipeline
from crmhub.bounds import MAX_OPTIONS, MAX_PROPERTIES
from crmhub.database.connection import Connection
from crmhub.properties import catalogue as catalogues
from crmhub.properties.catalogue import FIELDS, Catalogue
from crmhub.properties.definitions import Pipeline, Property, Stage
from crmhub.properties.kinds import CONTACTS, Kind
from crmhub.properties.values import CHOICE_TYPES, Option
from crmhub.records import definitions
from crmhub.records.copied import ID, URL
from crmhub.records.store import RecordStore

ALWAYS = frozenset({"email", "phone", "firstname", "lastname", "name", "dealname", "subject"})
"""The properties that are copied whatever an account chooses: no copy is of use without them."""
_OWN = (
    Property(
        0,
        name=ID,
        label="Id in the CRM",
        type="string",
        description="The id of the record in the CRM.",
        unique=True,
        read_only=True,
        built_in=True,
    ),
    Property(
        0,
        name=URL,
        label="Page in the CRM",
        type="url",
        description="The web address of the record's page in the CRM.",
        read_only=True,
        built_in=True,
    ),
)


_KINDS: Mapping[str, ContractKind] = {one: one for one in get_args(ContractKind)}


def contract_kind(kind: Kind) -> ContractKind:
    return _KINDS[kind.name]


def read(adapter: Adapter, account: Account, kind: Kind) -> tuple[list[Property], list[Pipeline]]:
    """Ask the CRM for the properties and the pipelines of a kind, by the names that helpers use.

    The properties are those that the copy has: of those that the connection may read, what
    `is_chosen` chooses, without sensitive ones. Raises Unsupported if the CRM has no such kind.
    """
    name = contract_kind(kind)
    described = adapter.describe(name)
    pipelines = _pipelines(adapter, kind)
    rules = account.connection.field_map.of(name)
    found: dict[str, Property] = {}
    options = 0
    for one in described:
        hub_name = rules.hub_name(one.name)
        if one.sensitive or hub_name in FIELDS or rules.crm_name(hub_name) != one.name:
            continue
        if not is_chosen(account, kind, hub_name):
            continue
        property_ = _property(kind, one, hub_name, pipelines)
        options += len(property_.options)
        if options > MAX_OPTIONS:
            property_ = replace(property_, type="string", options=())
        found.setdefault(hub_name, property_)
    return [*_OWN, *list(found.values())[: MAX_PROPERTIES - len(_OWN)]], pipelines


def is_chosen(account: Account, kind: Kind, name: str) -> bool:
    """Return whether the account's `mirror_properties` leave this property in the copy."""
    wanted = account.switches.copied_properties
    return not wanted or name in wanted or is_always_copied(kind, name)


def is_always_copied(kind: Kind, name: str) -> bool:
    return name in {*ALWAYS, kind.pipeline, kind.stage}


def _property(kind: Kind, one: Described, name: str, pipelines: Sequence[Pipeline]) -> Property:
    options = tuple({each.value: Option(each.value, each.label) for each in one.options}.values())
    source = ""
    if pipelines and name in (kind.pipeline, kind.stage):
        source = "pipelines" if name == kind.pipeline else "stages"
    lists = one.type in CHOICE_TYPES and one.type != "bool"
    has_options = bool(options or source)
    type_ = one.type
    if kind is CONTACTS and name == "email" and type_ == "string":
        # Read and searched in lower case, however the CRM describes it.
        type_ = "email"
    return Property(
        0,
        name=name,
        label=(one.label or name)[: definitions.LONGEST_LABEL],
        type="enumeration" if source else "string" if lists and not has_options else type_,
        read_only=one.read_only,
        options=options if lists and not source else (),
        options_from=source,
    )


def _pipelines(adapter: Adapter, kind: Kind) -> list[Pipeline]:
    if not kind.pipeline or not adapter.can("pipelines"):
        return []
    linked: Linked = "deals" if kind.name == "deals" else "tickets"
    try:
        found: list[CrmPipeline] = adapter.pipelines(linked)
    except Unsupported:
        return []
    return [
        Pipeline(one.id, one.label, tuple(Stage(each.value, each.label) for each in one.stages))
        for one in found
    ]


def digest(properties: Sequence[Property], pipelines: Sequence[Pipeline]) -> str:
    text = json.dumps([[asdict(one) for one in properties], [asdict(one) for one in pipelines]])
    return hashlib.sha256(text.encode()).hexdigest()


def store(
    records: RecordStore,
    account: Account,
    kind: Kind,
    properties: Sequence[Property],
    pipelines: Sequence[Pipeline],
    *,
    also: Callable[[Connection, bool], None],
) -> None:
    """Make the account's definitions those of the CRM, in one transaction with what `also` does.

    `also` is told whether there are new properties. The values of a property that the CRM has no
    more, or has with another type, are deleted.
    """
    wanted = {one.name: one for one in properties}

    def change(tx: Connection, known: Catalogue) -> None:
        catalogues.change(tx, account.id)
        for one in known:
            new = wanted.get(one.name)
            if new is None or (new.type, new.unique) != (one.type, one.unique):
                definitions.remove(tx, known, one)
            else:
                definitions.store(tx, account.id, replace(new, prop_id=one.prop_id))
        left = catalogues.load(tx, account.id, kind)
        added = [one for one in properties if left.get(one.name) is None]
        for one in added:
            catalogues.add_property(tx, account.id, kind, one)
        catalogues.set_pipelines(tx, account.id, kind, pipelines)
        also(tx, bool(added))

    records.catalogues.edit(account.id, kind, change)
