"""Which statements name an account, as every test demands it (`tests.statements`)."""

from __future__ import annotations

import importlib
from types import FunctionType
from typing import Any

import pytest

from crmhub.database.connection import Connection, Database
from tests import statements
from tests.statements import ACROSS_ACCOUNTS, StatementRecorder, find_faults

_UNBOUND = "select id from records where kind = 1"


def test_a_statement_that_names_its_account_is_fine() -> None:
    for sql in (
        "select 1",
        "select id from account where client_id = :client_id",
        "select id from records where account_id = :account_id and kind = 1",
        "select r.id from records r join ix_text i on i.account_id = r.account_id"
        " where r.account_id = :account_id and i.record_id = r.id",
        "select id from records r where r.account_id = :account_id and exists"
        " (select 1 from ix_text i where i.account_id = r.account_id and i.record_id = r.id)",
        "with found as (select id from records where account_id = :account_id)"
        " select count(*) from found",
        "insert into mark (account_id, mark) values (:account_id, :mark)",
    ):
        assert find_faults(sql, "sqlite") == find_faults(sql, "postgresql") == [], sql


def test_a_statement_that_names_no_account_has_a_fault() -> None:
    for sql, fault in (
        ("select id from records where kind = :kind", "records of select"),
        ("select id from records where account_id = :a or kind = 1", "records of select"),
        ("select id from records where account_id in (:a, :b)", "records of select"),
        ("select id from records where not account_id = :a", "records of select"),
        (
            "select r.id from records r join ix_text i on i.record_id = r.id"
            " where r.account_id = :a",
            "ix_text of select",
        ),
        ("update records set version = 1 where id = :id", "records of update"),
        (
            "delete from mark t using unnest(cast(:a as int[]), cast(:m as text[]))"
            " as rows(account_id, mark) where t.account_id = rows.account_id",
            "mark of delete",
        ),
        ("insert into mark (mark) values (:mark)", "mark of insert"),
        ("select from from", "cannot be read"),
    ):
        assert any(fault in each for each in find_faults(sql, "postgresql")), sql


def test_the_functions_that_look_at_several_accounts_exist() -> None:
    for place in ACROSS_ACCOUNTS:
        module, name = place.split(":")
        found = vars(importlib.import_module(module))
        classes = [one for one in found.values() if isinstance(one, type)]
        assert name in found or any(hasattr(one, name) for one in classes), place


@pytest.fixture
def recorder(pytestconfig: pytest.Config) -> StatementRecorder:
    plugin = pytestconfig.pluginmanager.get_plugin("statements")
    assert isinstance(plugin, StatementRecorder)
    return plugin


def _as_if_in(module: str, database: Database) -> None:
    """Send a statement that names no account, from a function of this module."""

    def look(connection: Connection) -> Any:
        return connection.rows(_UNBOUND)

    sender = FunctionType(look.__code__, {"__name__": module, "_UNBOUND": _UNBOUND})
    with database.reading() as connection:
        sender(connection)


def test_a_test_fails_for_a_statement_of_the_hub(
    recorder: StatementRecorder, database_url: str
) -> None:
    database = Database(database_url)
    _as_if_in("crmhub.somewhere", database)
    [fault] = recorder.take_faults()
    assert fault == f"records of select at crmhub.somewhere:look: {_UNBOUND}"
    database.close()


def test_statements_of_tests_and_of_listed_functions_are_not_looked_at(
    recorder: StatementRecorder, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(database_url)
    monkeypatch.setattr(statements, "ACROSS_ACCOUNTS", {"crmhub.listed:look"})
    _as_if_in("tests.somewhere", database)
    _as_if_in("crmhub.listed", database)
    assert recorder.take_faults() == []
    database.close()
