"""The stored imports: a job with its uploaded file, its state and its numbers.

A worker holds a job by a lease, which it renews; after a crash another worker continues when the
lease has expired. The file is in the database, so every machine can read it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from io import BytesIO
from typing import IO, Any, Literal

import sqlalchemy as sa

from crmhub.audit import Author
from crmhub.csv import job_files
from crmhub.csv.columns import Choices
from crmhub.csv.progress import Tally
from crmhub.csv.spreadsheets import Sheet
from crmhub.database.claims import IMPORTS, build_claim, new_lease
from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.rows import delete_where, find_row, insert_row, set_where
from crmhub.database.statements import Statement, param
from crmhub.database.tables import import_job, import_part
from crmhub.errors import NotFound
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
_DUE = Statement(
    sa.select(_job.account_id, _job.id)
    # A command's own file is not in the database.
    .where(IMPORTS.is_unfinished(import_job), _job.size > 0, _job.lease_until <= param("now"))
    .order_by(_job.changed_at)
    .limit(10)
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
    account_id: int,
    kind: Kind,
    *,
    file_name: str,
    file: IO[bytes] | None = None,
    by: Author,
    id: str = "",
) -> ImportJob:
    """Read the file from its present position; a command has no file, but a stable `id`."""
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
    insert_row(tx, import_job, key | values)
    return find(tx, account_id, id)


def find(db: Connection, account_id: int, id: str, *, lock: bool = False) -> ImportJob:
    """With `lock`, nobody else changes the job until the end. Raises NotFound."""
    possible = id.isascii() and id.isalnum()
    key = {"account_id": account_id, "id": id}
    row = find_row(db, import_job, key, lock=lock) if possible else None
    if row is None:
        raise NotFound("There is no such import; imports are deleted after 7 days.")
    return _job_of(row)


def listed(db: Connection, account_id: int) -> list[ImportJob]:
    return [_job_of(row) for row in db.rows(_LISTING, {"account_id": account_id})]


def start_command(
    tx: Connection, account_id: int, kind: Kind, id: str, *, sheet: Sheet, by: Author
) -> ImportJob:
    """The job is stored if it is new."""
    if find_row(tx, import_job, {"account_id": account_id, "id": id}, lock=True) is None:
        add(tx, account_id, kind, file_name=sheet.path.name, by=by, id=id)
    set_state(tx, find(tx, account_id, id), "running", total=sheet.rows)
    return find(tx, account_id, id)


def set_state(
    tx: Connection, job: ImportJob, state: State, *, restart: bool = False, **values: Any
) -> None:
    """`restart` deletes the job's numbers and refused rows. `values`: of further columns."""
    now = {"state": state, "message": "", "lease_until": 0, "changed_at": now_ms()}
    set_where(tx, import_job, job.key, **now, **values)
    if restart:
        set_where(tx, import_job, job.key, **asdict(Tally()))
        for role in ("refused", "seen"):
            job_files.delete_parts(tx, job.key, role)


def delete(tx: Connection, job: ImportJob) -> None:
    """Imported records stay."""
    job_files.delete_parts(tx, job.key)
    delete_where(tx, import_job, job.key)


def erase(tx: Connection, account_id: int) -> None:
    """Jobs in progress stay. Files and refused rows may contain a person's data."""
    tx.run(_ERASE_PARTS, {"account_id": account_id})
    tx.run(_ERASE, {"account_id": account_id})


def due(database: Database) -> list[tuple[int, str]]:
    """Jobs that a worker can run now, the oldest first."""
    with database.reading() as db:
        return [(row.account_id, row.id) for row in db.rows(_DUE, {"now": now_ms()})]


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
