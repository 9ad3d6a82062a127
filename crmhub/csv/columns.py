"""The options of a CSV import, and the assignment of the file's columns to properties."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from crmhub.csv.refused_rows import ADDED_COLUMNS
from crmhub.errors import Semantic, listed
from crmhub.properties.catalogue import FIELDS, Catalogue, Property


@dataclass(frozen=True, slots=True)
class Choices:
    """The options of a CSV import.

    `by` is the property that identifies the record of a row: a unique property, "id", or "" if
    every row creates a record. `columns` assigns properties to column titles; "" skips the column.
    With `clear`, an empty cell clears the record's value. With `raw`, cells are read unchanged;
    otherwise an apostrophe before a formula is removed.
    """

    by: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    clear: bool = False
    raw: bool = False


def property_columns(
    catalogue: Catalogue, titles: Sequence[str], choices: Choices
) -> tuple[str, ...]:
    """Return the name of the property for each column, "" for a skipped column.

    `titles` are the titles of the columns. Raises Semantic with all faults of titles and options.
    """
    problems = [
        (f"--column {title}", f"no column has this title; they are {', '.join(titles)}")
        for title in choices.columns
        if title not in titles
    ]
    names: list[str] = []
    for title in titles:
        name = choices.columns.get(title, _property_of_title(catalogue, title, choices.by))
        if name and (reason := _column_fault(catalogue, name, names, choices.by)):
            problems.append((f"column {title[:100]!r}", reason))
        names.append(name)
    if choices.by and (reason := _by_fault(catalogue, choices.by, names)):
        problems.append(("--by", reason))
    if not any(names):
        problems.append(("columns", "none of them is a property"))
    if problems:
        raise Semantic(f"Nothing was imported. {listed(problems)}")
    return tuple(names)


def _property_of_title(catalogue: Catalogue, title: str, by: str) -> str:
    """Return the name of the property whose name or label is this title.

    Returns "" without a match, with several matches, and for columns that an export or the file of
    refused rows adds. The title `id` is returned if `by` is `id`.
    """
    if title == "id" == by:
        return title
    if not title or title in FIELDS or title in ADDED_COLUMNS:
        return ""
    matches = [prop.name for prop in catalogue if title.casefold() in _names_of(prop)]
    return title if catalogue.get(title) or len(matches) != 1 else matches[0]


def _names_of(prop: Property) -> tuple[str, str]:
    return prop.name, prop.label.casefold()


def _column_fault(catalogue: Catalogue, name: str, before: Collection[str], by: str) -> str:
    """Return why the column of the property `name` cannot be imported, else "".

    `before` are the properties of the earlier columns. The reason says what to do.
    """
    prop = catalogue.get(name)
    if name in before:
        return f"an earlier column holds {name} already; leave one out with --column 'TITLE='"
    if prop is not None:
        return f"{name} is read-only; leave it out with --column 'TITLE='" * prop.read_only
    if name == "id" == by:
        return ""
    similar = catalogue.nearest(name.lower().replace(" ", "_"))
    hint = f"; did you mean {' or '.join(similar)}?" if similar else "."
    return (
        f"{catalogue.kind.name} have no property of this name or label{hint} Name one with"
        " --column 'TITLE=NAME', or leave it out with --column 'TITLE='"
    )


def _by_fault(catalogue: Catalogue, by: str, names: Collection[str]) -> str:
    prop = catalogue.get(by)
    if by != "id" and (prop is None or not prop.unique):
        choices = ", ".join(["id", *(prop.name for prop in catalogue if prop.unique)])
        return f"{by} is not unique and cannot identify a record; use one of {choices}"
    return "" if by in names else f"no column holds {by}"
