"""Operations on the users of the console, and on the tokens of the admin API."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from crmhub import audit
from crmhub.accounts import accounts, admin_tokens
from crmhub.accounts.admin_tokens import IssuedToken
from crmhub.audit import SET, Author
from crmhub.database.connection import Connection
from crmhub.errors import Conflict, NotFound, Semantic
from crmhub.hub import Hub, in_transaction
from crmhub.operators.form_versions import require_version, version_of
from crmhub.operators.users.signing_in import note
from crmhub.records.search.filters import iso
from crmhub.translatable import translatable
from crmhub.users import passwords, second_factors, user_links, users
from crmhub.users.user_sessions import SignedIn, end_all
from crmhub.users.users import User

_MOST_ACCOUNTS = 1_000


@in_transaction
def create_token(
    hub: Hub,
    tx: Connection,
    name: str,
    *,
    by: Author,
    scopes: Sequence[str] = (),
    expires_at: int | None = None,
) -> IssuedToken:
    """Create a token; without `scopes` it has all. `expires_at`: ms since 1970. Raises Semantic."""
    issued = admin_tokens.create(tx, name, scopes=scopes, expires_at=expires_at)
    expiry = None if issued.expires_at is None else iso(issued.expires_at)
    after = {"name": issued.name, "scopes": list(issued.scopes), "expiresAt": expiry}
    audit.note(tx, by, "create", "token", issued.token_id, after=after)
    return issued


def list_tokens(hub: Hub) -> list[Any]:
    with hub.database.reading() as db:
        return admin_tokens.list_tokens(db)


@in_transaction
def revoke_token(hub: Hub, tx: Connection, token_id: str, *, by: Author) -> None:
    """Unless it is revoked already; raises NotFound."""
    if admin_tokens.revoke(tx, token_id):
        audit.note(tx, by, "revoke", "token", token_id)


# --- console users -----------------------------------------------------------------------------


def create_user(
    hub: Hub,
    email: str,
    password: str,
    *,
    role: str = "owner",
    client_ids: Collection[str] | None = None,
    by: Author,
) -> User:
    """Create a user; `client_ids` None: all accounts. Raises Semantic and Conflict."""
    stored = passwords.to_store(password)

    def store(tx: Connection) -> User:
        ids = _account_ids(hub, tx, client_ids)
        user = users.create(tx, email, stored, role=role, accounts=ids)
        note(tx, user, "create", after={"email": user.email, **_access(tx, user)}, by=by)
        return user

    return hub.database.transact(store)


@in_transaction
def set_preferences(
    hub: Hub, tx: Connection, user: SignedIn, time_zone: str, language: str, *, by: Author
) -> None:
    """`time_zone`: an IANA name, `language`: "en", "es" or "pt"; "" for the browser's.

    Raises Semantic for an unknown one.
    """
    users.set_preferences(tx, user.user_id, time_zone, language)
    was = {"timeZone": user.time_zone, "language": user.language}
    became = {"timeZone": time_zone, "language": language}
    note(tx, users.load_by_id(tx, user.user_id), "change", before=was, after=became, by=by)


@in_transaction
def hide_first_steps(hub: Hub, tx: Connection, user_id: str, hidden: bool) -> None:
    users.hide_first_steps(tx, user_id, hidden)


@in_transaction
def invite(
    hub: Hub,
    tx: Connection,
    email: str,
    *,
    role: str,
    client_ids: Collection[str] | None = None,
    by: Author,
) -> str:
    """Return the token of a one-time link that lets the person join.

    A person who was invited before and has not joined gets the new role, accounts and link. Raises
    Semantic if a value is invalid, and Conflict if there is a user with the email.
    """
    ids, until = _account_ids(hub, tx, client_ids), user_links.expiry("invitation")
    try:
        user = users.load(tx, email)
    except NotFound:
        user = users.create(tx, email, "", role=role, accounts=ids, invited_until=until)
    else:
        if user.invited_until is None or user.disabled_at is not None:
            raise Conflict("There is a user %(email)s already.", field="email", email=user.email)
        users.set_role(tx, user, role, ids)
        users.set_invited(tx, user, until)
        user = users.load_by_id(tx, user.user_id)
    note(tx, user, "invite", after={"email": user.email, **_access(tx, user)}, by=by)
    return user_links.create(tx, user.user_id, "invitation", until)


@in_transaction
def create_link(hub: Hub, tx: Connection, email: str, *, by: Author) -> str:
    """Return the token of a one-time link by which a user sets a new password.

    The user's sessions end now, and once more when the link is used. A user who has not joined yet
    gets a new invitation. Raises NotFound, and Conflict if the user is disabled.
    """
    user = users.load(tx, email)
    if user.disabled_at is not None:
        raise Conflict("%(email)s is disabled; enable the user first.", email=user.email)
    if user.invited_until is not None:
        until = user_links.expiry("invitation")
        users.set_invited(tx, user, until)
        note(tx, user, "invite", after=_access(tx, user), by=by)
        return user_links.create(tx, user.user_id, "invitation", until)
    end_all(tx, user.user_id)
    note(tx, user, "reset", after={"password": "link"}, by=by)
    return user_links.create(tx, user.user_id, "reset", user_links.expiry("reset"))


def find_link(hub: Hub, token: str) -> Any:
    """Return the row of the link, as `user_links.find` does; raises NotFound."""
    with hub.database.reading() as db:
        link = user_links.find(db, token)
    if link is None:
        raise _invalid_link()
    return link


def use_link(hub: Hub, token: str, password: str) -> str:
    """Set the password; return the user's email. Raises Semantic, and NotFound if the link is
    invalid.
    """
    # Before the hash, which takes half a second.
    find_link(hub, token)
    stored = passwords.to_store(password)

    def use(tx: Connection) -> str:
        link = user_links.find(tx, token)
        if link is None or not user_links.use(tx, token):
            raise _invalid_link()
        _store_password(tx, users.load_by_id(tx, link.user_id), stored, None)
        return str(link.email)

    return hub.database.transact(use)


def _invalid_link() -> NotFound:
    return NotFound("This link has expired or was used. Ask an owner for a new one.")


def repeated(password: str, again: str) -> str:
    if password != again:
        raise Semantic("The two passwords differ. Enter the new password twice.", field="again")
    return password


def set_password(hub: Hub, email: str, password: str, *, by: Author) -> None:
    """Also end the user's sessions; raises NotFound and Semantic."""
    stored = passwords.to_store(password)
    hub.database.transact(lambda tx: _store_password(tx, users.load(tx, email), stored, by))


def _store_password(tx: Connection, user: User, stored_password: str, by: Author | None) -> None:
    users.set_password(tx, user, stored_password)
    user_links.delete(tx, user.user_id)
    note(tx, user, "change", {"password": SET}, {"password": f"{SET} anew"}, by=by)


def access_version(user: User) -> str:
    return version_of([user.role, None if user.accounts is None else sorted(user.accounts)])


@in_transaction
def set_role(
    hub: Hub,
    tx: Connection,
    email: str,
    role: str,
    client_ids: Collection[str] | None,
    *,
    by: Author,
    expected: str | None = None,
) -> None:
    """Set the role and the accounts (None: all) of a user, and end the user's sessions.

    `expected`: the `access_version` that the caller saw; None skips this comparison. Raises
    NotFound, Semantic, and Conflict for the last owner or if `expected` differs.
    """
    user = users.load(tx, email, lock=True)
    require_version(
        access_version(user), expected, translatable("The access of %(email)s was", email=email)
    )
    ids = _account_ids(hub, tx, client_ids)
    if (user.role, user.accounts) == (role, ids):
        return
    users.set_role(tx, user, role, ids)
    after = _access(tx, users.load_by_id(tx, user.user_id))
    note(tx, user, "change", _access(tx, user), after, by=by)


@in_transaction
def set_disabled(hub: Hub, tx: Connection, email: str, disabled: bool, *, by: Author) -> None:
    """Raises NotFound, and Conflict for the last owner."""
    user = users.load(tx, email)
    if users.set_disabled(tx, user, disabled):
        user_links.delete(tx, user.user_id)
        note(tx, user, "change", {"disabled": not disabled}, {"disabled": disabled}, by=by)


@in_transaction
def remove_user(hub: Hub, tx: Connection, email: str, *, by: Author) -> None:
    """Raises NotFound, and Conflict for the last owner."""
    user = users.load(tx, email)
    before = {"email": user.email, **_access(tx, user)}
    if users.remove(tx, user):
        note(tx, user, "remove", before, by=by)


@in_transaction
def reset_second_factor(hub: Hub, tx: Connection, email: str, *, by: Author) -> None:
    """Also end the user's sessions; raises NotFound."""
    user = users.load(tx, email)
    if user.has_second_factor:
        second_factors.turn_off(tx, user.user_id)
        end_all(tx, user.user_id)
        note(tx, user, "reset", after={"secondFactor": "off"}, by=by)


def list_users(hub: Hub) -> list[User]:
    with hub.database.reading() as db:
        return users.list_users(db)


def load_user(hub: Hub, user_id: str) -> User:
    with hub.database.reading() as db:
        return users.load_by_id(db, user_id)


def client_ids_of(hub: Hub, several: Collection[User]) -> dict[int, str]:
    ids = {id for user in several for id in user.accounts or ()}
    with hub.database.reading() as db:
        return accounts.client_ids_by_id(db, ids)


def _account_ids(
    hub: Hub, db: Connection, client_ids: Collection[str] | None
) -> frozenset[int] | None:
    if client_ids is None:
        return None
    if not 0 < len(client_ids) <= _MOST_ACCOUNTS:
        raise Semantic(
            "accounts: choose 1 to %(most)s accounts, or all accounts.", most=_MOST_ACCOUNTS
        )
    try:
        return frozenset(accounts.load(db, one, hub.plans).id for one in client_ids)
    except NotFound as exc:
        raise Semantic("accounts: %(reason)s", reason=exc.message) from exc


def _access(db: Connection, user: User) -> Mapping[str, Any]:
    if user.accounts is None:
        return {"role": user.role, "accounts": "all"}
    shown = accounts.client_ids_by_id(db, user.accounts)
    return {"role": user.role, "accounts": list(shown.values())}
