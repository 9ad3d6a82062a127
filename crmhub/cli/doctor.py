"""`crmhub doctor`: check the settings, the database and all accounts of an installation."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click
from click.exceptions import Exit

from crmhub.cli.database_checks import (
    Finding,
    State,
    check_clock,
    check_connections,
    check_database,
    check_distribution,
    check_migrations,
    check_part_indexes,
    check_redis,
    check_row_security,
    database_failure,
)
from crmhub.cli.output import print_json

if TYPE_CHECKING:
    from crmhub.accounts.accounts import Account
    from crmhub.hub import Hub
    from crmhub.settings import Settings

_MAX_IDS_SHOWN = 5
_TEST_FILE_BYTES = 64 * 1024


@click.command()
@click.option("--all", "everything", is_flag=True, help="Compare all records with the index.")
@click.option("--repair", is_flag=True, help="Repair wrong counters and index rows.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(everything: bool, repair: bool, as_json: bool) -> None:
    """Check settings, database, Redis, clocks, adapters, accounts and their records.

    The records of each account are counted, and with --all compared with the search index. --all
    and --repair may run while the service runs. Exits with 1 if a check fails; warnings and
    repaired faults do not count.
    """
    findings = []
    for finding in _run_checks(everything=everything, repair=repair):
        findings.append(finding)
        if not as_json:
            click.echo(f"{finding.state:<5} {finding.name}: {finding.message}")
    healthy = all(finding.state != "fail" for finding in findings)
    if as_json:
        print_json({"ok": healthy, "checks": [asdict(finding) for finding in findings]})
    if not healthy:
        raise Exit(1)


def _run_checks(*, everything: bool, repair: bool) -> Iterator[Finding]:
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
        yield _check_directories(settings)
        database = check_database(hub.database, everything=everything)
        yield database
        migrations = check_migrations(hub.database) if database.state == "ok" else None
        if migrations is not None:
            yield migrations
            yield check_connections(hub)
            yield from check_distribution(hub.database)
            yield from check_row_security(hub.database)
            yield from check_part_indexes(hub.database)
            yield check_clock(hub.database)
        yield check_redis(settings)
        yield from _adapters(hub)
        if migrations is not None and migrations.state == "ok":
            yield _keys(hub)
            accounts, unreadable = _read_accounts(hub)
            yield from unreadable
            yield from _accounts(hub, accounts, sound=not unreadable)
            yield from _journal(hub)
            yield from _copies(hub, accounts)
            yield _alerts(hub)
            yield from _records(hub, accounts, everything=everything, repair=repair)
    except Unavailable as exc:
        # The database may become unavailable during the checks, or cancel a long statement.
        yield database_failure(exc)
    finally:
        hub.close()


def _settings(settings: Settings) -> Finding:
    if settings.env == "development" and settings.host not in ("127.0.0.1", "::1", "localhost"):
        fault = f"env is development, but host {settings.host} is open to others"
        return Finding("settings", "warn", f"{fault}; set CRMHUB_ENV=production.")
    source = f"from {settings.config}" if settings.config else "without a file"
    return Finding("settings", "ok", f"{settings.env}, {source}")


def _check_directories(settings: Settings) -> Finding:
    """Check that the service can write a test file into each of its directories."""
    needed = {settings.var} if settings.env == "development" else set()
    if settings.database_url.startswith("sqlite:///"):
        needed.add(Path(settings.database_url.removeprefix("sqlite:///")).parent)
    for directory in sorted(needed):
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=directory) as file:
                # A full disk still takes an empty file.
                file.write(bytes(_TEST_FILE_BYTES))
        except OSError as exc:
            return Finding("files", "fail", f"{directory} cannot be written: {exc.strerror}.")
    where = ", ".join(map(str, sorted(needed)))
    return Finding("files", "ok", f"{where} can be written" if needed else "none are needed")


def _adapters(hub: Hub) -> Iterator[Finding]:
    installed = hub.registry.installed()
    if not installed:
        yield Finding(
            "adapters", "fail", "none is installed, not even local: install crmhub again."
        )
    for adapter in installed:
        state: State = "fail" if adapter.error else "ok"
        message = adapter.error or f"{adapter.title} {adapter.version}"
        yield Finding(f"adapter {adapter.name}", state, message)


def _keys(hub: Hub) -> Finding:
    """Check that the keys are the database's, and all secrets encrypted with the first one."""
    from crmhub.operators.database.database_keys import problems
    from crmhub.operators.database.reseal_secrets import counts

    with hub.database.reading() as db:
        if found := problems(hub.settings, db):
            return Finding("encryption keys", "fail", " ".join(found))
    counts_by_key, first = counts(hub.database), hub.vault.first
    others = {key_id: count for key_id, count in sorted(counts_by_key.items()) if key_id != first}
    other_counts = ", ".join(f"{count} with {key_id}" for key_id, count in others.items())
    name, sealed = "encryption keys", f"sealed are {other_counts}"
    if unknown_keys := sorted(others.keys() - set(hub.vault.key_ids)):
        fault = f"{sealed}, but encryption_keys does not name {', '.join(unknown_keys)}"
        remedy = "add it behind the first, or enter these secrets again."
        return Finding(name, "fail", f"{fault}; {remedy}")
    if others:
        fault = f"{sealed}, which is not the first; run `crmhub db reseal`."
        return Finding(name, "warn", fault)
    count = counts_by_key[first]
    sealed_count = f"{count} sealed value{'s' * (count != 1)}"
    return Finding(name, "ok", f"{sealed_count}, all with {first}")


def _read_accounts(hub: Hub) -> tuple[list[Account], list[Finding]]:
    """Return the accounts that can be parsed, and a finding for each account that cannot."""
    from crmhub.accounts import accounts

    with hub.database.reading() as db:
        unreadable_columns = accounts.unreadable(db)
        listed = accounts.list_accounts(db, hub.plans)
    # Some unreadable accounts can be listed, but fail later.
    return [account for account in listed if account.client_id not in unreadable_columns], [
        Finding(
            f"account {client_id}",
            "fail",
            f"what is stored as its {' and '.join(columns)} cannot be read; "
            "correct it in the database.",
        )
        for client_id, columns in unreadable_columns.items()
    ]


def _accounts(hub: Hub, readable: list[Account], *, sound: bool) -> Iterator[Finding]:
    """Yield a finding for each account whose adapter cannot be set up, and each missing plan.

    `sound`: no fault of an account was found before.
    """
    from crmhub.accounts import accounts
    from crmhub.adapter import AdapterError
    from crmhub.crm.connection import connect

    with hub.database.reading() as db:
        missing_plans = sorted(accounts.count_by_plan(db).keys() - hub.plans.keys())
    for plan in missing_plans:
        fault = f"accounts are on the plan {plan}, which does not exist and counts as default"
        yield Finding("plans", "warn", f"{fault}; define it, or give them another.")
    for account in readable:
        try:
            connect(hub, account)
        except AdapterError as exc:
            sound = False
            yield Finding(f"account {account.client_id}", "fail", exc.message)
    if sound:
        yield Finding("accounts", "ok", f"{len(readable)}, each with a CRM that is set up")


def _journal(hub: Hub) -> Iterator[Finding]:
    from crmhub.operators.alerts import alerts

    with hub.database.reading() as db:
        active = alerts.current(db, old_ms=hub.settings.alert_queue_age)
    # `_copies` says more about these.
    active = [alert for alert in active if alert.kind != "copies"]
    for alert in active:
        yield Finding(f"account {alert.client_id}", "warn", alert.in_words())
    if not active:
        yield Finding("journal", "ok", "nothing waits for long, and no action has failed")


def _copies(hub: Hub, readable: list[Account]) -> Iterator[Finding]:
    """Yield a finding for each kind of record whose copy of the CRM is late."""
    from crmhub.operators.crm import copy_crm

    copied = [account for account in readable if account.switches.mirror]
    is_late = False
    for account in copied:
        for warning in copy_crm.warnings(hub, account):
            is_late = True
            yield Finding(f"account {account.client_id}", "warn", warning)
    if copied and not is_late:
        yield Finding("copies", "ok", f"{len(copied)} of a CRM, none behind")


def _alerts(hub: Hub) -> Finding:
    from crmhub.operators.alerts.channels import TITLES, channels_of

    names = channels_of(hub.settings).names
    if not names:
        return Finding("alerts", "ok", "none are sent: no webhook, chat or email is set for them")
    urls = [url for url in (hub.settings.alert_url, hub.settings.alert_chat_url) if url]
    if fault := "; ".join(filter(None, map(hub.egress.fault, urls))):
        return Finding("alerts", "fail", fault)
    titles = ", ".join(TITLES[name].lower() for name in names)
    return Finding("alerts", "ok", f"sent by {titles}; `crmhub alert test` tries it")


def _records(
    hub: Hub, readable: list[Account], *, everything: bool, repair: bool
) -> Iterator[Finding]:
    """Yield a finding for each wrong counter and each kind of record with wrong index rows.

    With `everything`, all records are compared with the index; the last finding has their number.
    """
    from crmhub.properties.kinds import KINDS
    from crmhub.records.repair import examine, recount

    looked_at = 0
    for account in readable:
        name = f"records {account.client_id}"
        for miscount in recount(hub.database, account.id, repair=repair):
            yield _repair_finding(
                name,
                f"{miscount.kind.name}: the counter said {miscount.stored},"
                f" there are {miscount.actual}",
                repair,
                "--repair",
            )
        for kind in KINDS.values() if everything else ():
            examined = examine(hub.records.catalogues, account.id, kind, repair=repair)
            looked_at += examined.looked_at
            if wrong_ids := examined.wrong - {id for _, id, _ in examined.twins}:
                message = f"{kind.name}: wrong in the index: {_list_ids(wrong_ids)}"
                yield _repair_finding(name, message, repair, "--repair --all")
            for property_name, id, other in sorted(examined.twins):
                message = f"{kind.name}: {id} has the same {property_name} as {other}"
                yield Finding(
                    name, "fail", f"{message}, but it must be unique; change one of them."
                )
            if examined.unreadable:
                message = f"{kind.name}: what is stored of {_list_ids(examined.unreadable)}"
                yield Finding(
                    name, "fail", f"{message} cannot be read; correct it in the database."
                )
    compared = f", {looked_at} of them compared with the index" if everything else ""
    yield Finding("records", "ok", f"those of all accounts counted{compared}")


def _repair_finding(name: str, words: str, repair: bool, how: str) -> Finding:
    if repair:
        return Finding(name, "warn", f"{words}; now repaired.")
    return Finding(name, "fail", f"{words}; run `crmhub doctor {how}`.")


def _list_ids(ids: Collection[int]) -> str:
    named = ", ".join(map(str, sorted(ids)[:_MAX_IDS_SHOWN]))
    more = len(ids) - _MAX_IDS_SHOWN
    return f"{named} and {more} more" if more > 0 else named
