"""What a transaction within a transaction promises, on both databases."""

from __future__ import annotations

import errno
import os
import socket
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from crmhub.database.connection import Connection, Database
from crmhub.database.drivers import (
    Away,
    Damaged,
    Deadlocked,
    Duplicate,
    hung_up,
    prepare_sqlite,
)
from crmhub.database.maintenance import vacuum
from crmhub.errors import Unavailable
from crmhub.records.ids import Ids
from crmhub.secrets import BASE36, token
from tests.databases import overwrite, read_only
from tests.queue.working import soon


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with closing(Database(database_url)) as database:
        yield database


@pytest.fixture
def outside(database_url: str) -> Iterator[Database]:
    """The same database as another process sees it."""
    with closing(Database(database_url)) as database:
        yield database


@pytest.fixture
def account_id() -> int:
    return int(token(30, BASE36)[:5], 36)


def block(tx: Connection, account_id: int, kind: int) -> None:
    types = {"account_id": "int", "kind": "int", "next_id": "bigint"}
    tx.insert("id_block", types, [(account_id, kind, 1)])


def kinds(database: Database, account_id: int) -> list[int]:
    """Return the kinds of the account's blocks as they are seen from here."""
    sql = "select kind from id_block where account_id = :account order by kind"
    with database.reading() as connection:
        return [kind for (kind,) in connection.rows(sql, {"account": account_id})]


class Failed(Exception):
    pass


def test_what_is_damaged_is_named_in_the_log(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sql = "do $$ begin raise exception 'invalid page in block 5' using errcode = 'XX001'; end $$"
    words = "invalid page in block 5"
    if database.dialect == "sqlite":
        file, words = tmp_path / "damaged.db", "database disk image is malformed"
        database = Database(f"sqlite:///{file}")
        database.transact(lambda tx: tx.run("create table notes as select 1 as n"))
        database.close()
        overwrite(file, "notes")
        sql = "select * from notes"
    with pytest.raises(Damaged, match="restore a backup"), database.reading() as connection:
        connection.rows(sql)
    database.close()
    assert f"The database is damaged: {words}" in caplog.text


def test_a_file_whose_beginning_is_damaged_is_no_bug(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "damaged.db"
    file.write_bytes(b"nonsense" * 1024)
    with (
        closing(Database(f"sqlite:///{file}")) as database,
        pytest.raises(Damaged, match="restore a backup"),
        database.reading() as connection,
    ):
        connection.rows("select 1 from account")
    assert "The database is damaged: file is not a database" in caplog.text


def fail(database: Database, account_id: int, kind: int) -> None:
    """Write in a part of the open transaction, and fail it."""

    def work(tx: Connection) -> None:
        block(tx, account_id, kind)
        raise Failed

    with pytest.raises(Failed):
        database.transact(work)


def test_nothing_is_committed_before_the_whole_is(database, outside, account_id):
    def whole(_: Connection) -> list[int]:
        database.transact(lambda tx: block(tx, account_id, 1))
        assert kinds(database, account_id) == [1]
        return kinds(outside, account_id)

    assert database.transact(whole) == []
    assert kinds(outside, account_id) == [1]


def test_an_exception_undoes_its_part_alone(database, outside, account_id):
    def whole(tx: Connection) -> None:
        block(tx, account_id, 1)
        fail(database, account_id, 2)
        database.transact(lambda _: fail(database, account_id, 3) or block(tx, account_id, 4))

    database.transact(whole)
    assert kinds(outside, account_id) == [1, 4]


def test_an_exception_of_the_whole_undoes_its_parts(database, outside, account_id):
    def whole(_: Connection) -> None:
        database.transact(lambda tx: block(tx, account_id, 1))
        raise Failed

    with pytest.raises(Failed):
        database.transact(whole)
    assert kinds(outside, account_id) == []
    database.transact(lambda tx: block(tx, account_id, 2))
    assert kinds(outside, account_id) == [2]


def test_a_duplicate_in_a_part_does_not_end_the_whole(database, outside, account_id):
    def whole(tx: Connection) -> None:
        block(tx, account_id, 1)
        with pytest.raises(Duplicate):
            database.transact(lambda _: block(tx, account_id, 1))
        block(tx, account_id, 2)

    database.transact(whole)
    assert kinds(outside, account_id) == [1, 2]


def test_a_deadlock_in_a_part_runs_the_whole_again(database, outside, account_id):
    tries = []

    def part(tx: Connection) -> None:
        tries.append(kinds(database, account_id))
        if len(tries) < 3:
            raise Deadlocked("give way")

    def whole(tx: Connection) -> None:
        block(tx, account_id, 1)
        database.transact(part)

    database.transact(whole)
    assert tries == [[1], [1], [1]]
    assert kinds(outside, account_id) == [1]


def test_another_thread_is_no_part_of_it(database, account_id):
    seen = []

    def whole(tx: Connection) -> None:
        block(tx, account_id, 1)
        thread = threading.Thread(target=lambda: seen.append(kinds(database, account_id)))
        thread.start()
        thread.join()

    database.transact(whole)
    assert seen == [[]]


def test_what_waits_for_the_commit_sees_it(database, outside, account_id):
    seen = []

    def whole(tx: Connection) -> None:
        database.after_commit(lambda: seen.append(kinds(outside, account_id)))
        database.transact(lambda tx: block(tx, account_id, 1))
        assert seen == []

    database.transact(whole)
    assert seen == [[1]]


def test_what_waits_for_the_commit_of_an_undone_part_never_runs(database, account_id):
    ran = []

    def note(name: str, *, then: type[Exception] | None = None) -> None:
        def work(_: Connection) -> None:
            database.transact(lambda _: database.after_commit(lambda: ran.append(name)))
            if then is not None:
                raise then

        if then is None:
            database.transact(work)
        else:
            with pytest.raises(then):
                database.transact(work)

    database.transact(lambda _: (note("kept"), note("undone", then=Failed), note("kept, too")))
    note("undone whole", then=Failed)
    assert ran == ["kept", "kept, too"]


def test_without_a_transaction_there_is_nothing_to_wait_for(database):
    ran = []
    database.after_commit(lambda: ran.append(1))
    assert ran == [1]


def test_ids_of_what_came_to_nothing_are_not_given_out_twice(database, outside, account_id):
    here, there = Ids(database), Ids(outside)
    here.take(account_id, 1, 200)

    def whole(_: Connection) -> None:
        here.take(account_id, 1, 5)
        raise Failed

    with pytest.raises(Failed):
        database.transact(whole)
    assert not set(there.take(account_id, 1, 100)) & set(here.take(account_id, 1, 100))


def test_ids_of_a_transaction_come_from_a_block_that_is_kept(database, account_id):
    ids = Ids(database)
    first = database.transact(lambda _: ids.take(account_id, 1, 5))
    assert ids.take(account_id, 1, 5).start == first.stop


def test_a_lock_is_not_waited_for(postgresql_url):
    with closing(Database(postgresql_url)) as here, closing(Database(postgresql_url)) as there:

        def whole(tx: Connection) -> None:
            assert tx.try_hold("ours")
            assert not there.transact(lambda other: other.try_hold("ours"))
            assert there.transact(lambda other: other.try_hold("theirs"))

        here.transact(whole)
        assert there.transact(lambda other: other.try_hold("ours"))


def test_who_finds_the_server_full_waits_for_a_free_connection(postgresql_url: str) -> None:
    role = f"crmhub_{uuid.uuid4().hex[:8]}"
    admin = Database(postgresql_url)
    with admin.reading() as connection:
        connection.run(f"create role {role} login connection limit 1")
    url = admin.url.set(username=role).render_as_string(hide_password=False)
    one, other = Database(url, pool_size=1), Database(url, pool_size=1)
    try:
        with ThreadPoolExecutor(1) as pool:
            with one.reading() as held:
                assert held.scalar("select 1") == 1
                waiting = pool.submit(_one, other)
                time.sleep(0.3)
                assert not waiting.done()
            one.close()
            assert waiting.result(timeout=120) == 1
    finally:
        one.close()
        other.close()
        with admin.reading() as connection:
            connection.run(f"drop role {role}")
        admin.close()


def test_of_connections_that_take_no_writes_none_is_kept(
    postgresql_url: str, account_id: int
) -> None:
    with closing(Database(postgresql_url, pool_size=3)) as database:
        with read_only(database):
            with database.reading(), database.reading():
                pass
            with pytest.raises(Unavailable):
                database.transact(lambda tx: block(tx, account_id, 1))
        for n in (2, 3):
            database.transact(lambda tx, n=n: block(tx, account_id, n))
        assert kinds(database, account_id) == [2, 3]


def test_a_transaction_that_waited_too_long_may_be_tried_again(postgresql_url: str) -> None:
    def wait(tx: Connection) -> None:
        tx.run("set local idle_in_transaction_session_timeout = 1")
        while True:
            time.sleep(0.05)
            tx.run("select 1")

    with closing(Database(postgresql_url)) as database:
        with pytest.raises(Unavailable):
            database.transact(wait)
        assert _one(database) == 1


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("select pg_sleep(60)", "took it too long"),
        ("do $$ begin raise exception using errcode = 'disk_full'; end $$", "disk is full"),
    ],
)
def test_a_server_that_is_there_is_not_said_to_be_away(
    postgresql_url: str, statement: str, words: str
) -> None:
    def slow(connection: Connection) -> None:
        connection.run("set local statement_timeout = 500")
        connection.run(statement)

    with closing(Database(postgresql_url)) as database:
        with pytest.raises(Unavailable, match=words):
            database.transact(slow)
        assert _one(database) == 1


@pytest.mark.parametrize(("options", "patience_ms"), [("", 10_000), ("tcp_user_timeout=90", 90)])
def test_a_server_that_is_gone_without_a_word_is_not_waited_for(
    postgresql_url: str, options: str, patience_ms: int
) -> None:
    url = make_url(postgresql_url).update_query_string(options)
    with (
        closing(Database(url.render_as_string(hide_password=False))) as database,
        closing(database.checkout()) as pooled,
        socket.socket(fileno=os.dup(pooled.driver_connection.fileno())) as wire,
    ):
        assert wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == patience_ms
        assert wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10


def test_an_operator_says_how_long_a_server_is_looked_for(postgresql_url: str) -> None:
    url = make_url(postgresql_url).update_query_string("connect_timeout=9")
    with (
        closing(Database(url.render_as_string(hide_password=False))) as database,
        closing(database.checkout()) as pooled,
    ):
        assert pooled.driver_connection.info.get_parameters()["connect_timeout"] == "9"


def test_a_process_without_a_free_descriptor_is_to_be_asked_again(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with closing(Database(postgresql_url)) as database:
        monkeypatch.setattr(database._engine, "raw_connection", full)
        with pytest.raises(Unavailable, match="too many connections"):
            _one(database)


def test_most_but_not_all_threads_wait_for_a_server_that_is_away(sqlite_url: str) -> None:
    back = threading.Event()

    def work() -> str:
        if not back.is_set():
            raise Away("away")
        return "done"

    with closing(Database(sqlite_url, pool_size=10)) as database, ThreadPoolExecutor(3) as pool:
        calls = [
            pool.submit(database.retry_while_unavailable, time.monotonic() + 120, work)
            for _ in range(3)
        ]
        (refused,) = wait(calls, return_when=FIRST_COMPLETED).done
        assert isinstance(refused.exception(), Unavailable)
        back.set()
        calls.remove(refused)
        assert [each.result(timeout=120) for each in calls] == ["done", "done"]
        back.clear()
        with pytest.raises(Unavailable):
            database.retry_while_unavailable(time.monotonic(), work)


def _one(database: Database) -> Any:
    with database.reading() as connection:
        return connection.scalar("select 1")


def test_a_table_that_fills_up_is_tidied_before_its_turn(postgresql_url: str) -> None:
    name = f"filling_{uuid.uuid4().hex[:8]}"
    with closing(Database(postgresql_url)) as database, database.reading() as connection:
        connection.run(f"create table {name} as select n from generate_series(1, 400) as n")
        known = "select reltuples from pg_class where relname = :name"
        end = time.monotonic() + 120
        while connection.scalar(known, {"name": name}) < 0:
            # The server tells of what was written a moment later.
            assert time.monotonic() < end
            vacuum(database)
            time.sleep(0.1)
        assert connection.scalar(known, {"name": name}) == 400
        # Whether all see it depends on whose transactions are open elsewhere.
        vacuumed = "select vacuum_count from pg_stat_user_tables where relname = :name"
        assert connection.scalar(vacuumed, {"name": name}) == 1
        connection.run(f"drop table {name}")


def test_a_table_is_vacuumed_after_as_much_change_as_it_says(postgresql_url: str) -> None:
    name = f"changing_{uuid.uuid4().hex[:8]}"
    says = {
        "changed": "autovacuum_vacuum_scale_factor = 0.002",
        "inserted": "autovacuum_vacuum_insert_scale_factor = 0.01",
        "silent": "fillfactor = 100",
    }
    end = time.monotonic() + 120
    with closing(Database(postgresql_url)) as database, database.reading() as connection:

        def told(column: str) -> dict[str, int]:
            assert time.monotonic() < end
            # The server tells of what was written a moment later.
            time.sleep(0.1)
            rows = connection.rows(
                f"select substring(relname from '[a-z]+$'), {column} from pg_stat_user_tables"
                " where relname like :name",
                {"name": f"{name}%"},
            )
            return dict(rows)

        for which, setting in says.items():
            connection.run(
                f"create table {name}_{which} with ({setting})"
                " as select n, 0 as value from generate_series(1, 4000) as n"
            )
        while told("n_mod_since_analyze") != dict.fromkeys(says, 4000):
            pass
        for which in says:
            connection.run(f"vacuum analyze {name}_{which}")
        connection.run(f"update {name}_changed set value = 1 where n % 16 = 0")
        for which in ("inserted", "silent"):
            connection.run(f"insert into {name}_{which} select n, 0 from generate_series(1, 300) n")
        while told("n_mod_since_analyze") != {"changed": 250, "inserted": 300, "silent": 300}:
            pass
        vacuum(database)
        assert told("vacuum_count") == {"changed": 2, "inserted": 2, "silent": 1}
        connection.run(f"drop table {', '.join(f'{name}_{which}' for which in says)}")


def test_a_commit_on_sqlite_survives_a_power_cut(tmp_path):
    # Other tests do without: see `tests.databases.prepare_sqlite`.
    with closing(sqlite3.connect(tmp_path / "crmhub.db")) as driver:
        prepare_sqlite(driver, None)
        assert driver.execute("pragma journal_mode").fetchone() == ("wal",)
        assert driver.execute("pragma synchronous").fetchone() == (2,)


def test_what_was_in_use_while_another_was_cut_off_is_closed_in_the_end(
    postgresql_url: str,
) -> None:
    with closing(Database(postgresql_url, pool_size=2)) as database:
        used, cut_off = database.checkout(), database.checkout()
        connections = [one.driver_connection for one in (used, cut_off)]
        with closing(Database(postgresql_url)) as outside, outside.reading() as connection:
            pid = connections[1].info.backend_pid
            connection.scalar("select pg_terminate_backend(:pid)", {"pid": pid})
        soon(lambda: hung_up(connections[1].fileno()))
        cut_off.close()
        instead = database.checkout()
        connections.append(instead.driver_connection)
        used.close()
        instead.close()
    assert [one.closed for one in connections] == [True] * 3
