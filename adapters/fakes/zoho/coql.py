"""COQL, Zoho's query language, as far as it selects records of one module."""

from __future__ import annotations

import operator as operators
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from adapters.fakes.answers import Refused
from adapters.fakes.zoho.failing import refused
from adapters.fakes.zoho.schema import Column

Columns = Mapping[str, Column]
Row = Mapping[str, Any]
Test = Callable[[Row], bool]

_TOKEN = re.compile(r"\s*('(?:[^'\\]|'')*'|[A-Za-z_][A-Za-z0-9_]*|[0-9]+|!=|<=|>=|[=<>(),])")
_MOST_COLUMNS, _MOST_CONDITIONS, _MOST_VALUES, _MOST_ROWS = 50, 25, 50, 2_000
_USUAL_ROWS = 200
_ORDERED: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
}
# The types of fields that these compare, with the form in which they do.
_COMPARED: Mapping[str, Callable[[Any], Any]] = {
    "bigint": int,
    "datetime": datetime.fromisoformat,
}
_LIMIT = re.compile(r"\blimit\s+([0-9]+)", re.IGNORECASE)
# Fields of these types cannot be asked for.
_UNKNOWN = ("profileimage", "subform", "fileupload", "imageupload")


def cost(query: str) -> int:
    """Return the credits of a query: one up to 200 records, two up to 1,000, else three."""
    limit = _LIMIT.search(query)
    rows = int(limit[1]) if limit else _USUAL_ROWS
    return 1 if rows <= 200 else 2 if rows <= 1_000 else 3


@dataclass(slots=True)
class Query:
    """A query that was understood: the columns, the module, the condition, order and part."""

    columns: list[str]
    module: str
    test: Test
    order: str
    descending: bool
    limit: int
    offset: int


def parse(query: str, modules: Mapping[str, Columns], *, exact_case: bool) -> Query:
    """Return what a query means. Raises Refused as Zoho would refuse it.

    `exact_case` says whether texts are compared with their upper and lower case.
    """
    return _Parser(query, modules, exact_case).query()


class _Parser:
    def __init__(self, query: str, modules: Mapping[str, Columns], exact_case: bool) -> None:
        self._tokens = self._split(query)
        self._modules = modules
        self._exact_case = exact_case
        self._at = 0
        self._conditions = 0
        self._columns: Columns = {}

    def query(self) -> Query:
        self._word("select")
        names = [self._next()]
        while self._peek() == ",":
            self._at += 1
            names.append(self._next())
        if len(names) > _MOST_COLUMNS:
            raise refused(
                400, "LIMIT_EXCEEDED", "select columns limit exceeded", limit=_MOST_COLUMNS
            )
        self._word("from")
        module = self._next()
        if module not in self._modules:
            raise refused(400, "INVALID_QUERY", "module given seems to be invalid", module=module)
        self._columns = self._modules[module]
        for name in names:
            self._column(name)
        if len(set(names)) < len(names):
            raise refused(400, "DUPLICATE_DATA", "duplicate columns", column_name=names[-1])
        # Zoho demands a condition.
        self._word("where")
        test = self._expression()
        order, descending = "id", False
        if self._takes("order"):
            self._word("by")
            order = self._next()
            self._column(order)
            descending = self._takes("desc")
            if not descending:
                self._takes("asc")
        limit = self._number() if self._takes("limit") else _USUAL_ROWS
        offset = self._number() if self._takes("offset") else 0
        if self._at < len(self._tokens):
            raise self._syntax()
        if limit > _MOST_ROWS:
            raise refused(400, "LIMIT_EXCEEDED", "limit exceeded", limit=_MOST_ROWS)
        return Query(names, module, test, order, descending, limit, offset)

    def _expression(self) -> Test:
        """Read one condition, or two with a word between them; more of them need brackets."""
        left = self._operand()
        word = (self._peek() or "").lower()
        if word not in ("and", "or"):
            return left
        self._at += 1
        right = self._operand()
        if (self._peek() or "").lower() in ("and", "or"):
            raise self._syntax()
        if word == "and":
            return lambda row: left(row) and right(row)
        return lambda row: left(row) or right(row)

    def _operand(self) -> Test:
        if self._peek() == "(":
            self._at += 1
            test = self._expression()
            self._word(")")
            return test
        return self._condition()

    def _condition(self) -> Test:
        self._conditions += 1
        if self._conditions > _MOST_CONDITIONS:
            raise refused(400, "LIMIT_EXCEEDED", "criteria limit exceeded", limit=_MOST_CONDITIONS)
        name = self._next()
        column, operator = self._column(name), self._next().lower()
        if operator == "is":
            wanted = not self._takes("not")
            self._word("null")
            return lambda row: (row.get(name) is None) is wanted
        if column.type == "textarea" or column.encrypted:
            message = "data type not supported"
            raise refused(400, "INVALID_QUERY", message, column_name=name, operator=operator)
        if operator == "in":
            values = self._values()
            return lambda row: self._text(row.get(name)) in values
        if operator in _ORDERED and column.type in _COMPARED:
            compare, read = _ORDERED[operator], _COMPARED[column.type]
            limit = read(self._next().strip("'"))
            return lambda row: row.get(name) is not None and compare(read(row[name]), limit)
        if operator not in ("=", "!="):
            raise self._syntax()
        value = self._value(self._next())
        return lambda row: (self._text(row.get(name)) == value) is (operator == "=")

    def _values(self) -> set[str | None]:
        self._word("(")
        values = {self._value(self._next())}
        count = 1
        while self._takes(","):
            values.add(self._value(self._next()))
            count += 1
        self._word(")")
        if count > _MOST_VALUES:
            raise refused(400, "LIMIT_EXCEEDED", "in values limit exceeded", limit=_MOST_VALUES)
        return set(values)

    def _value(self, token: str) -> str | None:
        if not token.startswith("'") and not token.isdigit():
            raise self._syntax()
        text = token[1:-1].replace("''", "'") if token.startswith("'") else token
        return self._text(text)

    def _text(self, value: Any) -> str | None:
        if value is None:
            return None
        text = str(value["id"] if isinstance(value, dict) else value)
        return text if self._exact_case else text.casefold()

    # Tokens.

    def _split(self, query: str) -> list[str]:
        tokens, at = [], 0
        while query[at:].strip():
            found = _TOKEN.match(query, at)
            if found is None:
                near = query[at : at + 20]
                raise refused(400, "SYNTAX_ERROR", "error occurred while parsing", near=near)
            tokens.append(found[1])
            at = found.end()
        return tokens

    def _peek(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _next(self) -> str:
        token = self._peek()
        if token is None:
            raise self._syntax()
        self._at += 1
        return token

    def _takes(self, word: str) -> bool:
        taken = (self._peek() or "").lower() == word
        self._at += taken
        return taken

    def _word(self, word: str) -> None:
        if not self._takes(word):
            raise self._syntax()

    def _number(self) -> int:
        token = self._next()
        if not token.isdigit():
            raise self._syntax()
        return int(token)

    def _column(self, name: str) -> Column:
        column = self._columns.get(name)
        if column is None or column.type in _UNKNOWN or name == "Tag":
            message = "column given seems to be invalid"
            raise refused(400, "INVALID_QUERY", message, column_name=name)
        return column

    def _syntax(self) -> Refused:
        near = self._peek() or ""
        return refused(400, "SYNTAX_ERROR", "error occurred while parsing the query", near=near)
