"""The stored imports: a job with its uploaded file, its state and its numbers.

A worker holds a job by a lease, which it renews; after a crash another worker continues when the
lease has expired. The file is in the database, so every machine can read it.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import asdict, dataclass, field
from io import BytesIO
from typing import IO, Any, Literal

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.csv import job_files
from crmhub.csv.columns import Choices
from crmhub.csv.progress import StoredProgress, Tally
from crmhub.database.claims import IMPORTS, build_claim, new_lease
from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.rows import delete_where, find_row, insert_row, set_where
from crmhub.database.several_accounts import AvailableRows
from crmhub.database.statements import Statement, param
from crmhub.database.tables import import_job, import_part
from crmhub.errors import BadRequest, Conflict, NotFound
from crmhub.hub import Hub, in_transaction
from crmhub.properties.kinds import BY_CODE, Kind
from crmhub.secrets import BASE36, token

State = Literal["draft", "queued", "running", "done", "failed", "stopped"]

_ID_BITS = 100
# In UTF-8 a name is still short enough for a file system.
_LONGEST_NAME = 60
_LISTED = 50
# The columns that are fields of ImportJob as they are.
_SAME = ["account_id", "id", "file_name", "size", "state", "total", "message", "lease"]
_SAME += ["created_at", "changed_at"]
_job = import_job.c
_OF_ACCOUNT = _job.account_id == param("account_id")
_LISTING = Statement(
    sa.select(import_job)
    .where(_OF_ACCOUNT)
    .order_by(_job.created_at.desc(), _job.id)
    .limit(_LISTED)
)
_DUE = AvailableRows(
    lambda only: (
        sa.select(_job.account_id, _job.id)
        # A command's own file is not in the database.
        .where(IMPORTS.is_unfinished(import_job), _job.size > 0, _job.lease_until <= param("now"))
        .where(only(import_job))
        .order_by(_job.changed_at)
        .limit(10)
    )
)
_CLAIM = build_claim(
    IMPORTS,
    only=lambda rows: sa.and_(rows.c.id == param("id"), rows.c.size > 0),
    returning=list(_job),
)
_NOT_ACTIVE = sa.and_(_OF_ACCOUNT, _job.state != "queued", _job.state != "running")
_NOT_ACTIVE_IDS = sa.select(_job.id).where(_NOT_ACTIVE)
_ERASE_PARTS = Statement(
    sa.delete(import_part).where(
        import_part.c.account_id == param("account_id"), import_part.c.job_id.in_(_NOT_ACTIVE_IDS)
    )
)
_ERASE = Statement(sa.delete(import_job).where(_NOT_ACTIVE))


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Encoding and delimiter "" are detected."""

    encoding: str = ""
    delimiter: str = ""
    keep_going: bool = False
    choices: Choices = field(default_factory=Choices)

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> JobSettings:
        values = json.loads(text)
        return cls(**{**values, "choices": Choices(**values["choices"])})


@dataclass(frozen=True, slots=True)
class ImportJob:
    """`size` is in bytes, 0 for a command's own file; times are ms since 1970."""

    account_id: int
    id: str
    kind: Kind
    file_name: str
    size: int
    settings: JobSettings
    state: State
    dry_run: bool
    total: int
    tally: Tally
    message: str
    author: Author
    created_at: int
    changed_at: int
    lease: str

    @property
    def is_active(self) -> bool:
        return self.state in ("queued", "running")

    @property
    def has_stored(self) -> bool:
        """If so, the options can no longer change."""
        return not self.dry_run and self.tally.rows > 0

    @property
    def key(self) -> dict[str, Any]:
        return {"account_id": self.account_id, "id": self.id}

    @property
    def held(self) -> dict[str, Any]:
        return {**self.key, "lease": self.lease}

    @property
    def running(self) -> dict[str, Any]:
        """The job as long as it is held and nobody has stopped it."""
        return {**self.held, "state": "running"}

    @property
    def progress_key(self) -> str:
        return f"job {self.id}"


def add(
    tx: Connection,
    account: Account,
    kind: Kind,
    *,
    file_name: str,
    file: IO[bytes] | None = None,
    by: Author,
    id: str = "",
) -> ImportJob:
    """Store a draft. The file is read from its present position; a command has a stable `id`."""
    now = now_ms()
    key: dict[str, Any] = {"account_id": account.id, "id": id or token(_ID_BITS, BASE36)}
    values = {
        "kind": kind.code,
        "file_name": _clean_name(file_name),
        "size": job_files.add_file(tx, key, "file", file) if file else 0,
        "settings": JobSettings().to_json(),
        "state": "draft",
        "dry_run": False,
        **dict.fromkeys(("total", "created", "updated", "refused", "lease_until"), 0),
        **dict.fromkeys(("message", "lease"), ""),
        "author_kind": by.kind,
        "author": by.name,
        "author_id": by.id,
        "created_at": now,
        "changed_at": now,
    }
    insert_row(tx, import_job, key | values)
    return _job_of(find_row(tx, import_job, key))


def upload(
    hub: Hub, account: Account, kind: Kind, file: IO[bytes], *, file_name: str, by: Author
) -> ImportJob:
    """Store an uploaded file as a draft of an import; raises BadRequest for an empty file."""
    if not file.read(1):
        raise BadRequest(
            "The file is empty. Choose a CSV file whose first line names the columns.", field="file"
        )

    def store(tx: Connection) -> ImportJob:
        file.seek(0)
        return add(tx, account, kind, file_name=file_name, file=file, by=by)

    return hub.database.transact(store)


def find(hub: Hub, account: Account, id: str, *, lock: bool = False) -> ImportJob:
    """With `lock`, nobody else changes the job until the transaction ends. Raises NotFound."""
    possible = id.isascii() and id.isalnum()
    key = {"account_id": account.id, "id": id}
    with hub.database.reading() as db:
        row = find_row(db, import_job, key, lock=lock) if possible else None
    if row is None:
        raise NotFound("There is no such import; imports are deleted after 7 days.")
    return _job_of(row)


def listed(hub: Hub, account: Account) -> list[ImportJob]:
    with hub.database.reading() as db:
        return [_job_of(row) for row in db.rows(_LISTING, {"account_id": account.id})]


@in_transaction
def queue(
    hub: Hub,
    tx: Connection,
    account: Account,
    id: str,
    settings: JobSettings,
    *,
    dry_run: bool,
    total: int,
) -> None:
    """Let a worker run an import; raises Conflict if it is active or has stored rows."""
    job = find(hub, account, id, lock=True)
    progress = StoredProgress(account.id, job.kind.code, job.progress_key, job.file_name)
    if job.is_active or progress.count_rows(tx):
        raise Conflict("This import has started already. Upload the file again to repeat it.")
    progress.delete(tx)
    values = {"settings": settings.to_json(), "dry_run": dry_run, "total": total}
    _set(tx, job, "queued", restart=True, **values)


@in_transaction
def start_command(
    hub: Hub,
    tx: Connection,
    account: Account,
    kind: Kind,
    id: str,
    *,
    file_name: str,
    total: int,
    by: Author,
) -> ImportJob:
    """The job is stored if it is new."""
    row = find_row(tx, import_job, {"account_id": account.id, "id": id}, lock=True)
    job = _job_of(row) if row else add(tx, account, kind, file_name=file_name, by=by, id=id)
    _set(tx, job, "running", total=total)
    return find(hub, account, id)


@in_transaction
def save(hub: Hub, tx: Connection, account: Account, id: str, settings: JobSettings) -> None:
    """Save the settings of a draft; raises Conflict if the import is no draft."""
    job = find(hub, account, id, lock=True)
    if job.state != "draft":
        raise Conflict("This import has started already; its options cannot change.")
    _set(tx, job, "draft", settings=settings.to_json())


@in_transaction
def reopen(hub: Hub, tx: Connection, account: Account, id: str) -> None:
    """Make a draft of an import, or raise Conflict if it is active or has stored rows."""
    job = find(hub, account, id, lock=True)
    if job.is_active or job.has_stored or (job.state == "done" and not job.dry_run):
        raise Conflict("This import has stored rows; its options cannot change.")
    _check_file(job)
    _set(tx, job, "draft", dry_run=False, restart=True)


@in_transaction
def resume(hub: Hub, tx: Connection, account: Account, id: str) -> None:
    """Continue a failed or stopped import after the last stored row; raises Conflict."""
    job = find(hub, account, id, lock=True)
    if job.state not in ("failed", "stopped"):
        raise Conflict("Only an import that has failed or was stopped can be continued.")
    _check_file(job)
    _set(tx, job, "queued", restart=job.dry_run)


def _check_file(job: ImportJob) -> None:
    if not job.size:
        raise Conflict("The file is not stored here. Run the same crmhub import again to continue.")


@in_transaction
def stop(hub: Hub, tx: Connection, account: Account, id: str) -> None:
    """Stop an import; rows that were imported stay. An import that has ended stays as it is."""
    job = find(hub, account, id, lock=True)
    if job.is_active:
        _set(tx, job, "stopped")


@in_transaction
def delete(hub: Hub, tx: Connection, account: Account, id: str) -> None:
    """Delete an import with its file and refused rows; raises Conflict if it is active."""
    job = find(hub, account, id, lock=True)
    if job.is_active:
        raise Conflict("This import is in progress. Stop it first.")
    delete_job(tx, job)


def refused_rows(hub: Hub, job: ImportJob) -> Generator[bytes]:
    return job_files.refused_rows(hub.database, job.key)


def delete_job(tx: Connection, job: ImportJob) -> None:
    """Imported records stay."""
    job_files.delete_parts(tx, job.key)
    delete_where(tx, import_job, job.key)


def _set(
    tx: Connection, job: ImportJob, state: State, *, restart: bool = False, **values: Any
) -> None:
    """`restart` deletes the job's numbers and refused rows. `values`: of further columns."""
    now = {"state": state, "message": "", "lease_until": 0, "changed_at": now_ms()}
    set_where(tx, import_job, job.key, **now, **values)
    if restart:
        set_where(tx, import_job, job.key, **asdict(Tally()))
        for role in ("refused", "seen"):
            job_files.delete_parts(tx, job.key, role)


def erase(tx: Connection, account_id: int) -> None:
    """Jobs in progress stay. Files and refused rows may contain a person's data."""
    tx.run(_ERASE_PARTS, {"account_id": account_id})
    tx.run(_ERASE, {"account_id": account_id})


# For whoever runs a job


def due(database: Database) -> list[tuple[int, str]]:
    """Jobs that a worker can run now, the oldest first."""
    return [(row.account_id, row.id) for row in _DUE.read(database, {"now": now_ms()})]


def claim(database: Database, account_id: int, id: str, *, lease_ms: int) -> ImportJob | None:
    """Return None if another worker has the job."""
    now = now_ms()
    values = {"now": now, "until": now + lease_ms, "lease": new_lease(), "limit": 1}
    key = {"account_id": account_id, "id": id}
    row = database.transact(lambda tx: tx.row(_CLAIM, key | values))
    return None if row is None else _job_of(row)


def renew(database: Database, job: ImportJob, tally: Tally, *, lease_ms: int) -> bool:
    """Return False if the job was stopped or taken."""

    def extend_lease(tx: Connection) -> bool:
        set_where(tx, import_job, job.held, **asdict(tally))
        return set_where(tx, import_job, job.running, lease_until=now_ms() + lease_ms) > 0

    return database.transact(extend_lease)


def end(
    database: Database,
    job: ImportJob,
    state: State,
    tally: Tally,
    message: str = "",
    seen: bytes = b"",
) -> bool:
    """Return whether the job is still this worker's own. `seen` is for a dry run that continues."""
    values = asdict(tally) | {"message": message, "state": state, "lease_until": 0}

    def record_end(tx: Connection) -> bool:
        is_mine = set_where(tx, import_job, job.running, **values, changed_at=now_ms()) > 0
        if is_mine and state == "done" and not job.dry_run:
            job_files.delete_parts(tx, job.key, "file")
        if is_mine and job.dry_run:
            job_files.delete_parts(tx, job.key, "seen")
            job_files.add_file(tx, job.key, "seen", BytesIO(seen))
        return is_mine

    return database.transact(record_end)


def _job_of(row: Any) -> ImportJob:
    same = {name: getattr(row, name) for name in _SAME}
    return ImportJob(
        **same,
        kind=BY_CODE[row.kind],
        settings=JobSettings.from_json(row.settings),
        dry_run=bool(row.dry_run),
        tally=Tally(row.created, row.updated, row.refused),
        author=Author(row.author_kind, row.author, row.author_id),
    )


def _clean_name(name: str) -> str:
    last = name.replace("\\", "/").rpartition("/")[2]
    text = "".join(filter(str.isprintable, last))[-_LONGEST_NAME:]
    return text if text.strip(" .") else "file.csv"
