"""Run imports: of an uploaded file in a worker, or of a local file in the command itself.

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

from crmhub.accounts import accounts
from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.csv import job_files
from crmhub.csv.columns import Choices, Plan, plan_columns
from crmhub.csv.importing import AllRefused, Import, ImportedElsewhere, load_catalogues
from crmhub.csv.job_files import StoredRefusals
from crmhub.csv.progress import Tally
from crmhub.csv.spreadsheets import Sheet
from crmhub.errors import HubError, Unavailable
from crmhub.hub import Hub
from crmhub.operators.files import import_jobs
from crmhub.operators.files.import_jobs import ImportJob, JobSettings, State
from crmhub.properties.kinds import Kind

PREVIEW_ROWS = 5
"""The number of rows of the file that a preview shows."""
_LEASE_MS = 120_000
_RENEW_EVERY_S = 1.0
_SLICE_S = 30.0
_SHOWN_REASONS = 5
_log = logging.getLogger("crmhub.imports")


@dataclass(frozen=True, slots=True)
class Preview:
    sheet: Sheet
    plan: Plan
    rows: Sequence[Sequence[str]]


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
    import_jobs.queue(hub, account, job.id, settings, dry_run=dry_run, total=total)


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
    job = import_jobs.start_command(
        hub, account, kind, id, file_name=sheet.path.name, total=sheet.rows, by=by
    )
    try:
        yield running, _renewed(hub, job, running)
    except ImportedElsewhere:
        raise
    except AllRefused:
        hub.database.transact(lambda tx: import_jobs.delete_job(tx, job))
        raise
    except BaseException:
        import_jobs.end(hub.database, job, "stopped", running.tally)
        raise
    hub.database.transact(lambda tx: import_jobs.delete_job(tx, job))


# The worker


def run_next(hub: Hub, stopping: threading.Event) -> bool:
    with hub.database.across_accounts():
        due = import_jobs.due(hub.database)
    for account_id, id in due:
        with hub.database.for_account(account_id):
            job = import_jobs.claim(hub.database, account_id, id, lease_ms=_LEASE_MS)
            if job is not None:
                _run(hub, job, stopping)
                return True
    return False


def _run(hub: Hub, job: ImportJob, stopping: threading.Event) -> None:
    running: Import | None = None

    def end(state: State, message: str, tally: Tally | None = None, seen: bytes = b"") -> None:
        tally = tally or (running.tally if running else job.tally)
        import_jobs.end(hub.database, job, state, tally, message, seen)

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
            if not import_jobs.renew(hub.database, job, tally, lease_ms=_LEASE_MS):
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
