"""Signing in to the console: password, second factor, and the sessions of users.

A user with a second factor signs in in two steps. The first, a password or OpenID Connect, gives a
token that is valid for five minutes in the same browser; the second takes it and a code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from crmhub import audit
from crmhub.accounts.limits import RateStatus
from crmhub.audit import Author
from crmhub.database.connection import Connection, now_ms
from crmhub.database.drivers import Unwritable
from crmhub.errors import Semantic, TooManyRequests, Unauthorized
from crmhub.hub import Hub
from crmhub.secrets import SealBroken, new_secret, same
from crmhub.translatable import join_texts, translatable
from crmhub.users import passwords, second_factors, user_links, user_sessions, users
from crmhub.users.user_sessions import SignedIn
from crmhub.users.users import Login

_TOO_MANY = translatable("Too many attempts to sign in")
_OTHER_BROWSER = translatable("A browser that you have signed in with before lets you in now.")
_STEP_MS = 5 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Browser:
    """`cookie`: the random value of its cookie before the sign-in.

    `device`: returns the device token that the browser sent for a user's id, or "".
    """

    address: str
    cookie: str = field(repr=False)
    device: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class NewSession:
    """A new session; `device` is a token by which later sign-ins recognise the browser."""

    user_id: str
    token: str = field(repr=False)
    device: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class CodeNeeded:
    """The result of the first step of two; `token` proves it to `enter_code`."""

    token: str = field(repr=False)


def sign_in(hub: Hub, email: str, password: str, browser: Browser) -> NewSession | CodeNeeded:
    """Raises Unauthorized with the same message and after the same time for an unknown email, a
    disabled user and a wrong password; TooManyRequests; Unavailable if too many passwords are
    being checked.
    """
    login = _find_by_password(hub, email, password, browser)
    result = first_step(hub, login, browser) if login else None
    if result is None:
        raise Unauthorized("The email or the password is wrong.")
    return result


def check_password(hub: Hub, email: str, password: str, browser: Browser) -> None:
    """Raises Semantic if it is wrong, and otherwise as `sign_in` does."""
    if _find_by_password(hub, email, password, browser) is None:
        raise Semantic("The present password is wrong.", field="present")


def _find_by_password(hub: Hub, email: str, password: str, browser: Browser) -> Login | None:
    with hub.database.reading() as db:
        login = users.login(db, email)
    device = _known_device(hub, login, browser) if login else ""
    _check(hub.limits.sign_in(browser.address, users.normal(email), device), device)
    # Without a user, a password is checked all the same, which takes as long.
    fits = passwords.fits(password, login.password or None if login else None)
    return login if fits else None


def first_step(hub: Hub, login: Login, browser: Browser) -> NewSession | CodeNeeded | None:
    """None if the user has been disabled, has a new password since the proof, or has not joined
    yet.
    """
    if login.totp:
        return CodeNeeded(_step_token(hub, login, browser, now_ms()))
    return hub.database.transact(lambda tx: start_session(hub, tx, login))


def enter_code(hub: Hub, token: str, code: str, browser: Browser) -> NewSession:
    """Do the second step. `token`: from the first.

    Raises Unauthorized if that is too old or of another browser, or if the code is wrong or was
    used before; TooManyRequests.
    """
    user_id, _, issued = token.rpartition(":")[0].partition(":")
    with hub.database.reading() as db:
        login = users.login_by_id(db, user_id)
    is_time = issued.isascii() and issued.isdigit() and len(issued) < 16
    age = now_ms() - (int(issued) if is_time else 0)
    if (
        login is None
        or not 0 <= age < _STEP_MS
        or not same(token, _step_token(hub, login, browser, int(issued)))
    ):
        raise Unauthorized("Too much time has passed. Enter your password again.")
    device = _known_device(hub, login, browser)
    _check(hub.limits.second_factor(user_id, device), device)

    session = hub.database.transact(
        lambda tx: start_session(hub, tx, login) if accept_code(hub, tx, login, code) else None
    )
    if session is None:
        raise Unauthorized(
            "The code is wrong, or was used before. Wait for the next code.", field="code"
        )
    return session


def accept_code(hub: Hub, tx: Connection, login: Login, code: str) -> bool:
    """Use up a code or a recovery code, if it is right; raises Unauthorized."""
    before = second_factors.count_recovery_codes(tx, login.user_id)
    try:
        accepted = second_factors.accept(tx, hub.vault, login.user_id, login.totp, code)
    except SealBroken as exc:
        raise Unauthorized(
            "Your second factor cannot be read. Use a recovery code, or ask an owner to reset it."
        ) from exc
    left = second_factors.count_recovery_codes(tx, login.user_id)
    note(tx, login, "change", {"recoveryCodes": before}, {"recoveryCodes": left})
    return accepted


def note(
    tx: Connection,
    user: Any,
    verb: audit.Verb,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    *,
    by: Author | None = None,
) -> None:
    """Write to the audit log what `by`, or the user themselves, did with a console user."""
    by = by or Author("user", user.email, user.user_id)
    audit.note(tx, by, verb, "user", user.user_id, before=before, after=after)


def _step_token(hub: Hub, login: Login, browser: Browser, issued_at: int) -> str:
    """Return the token of a first step; a changed password or second factor makes it invalid."""
    signed = f"{login.user_id} {issued_at} {login.password} {login.totp} {browser.cookie}"
    return f"{login.user_id}:{issued_at}:{hub.signature('console second step', signed)}"


def require_allowed(status: RateStatus, what: str = _TOO_MANY, hint: str = "") -> None:
    """Raise TooManyRequests for a refused attempt."""
    if not status.allowed:
        seconds = status.retry_after
        message = translatable("%(what)s; try again in %(s)s s.", what=what, s=seconds)
        parts = [message, hint] if hint else [message]
        raise TooManyRequests(join_texts(" ", parts), retry_after=seconds)


def _check(status: RateStatus, device: str) -> None:
    require_allowed(status, hint="" if device else _OTHER_BROWSER)


def start_session(hub: Hub, tx: Connection, login: Login) -> NewSession | None:
    session = user_sessions.start_session(tx, login.user_id, login.password)
    if session is None:
        return None
    return NewSession(login.user_id, session, _device_token(hub, login, new_secret()))


def join_and_step(hub: Hub, login: Login, browser: Browser) -> NewSession | CodeNeeded | None:
    """The first step for a user, maybe an invited one, whose email a provider has verified."""
    if login.invited_until is not None:
        hub.database.transact(lambda tx: _join(tx, login))
    return first_step(hub, login, browser)


def _join(tx: Connection, login: Login) -> None:
    if users.join(tx, login.user_id):
        user_links.delete(tx, login.user_id)
        note(tx, login, "change", {"joined": False}, {"joined": True})


def _known_device(hub: Hub, login: Login, browser: Browser) -> str:
    token = browser.device(login.user_id)
    known = same(token, _device_token(hub, login, token.partition(".")[0]))
    return token if known else ""


def _device_token(hub: Hub, login: Login, name: str) -> str:
    """Return the device token for the random `name`.

    It is a signature, so the database stores nothing; a changed password makes it invalid.
    """
    signed = f"{login.user_id} {login.password} {name}"
    return f"{name}.{hub.signature('console device', signed)}"


def signed_in(hub: Hub, session: str) -> SignedIn | None:
    """Return the user of a live session or None, and store the session's use."""
    with hub.database.reading() as db:
        user = user_sessions.signed_in(db, session)
    if user is not None and user.stale:
        # Pages can be read even if nothing can be written.
        with suppress(Unwritable):
            hub.database.transact(lambda tx: user_sessions.note_seen(tx, session))
    return user


def sign_out(hub: Hub, session: str) -> None:
    hub.database.transact(lambda tx: user_sessions.end_session(tx, session))
