"""The stored imports: a job with its uploaded file, its state and its numbers.

A worker claims a queued job for a time (a lease), which it renews while it works. After a crash
another worker continues the job when the lease has expired. The file and the refused rows are
stored in parts, so that every process on every machine can read them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from io import BytesIO
from typing import IO, Any, Literal, get_args

import sqlalchemy as sa

from crmhub.audit import Author
from crmhub.csv import job_files
from crmhub.csv.columns import Choices
from crmhub.csv.progress import Tally
from crmhub.csv.spreadsheets import Sheet
from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.expired import find_expired
from crmhub.database.statements import Statement, one_of, param, params
from crmhub.database.tables import import_job, import_part
from crmhub.errors import NotFound
from crmhub.properties.kinds import BY_CODE, Kind
from crmhub.secrets import BASE36, token

State = Literal["draft", "queued", "running", "done", "failed", "stopped"]
STATES: tuple[State, ...] = get_args(State)
KEPT_MS = 7 * 86_400_000
"""The time in ms after which an import, its file and its refused rows are deleted."""

_ID_BITS = 100
# In UTF-8 a name is still short enough for a file system.
_LONGEST_NAME = 60
_LISTED = 50
_job = import_job.c
_OF_ACCOUNT = _job.account_id == param("account_id")
_IS_JOB = sa.and_(_OF_ACCOUNT, _job.id == param("id"))
_IS_MINE = sa.and_(_IS_JOB, one_of(_job.state, "running"), _job.lease == param("lease"))
_INSERT = Statement(
    sa.insert(import_job).values(params(*(column.name for column in import_job.columns)))
)
_FIND = Statement(sa.select(import_job).where(_IS_JOB))
_LOCK = Statement(sa.select(import_job).where(_IS_JOB).with_for_update())
_LISTING = Statement(
    sa.select(import_job)
    .where(_OF_ACCOUNT)
    .order_by(_job.created_at.desc(), _job.id)
    .limit(_LISTED)
)
_SET = Statement(
    sa.update(import_job)
    .where(_IS_JOB)
    .values(params("settings", "state", "dry_run", "total", "message", "changed_at"))
)
_RESET_TALLY = Statement(
    sa.update(import_job).where(_IS_JOB).values(created=0, updated=0, refused=0)
)
_DUE = Statement(
    sa.select(_job.account_id, _job.id)
    .where(
        one_of(_job.state, "queued", "running"),
        # The file of a command's import is not in the database.
        _job.size > 0,
        sa.or_(one_of(_job.state, "queued"), _job.lease_until < param("now")),
    )
    .order_by(_job.changed_at)
    .limit(10)
)
_CLAIM = Statement(
    sa.update(import_job)
    .where(
        _IS_JOB,
        one_of(_job.state, "queued", "running"),
        # The file of a command's import is not in the database.
        _job.size > 0,
        sa.or_(one_of(_job.state, "queued"), _job.lease_until < param("now")),
    )
    .values(state="running", lease=param("new_lease"), lease_until=param("until"))
)
_NOTE_TALLY = Statement(
    sa.update(import_job)
    .where(_IS_JOB, _job.lease == param("lease"))
    .values(params("created", "updated", "refused"))
)
_RENEW = Statement(sa.update(import_job).where(_IS_MINE).values(lease_until=param("until")))
_END = Statement(
    sa.update(import_job)
    .where(_IS_MINE)
    .values(
        params("created", "updated", "refused", "message", "changed_at")
        | {"state": param("new_state"), "lease_until": 0}
    )
)
_DELETE = Statement(sa.delete(import_job).where(_IS_JOB))
_DELETE_OLD = Statement(
    sa.delete(import_job).where(_IS_JOB, _job.changed_at == param("changed_at"))
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
    """How the file of a job is read and imported; "" for encoding or delimiter: detected."""

    encoding: str = ""
    delimiter: str = ""
    keep_going: bool = False
    choices: Choices = field(default_factory=Choices)

    def to_json(self) -> str:
        """Return the settings as JSON text."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> JobSettings:
        """Return the settings that `to_json` has written."""
        values = json.loads(text)
        return cls(**{**values, "choices": Choices(**values["choices"])})


@dataclass(frozen=True, slots=True)
class ImportJob:
    """An import; `total` is the number of rows, and `message` the cause of an end.

    `size` is the length of the file in bytes, 0 if a command imports its own file; times are ms
    since 1970.
    """

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

    @property
    def is_active(self) -> bool:
        """Whether the job waits for a worker, or a worker runs it."""
        return self.state in ("queued", "running")

    @property
    def has_stored(self) -> bool:
        """Whether rows were imported, so that the options can no longer change."""
        return not self.dry_run and self.tally.rows > 0

    @property
    def key(self) -> dict[str, Any]:
        """The values of the primary key by column."""
        return {"account_id": self.account_id, "id": self.id}

    @property
    def progress_key(self) -> str:
        """The text that identifies the job's progress among the imports of files."""
        return f"job {self.id}"


def add(
    tx: Connection,
    account_id: int,
    kind: Kind,
    *,
    file_name: str,
    file: IO[bytes] | None = None,
    by: Author,
    id: str = "",
) -> ImportJob:
    """Store a job as a draft, with its file, which is read from its present position.

    The job of a command has no file, and an `id` that it finds again.
    """
    now = now_ms()
    id = id or token(_ID_BITS, BASE36)
    key: dict[str, Any] = {"account_id": account_id, "id": id}
    size = job_files.add_file(tx, key, "file", file) if file else 0
    values = {
        "kind": kind.code,
        "file_name": _clean_name(file_name),
        "size": size,
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
    tx.run(_INSERT, key | values)
    return find(tx, account_id, id)


def find(db: Connection, account_id: int, id: str, *, lock: bool = False) -> ImportJob:
    """Return a job; with `lock`, nobody else changes it until the transaction ends.

    Raises NotFound if the account has no such job.
    """
    possible = id.isascii() and id.isalnum()
    key = {"account_id": account_id, "id": id}
    row = db.row(_LOCK if lock else _FIND, key) if possible else None
    if row is None:
        raise NotFound("There is no such import; imports are deleted after 7 days.")
    return _job_of(row)


def listed(db: Connection, account_id: int) -> list[ImportJob]:
    """Return the newest 50 jobs of an account."""
    return [_job_of(row) for row in db.rows(_LISTING, {"account_id": account_id})]


def start_command(
    tx: Connection, account_id: int, kind: Kind, id: str, *, sheet: Sheet, by: Author
) -> ImportJob:
    """Return the job of a command's import, in progress; it is stored if it is new."""
    key = {"account_id": account_id, "id": id}
    if tx.row(_LOCK, key) is None:
        add(tx, account_id, kind, file_name=sheet.path.name, by=by, id=id)
    set_state(tx, find(tx, account_id, id), "running", total=sheet.rows)
    return find(tx, account_id, id)


def set_state(
    tx: Connection,
    job: ImportJob,
    state: State,
    *,
    settings: JobSettings | None = None,
    dry_run: bool | None = None,
    total: int | None = None,
    restart: bool = False,
) -> None:
    """Set the state of a locked job, and those of the other values that are given.

    With `restart`, its numbers and its refused rows are deleted.
    """
    values = {
        "settings": (settings or job.settings).to_json(),
        "state": state,
        "dry_run": job.dry_run if dry_run is None else dry_run,
        "total": job.total if total is None else total,
        "message": "",
        "changed_at": now_ms(),
    }
    tx.run(_SET, job.key | values)
    if restart:
        tx.run(_RESET_TALLY, job.key)
        for role in ("refused", "seen"):
            job_files.delete_parts(tx, job.key, role)


def delete(tx: Connection, job: ImportJob) -> None:
    """Delete a job with its file and its refused rows; imported records stay."""
    job_files.delete_parts(tx, job.key)
    tx.run(_DELETE, job.key)


def forget(database: Database, *, most: int = 1000) -> int:
    """Delete up to `most` jobs that were not changed for 7 days; return their number."""
    old = find_expired(database, _job.changed_at, before=now_ms() - KEPT_MS, most=most)
    for account_id, id, changed_at in old:
        key = {"account_id": account_id, "id": id}
        database.transact(partial(_delete_old, key=key, changed_at=changed_at))
    return len(old)


def _delete_old(tx: Connection, key: Mapping[str, Any], changed_at: int) -> None:
    if tx.run(_DELETE_OLD, {**key, "changed_at": changed_at}):
        job_files.delete_parts(tx, key)


def erase(tx: Connection, account_id: int) -> None:
    """Delete all imports of an account that are not in progress, with their files.

    Their files and refused rows may name anybody.
    """
    tx.run(_ERASE_PARTS, {"account_id": account_id})
    tx.run(_ERASE, {"account_id": account_id})


# What workers do


def due(database: Database) -> list[tuple[int, str]]:
    """Return the account and id of jobs that a worker can run now, the oldest first."""
    with database.reading() as db:
        return [(row.account_id, row.id) for row in db.rows(_DUE, {"now": now_ms()})]


def claim(database: Database, account_id: int, id: str, lease: str, *, lease_ms: int) -> bool:
    """Claim a job under the name `lease` for a time; return False if another worker has it."""
    now = now_ms()
    values = {"now": now, "new_lease": lease, "until": now + lease_ms}
    key = {"account_id": account_id, "id": id}
    return database.transact(lambda tx: tx.run(_CLAIM, key | values)) > 0


def renew(database: Database, job: ImportJob, lease: str, tally: Tally, *, lease_ms: int) -> bool:
    """Store the numbers and prolong the lease; return False if the job was stopped or taken."""
    mine = job.key | {"lease": lease}

    def work(tx: Connection) -> bool:
        tx.run(_NOTE_TALLY, mine | asdict(tally))
        return tx.run(_RENEW, mine | {"until": now_ms() + lease_ms}) > 0

    return database.transact(work)


def end(
    database: Database,
    job: ImportJob,
    lease: str,
    state: State,
    tally: Tally,
    message: str = "",
    seen: bytes = b"",
) -> bool:
    """Store how this worker's run has ended, if the job is still its own; return whether it is.

    `seen` has the unique values of the rows of a dry run that continues. The file of a finished
    import is deleted.
    """
    values = asdict(tally) | {"message": message, "new_state": state, "changed_at": now_ms()}

    def work(tx: Connection) -> bool:
        is_mine = tx.run(_END, job.key | values | {"lease": lease}) > 0
        if is_mine and state == "done" and not job.dry_run:
            job_files.delete_parts(tx, job.key, "file")
        if is_mine and job.dry_run:
            job_files.delete_parts(tx, job.key, "seen")
            job_files.add_file(tx, job.key, "seen", BytesIO(seen))
        return is_mine

    return database.transact(work)


def _job_of(row: Any) -> ImportJob:
    return ImportJob(
        account_id=row.account_id,
        id=row.id,
        kind=BY_CODE[row.kind],
        file_name=row.file_name,
        size=row.size,
        settings=JobSettings.from_json(row.settings),
        state=row.state,
        dry_run=bool(row.dry_run),
        total=row.total,
        tally=Tally(row.created, row.updated, row.refused),
        message=row.message,
        author=Author(row.author_kind, row.author, row.author_id),
        created_at=row.created_at,
        changed_at=row.changed_at,
    )


def _clean_name(name: str) -> str:
    """Return the name of an uploaded file without a path and without control characters."""
    last = name.replace("\\", "/").rpartition("/")[2]
    text = "".join(filter(str.isprintable, last))[-_LONGEST_NAME:]
    return text if text.strip(" .") else "file.csv"
