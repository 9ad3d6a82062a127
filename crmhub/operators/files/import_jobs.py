"""Imports: of an uploaded file in a worker, or of a local file in the command itself.

A job runs at most `_SLICE_S` seconds at a time; then it goes to the end of the queue, so that a
long import does not keep other accounts waiting.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from crmhub.accounts import accounts
from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.csv import job_files, jobs
from crmhub.csv.columns import Choices, Plan, plan_columns
from crmhub.csv.importing import (
    AllRefused,
    Import,
    ImportedElsewhere,
    load_catalogues,
)
from crmhub.csv.job_files import StoredRefusals
from crmhub.csv.jobs import ImportJob, JobSettings, State
from crmhub.csv.progress import StoredProgress, Tally
from crmhub.csv.spreadsheets import Sheet
from crmhub.database.connection import Connection
from crmhub.errors import BadRequest, Conflict, HubError, Unavailable
from crmhub.hub import Hub, in_transaction
from crmhub.properties.kinds import Kind

PREVIEW_ROWS = 5
"""The number of rows of the file that a preview shows."""
_LEASE_MS = 120_000
_RENEW_EVERY_S = 1.0
_SLICE_S = 30.0
_POLL_S = 1.0
_SHOWN_REASONS = 5
_log = logging.getLogger("crmhub.imports")


@dataclass(frozen=True, slots=True)
class Preview:
    sheet: Sheet
    plan: Plan
    rows: Sequence[Sequence[str]]


def upload(
    hub: Hub, account: Account, kind: Kind, file: IO[bytes], *, file_name: str, by: Author
) -> ImportJob:
    """Store an uploaded file as a draft of an import; raises BadRequest for an empty file."""
    if not file.read(1):
        message = "The file is empty. Choose a CSV file whose first line names the columns."
        raise BadRequest(message, field="file")

    def store(tx: Connection) -> ImportJob:
        file.seek(0)
        return jobs.add(tx, account.id, kind, file_name=file_name, file=file, by=by)

    return hub.database.transact(store)


def find(hub: Hub, account: Account, id: str) -> ImportJob:
    with hub.database.reading() as db:
        return jobs.find(db, account.id, id)


def listed(hub: Hub, account: Account) -> list[ImportJob]:
    with hub.database.reading() as db:
        return jobs.listed(db, account.id)


def preview(hub: Hub, account: Account, job: ImportJob, settings: JobSettings) -> Preview:
    """Return what an import with these settings would read; raises BadRequest."""
    with _opened(hub, job, settings) as sheet:
        catalogues = load_catalogues(hub.records, account)
        plan = plan_columns(catalogues[job.kind.name], sheet.header, settings.choices, catalogues)
        rows = [row.cells for row in islice(sheet.read(sheet.start), PREVIEW_ROWS)]
        return Preview(sheet, plan, rows)


def start(
    hub: Hub, account: Account, job: ImportJob, settings: JobSettings, *, dry_run: bool
) -> None:
    """Queue an import with these settings for a worker.

    Raises the errors of `Import` for invalid columns and for numbers or dates that can be read in
    two ways, and Conflict if the import is active or has ended.
    """
    with _opened(hub, job, settings) as sheet:
        _open_import(hub, account, replace(job, settings=settings), sheet, check_only=True)
        total = sheet.rows

    def queue(tx: Connection) -> None:
        now = jobs.find(tx, account.id, job.id, lock=True)
        progress = StoredProgress(account.id, job.kind.code, job.progress_key, job.file_name)
        if now.is_active or progress.count_rows(tx):
            raise Conflict("This import has started already. Upload the file again to repeat it.")
        progress.delete(tx)
        values = {"settings": settings.to_json(), "dry_run": dry_run, "total": total}
        jobs.set_state(tx, now, "queued", restart=True, **values)

    hub.database.transact(queue)


@in_transaction
def save(hub: Hub, tx: Connection, account: Account, id: str, settings: JobSettings) -> None:
    """Save the settings of a draft; raises Conflict if the import is no draft."""
    job = jobs.find(tx, account.id, id, lock=True)
    if job.state != "draft":
        raise Conflict("This import has started already; its options cannot change.")
    jobs.set_state(tx, job, "draft", settings=settings.to_json())


@in_transaction
def reopen(hub: Hub, tx: Connection, account: Account, id: str) -> None:
    """Make a draft of an import, or raise Conflict if it is active or has stored rows."""
    job = jobs.find(tx, account.id, id, lock=True)
    if job.is_active or job.has_stored or (job.state == "done" and not job.dry_run):
        raise Conflict("This import has stored rows; its options cannot change.")
    _check_file(job)
    jobs.set_state(tx, job, "draft", dry_run=False, restart=True)


@in_transaction
def resume(hub: Hub, tx: Connection, account: Account, id: str) -> None:
    """Continue a failed or stopped import after the last stored row; raises Conflict."""
    job = jobs.find(tx, account.id, id, lock=True)
    if job.state not in ("failed", "stopped"):
        raise Conflict("Only an import that has failed or was stopped can be continued.")
    _check_file(job)
    jobs.set_state(tx, job, "queued", restart=job.dry_run)


def _check_file(job: ImportJob) -> None:
    if not job.size:
        raise Conflict("The file is not stored here. Run the same crmhub import again to continue.")


@in_transaction
def stop(hub: Hub, tx: Connection, account: Account, id: str) -> None:
    """Stop an import; rows that were imported stay. An import that has ended stays as it is."""
    job = jobs.find(tx, account.id, id, lock=True)
    if job.is_active:
        jobs.set_state(tx, job, "stopped")


@in_transaction
def delete(hub: Hub, tx: Connection, account: Account, id: str) -> None:
    """Delete an import with its file and refused rows; raises Conflict if it is active."""
    job = jobs.find(tx, account.id, id, lock=True)
    if job.is_active:
        raise Conflict("This import is in progress. Stop it first.")
    jobs.delete(tx, job)


def refused_rows(hub: Hub, job: ImportJob) -> Iterator[bytes]:
    return job_files.refused_rows(hub.database, job.key)


@contextmanager
def open_command(
    hub: Hub,
    account: Account,
    kind: Kind,
    sheet: Sheet,
    choices: Choices,
    *,
    refused: Path,
    by: Author,
    again: bool,
    keep_going: bool,
) -> Iterator[tuple[Import, Iterator[Tally]]]:
    """Open the import of a local file: the import, and its tallies, which run it.

    Its refused rows are stored like those of other imports, and copied to the file `refused` at
    the end. Until then the job stays, so that the import can be continued.
    """
    id = f"{kind.name}{sheet.digest}"
    key = {"account_id": account.id, "id": id}
    running = Import(
        hub.records,
        account,
        kind,
        sheet,
        choices=choices,
        refusals=StoredRefusals(hub.database, key, sheet, raw=choices.raw, copy_to=refused),
        by=by,
        again=again,
        stop_early=not keep_going,
    )
    job = hub.database.transact(
        lambda tx: jobs.start_command(tx, account.id, kind, id, sheet=sheet, by=by)
    )
    has_ended = is_elsewhere = False
    try:
        yield running, _renewed(hub, job, running)
        has_ended = True
    except AllRefused:
        has_ended = True
        raise
    except ImportedElsewhere:
        is_elsewhere = True
        raise
    finally:
        if has_ended:
            hub.database.transact(lambda tx: jobs.delete(tx, job))
        elif not is_elsewhere:
            jobs.end(hub.database, job, "stopped", running.tally)


# The worker


def watch(hub: Hub, stopping: threading.Event) -> None:
    """Run queued imports, one at a time, until `stopping` is set."""
    pause = 0.0
    while not stopping.wait(pause):
        try:
            pause = 0.0 if run_next(hub, stopping) else _POLL_S
        except Unavailable as exc:
            _log.warning("No import can be run: %s", exc.message)
            pause = _POLL_S
        # A bug must not end the thread.
        except Exception:
            _log.exception("An import failed because of a bug.")
            pause = _POLL_S


def run_next(hub: Hub, stopping: threading.Event) -> bool:
    with hub.database.across_accounts():
        due = jobs.due(hub.database)
    for account_id, id in due:
        with hub.database.for_account(account_id):
            job = jobs.claim(hub.database, account_id, id, lease_ms=_LEASE_MS)
            if job is not None:
                _run(hub, job, stopping)
                return True
    return False


def _run(hub: Hub, job: ImportJob, stopping: threading.Event) -> None:
    running: Import | None = None

    def end(state: State, message: str, tally: Tally | None = None, seen: bytes = b"") -> None:
        tally = tally or (running.tally if running else job.tally)
        jobs.end(hub.database, job, state, tally, message, seen)

    try:
        with hub.database.reading() as db:
            account = accounts.load_by_id(db, job.account_id, hub.plans)
        with _opened(hub, job, job.settings) as sheet:
            running = _open_import(hub, account, job, sheet)
            ends_at = time.monotonic() + _SLICE_S
            for _ in _renewed(hub, job, running):
                if stopping.is_set() or time.monotonic() > ends_at:
                    saved, seen = running.pause()
                    end("queued", saved, seen=seen)
                    return
            warning = [running.warning] if running.warning else []
            end("done", "\n".join(warning + running.reasons.describe(_SHOWN_REASONS)))
    except Unavailable:
        # The lease expires by itself, and a worker continues.
        raise
    except ImportedElsewhere:
        _log.info("An import was stopped, or another worker continues it.")
    except AllRefused as exc:
        end("failed", exc.message, Tally())
    except HubError as exc:
        end("failed", exc.message)
    except OSError as exc:
        end("failed", f"The temporary file: {exc.strerror}. Continue once there is room.")
    # A bug must not leave the import in progress: its state says so, and the log has the bug.
    except Exception:
        end("failed", "A bug of the hub; the log of the worker says more.")
        raise


def _renewed(hub: Hub, job: ImportJob, running: Import) -> Iterator[Tally]:
    """Run the import; store its numbers and renew its lease every second.

    Raises ImportedElsewhere if the import was stopped.
    """
    renew_at = time.monotonic()
    for tally in running.run():
        if time.monotonic() >= renew_at:
            if not jobs.renew(hub.database, job, tally, lease_ms=_LEASE_MS):
                raise ImportedElsewhere("The import was stopped.")
            renew_at = time.monotonic() + _RENEW_EVERY_S
        yield tally


@contextmanager
def _opened(hub: Hub, job: ImportJob, settings: JobSettings) -> Iterator[Sheet]:
    """Open the job's file in a temporary directory; raises BadRequest."""
    with TemporaryDirectory(prefix="crmhub-import-") as directory:
        path = Path(directory) / job.file_name
        job_files.copy_file(hub.database, job.key, path)
        yield Sheet(path, delimiter=settings.delimiter, encoding=settings.encoding)


def _open_import(
    hub: Hub, account: Account, job: ImportJob, sheet: Sheet, *, check_only: bool = False
) -> Import:
    choices = job.settings.choices
    refusals = StoredRefusals(hub.database, job.key, sheet, raw=choices.raw)
    return Import(
        hub.records,
        account,
        job.kind,
        sheet,
        choices=choices,
        refusals=None if check_only else refusals,
        by=job.author,
        dry_run=job.dry_run or check_only,
        stop_early=not job.settings.keep_going,
        key=job.progress_key,
        saved="" if check_only else job.message,
        seen=b"" if check_only else job_files.seen_values(hub.database, job.key),
    )
