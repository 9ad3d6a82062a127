"""Console users, with their roles and accounts.

The last owner who can sign in cannot be removed, disabled or demoted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from crmhub.database.connection import Connection, now_ms
from crmhub.database.rows import delete_where, set_where
from crmhub.database.statements import Statement, param, params
from crmhub.database.tables import console_user
from crmhub.errors import Conflict, NotFound, Semantic
from crmhub.periods import parse_zone
from crmhub.secrets import token
from crmhub.translatable import translatable
from crmhub.users.roles import Role, parse_accounts, parse_role
from crmhub.users.user_sessions import end_all

LANGUAGES = ("en", "es", "pt")
"""The languages of the console."""
_EMAIL = re.compile(r"[^@\s]{1,64}@[^@\s]{1,189}")


@dataclass(frozen=True, slots=True)
class User:
    """Times are in ms since 1970. `accounts` None: all. `invited_until` None: joined."""

    user_id: str
    email: str
    role: Role
    accounts: frozenset[int] | None
    created_at: int
    disabled_at: int | None
    invited_until: int | None
    last_sign_in_at: int | None
    has_password: bool
    has_second_factor: bool


@dataclass(frozen=True, slots=True)
class Login:
    """Of an enabled user. `password` is the stored hash, `totp` is sealed; "" for none."""

    user_id: str
    email: str
    password: str = field(repr=False)
    totp: str = field(repr=False)
    invited_until: int | None


_user = console_user.c
_IS_USER = _user.id == param("id")
_HAS_EMAIL = _user.email == param("email")
_IS_ENABLED = _user.disabled_at.is_(None)
_SELECT = sa.select(
    _user.id.label("user_id"),
    _user.email,
    _user.role,
    _user.accounts,
    _user.created_at,
    _user.disabled_at,
    _user.invited_until,
    _user.last_sign_in_at,
    (_user.password != "").label("has_password"),
    (_user.totp != "").label("has_second_factor"),
)
_SELECT_LOGIN = sa.select(
    _user.id, _user.email, _user.password, _user.totp, _user.invited_until
).where(_IS_ENABLED)
_CREATE = Statement(
    lambda insert: (
        insert(console_user)
        .values(
            params("id", "email", "password", "role", "accounts", "invited_until", "created_at")
        )
        .on_conflict_do_nothing(index_elements=["email"])
    )
)
_LIST = Statement(_SELECT.order_by(_user.email))
_LOAD = Statement(_SELECT.where(_HAS_EMAIL))
_LOCK = Statement(_SELECT.where(_HAS_EMAIL).with_for_update())
_LOAD_BY_ID = Statement(_SELECT.where(_IS_USER))
_LOGIN = Statement(_SELECT_LOGIN.where(_HAS_EMAIL))
_LOGIN_BY_ID = Statement(_SELECT_LOGIN.where(_IS_USER))
# Locked in the order of the ids, so that of two transactions the later one sees what the earlier
# one has changed.
_ACTIVE_OWNERS = Statement(
    sa.select(_user.id)
    .where(_user.role == "owner", _IS_ENABLED, _user.invited_until.is_(None))
    .order_by(_user.id)
    .with_for_update()
)
_JOIN = Statement(
    sa.update(console_user)
    .where(_IS_USER, _user.invited_until > param("now"))
    .values(invited_until=sa.null())
)
_ENABLE = Statement(
    sa.update(console_user)
    .where(_IS_USER, _user.disabled_at.is_not(None))
    .values(disabled_at=sa.null())
)
_DISABLE = Statement(
    sa.update(console_user).where(_IS_USER, _IS_ENABLED).values(params("disabled_at"))
)


def create(
    tx: Connection,
    email: str,
    password: str,
    *,
    role: str = "owner",
    accounts: Collection[int] | None = None,
    invited_until: int | None = None,
) -> User:
    """`password` is a hash by `passwords.to_store`, "" for none.

    `invited_until`: None for a user who may sign in now. Raises Semantic if a value is invalid, and
    Conflict if another user has this email.
    """
    email = normal(email)
    if not _EMAIL.fullmatch(email) or not email.isprintable():
        raise Semantic(
            "%(email)s is not an email address; give one such as ops@example.com.",
            field="email",
            email=repr(email[:100]),
        )
    user = {
        "id": f"usr_{token(64)}",
        "email": email,
        "password": password,
        **_role_to_store(role, accounts),
        "invited_until": invited_until,
        "created_at": now_ms(),
    }
    # ON CONFLICT: on PostgreSQL the error of a unique key would end the transaction.
    if not tx.run(_CREATE, user):
        raise Conflict(
            "There is a user %(email)s already; `crmhub admin user list` shows them.",
            fields=[("email", translatable("There is a user %(email)s already.", email=email))],
            email=email,
        )
    return load(tx, email)


def _role_to_store(role: str, accounts: Collection[int] | None) -> dict[str, str | None]:
    if parse_role(role) == "owner" and accounts is not None:
        raise Semantic(
            "An owner sees all accounts; choose another role to limit the accounts.", field="role"
        )
    stored = None if accounts is None else json.dumps(sorted(set(accounts)))
    return {"role": role, "accounts": stored}


def list_users(db: Connection) -> list[User]:
    return [_user_of(row) for row in db.rows(_LIST)]


def load(db: Connection, email: str, *, lock: bool = False) -> User:
    """With `lock`, locked. Raises NotFound."""
    row = _row(db, _LOCK if lock else _LOAD, email=normal(email))
    if row is None:
        raise NotFound(
            "There is no user %(email)s; `crmhub admin user list` shows them.",
            email=repr(email[:100]),
        )
    return _user_of(row)


def load_by_id(db: Connection, user_id: str) -> User:
    row = _row(db, _LOAD_BY_ID, id=user_id)
    if row is None:
        raise NotFound("There is no user %(user_id)s.", user_id=repr(user_id[:60]))
    return _user_of(row)


def _row(db: Connection, statement: Statement, **key: str) -> Any:
    # PostgreSQL refuses NUL, and no email or id contains it.
    return None if "\0" in "".join(key.values()) else db.row(statement, key)


def _user_of(row: Any) -> User:
    values = row._asdict() | {"accounts": parse_accounts(row.accounts)}
    flags = {name: bool(values[name]) for name in ("has_password", "has_second_factor")}
    return User(**values | flags)


def login(db: Connection, email: str) -> Login | None:
    row = _row(db, _LOGIN, email=normal(email))
    return None if row is None else Login(*row)


def login_by_id(db: Connection, user_id: str) -> Login | None:
    row = _row(db, _LOGIN_BY_ID, id=user_id)
    return None if row is None else Login(*row)


def set_password(tx: Connection, user: User, password: str) -> None:
    """Also delete all sessions of the user; an invited user has joined."""
    set_where(tx, console_user, {"id": user.user_id}, password=password, invited_until=None)
    end_all(tx, user.user_id)


def set_role(
    tx: Connection, user: User, role: str, accounts: Collection[int] | None = None
) -> None:
    """Also delete all sessions of the user; `accounts` None: all.

    Raises Semantic for an unknown role or an owner with a list of accounts, and Conflict for the
    last owner.
    """
    stored = _role_to_store(role, accounts)
    if role != "owner":
        _keep_an_owner(tx, user)
    set_where(tx, console_user, {"id": user.user_id}, **stored)
    end_all(tx, user.user_id)


def set_preferences(tx: Connection, user_id: str, time_zone: str, language: str) -> None:
    """`time_zone`: an IANA name, `language`: of LANGUAGES; "" for the browser's.

    Raises Semantic for an unknown one.
    """
    if time_zone:
        try:
            parse_zone(time_zone)
        except ValueError as exc:
            raise Semantic("%(reason)s.", field="timeZone", reason=str(exc)) from None
    if language and language not in LANGUAGES:
        raise Semantic(
            "language: Give one of %(languages)s.", field="language", languages=", ".join(LANGUAGES)
        )
    set_where(tx, console_user, {"id": user_id}, time_zone=time_zone, language=language)


def hide_first_steps(tx: Connection, user_id: str, hidden: bool) -> None:
    set_where(tx, console_user, {"id": user_id}, hides_first_steps=hidden)


def set_invited(tx: Connection, user: User, until: int) -> None:
    set_where(tx, console_user, {"id": user.user_id}, invited_until=until)


def join(tx: Connection, user_id: str) -> bool:
    """Return False if the invitation has expired or was used."""
    return tx.run(_JOIN, {"id": user_id, "now": now_ms()}) > 0


def set_disabled(tx: Connection, user: User, disabled: bool) -> bool:
    """Return whether this changed; sessions end. Raises Conflict for the last owner."""
    if not disabled:
        return tx.run(_ENABLE, {"id": user.user_id}) > 0
    _keep_an_owner(tx, user)
    changed = tx.run(_DISABLE, {"id": user.user_id, "disabled_at": now_ms()})
    end_all(tx, user.user_id)
    return changed > 0


def remove(tx: Connection, user: User) -> bool:
    """With sessions and links; raises Conflict for the last owner."""
    _keep_an_owner(tx, user)
    return delete_where(tx, console_user, {"id": user.user_id}) > 0


def _keep_an_owner(tx: Connection, user: User) -> None:
    """Raise Conflict for the last owner; other transactions wait here until this one ends."""
    owners = [row.id for row in tx.rows(_ACTIVE_OWNERS)]
    if owners == [user.user_id]:
        raise Conflict(
            "%(email)s is the last owner. Make another user an owner first: somebody"
            " must be able to manage users.",
            email=user.email,
        )


def normal(email: str) -> str:
    return email.strip().lower()
