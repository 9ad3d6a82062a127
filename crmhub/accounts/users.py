"""Who may use the console: people with an email and a password, and their sessions.

Of a session only the digest of its token is stored. What ends a person's access (a new password,
being disabled) deletes their sessions, and each request looks its session up: so it counts at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from crmhub.database.connection import Connection, now_ms
from crmhub.errors import Conflict, NotFound, Semantic
from crmhub.secrets import digest, new_secret, token

IDLE_MS = 8 * 3600 * 1000
"""A session that is not used for so long ends."""
LONGEST_MS = 24 * 3600 * 1000
"""Each session ends after so long."""
# A session that ends later than this after now began before the clock was set back, and is over:
# by as much a clock may be set back, or that of another host differ, without anybody noticing.
_LATEST_MS = LONGEST_MS + 3600 * 1000
# A session that is in use is written to so seldom.
_SEEN_EVERY_MS = 60 * 1000

_EMAIL = re.compile(r"[^@\s]{1,64}@[^@\s]{1,189}")


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who may use the console; times in ms, None for never."""

    user_id: str
    email: str
    created_at: int
    disabled_at: int | None
    last_sign_in_at: int | None


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Whose session it is; `stale` when it should be noted that it is in use."""

    user_id: str
    email: str
    stale: bool


_COLUMNS = "id, email, created_at, disabled_at, last_sign_in_at"


def create(tx: Connection, email: str, password: str) -> User:
    """Store a new user, `password` as `passwords.to_store` made it; return them.

    Raises Semantic for what is no email, and Conflict when there is one with this email.
    """
    email = normal(email)
    if not _EMAIL.fullmatch(email) or not email.isprintable():
        raise Semantic(
            f"{email[:100]!r} is not an email address; give one such as ops@example.com."
        )
    of = {"id": f"usr_{token(64)}", "email": email, "password": password, "now": now_ms()}
    # Not left to the unique key: on PostgreSQL its error would end the transaction.
    made = tx.run(
        "insert into console_user (id, email, password, created_at)"
        " values (:id, :email, :password, :now) on conflict (email) do nothing",
        of,
    )
    if not made:
        raise Conflict(f"There is a user {email} already; `crmhub admin user password` changes it.")
    return load(tx, email)


def list_users(db: Connection) -> list[User]:
    """Return all users, disabled ones too, by their email."""
    return [User(*row) for row in db.rows(f"select {_COLUMNS} from console_user order by email")]


def load(db: Connection, email: str) -> User:
    """Return the user with this email; raises NotFound."""
    row = db.row(
        f"select {_COLUMNS} from console_user where email = :email", {"email": normal(email)}
    )
    if row is None:
        raise NotFound(f"There is no user {email[:100]!r}; `crmhub admin user list` shows them.")
    return User(*row)


def stored_password(db: Connection, email: str) -> tuple[str, str] | None:
    """Return id and stored password of the user with this email who may sign in, if any."""
    if "\0" in email:
        # PostgreSQL takes no NUL, and no email holds one.
        return None
    row = db.row(
        "select id, password from console_user where email = :email and disabled_at is null",
        {"email": normal(email)},
    )
    return None if row is None else (row[0], row[1])


def set_password(tx: Connection, user: User, password: str) -> None:
    """Store another password, as `passwords.to_store` made it, and end the user's sessions."""
    of = {"id": user.user_id, "password": password}
    tx.run("update console_user set password = :password where id = :id", of)
    _end_all(tx, user)


def set_disabled(tx: Connection, user: User, disabled: bool) -> bool:
    """Let the user in no more, whose sessions end, or again; return whether that is new."""
    changed = tx.run(
        "update console_user set disabled_at = :at where id = :id"
        f" and disabled_at is {'null' if disabled else 'not null'}",
        {"id": user.user_id, "at": now_ms() if disabled else None},
    )
    if disabled:
        _end_all(tx, user)
    return changed > 0


def normal(email: str) -> str:
    """Return an email as it is stored."""
    return email.strip().lower()


# --- sessions ----------------------------------------------------------------------------------


def start_session(tx: Connection, user_id: str, password: str) -> str | None:
    """Return the token of a new session; None when the user was disabled or changed meanwhile.

    `password` is the stored one that was found to fit.
    """
    now = now_ms()
    let_in = tx.run(
        "update console_user set last_sign_in_at = :now"
        " where id = :id and password = :password and disabled_at is null",
        {"id": user_id, "password": password, "now": now},
    )
    if not let_in:
        return None
    tx.run(
        "delete from console_session"
        " where ends_at <= :now or seen_at <= :idle or ends_at > :latest",
        {"now": now, "idle": now - IDLE_MS, "latest": now + _LATEST_MS},
    )
    session = new_secret()
    tx.run(
        "insert into console_session (digest, user_id, seen_at, ends_at)"
        " values (:digest, :user, :now, :end)",
        {"digest": digest(session), "user": user_id, "now": now, "end": now + LONGEST_MS},
    )
    return session


def signed_in(db: Connection, session: str) -> SignedIn | None:
    """Return whose live session this is, if anybody's."""
    now = now_ms()
    row = db.row(
        "select u.id, u.email, s.seen_at from console_session s"
        " join console_user u on u.id = s.user_id where s.digest = :digest"
        " and s.ends_at > :now and s.ends_at <= :latest and s.seen_at > :idle"
        " and u.disabled_at is null",
        {
            "digest": digest(session),
            "now": now,
            "idle": now - IDLE_MS,
            "latest": now + _LATEST_MS,
        },
    )
    return None if row is None else SignedIn(row[0], row[1], row[2] <= now - _SEEN_EVERY_MS)


def note_seen(tx: Connection, session: str) -> None:
    """Store that the session is in use."""
    of = {"digest": digest(session), "now": now_ms()}
    tx.run("update console_session set seen_at = :now where digest = :digest", of)


def end_session(tx: Connection, session: str) -> None:
    """End a session; again is no error."""
    tx.run("delete from console_session where digest = :digest", {"digest": digest(session)})


def _end_all(tx: Connection, user: User) -> None:
    tx.run("delete from console_session where user_id = :id", {"id": user.user_id})
