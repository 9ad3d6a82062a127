"""Convert a field map to rows of a form, and back: a row for each rule.

The translated values of a rule are lines `ours = theirs`: the bots' value and the CRM's value. A
rule with a text that no line can hold (surrounding blanks, several lines, or an `=` in the bots'
value) is edited as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from flask_babel import gettext

from crmhub.accounts.field_maps import KINDS, FieldMap, Rule
from crmhub.adapter import Written
from crmhub.console.template_filters import translated
from crmhub.errors import BadRequest
from crmhub.operators.crm import field_map_reading
from crmhub.operators.crm.field_map_reading import MOST_RULES, Faulty
from crmhub.translatable import as_text, translatable

_LABELS = {
    "name": translatable("Bot's property"),
    "to": translatable("%(crm)s property"),
    "values": translatable("Values"),
    "constant": translatable("Constant"),
    "set": translatable("When the constant is sent"),
    "json": translatable("Rule as JSON"),
}
_PARTS = (*_LABELS, "remove")
_FIELD = re.compile(rf"({'|'.join(KINDS)})\.([0-9]{{1,6}})\.({'|'.join(_PARTS)})", re.ASCII)
# Per kind: the maximum of rules, and as many empty rows.
_MOST_ROWS = 2 * MOST_RULES


@dataclass(slots=True)
class Row:
    """A rule of the field map as the texts that the user typed.

    `wrong` has errors by form field. `open`: the form fields are shown at once. `focus`: the cursor
    starts here.
    """

    name: str = ""
    to: str = ""
    values: str = ""
    constant: str = ""
    set: str = "always"
    json: str = ""
    remove: str = ""
    wrong: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    open: bool = False
    focus: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(getattr(self, part) for part in _PARTS)

    @property
    def blank(self) -> bool:
        return not any(map(str.strip, (self.name, self.to, self.values, self.constant, self.json)))


@dataclass(slots=True)
class Draft:
    """All rows of the form, by kind of record."""

    rows: dict[Written, list[Row]]

    @classmethod
    def of(cls, field_map: FieldMap) -> Draft:
        return cls(
            {
                kind: [_row_of(name, rule) for name, rule in field_map.of(kind).rules.items()]
                for kind in KINDS
            }
        )

    @classmethod
    def typed(cls, form: Mapping[str, str]) -> Draft:
        """Return the rows of a submitted form, in order; raises BadRequest for too many rows."""
        given: dict[Written, dict[int, Row]] = {kind: {} for kind in KINDS}
        for key, value in form.items():
            if match := _FIELD.fullmatch(key):
                kind, number, part = match.groups()
                row = given[kind].setdefault(int(number), Row())  # type: ignore[index]
                # Browsers submit CRLF.
                setattr(row, part, value.replace("\r\n", "\n"))
        for kind, rows in given.items():
            if len(rows) > _MOST_ROWS:
                raise BadRequest(
                    "%(kind)s: %(count)s rows; send at most %(most)s.",
                    kind=as_text(kind),
                    count=len(rows),
                    most=_MOST_ROWS,
                )
        return cls({kind: [row for _, row in sorted(rows.items())] for kind, rows in given.items()})

    def field_map(self) -> FieldMap:
        """Return the field map of the rows; raises Faulty with all faults of the rows."""
        faults: list[tuple[str, str]] = []
        rules_by_kind: dict[str, dict[str, Any]] = {}
        for kind, index, row in self._filled_rows():
            rules = rules_by_kind.setdefault(kind, {})
            name = row.name.strip()
            if not name or name in rules:
                twice = gettext("two rules have this name; remove one")
                reason = twice if name else gettext("enter a name")
                faults.append((f"{_row_path(kind, index)}.name", reason))
                continue
            rules[name], rule_faults = _parse_row(row)
            faults += [(f"{kind}.{name[:100]}.{part}", reason) for part, reason in rule_faults]
        try:
            field_map = field_map_reading.read(rules_by_kind)
        except Faulty as exc:
            faults += exc.faults
        if faults:
            raise Faulty(faults)
        return field_map

    def focus(self, kind: Written, name: str = "") -> None:
        """Open the row of the rule for the bots' property `name`, or a new one."""
        rows = self.rows[kind]
        row = next((row for row in rows if name and row.name.strip() == name), None)
        if row is None:
            row = Row(name)
            rows.append(row)
        row.open = row.focus = True

    def open_unsaved(self, stored: Draft) -> None:
        """Open each row that differs from all rows of `stored`, and each row with a fault."""
        for kind, rows in self.rows.items():
            saved = {row.parts for row in stored.rows[kind]}
            for row in rows:
                row.open = row.open or bool(row.wrong) or row.parts not in saved

    def place_faults(
        self, faults: Iterable[tuple[str, str]], crm: str
    ) -> list[tuple[str, str, str]]:
        """Store each fault (path, message) in the row that its path names, if any.

        Returns each as (label, id of the form field, message); the CRM's label is `crm`. Without a
        form field, the label is the path of the fault, and the id is "".
        """
        fields = self._fields()
        placed = []
        for path, reason in faults:
            words = translated(reason)
            place = _part_path(path, fields)
            if place not in fields:
                placed.append((path, "", words))
                continue
            kind, index, row, part = fields[place]
            if place != path:
                words = f"{path.removeprefix(f'{place}.')[:60]}: {words}"
            row.wrong.setdefault(part, []).append(words)
            label = gettext(
                "%(kind)s, rule %(number)s, %(field)s",
                kind=gettext(kind).capitalize(),
                number=index + 1,
                field=gettext(_LABELS[part], crm=crm),
            )
            placed.append((label, f"{kind}.{index}.{part}", words))
        return placed

    def attach_notes(self, notes: Iterable[tuple[str, str]]) -> None:
        """Store each warning (path, message) in the row that its path names, if any."""
        fields = self._fields()
        for path, words in notes:
            if path in fields:
                fields[path][2].notes.append(translated(words))

    def _filled_rows(self) -> Iterator[tuple[Written, int, Row]]:
        for kind, rows in self.rows.items():
            for index, row in enumerate(rows):
                if not (row.blank or row.remove):
                    yield kind, index, row

    def _fields(self) -> dict[str, tuple[str, int, Row, str]]:
        """Return (kind, index, row, name of its form field) by path, as `Faulty` gives it.

        Paths may contain only the first 100 characters of a rule's name.
        """
        fields: dict[str, tuple[str, int, Row, str]] = {}
        for kind, index, row in self._filled_rows():
            name = row.name.strip()
            for stem in (f"{kind}.{name}", f"{kind}.{name[:100]}", _row_path(kind, index)):
                fields.setdefault(stem, (kind, index, row, "name"))
                for part in _LABELS:
                    shown = "json" if row.json and part != "name" else part
                    fields.setdefault(f"{stem}.{part}", (kind, index, row, shown))
        return fields


def _row_path(kind: str, index: int) -> str:
    return f"{kind}, rule {index + 1}"


def _part_path(path: str, fields: Mapping[str, object]) -> str:
    """Return the path in `fields` that `path` equals or begins with, else `path`.

    The result for `….values.Rome` is `….values`.
    """
    if path in fields:
        return path
    # The longest match wins: a rule named `a.values.b` is not the value `b` of rule `a`.
    ends = reversed([match.end() for match in re.finditer(r"\.values(?=\.)", path)])
    return next((path[:end] for end in ends if path[:end] in fields), path)


def _row_of(name: str, rule: Rule) -> Row:
    texts = (*rule.values, *rule.values.values(), rule.constant or "-")
    if any(text != text.strip() or not text.isprintable() for text in texts) or any(
        "=" in ours for ours in rule.values
    ):
        return Row(name, json=json.dumps(rule.plain(), indent=2, ensure_ascii=False))
    values = "\n".join(f"{ours} = {theirs}" for ours, theirs in rule.values.items())
    return Row(name, rule.to, values, rule.constant, rule.when)


def _parse_row(row: Row) -> tuple[Any, list[tuple[str, str]]]:
    """Return the rule as JSON, and its faults as (name of the form field, reason)."""
    if row.json.strip():
        try:
            return orjson.loads(row.json), []
        except orjson.JSONDecodeError as exc:
            return row.name.strip(), [("json", gettext("this is not JSON: %(reason)s", reason=exc))]
    rule: dict[str, Any] = {}
    faults: list[str] = []
    if row.to.strip():
        rule["to"] = row.to.strip()
    if row.values.strip():
        rule["values"], faults = pairs(row.values)
    if row.constant.strip():
        rule["constant"] = row.constant.strip()
    if row.set != "always" or "constant" in rule:
        rule["set"] = row.set
    return rule, [("values", fault) for fault in faults]


def pairs(text: str) -> tuple[dict[str, str], list[str]]:
    """Parse lines `ours = theirs`; return the pairs, and the faults with their line numbers."""
    values: dict[str, str] = {}
    faults: list[str] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        ours, sign, theirs = map(str.strip, line.partition("="))
        if sign and ours not in values:
            values[ours] = theirs
        elif sign:
            faults.append(
                gettext(
                    "line %(number)s: %(value)s is there twice; remove one line",
                    number=number,
                    value=ours[:60],
                )
            )
        elif ours:
            faults.append(
                gettext(
                    "line %(number)s: write the bot's value, =, and the CRM's value", number=number
                )
            )
    return values, faults
