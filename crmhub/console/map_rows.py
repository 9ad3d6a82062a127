"""A field map as a form holds it: a row for each rule, its values as lines `ours = theirs`.

A text stands in double quotes, as in JSON, where it could not be read otherwise: with blanks around
it, several lines, quotes at its beginning, or before the `=` another one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from crmhub.accounts import field_maps
from crmhub.accounts.field_maps import KINDS, MOST_RULES, Faulty, FieldMap, Rule
from crmhub.adapter.contract import Written
from crmhub.errors import BadRequest

PARTS = ("name", "to", "values", "constant", "set", "remove")
_FIELD = re.compile(rf"({'|'.join(KINDS)})\.([0-9]{{1,6}})\.({'|'.join(PARTS)})", re.ASCII)
# Of each kind: as many rules as there may be, and as many rows to spare.
_MOST_ROWS = 2 * MOST_RULES
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')


@dataclass(slots=True)
class Row:
    """A rule as it is typed; `wrong` and `notes` hold words by the part they are about."""

    name: str = ""
    to: str = ""
    values: str = ""
    constant: str = ""
    set: str = "always"
    remove: str = ""
    wrong: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def blank(self) -> bool:
        """Whether nothing was typed."""
        return not any(map(str.strip, (self.name, self.to, self.values, self.constant)))


@dataclass(slots=True)
class Draft:
    """The rows of a form, by kind of record."""

    rows: dict[Written, list[Row]]

    @classmethod
    def of(cls, field_map: FieldMap) -> Draft:
        """Return the rows of a field map."""
        return cls(
            {
                kind: [_row(name, rule) for name, rule in field_map.of(kind).rules.items()]
                for kind in KINDS
            }
        )

    @classmethod
    def typed(cls, form: Mapping[str, str]) -> Draft:
        """Return the rows that a form sends, in their order; raises BadRequest for too many."""
        given: dict[Written, dict[int, Row]] = {kind: {} for kind in KINDS}
        for key, value in form.items():
            if found := _FIELD.fullmatch(key):
                kind, number, part = found.groups()
                row = given[kind].setdefault(int(number), Row())  # type: ignore[index]
                setattr(row, part, value)
        for kind, rows in given.items():
            if len(rows) > _MOST_ROWS:
                raise BadRequest(f"{kind}: {len(rows)} rows; send at most {_MOST_ROWS}.")
        return cls({kind: [row for _, row in sorted(rows.items())] for kind, rows in given.items()})

    def field_map(self) -> FieldMap:
        """Return the field map that was typed.

        Raises BadRequest, and Faulty with every fault; `blame` lets them stand with the rows.
        """
        faults: list[tuple[str, str]] = []
        described: dict[str, dict[str, Any]] = {}
        for kind, number, row in self._filled():
            rules = described.setdefault(kind, {})
            name = row.name.strip()
            if not name or name in rules:
                why = "it stands twice; leave one of them" if name else "give the name bots use"
                faults.append((f"{_numbered(kind, number)}.name", why))
                continue
            rules[name], wrong = _described(row)
            faults += [(f"{kind}.{name[:100]}.{part}", why) for part, why in wrong]
        try:
            read = field_maps.read(described)
        except Faulty as exc:
            faults += exc.faults
        if faults:
            raise Faulty(faults)
        return read

    def blame(self, faults: Iterable[tuple[str, str]]) -> None:
        """Let each fault stand with the row, and the part of it, that it is about."""
        places = self._places()
        for path, words in faults:
            place = _part(path, places)
            if place in places:
                row, part = places[place]
                row.wrong.setdefault(part, []).append(_of_value(path, place, words))

    def remark(self, notes: Iterable[tuple[str, str]]) -> None:
        """Let each note stand with the row that it is about."""
        places = self._places()
        for path, words in notes:
            if place := places.get(path):
                place[0].notes.append(words)

    def _filled(self) -> Iterator[tuple[Written, int, Row]]:
        """Yield the rows that are to be rules, with their numbers as the page counts them."""
        for kind, rows in self.rows.items():
            for number, row in enumerate(rows, 1):
                if not (row.blank or row.remove):
                    yield kind, number, row

    def _places(self) -> dict[str, tuple[Row, str]]:
        """Return row and part by the path of each; of long names paths may hold the beginning."""
        places: dict[str, tuple[Row, str]] = {}
        for kind, number, row in self._filled():
            name = row.name.strip()
            for stem in (f"{kind}.{name}", f"{kind}.{name[:100]}", _numbered(kind, number)):
                places.setdefault(stem, (row, "name"))
                for part in ("name", "to", "values", "constant", "set"):
                    places.setdefault(f"{stem}.{part}", (row, part))
        return places


def _numbered(kind: str, number: int) -> str:
    """Return the path of a row that has no name of its own."""
    return f"{kind}, rule {number}"


def _part(path: str, places: Mapping[str, object]) -> str:
    """Return the path of the part that a path is in: `….values` of `….values.Rome`."""
    if path in places:
        return path
    # The longest: a rule for `a.values.b` is none for the value `b` of `a`.
    ends = reversed([found.end() for found in re.finditer(r"\.values(?=\.)", path)])
    return next((path[:end] for end in ends if path[:end] in places), path)


def _of_value(path: str, place: str, words: str) -> str:
    return f"{path.removeprefix(f'{place}.')[:60]}: {words}" if place != path else words


def _row(name: str, rule: Rule) -> Row:
    values = "\n".join(
        f"{_written(ours, before='=')} = {_written(theirs)}" for ours, theirs in rule.values.items()
    )
    constant = _written(rule.constant) if rule.constant else ""
    return Row(name, rule.to, values, constant, rule.when)


def _described(row: Row) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the rule as `field_maps.read` takes it, and what cannot be read by its part."""
    rule: dict[str, Any] = {}
    wrong: list[tuple[str, str]] = []
    if row.to.strip():
        rule["to"] = row.to.strip()
    if row.values.strip():
        rule["values"], faults = pairs(row.values)
        wrong += [("values", one) for one in faults]
    if row.constant.strip():
        try:
            rule["constant"] = _read(row.constant)
        except ValueError as exc:
            wrong.append(("constant", str(exc)))
            # There is one, that no further fault is found.
            rule["constant"] = row.constant
    if row.set != "always" or "constant" in rule:
        rule["set"] = row.set
    return rule, wrong


def pairs(text: str) -> tuple[dict[str, str], list[str]]:
    """Return what lines `ours = theirs` say, and what is wrong with the others of them."""
    read: dict[str, str] = {}
    wrong: list[str] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not line.strip():
            continue
        try:
            ours, theirs = _pair(line.strip())
        except ValueError as exc:
            wrong.append(f"line {number}: {exc}")
            continue
        if ours in read:
            wrong.append(f"line {number}: {ours[:60]} stands twice; leave one of them")
        read[ours] = theirs
    return read, wrong


def _pair(line: str) -> tuple[str, str]:
    found = _QUOTED.match(line)
    end = found.end() if found else line.find("=")
    ours, sign, theirs = line[: max(end, 0)], *line[max(end, 0) :].partition("=")[1:]
    if not sign or (found and not line[end:].lstrip().startswith("=")):
        raise ValueError("write a name or value, then =, then what it is to be")
    return _read(ours), _read(theirs)


def _read(text: str) -> str:
    """Return a text as it was meant, without its quotes; raises ValueError."""
    text = text.strip()
    if not text.startswith('"'):
        return text
    try:
        read = orjson.loads(text)
    except orjson.JSONDecodeError:
        read = None
    if not isinstance(read, str):
        raise ValueError(
            'what begins with " must end with one, as in JSON; a " in it is written \\"'
        )
    return read


def _written(text: str, *, before: str = "") -> str:
    """Return a text as `_read` takes it, where another text comes behind this sign."""
    plain = text.strip() == text != "" and text.isprintable() and text[0] != '"'
    if plain and not (before and before in text):
        return text
    return json.dumps(text, ensure_ascii=False)
