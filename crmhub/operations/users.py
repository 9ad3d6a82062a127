"""Who may use the console: made and changed with an entry in the audit log, and let in."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from crmhub import audit
from crmhub.accounts import passwords, users
from crmhub.accounts.users import SignedIn, User
from crmhub.audit import SET, Author
from crmhub.database.connection import Connection
from crmhub.database.drivers import Unwritable
from crmhub.errors import TooManyRequests, Unauthorized
from crmhub.hub import Hub
from crmhub.secrets import derive, new_secret, same, sign


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


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session that has begun: its token, and the one by which the browser is known later."""

    user_id: str
    token: str
    device: str


def sign_in(
    hub: Hub, email: str, password: str, *, address: str, device: Callable[[str], str]
) -> NewSession:
    """Begin a session.

    `device` returns the device token that the browser has for a user's id, "" for none. Raises
    Unauthorized in the same words, after as long, whatever does not fit; TooManyRequests after many
    attempts, by the rule of `Limits.sign_in`; Unavailable.
    """
    with hub.database.reading() as db:
        found = users.stored_password(db, email)
    known = device(found[0]) if found else ""
    if found and not same(known, _device_token(hub, *found, known.partition(".")[0])):
        known = ""
    status = hub.limits.sign_in(address, users.normal(email), known)
    if not status.allowed:
        other = "" if known else " A browser that you have signed in with before lets you in now."
        raise TooManyRequests(
            f"Too many attempts to sign in; try again in {status.retry_after} s.{other}",
            retry_after=status.retry_after,
        )
    fits = passwords.fits(password, found[1] if found else None)
    session = None
    if found and fits:
        session = hub.database.transact(lambda tx: users.start_session(tx, *found))
    if found is None or session is None:
        raise Unauthorized("The email or the password is wrong.")
    return NewSession(found[0], session, _device_token(hub, *found, new_secret()))


def _device_token(hub: Hub, user_id: str, password: str, name: str) -> str:
    """Return the token of the browser `name` of a user, good until their password is another one.

    `password` is the stored one. Nothing of the token is stored.
    """
    key = derive(hub.settings.secret_key, "console device")
    return f"{name}.{sign(key, f'{user_id} {password} {name}'.encode()).hex()}"


def signed_in(hub: Hub, session: str) -> SignedIn | None:
    """Return whose live session this is, if anybody's, and note that it is in use."""
    with hub.database.reading() as db:
        known = users.signed_in(db, session)
    if known is not None and known.stale:
        # The pages can be read, also where nothing can be written.
        with suppress(Unwritable):
            hub.database.transact(lambda tx: users.note_seen(tx, session))
    return known


def sign_out(hub: Hub, session: str) -> None:
    """End a session; again is no error."""
    hub.database.transact(lambda tx: users.end_session(tx, session))
