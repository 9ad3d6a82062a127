"""Operations on the users and sessions of the console, and on the tokens of the admin API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from crmhub import audit
from crmhub.accounts import admin_tokens, passwords, users
from crmhub.accounts.admin_tokens import IssuedToken
from crmhub.accounts.users import SignedIn, User
from crmhub.audit import SET, Author
from crmhub.database.connection import Connection
from crmhub.database.drivers import Unwritable
from crmhub.errors import TooManyRequests, Unauthorized
from crmhub.hub import Hub, in_transaction
from crmhub.records.search.filters import iso
from crmhub.secrets import derive, new_secret, same, sign


@in_transaction
def create_token(
    hub: Hub,
    tx: Connection,
    name: str,
    *,
    scopes: Sequence[str],
    expires_at: int | None,
    by: Author,
) -> IssuedToken:
    """Create and store a token of the admin API, and return it.

    Without `scopes` the token has all scopes. `expires_at` is in ms since 1970, None for never.
    `by` is the author named in the audit log. Raises Semantic if the name, a scope or the expiry is
    invalid.
    """
    issued = admin_tokens.create(tx, name, scopes=scopes, expires_at=expires_at)
    expiry = None if issued.expires_at is None else iso(issued.expires_at)
    after = {"name": issued.name, "scopes": list(issued.scopes), "expiresAt": expiry}
    audit.note(tx, by, "create", "token", issued.token_id, after=after)
    return issued


@in_transaction
def revoke_token(hub: Hub, tx: Connection, token_id: str, *, by: Author) -> None:
    """Revoke a token of the admin API; a token that is revoked already is left unchanged.

    Raises NotFound if there is no token with this id.
    """
    if admin_tokens.revoke(tx, token_id):
        audit.note(tx, by, "revoke", "token", token_id)


# --- console users -----------------------------------------------------------------------------


def create_user(hub: Hub, email: str, password: str, *, by: Author) -> User:
    """Create a console user with an email and a password, and return the user.

    Raises Semantic if the email or the password is invalid, and Conflict if another user has the
    email.
    """
    return _create_user(hub, email, passwords.to_store(password), by)


@in_transaction
def _create_user(hub: Hub, tx: Connection, email: str, stored_password: str, by: Author) -> User:
    user = users.create(tx, email, stored_password)
    audit.note(tx, by, "create", "user", user.user_id, after={"email": user.email})
    return user


def set_password(hub: Hub, email: str, password: str, *, by: Author) -> None:
    """Set the password of a console user and end the user's sessions.

    Raises NotFound if no user has this email, and Semantic if the password is too short or too
    long.
    """
    _set_password(hub, email, passwords.to_store(password), by)


@in_transaction
def _set_password(hub: Hub, tx: Connection, email: str, stored_password: str, by: Author) -> None:
    user = users.load(tx, email)
    users.set_password(tx, user, stored_password)
    before, after = {"password": SET}, {"password": f"{SET} anew"}
    audit.note(tx, by, "change", "user", user.user_id, before=before, after=after)


@in_transaction
def set_disabled(hub: Hub, tx: Connection, email: str, disabled: bool, *, by: Author) -> None:
    """Disable a console user, or enable the user if `disabled` is False.

    Disabling ends the user's sessions. Raises NotFound if no user has this email.
    """
    user = users.load(tx, email)
    if users.set_disabled(tx, user, disabled):
        before, after = {"disabled": not disabled}, {"disabled": disabled}
        audit.note(tx, by, "change", "user", user.user_id, before=before, after=after)


def list_users(hub: Hub) -> list[User]:
    """Return all console users, including disabled users, ordered by email."""
    with hub.database.reading() as db:
        return users.list_users(db)


# --- sessions ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NewSession:
    """A new session of the console: the user's id and the session's token.

    `device` is a second token, by which later sign-ins of the user recognise the browser.
    """

    user_id: str
    token: str
    device: str


def sign_in(
    hub: Hub, email: str, password: str, *, address: str, device: Callable[[str], str]
) -> NewSession:
    """Start a console session for the user with this email and password.

    `address` is the IP address of the caller. `device` is called with the user's id and returns the
    device token that the browser sent for this user, or "". Raises Unauthorized if the email is
    unknown, the user is disabled or the password is wrong, with the same message and after the same
    time in all cases; TooManyRequests if `Limits.sign_in` refuses the attempt; Unavailable if too
    many passwords are being checked.
    """
    with hub.database.reading() as db:
        stored = users.stored_password(db, email)
    token = device(stored[0]) if stored else ""
    if stored and not same(token, _device_token(hub, *stored, token.partition(".")[0])):
        token = ""
    status = hub.limits.sign_in(address, users.normal(email), token)
    if not status.allowed:
        hint = "" if token else " A browser that you have signed in with before lets you in now."
        raise TooManyRequests(
            f"Too many attempts to sign in; try again in {status.retry_after} s.{hint}",
            retry_after=status.retry_after,
        )
    # Without a user, a password is checked all the same, which takes as long.
    fits = passwords.fits(password, stored[1] if stored else None)
    session = None
    if stored and fits:
        session = hub.database.transact(lambda tx: users.start_session(tx, *stored))
    if stored is None or session is None:
        raise Unauthorized("The email or the password is wrong.")
    return new_session(hub, *stored, session)


def new_session(hub: Hub, user_id: str, stored_password: str, token: str) -> NewSession:
    """Return a session that `accounts.users.start_session` has started, with a new device token.

    `token` is the session's token, and `stored_password` the user's password hash.
    """
    return NewSession(user_id, token, _device_token(hub, user_id, stored_password, new_secret()))


def _device_token(hub: Hub, user_id: str, stored_password: str, name: str) -> str:
    """Return the device token of a user's browser, which has the random name `name`.

    The token is a signature, so the database stores nothing. The token becomes invalid when the
    user's password hash, `stored_password`, changes.
    """
    key = derive(hub.settings.secret_key, "console device")
    return f"{name}.{sign(key, f'{user_id} {stored_password} {name}'.encode()).hex()}"


def signed_in(hub: Hub, session: str) -> SignedIn | None:
    """Return the user of a live session, and store that the session is in use.

    `session` is the session's token. Returns None if the token is unknown, the session has ended or
    the user is disabled.
    """
    with hub.database.reading() as db:
        user = users.signed_in(db, session)
    if user is not None and user.stale:
        # Pages can be read even if nothing can be written.
        with suppress(Unwritable):
            hub.database.transact(lambda tx: users.note_seen(tx, session))
    return user


def sign_out(hub: Hub, session: str) -> None:
    """End the session with this token; a session that has ended already is no error."""
    hub.database.transact(lambda tx: users.end_session(tx, session))
