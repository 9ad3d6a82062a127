"""The declared tables are those that the migrations make, on both databases.

The indexes of `part_indexes` are built beside the migrations: two of PostgreSQL, and the tables
`text_part…` of SQLite.
"""

from __future__ import annotations

import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from crmhub.database import part_indexes, tables

_BESIDE = {part_indexes.TRIGRAMS, part_indexes.OTHERS}

# SQLite's indexes of expressions cannot be compared.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Skipped unsupported reflection"),
    pytest.mark.filterwarnings("ignore:autogenerate skipping metadata-specified expression"),
]


@pytest.fixture
def context(database_url: str):
    engine = sqlalchemy.create_engine(database_url)
    # SQLite has no identities, and quotes its defaults in another way than they are declared.
    opts = {
        "compare_server_default": engine.dialect.name == "postgresql",
        "include_object": lambda _, name, *__: (
            name not in _BESIDE and not (name or "").startswith("text_part")
        ),
    }
    with engine.connect() as connection:
        yield MigrationContext.configure(connection, opts=opts)
    engine.dispose()


def test_no_table_column_or_index_differs_from_the_migrations(context: MigrationContext) -> None:
    assert compare_metadata(context, tables.metadata) == []


def test_partial_indexes_and_collations_are_the_migrations(context: MigrationContext) -> None:
    found = sqlalchemy.MetaData()
    found.reflect(context.connection)
    for table in tables.metadata.sorted_tables:
        migrated = found.tables[table.name]
        assert _partial(migrated) - _BESIDE == _partial(table), table.name
        if context.dialect.name == "postgresql":
            assert _collations(migrated) == _collations(table), table.name


def _partial(table: sqlalchemy.Table) -> set[str]:
    return {
        str(index.name)
        for index in table.indexes
        for dialect in ("postgresql", "sqlite")
        if index.dialect_options[dialect]["where"] is not None
    }


def _collations(table: sqlalchemy.Table) -> dict[str, str | None]:
    types = {
        column.name: column.type.dialect_impl(sqlalchemy.dialects.postgresql.dialect())
        for column in table.columns
    }
    return {name: getattr(type, "collation", None) for name, type in types.items()}


def test_each_table_names_its_account_first_or_is_one_that_routes() -> None:
    for table in tables.metadata.sorted_tables:
        first = next(iter(table.primary_key.columns)).name
        assert first == "account_id" or table.name in tables.ROUTING | OF_THE_SERVICE, table.name


OF_THE_SERVICE = {"audit", "hub_process", "key_fingerprint", "outbox"}
