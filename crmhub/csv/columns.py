"""The options of a CSV import, and the assignment of the file's columns to properties."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from crmhub.csv.headings import hubspot_property
from crmhub.csv.text_guards import unescape_formula
from crmhub.errors import Semantic, listed
from crmhub.properties.catalogue import FIELDS, Catalogue
from crmhub.properties.definitions import Property
from crmhub.properties.kinds import KINDS, Kind
from crmhub.properties.values import TEXT_TYPES, fold

ADDED_COLUMNS = ("crmhub_line", "crmhub_refused")
"""The titles of the two columns after the cells of a refused row: its line, and the reason."""
DATE_ORDERS = ("", "dmy", "mdy")
DECIMALS = ("", ".", ",")
_NO_LETTERS = re.compile(r"[\W_]+")
_NUMBERED = re.compile(r"(.+) \([0-9]+\)", re.DOTALL)
_SHOWN_TITLES = 20


@dataclass(frozen=True, slots=True)
class Choices:
    """The options of a CSV import.

    `by` is a unique property, "id", or "" if every row creates a record. `columns` maps titles to
    properties, "" to skip. `links` maps titles to targets such as "companies.name". With `clear`,
    an empty cell clears the value. With `raw`, an apostrophe before a formula stays.

    For `decimal` and `dates` ("dmy" or "mdy"), "" means detected; for `timezone`, UTC.
    """

    by: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    clear: bool = False
    raw: bool = False
    ignore_unknown: bool = False
    links: Mapping[str, str] = field(default_factory=dict)
    decimal: str = ""
    dates: str = ""
    timezone: str = ""

    @classmethod
    def from_json(cls, text: str) -> Choices:
        """Also reads the options of an earlier version."""
        return cls(**json.loads(text))

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Target:
    """`property` is "id" for the ids of the records."""

    kind: Kind
    property: str


@dataclass(frozen=True, slots=True)
class Column:
    """`name` is the property, "" for none; `fault` says why the column cannot be imported."""

    title: str
    name: str
    found_by: str = ""
    fault: str = ""
    target: Target | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    columns: tuple[Column, ...]
    problems: tuple[tuple[str, str], ...]

    def check(self) -> None:
        if self.problems:
            raise Semantic(f"Nothing was imported: {listed(self.problems)}")

    @property
    def left_out(self) -> list[str]:
        return [
            column.title or "(no title)"
            for column in self.columns
            if not column.name and column.target is None
        ]


def plan_columns(
    catalogue: Catalogue,
    titles: Sequence[str],
    choices: Choices,
    catalogues: Mapping[str, Catalogue],
) -> Plan:
    problems = [
        (f"{option} {title}", f"no column has this title; they are {_listing(titles)}")
        for option, given in (("--column", choices.columns), ("--link", choices.links))
        for title in given
        if title not in titles
    ]
    columns: list[Column] = []
    names: set[str] = set()
    for title in titles:
        target, fault = _target(choices.links.get(title, ""), catalogues)
        if fault:
            problems.append((f"--link {title}", fault))
        if title in choices.columns:
            name, found_by = choices.columns[title], "chosen"
        else:
            name, found_by = _property_of(
                catalogue,
                title,
                {column.title for column in columns},
                by=choices.by,
                has_link=title in choices.links,
            )
        reason = _column_fault(catalogue, title, name, names, choices.by) if name else ""
        if reason and choices.ignore_unknown and title not in choices.columns:
            name, found_by, reason = "", "repeated" if name in names else "ignored", ""
        names.add(name)
        if reason:
            problems.append((f"column {title[:100]!r}", reason))
        columns.append(Column(title, name, found_by, reason, target))
    problems += _option_faults(catalogue, choices, [column.name for column in columns])
    return Plan(tuple(columns), tuple(problems))


def _listing(titles: Sequence[str]) -> str:
    shown = ", ".join(title[:100] for title in titles[:_SHOWN_TITLES])
    return shown + f" and {len(titles) - _SHOWN_TITLES} more" * (len(titles) > _SHOWN_TITLES)


def _property_of(
    catalogue: Catalogue, title: str, before: Collection[str], *, by: str, has_link: bool
) -> tuple[str, str]:
    """Return the property, "" to skip the column, and how it was found.

    "Phone (2)" after "Phone" is another "Phone". An unknown title is returned as the name itself,
    so that it is reported.
    """
    name, found_by = _search_property(catalogue, unescape_formula(title), by)
    if not found_by and (numbered := _NUMBERED.fullmatch(title)) and numbered[1] in before:
        name, found_by = _search_property(catalogue, unescape_formula(numbered[1]), by)
    if found_by or not title:
        return name, found_by
    return ("", "link only") if has_link else (title, "")


def _search_property(catalogue: Catalogue, title: str, by: str) -> tuple[str, str]:
    if title.casefold() == "id" == by:
        return "id", "name"
    if not title or title in FIELDS or title in ADDED_COLUMNS:
        return "", "the hub fills it in" if title else ""
    if catalogue.get(title):
        return title, "name"
    for found_by, names in (
        ("name", [prop.name for prop in catalogue if title.casefold() == prop.name]),
        ("label", [prop.name for prop in catalogue if _is_label(title, prop)]),
        ("label", [prop.name for prop in catalogue if _key(title) in _keys(prop)]),
    ):
        if len(names) == 1:
            return names[0], found_by
    name = hubspot_property(catalogue.kind, title)
    if name == "" or (name is not None and catalogue.get(name)):
        return name, "HubSpot's title" if name else "only HubSpot fills it in"
    return "", ""


def _is_label(title: str, prop: Property) -> bool:
    labels = (prop.label, f"{prop.label} ({prop.name})".strip())
    return any(fold(title) == fold(label) for label in labels)


def _key(text: str) -> str:
    return _NO_LETTERS.sub("", fold(text))


def _keys(prop: Property) -> tuple[str, str]:
    return _key(prop.name), _key(prop.label)


def _column_fault(
    catalogue: Catalogue, title: str, name: str, before: Collection[str], by: str
) -> str:
    prop = catalogue.get(name)
    leave_out = f"leave it out with --column '{title[:100]}='"
    if name in before:
        return f"an earlier column holds {name} already; {leave_out}"
    if prop is not None:
        return f"{name} is read-only; {leave_out}" * prop.read_only
    if name == "id" == by:
        return ""
    similar = catalogue.nearest(name.lower().replace(" ", "_"))
    hint = f"; did you mean {' or '.join(similar)}?" if similar else "."
    return (
        f"{catalogue.kind.name} have no property of this name or label{hint} Name one with"
        " --column 'TITLE=NAME', or leave it out with --column 'TITLE=' (all such columns with"
        " --ignore-unknown)"
    )


def _target(text: str, catalogues: Mapping[str, Catalogue]) -> tuple[Target | None, str]:
    if not text:
        return None, ""
    kind, _, name = text.partition(".")
    if kind not in KINDS or not name:
        return None, f"{text} is no target; write KIND.PROPERTY, such as companies.name"
    prop = catalogues[kind].get(name)
    if prop is not None and prop.type not in TEXT_TYPES:
        return None, f"{name} is a {prop.type}; link by a text, an email, a phone or an id"
    if name != "id" and prop is None:
        similar = catalogues[kind].nearest(name)
        hint = f"; did you mean {' or '.join(similar)}?" if similar else ""
        return None, f"{kind} have no property {name}{hint}"
    return Target(KINDS[kind], name), ""


def _option_faults(
    catalogue: Catalogue, choices: Choices, names: Sequence[str]
) -> list[tuple[str, str]]:
    problems = []
    if choices.by and (reason := _by_fault(catalogue, choices.by, names)):
        problems.append(("--by", reason))
    if not any(names):
        problems.append(("columns", "none of them is a property"))
    if choices.dates not in DATE_ORDERS:
        problems.append(("--dates", "the order is dmy or mdy"))
    if choices.decimal not in DECIMALS:
        problems.append(("--decimal", "the separator is a point or a comma"))
    if choices.timezone and not _is_timezone(choices.timezone):
        problems.append(("--timezone", "unknown time zone; give one such as Europe/Berlin"))
    return problems


def _is_timezone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _by_fault(catalogue: Catalogue, by: str, names: Collection[str]) -> str:
    prop = catalogue.get(by)
    if by != "id" and (prop is None or not prop.unique):
        choices = ", ".join(["id", *(prop.name for prop in catalogue if prop.unique)])
        return f"{by} is not unique and cannot identify a record; use one of {choices}"
    return "" if by in names else f"no column holds {by}"
