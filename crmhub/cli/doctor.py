"""`crmhub doctor`: is everything in place?"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import rich_click as click
from click.exceptions import Exit

from crmhub.cli.open_hub import first_line
from crmhub.cli.output import print_json

if TYPE_CHECKING:
    from crmhub.accounts.accounts import Account
    from crmhub.database.connection import Database
    from crmhub.hub import Hub
    from crmhub.settings import Settings

# Limits and expiry compare times of several machines; a second is in any network's reach.
_CLOCK_WARN_MS = 1_000
_CLOCK_FAIL_MS = 30_000
_REDIS_SECONDS = 2
# Counting a million records takes 0.2 s, a sample of one account 0.1 s: this is for many of them.
_RECORDS_SECONDS = 30
_MOST_IDS_NAMED = 5
_BYTES_WRITTEN = 64 * 1024
_RESTORE = "restore a backup (crmhub db restore)."
# With its 16 threads; on one of them it is told of new work.
_WORKERS_CONNECTIONS = 21


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: what was looked at, how it is, and that in words."""

    name: str
    state: Literal["ok", "warn", "fail"]
    message: str


@click.command()
@click.option("--all", "everything", is_flag=True, help="Compare all records with the index.")
@click.option("--repair", is_flag=True, help="Mend counters and index where they are wrong.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(everything: bool, repair: bool, as_json: bool) -> None:
    """Check settings, database, Redis, clocks, adapters, accounts and their records.

    The records of each account are counted and some of them, chosen by chance, compared with the
    index that search reads; for at most half a minute, unless --all is given. Both that and
    --repair may run beside the service. Exits with 1 when something fails; a warning alone does
    not, nor does what was mended.
    """
    findings = []
    for finding in _examine(everything=everything, repair=repair):
        findings.append(finding)
        if not as_json:
            click.echo(f"{finding.state:<5} {finding.name}: {finding.message}")
    healthy = all(finding.state != "fail" for finding in findings)
    if as_json:
        print_json({"ok": healthy, "checks": [asdict(finding) for finding in findings]})
    if not healthy:
        raise Exit(1)


def _examine(*, everything: bool, repair: bool) -> Iterator[Finding]:
    from crmhub.errors import Unavailable
    from crmhub.hub import Hub
    from crmhub.settings import Settings, SettingsError

    try:
        settings = Settings.load()
        hub = Hub.open(settings)
    except SettingsError as exc:
        yield from (Finding("settings", "fail", problem) for problem in exc.problems)
        return
    try:
        yield _settings(settings)
        yield _directories(settings)
        database = _database(hub.database, everything=everything)
        yield database
        migrations = _migrations(hub.database) if database.state == "ok" else None
        if migrations is not None:
            yield migrations
            yield _connections(hub)
            yield _clock(hub.database)
        yield _redis(settings)
        yield from _adapters(hub)
        if migrations is not None and migrations.state == "ok":
            yield _keys(hub)
            accounts, unreadable = _read_accounts(hub)
            yield from unreadable
            yield from _accounts(hub, accounts, sound=not unreadable)
            yield from _journal(hub)
            yield _alerts(hub)
            yield from _records(hub, accounts, everything=everything, repair=repair)
    except Unavailable as exc:
        # It may go away meanwhile, or end what takes it longer than the first question did.
        yield _failed(exc)
    finally:
        hub.close()


def _settings(settings: Settings) -> Finding:
    source = f"from {settings.config}" if settings.config else "without a file"
    if settings.env == "development" and settings.host not in ("127.0.0.1", "::1", "localhost"):
        return Finding(
            "settings",
            "warn",
            f"env is development, but host {settings.host} is open to others; "
            "set CRMHUB_ENV=production.",
        )
    return Finding("settings", "ok", f"{settings.env}, {source}")


def _directories(settings: Settings) -> Finding:
    """Try to write where the service keeps files."""
    needed = {settings.var} if settings.env == "development" else set()
    if settings.database_url.startswith("sqlite:///"):
        needed.add(Path(settings.database_url.removeprefix("sqlite:///")).parent)
    for directory in sorted(needed):
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=directory) as file:
                # A full disk still takes an empty file.
                file.write(bytes(_BYTES_WRITTEN))
        except OSError as exc:
            return Finding("files", "fail", f"{directory} cannot be written: {exc.strerror}.")
    where = ", ".join(map(str, sorted(needed)))
    return Finding("files", "ok", f"{where} can be written" if needed else "none are needed")


def _database(database: Database, *, everything: bool) -> Finding:
    from crmhub.errors import Unavailable

    # Text, as are the statements below: they ask the server about itself.
    sql = {"sqlite": "select 'SQLite ' || sqlite_version()"}.get(
        database.dialect, "select 'PostgreSQL ' || current_setting('server_version')"
    )
    try:
        with database.reading() as db:
            version = db.scalar(sql)
            whole = everything and db.dialect == "sqlite"
            if whole and (said := db.scalar("pragma quick_check(1)")) != "ok":
                return Finding("database", "fail", f"{_one_line(said)}; {_RESTORE}")
        database.check_writable()
    except (Unavailable, database.drivers_errors) as exc:
        return _failed(exc)
    return Finding("database", "ok", f"{version}, and its file is whole" if whole else version)


def _failed(exc: Exception) -> Finding:
    from crmhub.database.drivers import Damaged

    message = first_line(exc.__cause__ or exc)
    if isinstance(exc, Damaged):
        message = f"{message}; if CRMHUB_DATABASE_URL is right, {_RESTORE}"
    return Finding("database", "fail", message)


def _one_line(said: str) -> str:
    return " ".join(said.split())


def _migrations(database: Database) -> Finding:
    from crmhub.database.schema import pending

    behind = pending(database)
    return Finding("migrations", "fail" if behind else "ok", behind or "the newest schema")


def _connections(hub: Hub) -> Finding:
    """Compare what server processes and a worker may open with what the database takes."""
    if hub.database.dialect == "sqlite":
        return Finding("connections", "ok", "SQLite takes as many as there are")
    ours = hub.settings.workers * hub.database.pool_size + _WORKERS_CONNECTIONS
    with hub.database.reading() as db:
        [(whose, theirs)] = db.rows(
            "select * from (values ('max_connections', current_setting('max_connections')::int"
            " - current_setting('superuser_reserved_connections')::int),"
            " ('the limit of its role',"
            " (select rolconnlimit from pg_roles where rolname = current_user and not rolsuper)),"
            " ('the limit of the database', (select datconnlimit from pg_database"
            " where datname = current_database()))) as l (whose, most)"
            # -1 is none.
            " where most >= 0 order by most limit 1"
        )
    if ours <= theirs:
        return Finding("connections", "ok", f"at most {ours} of the {theirs} there are")
    return Finding(
        "connections",
        "warn",
        f"{hub.settings.workers} server processes and a worker may open {ours}, but the database"
        f" takes {theirs}; lower workers or threads, or raise {whose}.",
    )


def _clock(database: Database) -> Finding:
    if database.dialect == "sqlite":
        return Finding("clock", "ok", "the database is on this machine")
    with database.reading() as db:
        before = time.time()
        theirs = float(db.scalar("select extract(epoch from clock_timestamp())"))
        ours = (before + time.time()) / 2
    return _compared("clock", "the database", theirs - ours)


def _compared(name: str, whose: str, ahead_s: float) -> Finding:
    off_ms = abs(ahead_s) * 1000
    state: Literal["ok", "warn", "fail"] = "ok"
    if off_ms > _CLOCK_WARN_MS:
        state = "fail" if off_ms > _CLOCK_FAIL_MS else "warn"
    if state == "ok":
        return Finding(name, state, f"{whose} agrees to {off_ms:.0f} ms")
    relation = "ahead of" if ahead_s > 0 else "behind"
    return Finding(
        name,
        state,
        f"{whose} is {off_ms / 1000:.1f} s {relation} this machine; let both follow NTP.",
    )


def _redis(settings: Settings) -> Finding:
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
        # The type alone: the text may hold the address, and with it a password.
        return Finding(
            "redis",
            "fail",
            f"it {what} ({type(exc).__name__}); until it does, "
            "each process holds its share of a rate limit.",
        )
    finally:
        client.close()
    return _compared("redis", "Redis", seconds + micros / 1e6 - time.time())


def _adapters(hub: Hub) -> Iterator[Finding]:
    found = hub.registry.installed()
    if not found:
        yield Finding("adapters", "fail", "none is installed, not even local: install crmhub anew.")
    for one in found:
        name = f"adapter {one.name}"
        if one.error:
            yield Finding(name, "fail", one.error)
        else:
            yield Finding(name, "ok", f"{one.title} {one.version}")


def _keys(hub: Hub) -> Finding:
    """Tell whether everything is sealed with the first encryption key."""
    from crmhub.operations.reseal_secrets import counts

    found, first = counts(hub.database), hub.vault.first
    others = {key_id: count for key_id, count in sorted(found.items()) if key_id != first}
    told = ", ".join(f"{count} with {key_id}" for key_id, count in others.items())
    if lost := sorted(others.keys() - set(hub.vault.key_ids)):
        return Finding(
            "encryption keys",
            "fail",
            f"sealed are {told}, but encryption_keys does not name {', '.join(lost)};"
            " put it back behind the first, or set these credentials anew.",
        )
    if others:
        return Finding(
            "encryption keys",
            "warn",
            f"sealed are {told}, which is not the first; run `crmhub db reseal`.",
        )
    return Finding("encryption keys", "ok", f"{found[first]} sealed values, all with {first}")


def _read_accounts(hub: Hub) -> tuple[list[Account], list[Finding]]:
    """Return the accounts that can be read, and which cannot."""
    from crmhub.accounts import accounts

    with hub.database.reading() as db:
        spoilt = accounts.unreadable(db)
        found = accounts.list_accounts(db, hub.plans)
    # Also what can be read, and fails later.
    return [one for one in found if one.client_id not in spoilt], [
        Finding(
            f"account {client_id}",
            "fail",
            f"what is stored as its {' and '.join(columns)} cannot be read; "
            "correct it in the database.",
        )
        for client_id, columns in spoilt.items()
    ]


def _accounts(hub: Hub, found: list[Account], *, sound: bool) -> Iterator[Finding]:
    """Yield what is wrong with single accounts, or that nothing is."""
    from crmhub.accounts import accounts
    from crmhub.adapter import AdapterError
    from crmhub.helpers.crm_connection import connect

    with hub.database.reading() as db:
        lost = sorted(accounts.plans_in_use(db) - hub.plans.keys())
    for plan in lost:
        yield Finding(
            "plans",
            "warn",
            f"accounts are on the plan {plan}, which does not exist and counts as default; "
            "define it, or give them another.",
        )
    for account in found:
        try:
            connect(hub, account)
        except AdapterError as exc:
            sound = False
            yield Finding(f"account {account.client_id}", "fail", exc.message)
    if sound:
        yield Finding("accounts", "ok", f"{len(found)}, each with a CRM that is set up")


def _journal(hub: Hub) -> Iterator[Finding]:
    """Yield what is the matter with what helpers accepted, or that nothing is."""
    from crmhub.operations import alerts

    with hub.database.reading() as db:
        found = alerts.now(db, old_ms=hub.settings.alert_queue_age)
    for alert in found:
        yield Finding(f"account {alert.client_id}", "warn", alert.in_words())
    if not found:
        yield Finding("journal", "ok", "nothing waits for long, and no action has failed")


def _alerts(hub: Hub) -> Finding:
    url = hub.settings.alert_url
    if url is None:
        return Finding("alerts", "ok", "none are sent: CRMHUB_ALERT_URL is not set")
    wrong = hub.egress.fault(url)
    return Finding("alerts", "fail" if wrong else "ok", wrong or "their address may be called")


def _records(
    hub: Hub, found: list[Account], *, everything: bool, repair: bool
) -> Iterator[Finding]:
    """Yield where counters and index are not what the records say, or that they are."""
    from crmhub.properties.kinds import KINDS
    from crmhub.records.repair import examine, recount

    # Where time is too short for all of them, each run gets to others.
    random.shuffle(found)
    until = time.monotonic() + _RECORDS_SECONDS
    done = looked_at = 0
    for account in found:
        if time.monotonic() > until and not everything:
            break
        name = f"records {account.client_id}"
        for wrong in recount(hub.database, account.id, mend=repair):
            yield _mended(
                name,
                f"{wrong.kind.name}: the counter said {wrong.told}, there are {wrong.live}",
                repair,
                "--repair",
            )
        for kind in KINDS.values():
            examined = examine(
                hub.records.catalogues,
                hub.database,
                account.id,
                kind,
                everything=everything,
                mend=repair,
            )
            looked_at += examined.looked_at
            twins = {id for _, id, _ in examined.twins}
            if wrong_ids := examined.wrong - twins:
                words = f"{kind.name}: wrong in the index: {_some(wrong_ids)}"
                yield _mended(name, words, repair, "--repair --all")
            for property_name, id, other in sorted(examined.twins):
                words = f"{kind.name}: {id} has the same {property_name} as {other}"
                yield Finding(name, "fail", f"{words}, but it must be unique; change one of them.")
            if examined.unreadable:
                words = f"{kind.name}: what is stored of {_some(examined.unreadable)}"
                yield Finding(name, "fail", f"{words} cannot be read; correct it in the database.")
        done += 1
    which = "all" if done == len(found) else f"{done} of {len(found)}"
    yield Finding(
        "records",
        "ok",
        f"those of {which} accounts counted, {looked_at} of them compared with the index",
    )


def _mended(name: str, words: str, repair: bool, how: str) -> Finding:
    if repair:
        return Finding(name, "warn", f"{words}; this is mended.")
    return Finding(name, "fail", f"{words}; run `crmhub doctor {how}`.")


def _some(ids: Collection[int]) -> str:
    named = ", ".join(map(str, sorted(ids)[:_MOST_IDS_NAMED]))
    more = len(ids) - _MOST_IDS_NAMED
    return f"{named} and {more} more" if more > 0 else named
