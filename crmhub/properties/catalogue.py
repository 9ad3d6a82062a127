"""The catalogue of an account: its property definitions and pipelines, cached in memory.

Each change increments the account's `catalogue_version` in the same transaction; a write reads only
that number to find out whether the cache is up to date.
"""

from __future__ import annotations

import difflib
import itertools
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import sqlalchemy as sa

from crmhub.accounts.event_routes import EventRoutes, parse_routes
from crmhub.accounts.switches import Switches
from crmhub.bounds import MAX_PROPERTIES
from crmhub.database.connection import Connection, Database
from crmhub.database.rows import delete_where, insert_row, set_where
from crmhub.database.statements import Statement, equals, param
from crmhub.database.tables import account, property_def, record_count
from crmhub.database.tables import pipeline as pipeline_table
from crmhub.errors import NotFound, Semantic
from crmhub.properties.defaults import DEFAULT_PIPELINES, DEFAULT_PROPERTIES
from crmhub.properties.definitions import Pipeline, Property, Stage
from crmhub.properties.kinds import KINDS, Kind
from crmhub.properties.values import Option
from crmhub.translatable import as_text

# The record's own fields, by the names of the wire and by HubSpot's: no property has such a name.
FIELDS = {
    "id": "id",
    "hs_object_id": "id",
    "createdAt": "created_at",
    "createdate": "created_at",
    "updatedAt": "updated_at",
    "lastmodifieddate": "updated_at",
}

T = TypeVar("T")


@dataclass(kw_only=True, eq=False)
class Catalogue:
    """The property definitions, pipelines and event subscriptions of one kind, at `version`."""

    account_id: int
    kind: Kind
    version: int
    properties: Mapping[str, Property]
    pipelines: tuple[Pipeline, ...]
    event_routes: EventRoutes = ()
    is_copy: bool = False
    """Whether the account's records are a copy of its CRM's. The switch changes the version."""
    source: str = ""
    """What the events of copied records tell of their change: it was made by "hub" or "crm"."""

    def __iter__(self) -> Iterator[Property]:
        return iter(self.properties.values())

    def __len__(self) -> int:
        return len(self.properties)

    def get(self, name: str) -> Property | None:
        return self.properties.get(name)

    @cached_property
    def required(self) -> tuple[Property, ...]:
        """The properties for which every record must have a value."""
        return tuple(property_ for property_ in self if property_.required)

    @cached_property
    def unique(self) -> tuple[Property, ...]:
        """The properties whose values must be unique among the account's records."""
        return tuple(property_ for property_ in self if property_.unique)

    def nearest(self, name: str) -> list[str]:
        """Return the names of up to three properties with similar names."""
        return difflib.get_close_matches(name[:100], self.properties, n=3, cutoff=0.6)

    def pipeline(self, pipeline_id: str) -> Pipeline | None:
        return next((pipeline for pipeline in self.pipelines if pipeline.id == pipeline_id), None)


class Catalogues:
    """A cache of `size` catalogues of all accounts; the least recently used is removed."""

    def __init__(self, database: Database, *, size: int = 4000) -> None:
        self._database = database
        self._size = size
        self._cached: OrderedDict[tuple[int, int], Catalogue] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, account_id: int, kind: Kind, *, version: int) -> Catalogue:
        """Return the catalogue of an account and kind, at least as new as `version`."""
        with self._lock:
            cached = self._cached.get((account_id, kind.code))
            if cached is not None:
                self._cached.move_to_end((account_id, kind.code))
        if cached is not None and cached.version >= version:
            return cached
        return self.reload(account_id, kind)

    def current(self, account_id: int, kind: Kind) -> Catalogue:
        """Return the present catalogue, after reading its version.

        Another process may just have deleted and defined a property again: its values are stored
        under the new id, and the old catalogue would find none.
        """
        with self._database.reading() as connection:
            version = _version_row(connection, account_id).catalogue_version
        return self.get(account_id, kind, version=version)

    def reload(self, account_id: int, kind: Kind) -> Catalogue:
        with self._database.reading() as connection:
            catalogue = load(connection, account_id, kind)
        # Cache only after the commit, since the transaction may be rolled back.
        self._database.after_commit(lambda: self._keep(catalogue))
        return catalogue

    def _keep(self, catalogue: Catalogue) -> None:
        key = (catalogue.account_id, catalogue.kind.code)
        with self._lock:
            cached = self._cached.get(key)
            if cached is None or cached.version <= catalogue.version:
                self._cached[key] = catalogue
            while len(self._cached) > self._size:
                self._cached.popitem(last=False)

    def edit(self, account_id: int, kind: Kind, work: Callable[[Connection, Catalogue], T]) -> T:
        """Run `work` in a transaction, with the present catalogue, while all other writers wait.

        `work` must call `change` before it changes the catalogue.
        """

        def locked_work(tx: Connection) -> T:
            # The lock waits for all writes in progress, and a property may have a million values.
            tx.take_time()
            tx.hold(account_id, exclusive=True)
            return work(tx, load(tx, account_id, kind))

        try:
            result = self._database.transact(locked_work)
        except BaseException:
            # The cache may have what was rolled back.
            self._drop(account_id, kind)
            raise
        self._database.after_commit(lambda: self._drop(account_id, kind))
        return result

    def _drop(self, account_id: int, kind: Kind) -> None:
        with self._lock:
            # Reloaded on the next use, so that a failed load cannot fail this change.
            self._cached.pop((account_id, kind.code), None)


_property, _pipeline = property_def.c, pipeline_table.c
_VERSION = Statement(
    sa.select(account.c.catalogue_version, account.c.event_routes, account.c.switches).where(
        account.c.id == param("id")
    )
)
_PIPELINES = Statement(
    sa.select(_pipeline.id, _pipeline.label, _pipeline.stages)
    .where(_pipeline.account_id == param("account_id"), _pipeline.kind == param("kind"))
    .order_by(_pipeline.position, _pipeline.id)
)
_PROPERTIES = Statement(
    sa.select(property_def)
    .where(_property.account_id == param("account_id"), _property.kind == param("kind"))
    .order_by(_property.prop_id)
)
_NEXT_POSITION = Statement(
    sa.select(sa.func.coalesce(sa.func.max(_pipeline.position) + 1, 0)).where(
        *equals(pipeline_table, "account_id", "kind")
    )
)
_NEXT_VERSION = Statement(
    sa.update(account)
    .where(account.c.id == param("id"))
    .values(catalogue_version=account.c.catalogue_version + 1)
    .returning(account.c.catalogue_version)
)
_TAKE_ID = Statement(
    sa.update(account)
    .where(account.c.id == param("id"))
    .values(next_prop_id=account.c.next_prop_id + 1)
    .returning((account.c.next_prop_id - 1).label("taken"))
)


def load(connection: Connection, account_id: int, kind: Kind) -> Catalogue:
    """Read a catalogue from the database; raise NotFound without the account.

    During another caller's change, `version` may be older than the content, never newer.
    """
    of_kind = {"account_id": account_id, "kind": kind.code}
    now = _version_row(connection, account_id)
    pipelines = tuple(
        Pipeline(row.id, row.label, tuple(Stage(**stage) for stage in json.loads(row.stages)))
        for row in connection.rows(_PIPELINES, of_kind)
    )
    properties = {
        row.name: Property(
            prop_id=row.prop_id,
            name=row.name,
            label=row.label,
            type=row.type,
            description=row.description,
            required=bool(row.required),
            unique=bool(row.is_unique),
            read_only=bool(row.read_only),
            built_in=bool(row.built_in),
            any_case=bool(row.any_case),
            options=_options(row.options_from, row.options, pipelines),
            options_from=row.options_from,
        )
        for row in connection.rows(_PROPERTIES, of_kind)
    }
    return Catalogue(
        account_id=account_id,
        kind=kind,
        version=now.catalogue_version,
        properties=properties,
        pipelines=pipelines,
        event_routes=parse_routes(now.event_routes),
        is_copy=Switches.from_json(now.switches).mirror,
    )


def _version_row(connection: Connection, account_id: int) -> Any:
    row = connection.row(_VERSION, {"id": account_id})
    if row is None:
        raise _gone()
    return row


def _gone() -> NotFound:
    return NotFound("This account does not exist any more.")


def _options(source: str, stored: str, pipelines: tuple[Pipeline, ...]) -> tuple[Option, ...]:
    if source == "pipelines":
        return tuple(Option(pipeline.id, pipeline.label) for pipeline in pipelines)
    if source == "stages":
        stages = {stage.id: stage.label for pipeline in pipelines for stage in pipeline.stages}
        return tuple(Option(value, label) for value, label in stages.items())
    return tuple(Option(value, label) for value, label in json.loads(stored))


def change(tx: Connection, account_id: int) -> int:
    """Increment the account's `catalogue_version`, before property definitions or pipelines change.

    Waits for running writes of the account's records, and makes later ones wait. Raises NotFound.
    """
    tx.hold(account_id, exclusive=True)
    version: int | None = tx.scalar(_NEXT_VERSION, {"id": account_id})
    if version is None:
        raise _gone()
    return version


def hold(tx: Connection, account_id: int) -> tuple[int, str]:
    """Lock the account's catalogue against changes until the transaction ends; writers share it.

    Returns its version, and the event subscriptions as JSON text. Raises NotFound.
    """
    now = f"select catalogue_version, event_routes from account where id = {account_id:d}"
    row = tx.hold(account_id, exclusive=False, then=now)
    if row is None:
        raise _gone()
    version, routes = row
    return version, routes


def add_property(tx: Connection, account_id: int, kind: Kind, new: Property) -> Property:
    """Store a new property after `change`, and return it with its new `prop_id`.

    Raises Duplicate if the kind has a property of that name.
    """
    new = replace(new, prop_id=next_id(tx, account_id))
    tx.insert("property_def", _DEFINITION, [_row(account_id, kind, new)])
    return new


def add_strings(tx: Connection, known: Catalogue, names: Sequence[str]) -> Catalogue:
    """Define properties as strings; raises Semantic if there would be too many."""
    kind = known.kind
    change(tx, known.account_id)
    if len(known) + len(names) > MAX_PROPERTIES:
        raise Semantic(
            "%(records)s would have more than %(most)s properties; delete some before new ones can"
            " be defined.",
            records=as_text(kind.name),
            most=MAX_PROPERTIES,
        )
    for name in names:
        defined = Property(0, name=name, label=readable(name), type="string")
        add_property(tx, known.account_id, kind, defined)
    return load(tx, known.account_id, kind)


def set_pipelines(
    tx: Connection, account_id: int, kind: Kind, pipelines: Sequence[Pipeline]
) -> None:
    """Replace all pipelines of a kind, after `change`."""
    delete_where(tx, pipeline_table, {"account_id": account_id, "kind": kind.code})
    tx.insert("pipeline", _PIPELINE, _pipeline_rows(account_id, kind, pipelines))


def store_pipeline(tx: Connection, account_id: int, kind: Kind, pipeline: Pipeline) -> None:
    """Change a pipeline's label and stages, or add the pipeline as the last one, after `change`."""
    of_kind = {"account_id": account_id, "kind": kind.code}
    key = {**of_kind, "id": pipeline.id}
    content = {"label": pipeline.label, "stages": dump_stages(pipeline.stages)}
    if not set_where(tx, pipeline_table, key, **content):
        position = tx.scalar(_NEXT_POSITION, of_kind)
        insert_row(tx, pipeline_table, {**key, **content, "position": position})


def next_id(tx: Connection, account_id: int) -> int:
    """Take a number that the account has never used as an id of a property, pipeline or stage."""
    number: int = tx.scalar(_TAKE_ID, {"id": account_id})
    return number


def readable(name: str) -> str:
    """Return a default label: "first_name" gives "First name"."""
    return name.replace("_", " ").capitalize()


_TEXTS = ("name", "label", "type", "description", "options", "options_from")
_FLAGS = ("required", "is_unique", "read_only", "built_in", "any_case")
_OF_KIND = {"account_id": "int", "kind": "int"}
_DEFINITION = (
    {"account_id": "int", "prop_id": "int", "kind": "int"}
    | dict.fromkeys(_TEXTS, "text")
    | dict.fromkeys(_FLAGS, "bool")
)
_PIPELINE = _OF_KIND | {"id": "text", "label": "text", "position": "int", "stages": "text"}


def _row(account_id: int, kind: Kind, new: Property) -> tuple[object, ...]:
    options = dump_options(() if new.options_from else new.options)
    ids = (account_id, new.prop_id, kind.code)
    texts = (new.name, new.label, new.type, new.description, options, new.options_from)
    return (*ids, *texts, new.required, new.unique, new.read_only, new.built_in, new.any_case)


def _pipeline_rows(
    account_id: int, kind: Kind, pipelines: Sequence[Pipeline]
) -> list[tuple[object, ...]]:
    return [
        (account_id, kind.code, each.id, each.label, position, dump_stages(each.stages))
        for position, each in enumerate(pipelines)
    ]


def dump_options(options: tuple[Option, ...]) -> str:
    return json.dumps([[option.value, option.label] for option in options], ensure_ascii=False)


def dump_stages(stages: tuple[Stage, ...]) -> str:
    return json.dumps([asdict(stage) for stage in stages], ensure_ascii=False)


def refill(tx: Connection, account_id: int) -> None:
    """Replace all definitions by the default ones, after `change`; the account has no records."""
    for table in (property_def, pipeline_table, record_count):
        delete_where(tx, table, {"account_id": account_id})
    fill(tx, account_id, first=next_id(tx, account_id))


def fill(tx: Connection, account_id: int, *, first: int = 1) -> None:
    """Store the default properties, pipelines and record counters of an account without any."""
    prop_ids = itertools.count(first)
    definitions = [
        _row(account_id, kind, replace(each, prop_id=next(prop_ids)))
        for kind in KINDS.values()
        for each in DEFAULT_PROPERTIES[kind.name]
    ]
    pipelines = [
        row
        for kind in KINDS.values()
        for row in _pipeline_rows(account_id, kind, DEFAULT_PIPELINES.get(kind.name, ()))
    ]
    counts = [(account_id, kind.code, 0, 0) for kind in KINDS.values()]
    tx.insert("property_def", _DEFINITION, definitions)
    tx.insert("pipeline", _PIPELINE, pipelines)
    tx.insert("record_count", _OF_KIND | {"shard": "int", "n": "bigint"}, counts)
    set_where(tx, account, {"id": account_id}, next_prop_id=next(prop_ids))
