"""Issue the one-time link by which a person creates their console user, and create that user."""

from __future__ import annotations

from dataclasses import dataclass

from crmhub.audit import Author
from crmhub.database.connection import Connection, now_ms
from crmhub.errors import NotFound, Semantic
from crmhub.hub import Hub, in_transaction
from crmhub.operators.users.signing_in import NewSession, note, start_session
from crmhub.users import passwords, user_links, users

PATH = "/console/setup"
"""The path of the page that the link opens; the token follows it."""
DEFAULT_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class IssuedLink:
    """`path` contains the token; `expires_at` is in ms since 1970."""

    path: str
    expires_at: int


@in_transaction
def issue_first(hub: Hub, tx: Connection, *, by: Author) -> IssuedLink | None:
    """Issue a link, valid for a day, that creates the first user; None if there is a user."""
    if user_links.has_users(tx):
        return None
    return _issue(tx, now_ms() + DEFAULT_MS, by, first_only=True)


@in_transaction
def issue(hub: Hub, tx: Connection, *, expires_at: int, by: Author) -> IssuedLink:
    """Also if there are users. Raises Semantic if it ends in the past or more than 7 days ahead."""
    if not 0 < expires_at - now_ms() <= user_links.LONGEST_MS:
        raise Semantic("expires: the link can be valid for at most 7 days from now.")
    return _issue(tx, expires_at, by, first_only=False)


def _issue(tx: Connection, expires_at: int, by: Author, *, first_only: bool) -> IssuedLink:
    token = user_links.issue_setup(tx, ends_at=expires_at, first_only=first_only, issued_by=by.name)
    return IssuedLink(f"{PATH}/{token}", expires_at)


def check_link(hub: Hub, token: str) -> None:
    with hub.database.reading() as db:
        if user_links.find_setup(db, token) is None:
            raise _no_link()


def create_user(hub: Hub, token: str, email: str, password: str) -> NewSession:
    """Create an owner, and start a session.

    Raises NotFound if the link does not work, Semantic for an invalid value, and Conflict for an
    email in use. After Semantic and Conflict the link still works.
    """
    # First, because hashing a password takes half a second, which strangers must not cause.
    check_link(hub, token)
    return _create_user(hub, token, email, passwords.to_store(password))


@in_transaction
def _create_user(
    hub: Hub, tx: Connection, token: str, email: str, stored_password: str
) -> NewSession:
    issued_by = user_links.use_setup(tx, token)
    if issued_by is None:
        raise _no_link()
    user = users.create(tx, email, stored_password)
    after = {"email": user.email, "role": user.role, "linkIssuedBy": issued_by}
    note(tx, user, "create", after=after)
    login = users.login_by_id(tx, user.user_id)
    session = start_session(hub, tx, login) if login else None
    assert session is not None, "the user was created in this transaction"
    return session


def _no_link() -> NotFound:
    return NotFound(
        "This link was used already, has expired, or was replaced by a newer link."
        " `crmhub admin user link` prints a new one."
    )
