"""Reads a field map from a JSON or TOML document, and tells every fault of it with its path."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from crmhub.accounts.field_maps import IDENTITY, KINDS, WHEN, FieldMap, KindMap, Rule
from crmhub.adapter import Written
from crmhub.errors import BadRequest, Semantic, listed
from crmhub.translatable import translatable

MOST_RULES = 500
MOST_VALUES = 1_000
LONGEST_NAME, LONGEST_BOT_NAME = 255, 100
LONGEST_VALUE = 65_536

Faults = list[tuple[str, str]]
"""Faults of a field map as (path, reason), with paths such as `contacts.city.values.Rome`."""


class Faulty(Semantic):
    """A field map has invalid rules; `faults` lists (path, reason) for every fault."""

    def __init__(self, faults: Sequence[tuple[str, str]], *, unsaved: bool = False) -> None:
        told = listed(faults)
        if unsaved:
            told = translatable("Nothing was saved: %(faults)s", faults=told)
        super().__init__(told)
        self.faults = tuple(faults)


def read(given: Any) -> FieldMap:
    """Raises BadRequest if the structure is wrong, else Faulty with all faults of the rules."""
    reader = _Reader()
    kinds = reader.kinds(given)
    if reader.misshapen:
        raise BadRequest(listed(reader.misshapen))
    if reader.faults:
        raise Faulty(reader.faults)
    return FieldMap(kinds)


class _Reader:
    """Collects faults of structure in `misshapen`, and invalid rules in `faults`."""

    def __init__(self) -> None:
        self.misshapen: Faults = []
        self.faults: Faults = []

    def kinds(self, given: Any) -> dict[Written, KindMap]:
        read: dict[Written, KindMap] = {}
        for kind, rules in self._object("", given).items():
            if kind not in KINDS:
                self.misshapen.append(
                    (str(kind)[:100], translatable("known are %(names)s", names=", ".join(KINDS)))
                )
                continue
            table = self._object(kind, rules)
            if len(table) > MOST_RULES:
                self._fault(
                    kind,
                    translatable(
                        "%(count)s rules; give at most %(most)s", count=len(table), most=MOST_RULES
                    ),
                )
                continue
            rules_by_name = {
                name: self._rule(_path(kind, name), name, rule) for name, rule in table.items()
            }
            if rules_by_name:
                read[kind] = KindMap(rules_by_name)
        if not self.misshapen:
            for kind, kind_map in read.items():
                self.faults += _clashes(kind, kind_map)
        return read

    def _rule(self, path: str, name: str, given: Any) -> Rule:
        self._name(path, name, LONGEST_BOT_NAME)
        if isinstance(given, str):
            given = {"to": given}
        table = self._object(path, given)
        for key in table.keys() - {"to", "values", "constant", "set"}:
            known = "known are to, values, constant, set"
            self.misshapen.append((f"{path}.{key[:100]}", f"is not known here; {known}"))
        to = self._text(f"{path}.to", table.get("to", name))
        self._name(f"{path}.to", to)
        if not table:
            self._fault(path, translatable("the rule is empty; give to, values or constant"))
        constant = self._text(f"{path}.constant", table.get("constant", ""))
        if "constant" in table:
            self._value(f"{path}.constant", constant)
        when = table.get("set", "always")
        if when not in WHEN:
            self.misshapen.append(
                (f"{path}.set", translatable("must be one of %(names)s", names=", ".join(WHEN)))
            )
        elif "set" in table and "constant" not in table:
            self._fault(
                f"{path}.set", translatable("set needs a constant; give one, or leave set out")
            )
        return Rule(to, self._values(f"{path}.values", table.get("values", {})), constant, when)

    def _values(self, path: str, given: Any) -> dict[str, str]:
        table = self._object(path, given)
        if len(table) > MOST_VALUES:
            self._fault(
                path,
                translatable(
                    "%(count)s values; give at most %(most)s",
                    count=len(table),
                    most=MOST_VALUES,
                ),
            )
            return {}
        read = {}
        for ours, theirs in table.items():
            where = f"{path}.{ours[:100]}"
            read[ours] = self._text(where, theirs)
            self._value(where, read[ours])
            if not ours.strip():
                self._fault(path, translatable("a bot's value is blank; map filled values only"))
        return read

    def _object(self, path: str, given: Any) -> Mapping[str, Any]:
        if isinstance(given, Mapping):
            return given
        self.misshapen.append((path or "fieldMap", translatable("must be an object")))
        return {}

    def _text(self, path: str, given: Any) -> str:
        if isinstance(given, str):
            return given
        self.misshapen.append((path, translatable("must be a string")))
        return "?"

    def _name(self, path: str, name: str, longest: int = LONGEST_NAME) -> None:
        if not (name.strip() == name != "" and name.isprintable() and len(name) <= longest):
            self._fault(
                path,
                translatable(
                    "this is not a property name; give 1 to %(longest)s printable characters,"
                    " no blanks around them",
                    longest=longest,
                ),
            )

    def _value(self, path: str, value: str) -> None:
        if not value.strip():
            self._fault(path, translatable("the value is blank; give one, or leave it out"))
        elif len(value) > LONGEST_VALUE or "\0" in value or _lone(value):
            self._fault(
                path, translatable("give text of at most %(most)s characters", most=LONGEST_VALUE)
            )

    def _fault(self, path: str, reason: str) -> None:
        self.faults.append((path, reason))


def _lone(value: str) -> bool:
    """Half of a surrogate pair, which no database stores."""
    return any("\ud800" <= character <= "\udfff" for character in value)


def _path(kind: str, name: str) -> str:
    return f"{kind}.{name[:100]}"


def _clashes(kind: Written, kind_map: KindMap) -> Iterator[tuple[str, str]]:
    """Yield (path, reason) for each rule that no map may have or that conflicts with others."""
    targets = defaultdict(list)
    for name, rule in kind_map.rules.items():
        targets[rule.to].append(name)
    for name, rule in kind_map.rules.items():
        path = _path(kind, name)
        if kind == "contacts" and name in IDENTITY:
            yield path, f"{name} identifies contacts and cannot have a rule; remove the rule"
        elif kind == "contacts" and rule.to in IDENTITY:
            yield (
                f"{path}.to",
                f"{rule.to} already goes to the CRM's {rule.to}; name another property",
            )
        elif others := [other for other in targets[rule.to] if other != name]:
            yield f"{path}.to", f"{others[0]} also goes to the CRM's {rule.to}; keep one of them"
        if kind == "contacts":
            yield from _unreadable(path, rule)


def _unreadable(path: str, rule: Rule) -> Iterator[tuple[str, str]]:
    """Yield a fault for bot values with the same CRM value: reading could not tell them apart."""
    alike = {value for value, count in Counter(rule.values.values()).items() if count > 1}
    for value in sorted(alike):
        ours = [value_ for value_, theirs in rule.values.items() if theirs == value]
        shown = " and ".join(value_[:60] for value_ in ours[:3])
        yield (
            f"{path}.values",
            f"{shown} both become {value[:60]}, so getProperties could not tell which it was;"
            " leave one of them",
        )
