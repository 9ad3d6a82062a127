"""Statements of Core: the text of each database, values by name, rows by column."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from crmhub.database.connection import Database
from crmhub.database.statements import Statement, in_list, one_of, param, params
from crmhub.database.tables import mark

COLUMNS = ("account_id", "mark", "kind", "record_id", "created_at")
ADD = Statement(
    lambda insert: (
        insert(mark)
        .values(params(*COLUMNS))
        .on_conflict_do_update(
            index_elements=["account_id", "mark"], set_={"record_id": param("record_id")}
        )
        .returning(mark.c.mark, mark.c.record_id)
    )
)
AMONG = Statement(
    sa.select(mark.c.mark, (mark.c.record_id + 1).label("next"))
    .where(mark.c.account_id == param("account_id"), in_list(mark.c.mark, "marks"))
    .order_by(mark.c.mark)
)
ACCOUNT = -7


@pytest.fixture
def database(database_url: str):
    database = Database(database_url)
    yield database
    with database.reading() as connection:
        connection.run("delete from mark where account_id = :account", {"account": ACCOUNT})
    database.close()


def row(name: str, record_id: int) -> dict[str, object]:
    return dict(zip(COLUMNS, (ACCOUNT, name, 1, record_id, 2), strict=True))


def test_rows_have_the_names_of_their_columns(database: Database) -> None:
    with database.reading() as connection:
        assert connection.row(ADD, row("a", 1)).record_id == 1
        assert connection.row(ADD, row("a", 3)).record_id == 3
        connection.run(ADD, row("b", 5))
        found = connection.rows(AMONG, {"account_id": ACCOUNT, "marks": ["a", "b", "c"]})
    assert [(one.mark, one.next) for one in found] == [("a", 4), ("b", 6)]


def test_a_list_may_be_empty_or_long_and_takes_one_parameter(database: Database) -> None:
    with database.reading() as connection:
        connection.run(ADD, row("m7", 1))
        for marks, found in (
            ([], []),
            (["m7"], ["m7"]),
            ([f"m{n}" for n in range(40_000)], ["m7"]),
        ):
            rows = connection.rows(AMONG, {"account_id": ACCOUNT, "marks": marks})
            assert [one.mark for one in rows] == found


def test_a_list_of_one_value_is_compared_as_a_value() -> None:
    for dialect in ("postgresql", "sqlite"):
        several, _ = AMONG.bound(dialect, {"account_id": ACCOUNT, "marks": ["a", "b"]})
        alone, values = AMONG.bound(dialect, {"account_id": ACCOUNT, "marks": {"a"}})
        assert several == AMONG.text(dialect) != alone
        assert "mark.mark = %(marks)s" in alone or "mark.mark = :marks" in alone
        assert values["marks"] == "a"


def test_constants_go_along_and_a_missing_parameter_is_an_error(database: Database) -> None:
    text = "it's 100 % :x"
    statement = Statement(sa.select(sa.literal(text).label("a"), param("b").label("b")))
    with database.reading() as connection:
        assert connection.row(statement, {"b": 1}) == (text, 1)
        with pytest.raises(Exception, match="b"):
            connection.row(statement, {})


def test_words_stand_in_the_text_and_are_plain() -> None:
    statement = Statement(sa.select(mark.c.kind).where(one_of(mark.c.mark, "queued", "running")))
    for dialect in ("postgresql", "sqlite"):
        assert "mark.mark IN ('queued', 'running')" in statement.text(dialect)
    with pytest.raises(ValueError, match="not plain words"):
        one_of(mark.c.mark, "o'x")


def test_a_single_word_is_compared_as_the_condition_of_a_partial_index_is_written() -> None:
    statement = Statement(sa.select(mark.c.kind).where(one_of(mark.c.mark, "queued")))
    for dialect in ("postgresql", "sqlite"):
        assert "mark.mark = 'queued'" in statement.text(dialect)


def test_a_list_of_constants_is_refused() -> None:
    statement = Statement(sa.select(mark.c.kind).where(mark.c.mark.in_(["a", "b"])))
    with pytest.raises(ValueError, match="is no `in_list`"):
        statement.text("sqlite")


def test_numbers_of_the_statement_stand_in_its_text() -> None:
    statement = Statement(sa.select(mark.c.kind).where(mark.c.mark == "a").limit(1))
    for dialect in ("postgresql", "sqlite"):
        text, values = statement.bound(dialect)
        assert "LIMIT 1" in text
        assert list(values.values()) == ["a"]
