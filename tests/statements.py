"""Every statement of the tests names its account: what is read, and who is blamed.

A statement that reads, changes or deletes rows of a table with `account_id` binds that column of
each such table to a value, or joins it to a table where it is bound. An insert names the column.
The functions that look at several accounts at once are listed here.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from crmhub.database import tables
from crmhub.database.bulk import BulkStatements
from crmhub.database.connection import Connection

ACROSS_ACCOUNTS = {
    # A call names its account by a key, a path, a secret or a contactToken.
    "crmhub.accounts.directory:_routed",
    "crmhub.identity.bindings:accounts_of_token",
    # An operator looks at several accounts.
    "crmhub.database.several_accounts:rows_of_several",
    "crmhub.audit:listed",
    "crmhub.operators.actions.action_filters:_people_of_contact",
    # The worker looks for what is due, and for what is old.
    "crmhub.queue.claiming:due",
    "crmhub.queue.claiming:spare",
    "crmhub.events.claiming:find_due",
    "crmhub.operators.files.import_jobs:due",
    "crmhub.operators.failures.fix_group:due",
    "crmhub.records.copies:due",
    "crmhub.crm.watching:due",
    "crmhub.crm.watching:move",
    "crmhub.queue.overlong_waits:_find_accounts",
    "crmhub.database.expired:_find",
    "crmhub.records.text_parts:fill",
    # A new index begins with all records.
    "crmhub.database.part_indexes:_make",
    # A restored database is prepared as a whole.
    "crmhub.operators.database.backup:settle",
}
"""The functions ("module:name") whose statements may look at several accounts."""

_OF_ACCOUNTS = {
    "text_part_set",
    "text_part_behind",
    *(name for name, table in tables.metadata.tables.items() if "account_id" in table.c),
}
_NO_ROWS = re.compile(
    r"\s*(begin|commit|rollback|savepoint|release|set|reset|pragma|vacuum|analyze|explain|notify|lock"
    r"|create|drop|alter|show)\b",
    re.IGNORECASE,
)
_NAMED = re.compile(r"%\((\w+)\)s|%s|(?<![:\w]):(\w+)")
_VALUES = (exp.Placeholder, exp.Parameter, exp.Literal)


class StatementRecorder:
    """A plugin that lets a test fail in which a statement names no account."""

    def __init__(self) -> None:
        # Each is read once: some that look at several accounts are sent ten times a second.
        self._lacking: dict[str, list[str]] = {}
        self._faults: list[str] = []

    def pytest_configure(self) -> None:
        """Look at each statement before the driver gets it."""
        # sqlglot warns of what it reads only as text.
        logging.getLogger("sqlglot").setLevel(logging.ERROR)
        for name in ("_send", "_message"):
            setattr(Connection, name, self._looking(getattr(Connection, name)))

    def _looking(self, send: Any) -> Any:
        def look(connection: Connection, sql: str, *args: Any) -> Any:
            if self._lacking.get(sql) != []:
                self._look(sql, connection.dialect, inspect.currentframe())
            return send(connection, sql, *args)

        return look

    def _look(self, sql: str, dialect: str, frame: FrameType | None) -> None:
        if sql not in self._lacking:
            self._lacking[sql] = find_faults(sql, dialect)
        if not (faults := self._lacking[sql]):
            return
        callers = [*_callers(frame)]
        if callers and not ACROSS_ACCOUNTS & {*callers}:
            self._faults.append(f"{', '.join(faults)} at {callers[0]}: {' '.join(sql.split())}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """Fail the test that ran such a statement."""
        yield
        faults = self.take_faults()
        assert not faults, "\n".join(["Statements that name no account:", *faults])

    def take_faults(self) -> list[str]:
        """Return the faults since the last call."""
        faults, self._faults = self._faults, []
        return faults


def _callers(frame: FrameType | None) -> Iterator[str]:
    """Yield the hub's functions that led to a statement, innermost first; none for a test's own."""
    sending = (__name__, Connection.__module__, BulkStatements.__module__)
    while frame is not None and frame.f_globals.get("__name__") in sending:
        frame = frame.f_back
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(("crmhub.", "adapters.", "contextlib")):
            return
        yield f"{module}:{frame.f_code.co_name}"
        frame = frame.f_back


def find_faults(sql: str, dialect: str) -> list[str]:
    """Return what each table lacks of which a statement does not name the account."""
    if _NO_ROWS.match(sql):
        return []
    text = _NAMED.sub(lambda name: f":of_{name[1] or name[2] or 'row'}", sql)
    reads = "postgres" if dialect == "postgresql" else "sqlite"
    try:
        trees = [tree for tree in sqlglot.parse(text.replace("%%", "%"), dialect=reads) if tree]
    except sqlglot.ParseError as exc:
        return [f"cannot be read ({exc})"]
    return [fault for tree in trees for fault in _faults_of(tree)]


def _faults_of(tree: exp.Expression) -> Iterator[str]:
    named = {each.alias for each in tree.find_all(exp.CTE)}
    for block in tree.find_all(exp.Select, exp.Update, exp.Delete):
        for table in _Block(block, named).unbound():
            yield f"{table} of {block.key}"
    for insert in tree.find_all(exp.Insert):
        target = insert.this
        table = target.find(exp.Table).name
        if table in _OF_ACCOUNTS and "account_id" not in [each.name for each in target.expressions]:
            yield f"{table} of insert"


class _Block:
    """A SELECT, UPDATE or DELETE without its inner ones: what it reads from, and its conditions."""

    def __init__(self, block: exp.Expression, named: set[str]) -> None:
        self._sources: dict[str, str] = {}
        self._conditions: list[exp.Expression] = list(_all_of(block.args.get("where")))
        if not isinstance(block, exp.Select):
            self._add(block.this)
        for source in (block.args.get("from_"), *(block.args.get("using") or [])):
            if source is not None:
                self._add(source.this if isinstance(source, exp.From) else source)
        self._join(block)
        self._named = named

    def _add(self, source: exp.Expression) -> None:
        self._sources[source.alias_or_name] = source.name if isinstance(source, exp.Table) else ""
        self._join(source)

    def _join(self, block: exp.Expression) -> None:
        for join in block.args.get("joins") or []:
            self._add(join.this)
            self._conditions += _all_of(join.args.get("on"))

    def unbound(self) -> list[str]:
        """Return the tables with accounts that no condition binds to one."""
        wanted = {
            alias: table
            for alias, table in self._sources.items()
            if table in _OF_ACCOUNTS and table not in self._named
        }
        bound, pairs = set[str](), list[tuple[str, str]]()
        for condition in self._conditions:
            sides = (condition.left, condition.right) if isinstance(condition, exp.EQ) else ()
            columns = [each for each in sides if self._is_account(each)]
            if len(columns) == 2:
                pairs.append((columns[0].table, columns[1].table))
            elif columns and any(isinstance(_bare(each), _VALUES) for each in sides):
                # A column without a table is the one of the only table that has it.
                bound |= {columns[0].table} if columns[0].table else {*wanted}
        for _ in pairs:
            for pair in pairs:
                # A table from outside of the block is looked at where that stands.
                if any(each in bound or each not in self._sources for each in pair):
                    bound |= {*pair}
        return sorted(table for alias, table in wanted.items() if alias not in bound)

    def _is_account(self, side: exp.Expression) -> bool:
        if not isinstance(side, exp.Column):
            return False
        return side.name == "account_id" or (
            side.name == "id" and self._sources.get(side.table) == "account"
        )


def _all_of(condition: exp.Expression | None) -> Iterator[exp.Expression]:
    """Return the conditions that must all hold."""
    if isinstance(condition, exp.Where | exp.Paren):
        yield from _all_of(condition.this)
    elif isinstance(condition, exp.And):
        yield from _all_of(condition.left)
        yield from _all_of(condition.right)
    elif condition is not None:
        yield condition


def _bare(value: exp.Expression) -> exp.Expression:
    while isinstance(value, exp.Cast | exp.Paren):
        value = value.this
    return value
