"""Operations on the second factor of a console user, by the user themselves."""

from __future__ import annotations

from dataclasses import dataclass, field

from crmhub.database.connection import Connection
from crmhub.errors import Conflict, Semantic, Unauthorized
from crmhub.hub import Hub, in_transaction
from crmhub.operators.users.signing_in import accept_code, note, require_allowed
from crmhub.secrets import SealBroken
from crmhub.users import second_factors, users
from crmhub.users.users import Login


@dataclass(frozen=True, slots=True)
class NewSecret:
    """`uri` is the form for QR codes; `sealed` is for the page's form."""

    secret: str = field(repr=False)
    uri: str = field(repr=False)
    sealed: str = field(repr=False)


def new_secret(hub: Hub, user_id: str, email: str, *, sealed: str = "") -> NewSecret:
    """Without `sealed`, a new one; nothing is stored.

    Raises Semantic if `sealed` was not made by this hub for this user.
    """
    secret = _open(hub, user_id, sealed) if sealed else second_factors.new_secret()
    kept = sealed or hub.vault.seal(secret, account_id=0, column=_column(user_id))
    return NewSecret(secret, second_factors.uri(secret, email), kept)


def turn_on(hub: Hub, user_id: str, sealed: str, code: str) -> list[str]:
    """Return the user's recovery codes.

    Raises Semantic for a wrong code, Conflict if it is on already, and TooManyRequests.
    """
    secret = _open(hub, user_id, sealed)
    _limit(hub, user_id)
    step = second_factors.matching_step(secret, code)
    if step is None:
        raise Semantic(
            "The code is wrong. Check the clock of your phone, and enter the next code.",
            field="code",
        )

    def store(tx: Connection) -> list[str]:
        login = _login(tx, user_id)
        if login.totp:
            raise Conflict("The second factor is on already.")
        note(tx, login, "change", {"secondFactor": False}, {"secondFactor": True})
        return second_factors.turn_on(tx, hub.vault, user_id, secret, step)

    return hub.database.transact(store)


def turn_off(hub: Hub, user_id: str, code: str) -> None:
    """Turn off a user's second factor; raises Semantic for a wrong code, and TooManyRequests."""
    _limit(hub, user_id)
    _turn_off(hub, user_id, code)


@in_transaction
def _turn_off(hub: Hub, tx: Connection, user_id: str, code: str) -> None:
    login = _require_code(hub, tx, user_id, code)
    second_factors.turn_off(tx, user_id)
    note(tx, login, "change", {"secondFactor": True}, {"secondFactor": False})


def new_recovery_codes(hub: Hub, user_id: str, code: str) -> list[str]:
    """Replace a user's recovery codes; raises Semantic for a wrong code, and TooManyRequests."""
    _limit(hub, user_id)

    def replace(tx: Connection) -> list[str]:
        login = _require_code(hub, tx, user_id, code)
        note(tx, login, "reset", after={"recoveryCodes": "new"})
        return second_factors.replace_recovery_codes(tx, user_id)

    return hub.database.transact(replace)


def count_recovery_codes(hub: Hub, user_id: str) -> int:
    with hub.database.reading() as db:
        return second_factors.count_recovery_codes(db, user_id)


def _require_code(hub: Hub, tx: Connection, user_id: str, code: str) -> Login:
    login = _login(tx, user_id)
    if not login.totp:
        raise Conflict("The second factor is off already.")
    if not accept_code(hub, tx, login, code):
        raise Semantic(
            "The code is wrong, or was used before. Wait for the next code.", field="code"
        )
    return login


def _login(db: Connection, user_id: str) -> Login:
    login = users.login_by_id(db, user_id)
    if login is None:
        raise Unauthorized("This user may not sign in any more.")
    return login


def _limit(hub: Hub, user_id: str) -> None:
    # A signed-in user has a limit of their own: others cannot use it up.
    status = hub.limits.second_factor(user_id, f"session of {user_id}")
    require_allowed(status, "Too many codes were tried")


def _column(user_id: str) -> str:
    return f"{second_factors.column_of(user_id)}/new"


def _open(hub: Hub, user_id: str, sealed: str) -> str:
    try:
        return hub.vault.open(sealed, account_id=0, column=_column(user_id))
    except SealBroken as exc:
        raise Semantic("This form is too old. Begin again.") from exc
