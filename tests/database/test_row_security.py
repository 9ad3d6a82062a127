"""Row-level security: what `crmhub db secure` protects, and how a connection gets its account."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from sqlalchemy.engine import make_url

from benchmarks.places import administer
from crmhub.cli.database_checks import check_row_security
from crmhub.database import distribution, row_security, schema
from crmhub.database.connection import Connection, Database
from crmhub.errors import BadRequest, Unavailable
from crmhub.secrets import BASE36, token
from tests import databases

_COUNT = "select count(*) from mark where account_id in (1, 2)"
_INSERT = (
    "insert into mark (account_id, mark, kind, record_id, created_at)"
    " values (:account, :mark, 1, 1, 1)"
)


@pytest.fixture(scope="module")
def owner(secured_url: str) -> Iterator[Database]:
    """The secured database as its owner sees it."""
    owner = make_url(databases.POSTGRES).set(database=make_url(secured_url).database)
    with closing(Database(owner.render_as_string(hide_password=False), pool_size=2)) as database:
        yield database


@pytest.fixture
def service(secured_url: str, owner: Database) -> Iterator[Database]:
    """The same database for the role of the service; accounts 1 and 2 have one mark each."""
    with owner.reading() as db:
        db.run("delete from mark where account_id in (1, 2)")
        for account in (1, 2):
            db.run(_INSERT, {"account": account, "mark": "a"})
    with closing(Database(secured_url, pool_size=2)) as database:
        yield database


def _count(database: Database) -> int:
    with database.reading() as db:
        return int(db.scalar(_COUNT))


def test_a_connection_sees_the_rows_of_the_account_it_works_for(service: Database) -> None:
    with service.for_account(1):
        assert _count(service) == 1
    with service.for_account(3):
        assert _count(service) == 0
    with service.across_accounts():
        assert _count(service) == 2
        with service.for_account(2):
            assert _count(service) == 1


def test_rows_cannot_be_read_while_no_account_is_set(service: Database) -> None:
    with pytest.raises(psycopg.DataError):
        _count(service)
    with service.for_account(1):
        assert _count(service) == 1
    with pytest.raises(psycopg.DataError):
        _count(service)


def test_a_row_of_another_account_cannot_be_written(service: Database) -> None:
    def write(tx: Connection) -> None:
        tx.run(_INSERT, {"account": 2, "mark": "b"})

    with service.for_account(1), pytest.raises(psycopg.errors.InsufficientPrivilege):
        service.transact(write)
    with service.for_account(1), service.reading() as db:
        assert db.run("update mark set kind = 2 where account_id in (1, 2)") == 1
        assert db.run("delete from mark where account_id in (1, 2)") == 1


def test_a_rollback_does_not_bring_back_another_account(service: Database) -> None:
    with service.across_accounts():
        assert _count(service) == 2

    def fail(tx: Connection) -> None:
        assert tx.scalar(_COUNT) == 1
        raise KeyError

    for _ in range(2):
        # The account is set within the transaction, and its rollback undoes that.
        with service.for_account(1), pytest.raises(KeyError):
            service.transact(fail)
    with service.for_account(1):
        assert _count(service) == 1


def test_the_account_may_change_within_a_transaction(service: Database) -> None:
    def work(tx: Connection) -> list[int]:
        with service.for_account(1):
            first = tx.scalar(_COUNT)
            with pytest.raises(KeyError):
                service.transact(_fail)
        with service.across_accounts():
            return [first, tx.scalar(_COUNT)]

    def _fail(tx: Connection) -> None:
        with service.across_accounts():
            assert tx.scalar(_COUNT) == 2
        raise KeyError

    assert service.transact(work) == [1, 2]


def test_a_thread_works_for_one_account_at_a_time(service: Database) -> None:
    with service.for_account(1):
        with service.for_account(1):
            assert _count(service) == 1
        with pytest.raises(ValueError, match="account 1"), service.for_account(2):
            pass


def test_a_pooler_keeps_the_account_within_a_transaction(
    service: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As `prepare_postgresql` does behind a pooler.
    with service.across_accounts(), service.reading() as db:
        db._driver.prepare_threshold = None
    for account, seen in ((1, 1), (3, 0)):
        with service.for_account(account):
            assert _count(service) == seen
            assert service.transact(lambda tx: tx.scalar(_COUNT)) == seen
            with service.reading() as db:
                # A message of several statements is a transaction that ends with it.
                assert db.now_ms() > 0
                assert db.scalar(_COUNT) == seen
                db._info["account"] = db._database.account
                # Without what is sent before each statement the setting is gone.
                with pytest.raises(psycopg.DataError):
                    db._driver.execute(_COUNT)


def test_new_tables_are_protected_by_the_next_upgrade(owner: Database) -> None:
    with owner.reading() as db:
        db.run("drop policy crmhub_account on mark")
    found = row_security.read_row_security(owner)
    assert found is not None
    assert found.unprotected == ["mark"]
    assert [one.state for one in check_row_security(owner)] == ["fail"]
    schema.upgrade(owner.url.render_as_string(hide_password=False))
    found = row_security.read_row_security(owner)
    assert found is not None
    assert not found.unprotected


def test_processes_go_on_when_the_tables_are_secured(service: Database) -> None:
    role = str(service.url.username)
    with databases.postgresql_database() as url, closing(Database(url, pool_size=2)) as owner:
        owner.transact(lambda tx: tx.run(f"grant select on mark to {role}"))
        with owner.reading() as db:
            db.run(_INSERT, {"account": 1, "mark": "a"})
        running = make_url(url).set(username=role)
        with closing(Database(running.render_as_string(False), pool_size=2)) as process:
            assert _count(process) == 1
            row_security.secure(owner, role)
            with process.for_account(1):
                with pytest.raises(Unavailable):
                    _count(process)
                assert _count(process) == 1
        row_security.release(owner)
        owner.transact(lambda tx: tx.run(f"drop owned by {role}"))


def test_doctor_tells_whether_it_holds_for_the_role(owner: Database, service: Database) -> None:
    assert [one.state for one in check_row_security(owner)] == ["warn"]
    assert [one.state for one in check_row_security(service)] == ["ok"]


def test_a_secured_database_is_not_distributed(
    owner: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = distribution.Distribution(True, 2, {})
    monkeypatch.setattr(distribution, "read_distribution", lambda _: found)
    with pytest.raises(BadRequest, match="row-level security"):
        distribution.distribute(owner)


def test_it_can_be_repeated_and_removed(service: Database) -> None:
    with databases.postgresql_database() as url, closing(Database(url, pool_size=2)) as database:
        assert row_security.read_row_security(database) is None
        assert row_security.release(database) == []
        role = str(service.url.username)
        assert len(row_security.secure(database, role)) == len(row_security.PROTECTED)
        assert row_security.secure(database, role) == []
        assert len(row_security.release(database)) == len(row_security.PROTECTED)
        assert row_security.read_row_security(database) is None
        database.transact(lambda tx: tx.run(f"drop owned by {role}"))


@pytest.mark.databases("sqlite")
def test_sqlite_is_refused(database_url: str) -> None:
    with closing(Database(database_url)) as database:
        assert row_security.read_row_security(database) is None
        with pytest.raises(BadRequest, match="SQLite"):
            row_security.secure(database, "service")


def test_a_role_that_nothing_would_hold_back_is_refused(owner: Database) -> None:
    with pytest.raises(BadRequest, match="superuser"):
        row_security.secure(owner, str(make_url(databases.POSTGRES).username))
    role = f"crmhub_test_{token(40, BASE36)}"
    administer(databases.POSTGRES, f"create role {role} nologin")
    try:
        with pytest.raises(BadRequest, match="may not log in"):
            row_security.secure(owner, role)
        administer(databases.POSTGRES, f"alter role {role} login")
        with owner.reading() as db:
            db.run(f"alter table mark owner to {role}")
        with pytest.raises(BadRequest, match="owns the tables"):
            row_security.secure(owner, role)
        with owner.reading() as db:
            db.run("alter table mark owner to current_user")
    finally:
        administer(databases.POSTGRES, f"drop role {role}")


@pytest.mark.parametrize("role", ['a "quoted" role', "select"])
def test_any_name_of_a_role_is_taken(owner: Database, role: str) -> None:
    name = f"crmhub_test_{token(40, BASE36)} {role}"
    try:
        assert row_security.secure(owner, name) == []
    finally:
        with owner.reading() as db:
            quoted = db.scalar("select quote_ident(:name)", {"name": name})
            db.run(f"drop owned by {quoted}")
            db.run(f"drop role {quoted}")
