"""Defines, changes and deletes the properties that the records of an account may have.

Each transaction makes all writers of the account's records wait, so that definition, values, index
rows and unique values change together.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection
from dataclasses import replace
from typing import TypedDict

from crmhub.accounts.accounts import Account
from crmhub.bounds import MAX_OPTIONS, MAX_PROPERTIES
from crmhub.database.connection import Connection
from crmhub.database.rows import delete_where, set_where
from crmhub.database.tables import property_def
from crmhub.errors import BadRequest, Conflict, NotFound, Semantic, listed
from crmhub.properties import catalogue as catalogues
from crmhub.properties.catalogue import FIELDS, Catalogue
from crmhub.properties.definitions import Property
from crmhub.properties.kinds import Kind
from crmhub.properties.validation import NAME, NAME_RULE
from crmhub.properties.values import Option
from crmhub.records import held_values
from crmhub.records.index import PREFIX
from crmhub.records.store import RecordStore

LONGEST_LABEL = 255
LONGEST_DESCRIPTION = 4000
# So that the index holds each value as a whole.
LONGEST_OPTION = PREFIX

CHOICES = ("enumeration", "multi_enumeration")
# The types whose values can name one record among others.
NAMING = ("string", "text", "number", "email", "phone", "url")


class Changes(TypedDict, total=False):
    name: str
    label: str
    type: str
    description: str
    required: bool
    unique: bool
    read_only: bool
    options: tuple[Option, ...]


def find(records: RecordStore, account: Account, kind: Kind, name: str) -> Property:
    """Read from the database now; raises NotFound."""
    return _named(records.catalogues.reload(account.id, kind), name)


def define(records: RecordStore, account: Account, kind: Kind, new: Property) -> Property:
    """Fills in a blank label. Raises BadRequest, Semantic, or Conflict (name taken)."""
    new = _tidied(new)
    _check(new, Changes.__annotations__)

    def add_to(tx: Connection, known: Catalogue) -> Property:
        if new.name in FIELDS:
            raise Conflict(
                f"name: {new.name} is a field that the hub itself fills in; choose another name."
            )
        if known.get(new.name) is not None:
            raise Conflict(
                f"name: {kind.name} have a property {new.name} already; change it with"
                f" PATCH /properties/{kind.name}/{new.name}, or choose another name."
            )
        if len(known) >= MAX_PROPERTIES:
            raise Semantic(
                f"{kind.name} have {MAX_PROPERTIES} properties, which is the most there can be;"
                " delete some first."
            )
        _require_room(known, new)
        catalogues.change(tx, account.id)
        return catalogues.add_property(tx, account.id, kind, new)

    return records.edit(account, kind, add_to)


def change(
    records: RecordStore, account: Account, kind: Kind, name: str, changes: Changes
) -> Property:
    """The records' values stay. Raises NotFound, BadRequest, Semantic, and Conflict for what a
    built-in property does not allow, an option in use, and values that are not unique."""

    def change_it(tx: Connection, catalogue: Catalogue) -> Property:
        known = _named(catalogue, name)
        wanted = _tidied(replace(known, **changes))
        changed = {each for each in changes if getattr(wanted, each) != getattr(known, each)}
        if not changed:
            return known
        _refuse_fixed(kind, known, changed)
        _check(wanted, changed)
        catalogues.change(tx, account.id)
        if "options" in changed:
            _require_room(catalogue, wanted)
            _refuse_held(tx, account.id, kind, known, wanted)
        if "unique" in changed and wanted.unique:
            held_values.claim(tx, account.id, kind, wanted)
        elif "unique" in changed:
            held_values.release(tx, account.id, known)
        store(tx, account.id, wanted)
        return wanted

    return records.edit(account, kind, change_it)


def delete(
    records: RecordStore, account: Account, kind: Kind, name: str, *, force: bool = False
) -> None:
    """With `force`, also delete the values that records have of it.

    Such a record gets a new version but keeps `updated_at`, so that running listings do not return
    it again. Archived records keep the value. Raises NotFound, and Conflict for a built-in
    property, and for values without `force`.
    """

    def delete_it(tx: Connection, catalogue: Catalogue) -> None:
        known = _named(catalogue, name)
        if known.built_in:
            raise Conflict(
                f"{name} is built in and stays; use another property, or leave it empty."
            )
        held = held_values.count(tx, account.id, known)
        if held and not force:
            raise Conflict(
                f"{_counted(held, kind)} a value of {name}; nothing was deleted."
                " Add ?force=true to delete these values too."
            )
        catalogues.change(tx, account.id)
        remove(tx, catalogue, known)

    records.edit(account, kind, delete_it)


def remove(tx: Connection, catalogue: Catalogue, known: Property) -> None:
    """Delete a property with all its values, after `catalogues.change`."""
    if held_values.count(tx, catalogue.account_id, known):
        held_values.erase(tx, catalogue.account_id, catalogue.kind, known)
    key = {"account_id": catalogue.account_id, "prop_id": known.prop_id}
    delete_where(tx, property_def, key)


def _named(catalogue: Catalogue, name: str) -> Property:
    known = catalogue.get(name)
    if known is None:
        kind = catalogue.kind.name
        raise NotFound(
            f"{kind} have no property {name[:100]!r}; GET /properties/{kind} lists those they have."
        )
    return known


def _counted(n: int, kind: Kind) -> str:
    return f"1 {kind.singular} has" if n == 1 else f"{n} {kind.name} have"


def _tidied(new: Property) -> Property:
    return replace(
        new,
        label=new.label.strip() or catalogues.readable(new.name),
        options=tuple(
            replace(each, label=each.label.strip() or each.value) for each in new.options
        ),
    )


def _check(new: Property, said: Collection[str]) -> None:
    malformed = []
    if "name" in said and not NAME.fullmatch(new.name):
        malformed.append(("name", NAME_RULE))
    if "label" in said:
        malformed += label_problems("label", new.label)
    if "description" in said and len(new.description) > LONGEST_DESCRIPTION:
        reason = f"{len(new.description)} characters long; send at most {LONGEST_DESCRIPTION}"
        malformed.append(("description", reason))
    if "options" in said:
        malformed += _option_problems(new)
    if malformed:
        raise BadRequest(listed(malformed))
    senseless = _contradictions(new)
    if senseless:
        raise Semantic(listed(senseless))


def label_problems(path: str, label: str) -> list[tuple[str, str]]:
    if len(label) > LONGEST_LABEL:
        return [(path, f"{len(label)} characters long; send at most {LONGEST_LABEL}")]
    if _has_control(label):
        return [(path, "holds a line break or another control character; leave it out")]
    return []


def _has_control(text: str) -> bool:
    return any(unicodedata.category(each) == "Cc" for each in text)


def _option_problems(new: Property) -> list[tuple[str, str]]:
    problems = []
    seen: dict[str, int] = {}
    for i, option in enumerate(new.options):
        path, value = f"options[{i}].value", option.value
        # Where any case is taken, two values that differ in nothing else cannot be told apart.
        first = seen.setdefault(value.casefold() if new.any_case else value, i)
        if not value or value != value.strip():
            problems.append((path, "blank at its start or end, or nothing but that; trim it"))
        elif len(value) > LONGEST_OPTION:
            reason = f"{len(value)} characters long; send at most {LONGEST_OPTION}"
            problems.append((path, reason))
        elif ";" in value:
            problems.append((path, "holds a semicolon, which separates values; leave it out"))
        elif _has_control(value):
            problems.append((path, "holds a control character; leave it out"))
        elif first != i:
            problems.append((path, f"the same as options[{first}].value; send each once"))
        problems += label_problems(f"options[{i}].label", option.label)
    return problems


def _contradictions(new: Property) -> list[tuple[str, str]]:
    problems = []
    if new.type in CHOICES and not new.options:
        problems.append(("options", f"a property of type {new.type} needs at least one"))
    if new.type not in CHOICES and new.options:
        reason = f"only {' and '.join(CHOICES)} have options; choose one of these types"
        problems.append(("options", f"{reason}, or leave them out"))
    if new.unique and new.type not in NAMING:
        problems.append(("unique", f"only these types can be unique: {', '.join(NAMING)}"))
    if new.required and new.read_only:
        reason = "a required property must be sent, and a read-only one cannot be; choose one"
        problems.append(("readOnly", reason))
    return problems


def _require_room(catalogue: Catalogue, new: Property) -> None:
    own = [each for each in catalogue if each.name != new.name and not each.options_from]
    total = sum(len(each.options) for each in [*own, new])
    if total > MAX_OPTIONS:
        raise Semantic(
            f"options: {catalogue.kind.name} would have {total} options in all"
            f" their properties together; the most is {MAX_OPTIONS}. Use a string for what has"
            " that many."
        )


def _refuse_fixed(kind: Kind, known: Property, changed: Collection[str]) -> None:
    never = {
        "name": "records hold their values under it",
        "type": "records hold values of it",
    }
    problems = [
        (each, f"{why}, so it stays; define another property, copy the values, delete this one")
        for each, why in never.items()
        if each in changed
    ]
    if problems:
        raise Semantic(listed(problems))
    if known.built_in:
        flags = {"required": "required", "unique": "unique", "read_only": "readOnly"}
        problems = [
            (wire, f"{known.name} is built in, and this stays as it is; leave it out")
            for flag, wire in flags.items()
            if flag in changed
        ]
    if known.options_from and "options" in changed:
        reason = f"those of {known.name} are the account's {known.options_from}"
        problems.append(("options", f"{reason}; change them under /pipelines/{kind.name}"))
    if problems:
        raise Conflict(listed(problems))


def _refuse_held(
    tx: Connection, account_id: int, kind: Kind, known: Property, wanted: Property
) -> None:
    gone = {each.value for each in known.options} - {each.value for each in wanted.options}
    held = held_values.by_option(tx, account_id, known) if gone else {}
    problems = [
        ("options", f'{_counted(held[each], kind)} the value "{each}"')
        for each in sorted(gone)
        if each in held
    ]
    if problems:
        raise Conflict(f"{listed(problems)}; give them another one first, or keep the option.")


def store(tx: Connection, account_id: int, changed: Property) -> None:
    """Store a changed property, after `catalogues.change`; its name and type stay."""
    set_where(
        tx,
        property_def,
        {"account_id": account_id, "prop_id": changed.prop_id},
        label=changed.label,
        description=changed.description,
        required=changed.required,
        is_unique=changed.unique,
        read_only=changed.read_only,
        options=catalogues.dump_options(() if changed.options_from else changed.options),
    )
