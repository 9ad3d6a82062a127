"""Checks of `crmhub doctor` about the database and Redis."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from crmhub.cli.open_hub import first_line

if TYPE_CHECKING:
    from crmhub.database.connection import Database
    from crmhub.hub import Hub
    from crmhub.settings import Settings

# Rate limits and expiry compare clocks of several machines; NTP keeps them within a second.
_CLOCK_WARN_MS = 1_000
_CLOCK_FAIL_MS = 30_000
_REDIS_SECONDS = 2
_RESTORE = "restore a backup (crmhub db restore)."
# A worker has 16 threads; one more connection listens for new actions.
_WORKERS_CONNECTIONS = 21

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's report."""

    name: str
    state: State
    message: str


def check_database(database: Database, *, everything: bool) -> Finding:
    from crmhub.errors import Unavailable

    # Text, because such statements ask the server about itself, not about tables.
    sql = {
        "sqlite": "select 'SQLite ' || sqlite_version()",
        "postgresql": "select 'PostgreSQL ' || current_setting('server_version')",
    }[database.dialect]
    try:
        with database.reading() as db:
            version = db.scalar(sql)
            checked_whole = everything and db.dialect == "sqlite"
            if checked_whole and (report := db.scalar("pragma quick_check(1)")) != "ok":
                return Finding("database", "fail", f"{' '.join(report.split())}; {_RESTORE}")
        database.check_writable()
    except (Unavailable, database.drivers_errors) as exc:
        return database_failure(exc)
    return Finding("database", "ok", version + ", and its file is whole" * checked_whole)


def database_failure(exc: Exception) -> Finding:
    from crmhub.database.drivers import Damaged

    message = first_line(exc.__cause__ or exc)
    if isinstance(exc, Damaged):
        message = f"{message}; if CRMHUB_DATABASE_URL is right, {_RESTORE}"
    return Finding("database", "fail", message)


def check_migrations(database: Database) -> Finding:
    from crmhub.database.schema import pending

    behind = pending(database)
    return Finding("migrations", "fail" if behind else "ok", behind or "the newest schema")


def check_connections(hub: Hub) -> Finding:
    """Compare the hub's connections with the lowest limit of server, database and role."""
    if hub.database.dialect == "sqlite":
        return Finding("connections", "ok", "SQLite takes as many as there are")
    hub_limit = hub.settings.workers * hub.database.pool_size + _WORKERS_CONNECTIONS
    with hub.database.reading() as db:
        [(setting, database_limit)] = db.rows(
            "select * from (values ('max_connections', current_setting('max_connections')::int"
            " - current_setting('superuser_reserved_connections')::int),"
            " ('the limit of its role',"
            " (select rolconnlimit from pg_roles where rolname = current_user and not rolsuper)),"
            " ('the limit of the database', (select datconnlimit from pg_database"
            " where datname = current_database()))) as l (whose, most)"
            # -1 means no limit.
            " where most >= 0 order by most limit 1"
        )
    if hub_limit <= database_limit:
        message = f"at most {hub_limit} of the {database_limit} there are"
        return Finding("connections", "ok", message)
    fault = f"{hub.settings.workers} server processes and a worker may open {hub_limit}"
    fault = f"{fault}, but the database takes {database_limit}"
    return Finding("connections", "warn", f"{fault}; lower workers or threads, or raise {setting}.")


def check_distribution(database: Database) -> Iterator[Finding]:
    """Yield a finding about the distribution of the tables, if they are distributed."""
    from crmhub.database.distribution import DISTRIBUTED, REFERENCE, read_distribution

    found = read_distribution(database)
    if found is None or not found.tables:
        return
    name = "distribution"
    if not found.is_coordinator:
        fault = (
            "CRMHUB_DATABASE_URL leads to a worker node; all processes connect to the coordinator."
        )
        yield Finding(name, "fail", fault)
    elif missing := found.missing:
        fault = f"not distributed: {', '.join(missing)}; run `crmhub db distribute`."
        yield Finding(name, "fail", fault)
    elif found.unavailable:
        fault = f"node {', '.join(found.unavailable)} does not answer: accounts on it get 503, and"
        fault = f"{fault} no account or property can be created; start it again."
        yield Finding(name, "fail", fault)
    elif found.unlogged:
        fault = f"Citus cannot move {', '.join(found.unlogged)}, which is unlogged"
        yield Finding(name, "warn", f"{fault}; run `crmhub db distribute`.")
    else:
        tables = f"{len(DISTRIBUTED)} tables by account, {len(REFERENCE)} on every node"
        yield Finding(name, "ok", f"{tables}; {found.nodes} nodes with accounts")


def check_row_security(database: Database) -> Iterator[Finding]:
    """Yield a finding about row-level security, if a table has it."""
    from crmhub.database.row_security import PROTECTED, read_row_security

    found = read_row_security(database)
    if found is None:
        return
    name = "row security"
    if found.unprotected:
        fault = f"not protected: {', '.join(found.unprotected)}; run `crmhub db secure`."
        yield Finding(name, "fail", fault)
    elif not found.is_active:
        fault = (
            "it does not apply to the role in CRMHUB_DATABASE_URL; let `crmhub serve` and"
            " `crmhub worker` connect with the role that `crmhub db secure` has prepared."
        )
        yield Finding(name, "warn", fault)
    else:
        yield Finding(name, "ok", f"{len(PROTECTED)} tables show each request one account only")


def check_part_indexes(database: Database) -> Iterator[Finding]:
    """Yield a warning if searches for parts of texts lack an index."""
    from crmhub.database import part_indexes

    with database.reading() as db:
        built = part_indexes.read_built(db)
    if not (built.trigrams and (built.others or database.dialect == "sqlite")):
        fault = "there is no index for them, so CONTAINS_TOKEN reads all values of a property"
        advice = "`crmhub db index --trigram` builds it, or says what it needs"
        yield Finding("parts of texts", "warn", f"{fault}; {advice}.")


def check_clock(database: Database) -> Finding:
    if database.dialect == "sqlite":
        return Finding("clock", "ok", "the database is on this machine")
    with database.reading() as db:
        before = time.time()
        database_time = float(db.scalar("select extract(epoch from clock_timestamp())"))
        hub_time = (before + time.time()) / 2
    return compare_clocks("clock", "the database", database_time - hub_time)


def compare_clocks(name: str, whose: str, ahead_s: float) -> Finding:
    off_ms = abs(ahead_s) * 1000
    if off_ms <= _CLOCK_WARN_MS:
        return Finding(name, "ok", f"{whose} agrees to {off_ms:.0f} ms")
    relation = "ahead of" if ahead_s > 0 else "behind"
    fault = f"{whose} is {off_ms / 1000:.1f} s {relation} this machine; let both follow NTP."
    return Finding(name, "fail" if off_ms > _CLOCK_FAIL_MS else "warn", fault)


def check_redis(settings: Settings) -> Finding:
    if settings.redis_url is None:
        return Finding("redis", "ok", "none is set: each process holds its share of a rate limit")
    import redis

    client = redis.Redis.from_url(
        settings.redis_url, socket_timeout=_REDIS_SECONDS, socket_connect_timeout=_REDIS_SECONDS
    )
    answers = False
    try:
        seconds, micros = client.time()
        answers = True
        # A replica, or one that is full, answers and counts nothing.
        client.set(f"crmhub:doctor:{os.getpid()}", "", px=_REDIS_SECONDS * 1000)
    except redis.RedisError as exc:
        what = "takes no writes" if answers else "does not answer"
        # The type alone: the message may contain the address with a password.
        fault = f"it {what} ({type(exc).__name__})"
        effect = "until it does, each process holds its share of a rate limit."
        return Finding("redis", "fail", f"{fault}; {effect}")
    finally:
        client.close()
    return compare_clocks("redis", "Redis", seconds + micros / 1e6 - time.time())
