"""Sessions of console users.

Each request looks up its session, so whatever deletes a user's sessions takes effect at once in
every process.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from crmhub.database.connection import Connection, now_ms
from crmhub.database.rows import delete_where, insert_row, set_where
from crmhub.database.statements import Statement, param, params
from crmhub.database.tables import console_session, console_user
from crmhub.secrets import digest, new_secret
from crmhub.users.roles import RIGHTS_OF, Right, Role, parse_accounts

IDLE_MS = 8 * 3600 * 1000
"""The time without use, in ms, after which a session ends."""
LONGEST_MS = 24 * 3600 * 1000
"""The longest life of a session, in ms from its start, however often it is used."""
# A session that expires later than this was started before the clock was set back, and is over.
# Smaller differences between the clocks of hosts are tolerated.
_LATEST_MS = LONGEST_MS + 3600 * 1000
# How often the use of a session is stored.
_SEEN_EVERY_MS = 60 * 1000


@dataclass(frozen=True, slots=True)
class SignedIn:
    """The user of a live session.

    `accounts` None: all. `stale`: `note_seen` is due. `time_zone`: an IANA name, or "".
    `language`: of LANGUAGES, or "".
    """

    user_id: str
    email: str
    role: Role
    accounts: frozenset[int] | None
    stale: bool
    time_zone: str
    hides_first_steps: bool
    language: str

    def may(self, right: Right) -> bool:
        return right in RIGHTS_OF[self.role]

    def sees(self, account_id: int) -> bool:
        return self.accounts is None or account_id in self.accounts


_user = console_user.c
_IS_USER = _user.id == param("id")
_IS_ENABLED = _user.disabled_at.is_(None)
_session = console_session.c
_IS_SESSION = _session.digest == param("digest")
_NOTE_SIGN_IN = Statement(
    sa.update(console_user)
    .where(
        _IS_USER,
        _user.password == param("password"),
        _IS_ENABLED,
        _user.invited_until.is_(None),
    )
    .values(params("last_sign_in_at"))
)
_DELETE_ENDED = Statement(
    sa.delete(console_session).where(
        sa.or_(
            _session.ends_at <= param("now"),
            _session.seen_at <= param("idle"),
            _session.ends_at > param("latest"),
        )
    )
)
_SIGNED_IN = Statement(
    sa.select(
        _session.user_id,
        _user.email,
        _user.role,
        _user.accounts,
        _user.time_zone,
        _user.hides_first_steps,
        _user.language,
        _session.seen_at,
    )
    .join_from(console_session, console_user, _user.id == _session.user_id)
    .where(
        _IS_SESSION,
        _session.ends_at > param("now"),
        _session.ends_at <= param("latest"),
        _session.seen_at > param("idle"),
        _IS_ENABLED,
    )
)


def start_session(tx: Connection, user_id: str, password: str) -> str | None:
    """Return the token of a new session. `password`: the hash that was checked.

    None if the user has been disabled or has a new password since then, or has not joined yet.
    """
    now = now_ms()
    user = {"id": user_id, "password": password, "last_sign_in_at": now}
    if not tx.run(_NOTE_SIGN_IN, user):
        return None
    tx.run(_DELETE_ENDED, _bounds(now))
    session = new_secret()
    times = {"seen_at": now, "ends_at": now + LONGEST_MS}
    insert_row(tx, console_session, {"digest": digest(session), "user_id": user_id} | times)
    return session


def signed_in(db: Connection, session: str) -> SignedIn | None:
    """Return the user of a session; None if the session has ended or the user is disabled."""
    now = now_ms()
    row = db.row(_SIGNED_IN, {"digest": digest(session)} | _bounds(now))
    if row is None:
        return None
    return SignedIn(
        row.user_id,
        row.email,
        row.role,
        parse_accounts(row.accounts),
        stale=row.seen_at <= now - _SEEN_EVERY_MS,
        time_zone=row.time_zone,
        hides_first_steps=bool(row.hides_first_steps),
        language=row.language,
    )


def _bounds(now: int) -> dict[str, int]:
    """The parameters that decide which sessions are live."""
    return {"now": now, "idle": now - IDLE_MS, "latest": now + _LATEST_MS}


def note_seen(tx: Connection, session: str) -> None:
    set_where(tx, console_session, {"digest": digest(session)}, seen_at=now_ms())


def end_session(tx: Connection, session: str) -> None:
    delete_where(tx, console_session, {"digest": digest(session)})


def end_all(tx: Connection, user_id: str) -> None:
    delete_where(tx, console_session, {"user_id": user_id})
