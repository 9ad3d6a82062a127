"""Who may use the console: made and changed with an entry in the audit log, and let in."""

from __future__ import annotations

from crmhub import audit
from crmhub.accounts import passwords, users
from crmhub.accounts.users import SignedIn, User
from crmhub.actions.hub import Hub
from crmhub.audit import SET, Author
from crmhub.db import Connection
from crmhub.errors import TooManyRequests, Unauthorized


def create_user(hub: Hub, email: str, password: str, *, by: Author) -> User:
    """Let somebody use the console; return them. Raises Semantic and Conflict."""
    stored = passwords.to_store(password)

    def work(tx: Connection) -> User:
        user = users.create(tx, email, stored)
        audit.note(tx, by, "create", "user", user.user_id, after={"email": user.email})
        return user

    return hub.database.transact(work)


def set_password(hub: Hub, email: str, password: str, *, by: Author) -> None:
    """Give a user another password, which ends their sessions; raises NotFound and Semantic."""
    stored = passwords.to_store(password)

    def work(tx: Connection) -> None:
        user = users.load(tx, email)
        users.set_password(tx, user, stored)
        was, became = {"password": SET}, {"password": f"{SET} anew"}
        audit.note(tx, by, "change", "user", user.user_id, before=was, after=became)

    hub.database.transact(work)


def set_disabled(hub: Hub, email: str, disabled: bool, *, by: Author) -> None:
    """Shut a user out, whose sessions end, or let them in again; raises NotFound."""

    def work(tx: Connection) -> None:
        user = users.load(tx, email)
        if users.set_disabled(tx, user, disabled):
            was, became = {"disabled": not disabled}, {"disabled": disabled}
            audit.note(tx, by, "change", "user", user.user_id, before=was, after=became)

    hub.database.transact(work)


def list_users(hub: Hub) -> list[User]:
    """Return all users, disabled ones too."""
    with hub.database.reading() as db:
        return users.list_users(db)


# --- coming and going --------------------------------------------------------------------------


def sign_in(hub: Hub, email: str, password: str, *, address: str) -> str:
    """Return the token of a new session.

    Raises Unauthorized in the same words, after as long, whatever does not fit; TooManyRequests
    after many tries from one address or with one email; Unavailable.
    """
    status = hub.limits.sign_in(address, users.normal(email))
    if not status.allowed:
        raise TooManyRequests(
            f"Too many tries to sign in; try again in {status.retry_after} s.",
            retry_after=status.retry_after,
        )
    with hub.database.reading() as db:
        found = users.stored_password(db, email)
    fits = passwords.fits(password, found[1] if found else None)
    session = None
    if found and fits:
        session = hub.database.transact(lambda tx: users.start_session(tx, *found))
    if session is None:
        raise Unauthorized("The email or the password is wrong.")
    return session


def signed_in(hub: Hub, session: str) -> SignedIn | None:
    """Return whose live session this is, if anybody's, and note that it is in use."""
    with hub.database.reading() as db:
        known = users.signed_in(db, session)
    if known is not None and known.stale:
        hub.database.transact(lambda tx: users.note_seen(tx, session))
    return known


def sign_out(hub: Hub, session: str) -> None:
    """End a session; again is no error."""
    hub.database.transact(lambda tx: users.end_session(tx, session))
