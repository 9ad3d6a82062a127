"""What `crmhub db distribute` distributes, and what it refuses."""

from __future__ import annotations

from contextlib import closing

import pytest

from crmhub.database import distribution
from crmhub.database.connection import Database
from crmhub.database.distribution import COORDINATOR, DISTRIBUTED, REFERENCE, Distribution
from crmhub.database.tables import metadata
from crmhub.errors import BadRequest

DONE = dict.fromkeys(REFERENCE, "reference") | dict.fromkeys(DISTRIBUTED, "distributed")


def test_each_table_has_one_place() -> None:
    assert sorted([*REFERENCE, *COORDINATOR, *DISTRIBUTED]) == sorted(metadata.tables)


@pytest.mark.parametrize("name", DISTRIBUTED)
def test_every_key_of_a_distributed_table_begins_with_the_account(name: str) -> None:
    table = metadata.tables[name]
    keys = [table.primary_key, *(i for i in table.indexes if i.unique)]
    keys += [one for one in table.constraints if type(one).__name__ == "UniqueConstraint"]
    assert {next(iter(key.columns)).name for key in keys} == {"account_id"}


@pytest.mark.parametrize("name", DISTRIBUTED)
def test_a_distributed_table_refers_to_tables_of_every_node_alone(name: str) -> None:
    referred = {key.column.table.name for key in metadata.tables[name].foreign_keys}
    assert referred <= {*REFERENCE}


def test_a_database_without_the_extension_is_refused(database_url: str) -> None:
    with closing(Database(database_url)) as database:
        assert distribution.read_distribution(database) is None
        with pytest.raises(BadRequest, match="CREATE EXTENSION citus"):
            distribution.distribute(database)


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (Distribution(False, 2, {}), "leads to a worker node"),
        (Distribution(True, 0, {}), "no node that takes shards"),
    ],
)
def test_a_cluster_that_is_not_ready_is_refused(
    database_url: str, found: Distribution, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distribution, "read_distribution", lambda _: found)
    with closing(Database(database_url)) as database, pytest.raises(BadRequest, match=reason):
        distribution.distribute(database)


def test_what_is_not_distributed_yet_is_missing() -> None:
    assert Distribution(True, 2, DONE).missing == []
    assert Distribution(True, 2, DONE | {"records": "local"}).missing == ["records"]
    assert set(Distribution(True, 2, {}).missing) == {*DONE}
