"""The filter language: what a filter means, in SQL and on a record in hand.

Each operator is a positive set of record ids, or the exact complement of one: NEQ, NOT_IN,
NOT_CONTAINS_TOKEN and NOT_HAS_PROPERTY therefore include records without a value. A `Condition`
gives its positive set as a select on one index table (`ids`), and as a test on a row of `records`
(`test`); both say the same, on both databases.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

from crmhub.bounds import MAX_FILTER_VALUE_LENGTH, MAX_FILTER_VALUES, MAX_FILTERS, MAX_PART_LENGTH
from crmhub.database.connection import Connection
from crmhub.errors import BadRequest, Semantic, listed
from crmhub.properties import values
from crmhub.properties.catalogue import FIELDS, Catalogue, Property
from crmhub.properties.validation import unknown
from crmhub.records.index import PREFIX

# Operator -> (positive operator, is it the complement of that one).
OPERATORS: dict[str, tuple[str, bool]] = {
    "EQ": ("IN", False),
    "NEQ": ("IN", True),
    "GT": ("GT", False),
    "GTE": ("GTE", False),
    "LT": ("LT", False),
    "LTE": ("LTE", False),
    "IN": ("IN", False),
    "NOT_IN": ("IN", True),
    "HAS_PROPERTY": ("HAS_PROPERTY", False),
    "NOT_HAS_PROPERTY": ("HAS_PROPERTY", True),
    "CONTAINS_TOKEN": ("CONTAINS_TOKEN", False),
    "NOT_CONTAINS_TOKEN": ("CONTAINS_TOKEN", True),
}
_LISTS = {"IN", "NOT_IN"}
_BARE = {"HAS_PROPERTY", "NOT_HAS_PROPERTY"}
_SYMBOLS = {"GT": ">", "GTE": ">=", "LT": "<", "LTE": "<="}


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter as it was sent; None stands for an absent key."""

    property_name: str
    operator: str
    value: str | None = None
    values: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Sql:
    """A piece of SQL about a condition's positive set, and its parameters."""

    text: str
    params: dict[str, Any]


_ALL = Sql("1 = 1", {})


def _of_records(more: str) -> Sql:
    return Sql(f"select id{more} from records where account_id = :account and kind = :kind", {})


class Span(NamedTuple):
    """Where a set lies in a sort order: from `first` on (ms) and before `end`, None for no end.

    `whole` says that all records in between belong to it.
    """

    first: int | None = None
    end: int | None = None
    whole: bool = False


class Condition:
    """One positive set of records, or (`negated`) all records but those."""

    negated: bool
    seeks = True
    """Whether an index leads to its set, without a look at what is not in it."""
    rows_of: str | int = ""
    """Whose rows tell it: of the property with this id or of `records`; "" where it stays alone."""
    covered = False
    """Whether the indexes of the sort orders hold all that it asks for."""
    in_order = False
    """Whether its index brings the ids of its positive set in their order."""
    dated = False
    """Whether its index tells also when each record was changed, but for those in index_behind."""

    def ids(self, connection: Connection, n: int, *, dated: bool = False) -> Sql:
        """Return the select of the positive set; `dated` with `updated_at`, as of its index.

        Its parameters' names end in the number `n`; the statement it stands in brings `:account`
        and `:kind`.
        """
        rows, where = self.rows(n, ", updated_at" if dated else ""), self.where(connection, n)
        return Sql(f"{rows.text} and {where.text}", rows.params | where.params)

    def rows(self, n: int, more: str = "") -> Sql:
        """Return the select of the ids, and `more` columns, of all rows that tell it."""
        raise NotImplementedError

    def where(self, connection: Connection, n: int) -> Sql:
        """Return which of those rows belong to the positive set."""
        raise NotImplementedError

    def test(self, connection: Connection, n: int) -> Sql:
        """Return the condition that a row of `records` belongs to the positive set.

        It may be null, which means no.
        """
        raise NotImplementedError

    def span(self, sort: str) -> Span:
        """Return where what satisfies the filter lies in the order of `sort`."""
        return Span()

    def looked_up(self, connection: Connection, account_id: int) -> Condition:
        """Return the same condition in the form that the account's values allow."""
        return self


def parse(filters: Sequence[Filter], catalogue: Catalogue, *, region: str) -> list[Condition]:
    """Return what `filters` mean for the account that owns `catalogue`.

    Raises BadRequest for a filter that is none (unknown operator, value and values in the wrong
    place, too many), Semantic for an unknown property or a value that is not of its type; both
    name every filter at fault.
    """
    if len(filters) > MAX_FILTERS:
        raise BadRequest(f"filters: {len(filters)} filters; send at most {MAX_FILTERS}")
    malformed = [
        (f"filters[{i}].{place}", why)
        for i, each in enumerate(filters)
        for place, why in _shape(each)
    ]
    if malformed:
        raise BadRequest(listed(malformed))
    conditions = []
    problems = []
    for i, each in enumerate(filters):
        try:
            conditions.append(_condition(each, catalogue, region=region))
        except _UnknownName as exc:
            problems.append((f"filters[{i}].propertyName", str(exc)))
        except values.InvalidValue as exc:
            if each.operator not in _LISTS:
                problems.append((f"filters[{i}].value", str(exc)))
                continue
            for j, value in enumerate(each.values or ()):
                try:
                    _condition(replace(each, values=(value,)), catalogue, region=region)
                except values.InvalidValue as one:
                    problems.append((f"filters[{i}].values[{j}]", str(one)))
    if problems:
        raise Semantic(listed(problems))
    return _together(conditions)


def _together(conditions: Sequence[Condition]) -> list[Condition]:
    """Return the conditions, those on the same rows as one: a range is one set, not two to join.

    Complements of their own stay as they are, since they hold what has no row.
    """
    on: dict[Any, list[Condition]] = {}
    for number, each in enumerate(conditions):
        on.setdefault(each.rows_of or f"number {number}", []).append(each)
    together = list[Condition]()
    for parts in on.values():
        one = len(parts) > 1 and any(not each.negated for each in parts)
        together += [_OfSameRows(parts)] if one else parts
    return together


class _UnknownName(Exception):
    pass


def _shape(each: Filter) -> list[tuple[str, str]]:
    operator = each.operator
    if operator not in OPERATORS:
        return [("operator", f"unknown operator; send one of {', '.join(OPERATORS)}")]
    if operator in _BARE:
        return [
            (place, f"{operator} takes no {place}; leave it out")
            for place, given in (("value", each.value), ("values", each.values))
            if given is not None
        ]
    if operator in _LISTS:
        if each.value is not None:
            return [("value", f"{operator} takes values, an array of strings, not value")]
        if not each.values:
            return [("values", f"{operator} needs values, an array of at least one string")]
        if len(each.values) > MAX_FILTER_VALUES:
            return [("values", f"{len(each.values)} values; send at most {MAX_FILTER_VALUES}")]
        return [p for i, v in enumerate(each.values) for p in _length(f"values[{i}]", v)]
    if each.values is not None:
        return [("values", f"{operator} takes one value, not values")]
    if each.value is None:
        return [("value", f"{operator} needs a value; to find empty ones use NOT_HAS_PROPERTY")]
    is_part = OPERATORS[operator][0] == "CONTAINS_TOKEN"
    return _length("value", each.value, MAX_PART_LENGTH if is_part else MAX_FILTER_VALUE_LENGTH)


def _length(place: str, value: str, most: int = MAX_FILTER_VALUE_LENGTH) -> list[tuple[str, str]]:
    if not value:
        return [(place, "is empty; to find records without a value use NOT_HAS_PROPERTY")]
    if len(value) > most:
        return [(place, f"{len(value)} characters long; send at most {most}")]
    return []


def _condition(each: Filter, catalogue: Catalogue, *, region: str) -> Condition:
    operator, negated = OPERATORS[each.operator]
    given = each.values if each.values is not None else (each.value or "",)
    column = FIELDS.get(each.property_name)
    if column == "id":
        return _OfId(negated, operator, given)
    if column:
        return _OfMoment(negated, column, operator, given)
    known = catalogue.get(each.property_name)
    if known is None:
        raise _UnknownName(unknown(catalogue, each.property_name))
    if known.index == "ix_text":
        return _OfText(negated, known, operator, _texts(known, operator, given, region=region))
    if operator == "CONTAINS_TOKEN":
        return _OfDocument(negated, known, given[0])
    read = values.search_number if known.index == "ix_num" else values.search_day
    operands = [] if operator == "HAS_PROPERTY" else [read(value) for value in given]
    return _OfKey(negated, known, operator, operands)


def _texts(known: Property, operator: str, given: Sequence[str], *, region: str) -> list[str]:
    """Return the operands of a condition on a text as they are compared."""
    if operator == "CONTAINS_TOKEN":
        return [values.fold(given[0])]
    if operator == "IN" and known.options:
        return values.chosen_for_search(known.type, given, known.options, any_case=known.any_case)
    if operator == "IN":
        return [values.for_search(known.type, value, region=region or None) for value in given]
    return [value.lower() if known.type == "email" else value for value in given]


class _OfProperty(Condition):
    """A condition on a property that is told by its index."""

    dated = True

    def __init__(self, negated: bool, known: Property, operator: str) -> None:
        self.negated = negated
        self.rows_of = known.prop_id
        self._known = known
        self._operator = operator

    def rows(self, n: int, more: str = "") -> Sql:
        return Sql(
            f"select record_id as id{more} from {self._known.index}"
            f" where account_id = :account and prop_id = :prop{n}",
            {f"prop{n}": self._known.prop_id},
        )


def _value_of(known: Property, n: int) -> tuple[str, dict[str, Any]]:
    """The stored text of the property in a row of `records`, null where it has none."""
    return f"(properties ->> cast(:name{n} as text))", {f"name{n}": known.name}


class _OfKey(_OfProperty):
    """A number or a day, compared as the index holds it."""

    def __init__(
        self, negated: bool, known: Property, operator: str, operands: Sequence[float]
    ) -> None:
        super().__init__(negated, known, operator)
        self._operands = operands
        self.in_order = operator == "IN" and len(operands) == 1
        self._key = values.number_key if known.index == "ix_num" else values.day_key

    def where(self, connection: Connection, n: int) -> Sql:
        if self._operator == "HAS_PROPERTY":
            return _ALL
        if self._operator == "IN":
            return Sql(*connection.in_list("value", f"of{n}", self._operands))
        return Sql(f"value {_SYMBOLS[self._operator]} :v{n}", {f"v{n}": self._operands[0]})

    def test(self, connection: Connection, n: int) -> Sql:
        text, params = _value_of(self._known, n)
        if self._operator == "HAS_PROPERTY":
            return Sql(f"{text} is not null", params)
        operands: list[Any] = list(self._operands)
        if self._known.index == "ix_date":
            # Canonical dates are compared as their texts are.
            text = f"substr({text}, 1, 10)"
            operands = [date.fromordinal(int(each)).isoformat() for each in operands]
        elif connection.dialect == "postgresql":
            text = f"cast({text} as double precision)"
        else:
            text = f"exact_number({text})"
        if self._operator == "IN":
            where, more = connection.in_list(text, f"of{n}", operands)
            return Sql(where, params | more)
        return Sql(f"{text} {_SYMBOLS[self._operator]} :v{n}", params | {f"v{n}": operands[0]})


# Where a property has no more values than this, a part is looked for in each of them once, and
# not in that of each record.
_FEW_VALUES = 200
# Skips from one value to the next in the index.
_VALUES = (
    "with recursive each (value) as"
    " (select min(value) from ix_text where account_id = :account and prop_id = :prop union all"
    " select (select value from ix_text where account_id = :account and prop_id = :prop"
    " and value > each.value order by value limit 1) from each where each.value is not null)"
    " select value from each where value is not null limit :most"
)


class _OfText(_OfProperty):
    """Any other type, compared by code point.

    The index key holds the first 255 characters. A shorter operand compares with those as it
    would with the whole; only a longer one needs the whole value, which stands beside the key.
    """

    def __init__(
        self, negated: bool, known: Property, operator: str, operands: Sequence[str]
    ) -> None:
        super().__init__(negated, known, operator)
        self.seeks = operator != "CONTAINS_TOKEN"
        one = operator == "IN" and len(operands) == 1
        self.in_order = one and len(operands[0]) < PREFIX
        self._operands = operands

    def where(self, connection: Connection, n: int) -> Sql:
        if self._operator == "HAS_PROPERTY":
            return _ALL
        if self._operator == "IN":
            short = [each for each in self._operands if len(each) < PREFIX]
            long = [each for each in self._operands if len(each) >= PREFIX]
            where, operands = connection.in_list("value", f"of{n}", short)
            if long:
                begins, starts = connection.in_list(
                    "value", f"starts{n}", [each[:PREFIX] for each in long]
                )
                equals, wholes = connection.in_list(
                    "coalesce(full_value, value)", f"wholes{n}", long
                )
                where = f"({where} or ({begins} and {equals}))"
                operands |= starts | wholes
            return Sql(where, operands)
        operand = self._operands[0]
        if self._operator == "CONTAINS_TOKEN":
            text, is_short = "coalesce(folded, value)", "full_value is null"
            return Sql(*_contains(connection, text, n, operand, is_short=is_short))
        symbol = _SYMBOLS[self._operator]
        if len(operand) < PREFIX:
            return Sql(f"value {symbol} :v{n}", {f"v{n}": operand})
        where = (
            f"(value {symbol[0]} :v{n}"
            f" or (value = :v{n} and coalesce(full_value, value) {symbol} :whole{n}))"
        )
        return Sql(where, {f"v{n}": operand[:PREFIX], f"whole{n}": operand})

    def test(self, connection: Connection, n: int) -> Sql:
        text, params = _value_of(self._known, n)
        if self._operator == "HAS_PROPERTY":
            return Sql(f"{text} is not null", params)
        if self._operator == "IN":
            where, operands = connection.in_list(text, f"of{n}", self._operands)
            return Sql(where, params | operands)
        if self._operator == "CONTAINS_TOKEN":
            # The case-folded form stands in the index alone: in the row of this very value.
            contains = self.where(connection, n)
            return Sql(
                "exists (select 1 from ix_text where account_id = :account"
                f" and prop_id = :prop{n}"
                f" and value = substr({text}, 1, {PREFIX}) and record_id = id"
                f" and {contains.text})",
                {**params, **contains.params, f"prop{n}": self._known.prop_id},
            )
        if connection.dialect == "postgresql":
            text = f'{text} collate "C"'
        return Sql(
            f"{text} {_SYMBOLS[self._operator]} :v{n}", params | {f"v{n}": self._operands[0]}
        )

    def looked_up(self, connection: Connection, account_id: int) -> Condition:
        if self._operator != "CONTAINS_TOKEN":
            return self
        found = connection.rows(
            _VALUES,
            {"account": account_id, "prop": self._known.prop_id, "most": _FEW_VALUES + 1},
        )
        texts = [value for (value,) in found]
        if len(texts) > _FEW_VALUES or any(len(text) >= PREFIX for text in texts):
            return self
        containing = [text for text in texts if self._operands[0] in values.fold(text)]
        return _OfText(self.negated, self._known, "IN", containing)


class _OfDocument(Condition):
    """CONTAINS_TOKEN on numbers and dates: a part of their canonical text, read from documents."""

    seeks = False

    def __init__(self, negated: bool, known: Property, given: str) -> None:
        self.negated = negated
        self._name = known.name
        self._part = values.fold(given)

    def rows(self, n: int, more: str = "") -> Sql:
        return _of_records(more)

    def where(self, connection: Connection, n: int) -> Sql:
        return self.test(connection, n)

    def test(self, connection: Connection, n: int) -> Sql:
        # Canonical numbers and dates are ASCII, so the databases' lower() folds them.
        text = f"lower(properties ->> cast(:name{n} as text))"
        where, part = _contains(connection, text, n, self._part)
        return Sql(where, {f"name{n}": self._name, **part})


class _OfRecord(Condition):
    """A condition on a field of the record itself: always filled."""

    rows_of = "records"
    covered = True

    def rows(self, n: int, more: str = "") -> Sql:
        return _of_records(more)

    def test(self, connection: Connection, n: int) -> Sql:
        return self.where(connection, n)


_HIGHEST_ID = 2**53
_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)


def _number(value: str) -> float | int:
    # An id may have one digit more than the values of number properties.
    return int(value) if _WHOLE.fullmatch(value) else values.search_number(value)


class _OfId(_OfRecord):
    """The record's id, compared as a number."""

    def __init__(self, negated: bool, operator: str, given: Sequence[str]) -> None:
        self.negated = negated
        self._operator = operator
        self.seeks = operator != "CONTAINS_TOKEN"
        self._part = given[0]
        self._ids: list[int] = []
        if operator == "IN":
            numbers = [_number(value) for value in given]
            self._ids = [int(each) for each in numbers if each == int(each)]
            self._ids = [each for each in self._ids if abs(each) < _HIGHEST_ID]
        elif operator in _SYMBOLS:
            # The nearest whole number that leaves the comparison as it is.
            number = _number(given[0])
            rounded = math.floor(number) if operator in ("GT", "LTE") else math.ceil(number)
            self._ids = [max(-_HIGHEST_ID, min(_HIGHEST_ID, rounded))]

    def where(self, connection: Connection, n: int) -> Sql:
        if self._operator == "IN":
            return Sql(*connection.in_list("id", f"of{n}", self._ids))
        if self._operator == "HAS_PROPERTY":
            return _ALL
        if self._operator == "CONTAINS_TOKEN":
            return Sql(*_contains(connection, "cast(id as text)", n, self._part))
        return Sql(f"id {_SYMBOLS[self._operator]} :v{n}", {f"v{n}": self._ids[0]})


class _OfMoment(_OfRecord):
    """When the record was created or changed, compared by its day (UTC)."""

    def __init__(self, negated: bool, column: str, operator: str, given: Sequence[str]) -> None:
        self.negated = negated
        self._column = column
        self._operator = operator
        self.seeks = operator != "CONTAINS_TOKEN"
        self._part = values.fold(given[0])
        self._days: list[int] = []
        self._first: int | None = None
        self._end: int | None = None
        if operator == "IN" or operator in _SYMBOLS:
            self._days = sorted({values.search_day(value) for value in given})
            if operator in ("IN", "GTE", "GT"):
                self._first = _starts(self._days[0] + (operator == "GT"))
            if operator in ("IN", "LTE", "LT"):
                self._end = _starts(self._days[-1] + (operator != "LT"))

    @property
    def _scattered(self) -> bool:
        return bool(self._days) and len(self._days) <= self._days[-1] - self._days[0]

    def span(self, sort: str) -> Span:
        if self.negated:
            return Span()
        if self._column == sort:
            return Span(self._first, self._end, bool(self._days) and not self._scattered)
        # No record was changed before it was created.
        return Span(first=self._first) if sort == "updated_at" else Span(end=self._end)

    def where(self, connection: Connection, n: int) -> Sql:
        if self._operator == "HAS_PROPERTY":
            return _ALL
        if self._operator == "CONTAINS_TOKEN":
            text = f"lower({_moment_text(connection, self._column)})"
            return Sql(*_contains(connection, text, n, self._part))
        tests, params = list[str](), dict[str, Any]()
        if self._first is not None:
            tests, params = [f"{self._column} >= :from{n}"], {f"from{n}": self._first}
        if self._end is not None:
            tests, params = [*tests, f"{self._column} < :to{n}"], params | {f"to{n}": self._end}
        if self._scattered:
            # A range for each of 500 days would take the statement half a minute.
            numbers = [day - _EPOCH_DAY for day in self._days]
            among, days = connection.in_list(f"{self._column} / {_DAY_MS}", f"of{n}", numbers)
            tests, params = [*tests, among], params | days
        return Sql(" and ".join(tests), params)


# More than there are filters: no number of a part is one of theirs.
_PARTS = 100


class _OfSameRows(Condition):
    """Several conditions that the same rows tell, one of them no complement: what meets all."""

    negated = False

    def __init__(self, parts: Sequence[Condition]) -> None:
        self._parts = parts
        self.seeks = any(each.seeks and not each.negated for each in parts)
        self.covered = all(each.covered for each in parts)
        self.dated = parts[0].dated

    def rows(self, n: int, more: str = "") -> Sql:
        return self._parts[0].rows(n, more)

    def where(self, connection: Connection, n: int) -> Sql:
        return self._all([each.where(connection, i) for i, each in self._numbered(n)])

    def test(self, connection: Connection, n: int) -> Sql:
        return self._all([each.test(connection, i) for i, each in self._numbered(n)])

    def span(self, sort: str) -> Span:
        spans = [each.span(sort) for each in self._parts]
        return Span(
            max((each.first for each in spans if each.first is not None), default=None),
            min((each.end for each in spans if each.end is not None), default=None),
            all(each.whole for each in spans),
        )

    def looked_up(self, connection: Connection, account_id: int) -> Condition:
        return _OfSameRows([each.looked_up(connection, account_id) for each in self._parts])

    def _numbered(self, n: int) -> list[tuple[int, Condition]]:
        return list(enumerate(self._parts, _PARTS * (n + 1)))

    def _all(self, tests: Sequence[Sql]) -> Sql:
        texts, params = [], dict[str, Any]()
        for each, test in zip(self._parts, tests, strict=True):
            texts.append(f"not coalesce({test.text}, false)" if each.negated else f"({test.text})")
            params |= test.params
        return Sql(" and ".join(texts), params)


_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY_MS = 86_400_000


def _starts(day: int) -> int:
    return (day - _EPOCH_DAY) * _DAY_MS


def iso(moment: int) -> str:
    """Return milliseconds since 1970 as `YYYY-MM-DDTHH:MM:SS.mmmZ`."""
    seconds, ms = divmod(moment, 1000)
    # Half as dear as strftime: each record that is answered whole has two of them.
    return f"{datetime.fromtimestamp(seconds, UTC).isoformat()[:19]}.{ms:03d}Z"


def _moment_text(connection: Connection, column: str) -> str:
    """The same text as `iso`, made by the database."""
    if connection.dialect == "postgresql":
        seconds = f"to_timestamp({column} / 1000) at time zone 'UTC'"
        return (
            f"to_char({seconds}, 'YYYY-MM-DD\"T\"HH24:MI:SS')"
            f" || '.' || lpad(cast({column} % 1000 as text), 3, '0') || 'Z'"
        )
    seconds = f"strftime('%Y-%m-%dT%H:%M:%S', {column} / 1000, 'unixepoch')"
    return f"{seconds} || printf('.%03dZ', {column} % 1000)"


# In the worst text PostgreSQL's LIKE compares a whole pattern at each character: with this length,
# 2 ms for 64 KiB. SQLite's instr takes 1 ms for the longest part allowed.
_LONGEST_PIECE = 16
# A part without one names nothing to look up in an index of trigrams. PostgreSQL's plan for any
# part would read through that whole index: seconds instead of 0.1 at 200,000 contacts.
_TRIGRAM = re.compile(r"[^\W_]{3}")


def _contains(
    connection: Connection, text: str, n: int, part: str, *, is_short: str = ""
) -> tuple[str, dict[str, Any]]:
    """Return the condition "`text` contains `part`", both of them folded.

    `is_short` is a condition on the row; without it every text is short.
    """
    if connection.dialect == "sqlite":
        return f"instr({text}, :part{n}) > 0", {f"part{n}": part}
    whole, params = f"strpos({text}, :part{n}) > 0", {f"part{n}": part}
    long = len(part) > _LONGEST_PIECE
    if long and is_short:
        # A regular expression without operators (***=) takes 0.5 ms for any text of 64 KiB; strpos
        # mostly takes a fifth of that, but up to 8 ms for the worst text.
        whole = f"case when {is_short} then {whole} else {text} ~ :plain{n} end"
        params[f"plain{n}"] = f"***={part}"
    trigram = _TRIGRAM.search(part)
    if trigram is None:
        return whole, params
    # What an index of trigrams can answer, where an operator has made one.
    piece = part[trigram.start() :][:_LONGEST_PIECE] if long else part
    escaped = piece.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    like, pattern = f"{text} like :piece{n} escape '\\'", {f"piece{n}": f"%{escaped}%"}
    return (f"({like} and {whole})", pattern | params) if long else (like, pattern)
