"""`crmhub doctor`: is everything in place?"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import rich_click as click
from click.exceptions import Exit

from crmhub.cli.output import print_json

if TYPE_CHECKING:
    from crmhub.actions.hub import Hub
    from crmhub.db import Database
    from crmhub.settings import Settings

# Limits and expiry compare times of several machines; a second is in any network's reach.
_CLOCK_WARN_MS = 1_000
_CLOCK_FAIL_MS = 30_000
_REDIS_SECONDS = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: what was looked at, how it is, and that in words."""

    name: str
    state: Literal["ok", "warn", "fail"]
    message: str


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(as_json: bool) -> None:
    """Check settings, database, Redis, clocks, adapters and accounts.

    Exits with 1 when something fails; a warning alone does not.
    """
    findings = []
    for finding in _examine():
        findings.append(finding)
        if not as_json:
            click.echo(f"{finding.state:<5} {finding.name}: {finding.message}")
    healthy = all(finding.state != "fail" for finding in findings)
    if as_json:
        print_json({"ok": healthy, "checks": [asdict(finding) for finding in findings]})
    if not healthy:
        raise Exit(1)


def _examine() -> Iterator[Finding]:
    from crmhub.actions.hub import Hub
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
        database = _database(hub.database)
        yield database
        migrations = _migrations(hub.database) if database.state == "ok" else None
        if migrations is not None:
            yield migrations
            yield _connections(hub)
            yield _clock(hub.database)
        yield _redis(settings)
        yield from _adapters(hub)
        if migrations is not None and migrations.state == "ok":
            yield from _accounts(hub)
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
            with tempfile.TemporaryFile(dir=directory):
                pass
        except OSError as exc:
            return Finding("files", "fail", f"{directory} cannot be written: {exc.strerror}.")
    where = ", ".join(map(str, sorted(needed)))
    return Finding("files", "ok", f"{where} can be written" if needed else "none are needed")


def _database(database: Database) -> Finding:
    from crmhub.errors import Unavailable

    sql = {"sqlite": "select 'SQLite ' || sqlite_version()"}.get(
        database.dialect, "select 'PostgreSQL ' || current_setting('server_version')"
    )
    try:
        with database.reading() as db:
            version = db.scalar(sql)
    except Unavailable as exc:
        cause = exc.__cause__ or exc
        return Finding("database", "fail", str(cause).strip().partition("\n")[0])
    return Finding("database", "ok", str(version))


def _migrations(database: Database) -> Finding:
    from crmhub.db import pending

    behind = pending(database)
    return Finding("migrations", "fail" if behind else "ok", behind or "the newest schema")


def _connections(hub: Hub) -> Finding:
    """Compare what the server processes may open with what the database takes."""
    if hub.database.dialect == "sqlite":
        return Finding("connections", "ok", "SQLite takes as many as there are")
    ours = hub.settings.workers * hub.database.pool_size
    with hub.database.reading() as db:
        theirs = db.scalar(
            "select current_setting('max_connections')::int"
            " - current_setting('superuser_reserved_connections')::int"
        )
    if ours <= theirs:
        return Finding("connections", "ok", f"at most {ours} of the {theirs} there are")
    return Finding(
        "connections",
        "warn",
        f"{hub.settings.workers} server processes may open {ours}, but the database takes "
        f"{theirs}; lower workers or threads, or raise max_connections.",
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
    try:
        seconds, micros = client.time()
    except redis.RedisError as exc:
        # The type alone: the text may hold the address, and with it a password.
        return Finding(
            "redis",
            "fail",
            f"it does not answer ({type(exc).__name__}); until it does, "
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


def _accounts(hub: Hub) -> Iterator[Finding]:
    """Yield what is wrong with single accounts, or that nothing is."""
    from crmhub.accounts import accounts
    from crmhub.actions.connecting import connect
    from crmhub.adapter import AdapterError

    with hub.database.reading() as db:
        found = accounts.list_accounts(db, hub.plans)
        lost = sorted(accounts.plans_in_use(db) - hub.plans.keys())
    for plan in lost:
        yield Finding(
            "plans",
            "warn",
            f"accounts are on the plan {plan}, which does not exist and counts as default; "
            "define it, or give them another.",
        )
    faulty = 0
    for account in found:
        try:
            connect(hub, account)
        except AdapterError as exc:
            faulty += 1
            yield Finding(f"account {account.client_id}", "fail", exc.message)
    if not faulty:
        yield Finding("accounts", "ok", f"{len(found)}, each with a CRM that is set up")
