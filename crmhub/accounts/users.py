"""Console users, who sign in with email and password, and their sessions.

Of a session's token only the digest is stored. A new password, or disabling the user, deletes the
user's sessions. Each request looks up its session, so this takes effect at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from crmhub.database.connection import Connection, now_ms
from crmhub.database.statements import Statement, param, params
from crmhub.database.tables import console_session, console_user
from crmhub.errors import Conflict, NotFound, Semantic
from crmhub.secrets import digest, new_secret, token

IDLE_MS = 8 * 3600 * 1000
"""The time without use, in ms, after which a session ends."""
LONGEST_MS = 24 * 3600 * 1000
"""The longest life of a session, in ms from its start, however often it is used."""
# A session that expires later than this was started before the clock was set back, and is over.
# Smaller differences between the clocks of hosts are tolerated.
_LATEST_MS = LONGEST_MS + 3600 * 1000
# How often the use of a session is stored.
_SEEN_EVERY_MS = 60 * 1000

_EMAIL = re.compile(r"[^@\s]{1,64}@[^@\s]{1,189}")


@dataclass(frozen=True, slots=True)
class User:
    """A console user; times are in ms since 1970, None for an event that has not happened."""

    user_id: str
    email: str
    created_at: int
    disabled_at: int | None
    last_sign_in_at: int | None


@dataclass(frozen=True, slots=True)
class SignedIn:
    """The user to whom a valid session belongs.

    `stale`: whether the stored time of the session's last use is too old, so that the caller should
    call `note_seen`.
    """

    user_id: str
    email: str
    stale: bool


_user = console_user.c
_IS_USER = _user.id == param("id")
_HAS_EMAIL = _user.email == param("email")
_IS_ENABLED = _user.disabled_at.is_(None)
_SELECT = sa.select(
    _user.id, _user.email, _user.created_at, _user.disabled_at, _user.last_sign_in_at
)
_CREATE = Statement(
    lambda insert: (
        insert(console_user)
        .values(params("id", "email", "password", "created_at"))
        .on_conflict_do_nothing(index_elements=["email"])
    )
)
_LIST = Statement(_SELECT.order_by(_user.email))
_LOAD = Statement(_SELECT.where(_HAS_EMAIL))
_PASSWORD = Statement(sa.select(_user.id, _user.password).where(_HAS_EMAIL, _IS_ENABLED))
_SET_PASSWORD = Statement(sa.update(console_user).where(_IS_USER).values(params("password")))
_DISABLE = Statement(
    sa.update(console_user).where(_IS_USER, _IS_ENABLED).values(params("disabled_at"))
)
_ENABLE = Statement(
    sa.update(console_user).where(_IS_USER, sa.not_(_IS_ENABLED)).values(disabled_at=sa.null())
)


def create(tx: Connection, email: str, password: str) -> User:
    """Store a new user and return it.

    `password` is the password's hash, made by `passwords.to_store`. Raises Semantic if `email` is
    no valid address, and Conflict if another user has this email.
    """
    email = normal(email)
    if not _EMAIL.fullmatch(email) or not email.isprintable():
        raise Semantic(
            f"{email[:100]!r} is not an email address; give one such as ops@example.com."
        )
    user = {"id": f"usr_{token(64)}", "email": email, "password": password, "created_at": now_ms()}
    # ON CONFLICT: on PostgreSQL the error of a unique key would end the transaction.
    if not tx.run(_CREATE, user):
        raise Conflict(f"There is a user {email} already; `crmhub admin user password` changes it.")
    return load(tx, email)


def list_users(db: Connection) -> list[User]:
    """Return all users, including disabled users, ordered by email."""
    return [_user_of(row) for row in db.rows(_LIST)]


def load(db: Connection, email: str) -> User:
    """Return the user with this email; raises NotFound if there is none."""
    row = db.row(_LOAD, {"email": normal(email)})
    if row is None:
        raise NotFound(f"There is no user {email[:100]!r}; `crmhub admin user list` shows them.")
    return _user_of(row)


def _user_of(row: Any) -> User:
    return User(row.id, row.email, row.created_at, row.disabled_at, row.last_sign_in_at)


def stored_password(db: Connection, email: str) -> tuple[str, str] | None:
    """Return (user id, password hash) of the enabled user with this email.

    The result is None if there is no such user or the user is disabled.
    """
    if "\0" in email:
        # PostgreSQL refuses NUL, and no email contains it.
        return None
    row = db.row(_PASSWORD, {"email": normal(email)})
    return None if row is None else (row.id, row.password)


def set_password(tx: Connection, user: User, password: str) -> None:
    """Store a new password hash and delete all sessions of the user.

    `password` is the hash, made by `passwords.to_store`.
    """
    tx.run(_SET_PASSWORD, {"id": user.user_id, "password": password})
    _end_all(tx, user)


def set_disabled(tx: Connection, user: User, disabled: bool) -> bool:
    """Disable the user and delete their sessions, or, if `disabled` is False, enable the user.

    Return False if the user was in this state already.
    """
    if not disabled:
        return tx.run(_ENABLE, {"id": user.user_id}) > 0
    changed = tx.run(_DISABLE, {"id": user.user_id, "disabled_at": now_ms()})
    _end_all(tx, user)
    return changed > 0


def normal(email: str) -> str:
    """Return an email in its stored form: in lower case, without blanks around it."""
    return email.strip().lower()


# --- sessions ----------------------------------------------------------------------------------

_session = console_session.c
_IS_SESSION = _session.digest == param("digest")
_NOTE_SIGN_IN = Statement(
    sa.update(console_user)
    .where(_IS_USER, _user.password == param("password"), _IS_ENABLED)
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
_START = Statement(
    sa.insert(console_session).values(params("digest", "user_id", "seen_at", "ends_at"))
)
_SIGNED_IN = Statement(
    sa.select(_session.user_id, _user.email, _session.seen_at)
    .join_from(console_session, console_user, _user.id == _session.user_id)
    .where(
        _IS_SESSION,
        _session.ends_at > param("now"),
        _session.ends_at <= param("latest"),
        _session.seen_at > param("idle"),
        _IS_ENABLED,
    )
)
_NOTE_SEEN = Statement(sa.update(console_session).where(_IS_SESSION).values(params("seen_at")))
_END = Statement(sa.delete(console_session).where(_IS_SESSION))
_END_ALL = Statement(sa.delete(console_session).where(_session.user_id == param("user_id")))


def start_session(tx: Connection, user_id: str, password: str) -> str | None:
    """Start a console session for a user and return the session's token.

    `password` is the stored password hash that the sign-in was checked against. Returns None if the
    user has been disabled, or has a new password, since that check.
    """
    now = now_ms()
    user = {"id": user_id, "password": password, "last_sign_in_at": now}
    if not tx.run(_NOTE_SIGN_IN, user):
        return None
    tx.run(_DELETE_ENDED, _bounds(now))
    session = new_secret()
    times = {"seen_at": now, "ends_at": now + LONGEST_MS}
    tx.run(_START, {"digest": digest(session), "user_id": user_id} | times)
    return session


def signed_in(db: Connection, session: str) -> SignedIn | None:
    """Return the user of a live session.

    `session` is the session's token. Returns None if the token is unknown, the session has ended or
    the user is disabled.
    """
    now = now_ms()
    row = db.row(_SIGNED_IN, {"digest": digest(session)} | _bounds(now))
    if row is None:
        return None
    return SignedIn(row.user_id, row.email, stale=row.seen_at <= now - _SEEN_EVERY_MS)


def _bounds(now: int) -> dict[str, int]:
    """Return the three times that decide whether a session is still valid at the time `now`.

    All are in ms since 1970. The times are the parameters `now`, `idle` and `latest` of the
    statements on sessions.
    """
    return {"now": now, "idle": now - IDLE_MS, "latest": now + _LATEST_MS}


def note_seen(tx: Connection, session: str) -> None:
    """Store the present time as the last use of the session with this token."""
    tx.run(_NOTE_SEEN, {"digest": digest(session), "seen_at": now_ms()})


def end_session(tx: Connection, session: str) -> None:
    """Delete the session with this token; a session that has ended is no error."""
    tx.run(_END, {"digest": digest(session)})


def _end_all(tx: Connection, user: User) -> None:
    tx.run(_END_ALL, {"user_id": user.user_id})
