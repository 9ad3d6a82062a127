"""Parse the filters of a list in the console from the query parameters of its URL."""

from __future__ import annotations

from datetime import UTC, datetime

import flask

from crmhub import durations
from crmhub.accounts import accounts
from crmhub.accounts.accounts import Account
from crmhub.api.http.authentication import hub
from crmhub.console import sessions
from crmhub.errors import BadRequest, NotFound

_MAX_LENGTH = 500
# The end of the year 4999, which the ids of actions can express.
_LATEST_MS = 95_617_584_000_000
# PostgreSQL stores no NUL character in a text.
_UNSTORABLE = str.maketrans("", "", "\0")


def params(*names: str) -> dict[str, str]:
    """Return the request's query parameters that are in `names` and not empty."""
    given = {name: text(flask.request.args.get(name, "")) for name in names}
    return {name: value for name, value in given.items() if value}


def text(given: str) -> str:
    """Drop U+0000 and surrounding blanks, and cut to 500 characters."""
    return given.translate(_UNSTORABLE).strip()[:_MAX_LENGTH]


def age(given: dict[str, str], name: str, label: str) -> int:
    """Return the duration in `given[name]` in ms, 0 if there is none; errors name it `label`."""
    if name not in given:
        return 0
    milliseconds = durations.milliseconds(given[name])
    if milliseconds is None:
        reason = f"{given[name][:40]!r} is not {durations.FORM}."
        raise BadRequest(f"{label}: {reason}", fields=[(name, reason)])
    return milliseconds


def moment(given: dict[str, str], name: str, label: str) -> int:
    """Return the time in `given[name]` in ms since 1970, in UTC by default; 0 if there is none."""
    if name not in given:
        return 0
    try:
        at = datetime.fromisoformat(given[name])
        milliseconds = round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        milliseconds = -1
    if not 0 < milliseconds < _LATEST_MS:
        reason = f"{given[name][:40]!r} is not a time. Write 2026-11-26 14:00, in UTC."
        raise BadRequest(f"{label}: {reason}", fields=[(name, reason)])
    return milliseconds


def one_of(given: dict[str, str], name: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the comma-separated values of the query parameter `name`, () without it."""
    values = tuple(given[name].split(",")) if name in given else ()
    if unknown := [value for value in values if value not in allowed]:
        raise BadRequest(f"{name}: {unknown[0][:40]!r} is not known; use {', '.join(allowed)}.")
    return values


def account(given: dict[str, str]) -> Account | None:
    """Return the account whose client id or name is in `given["account"]`; None without one.

    Raises NotFound also for one that the user does not see.
    """
    if "account" not in given:
        return None
    try:
        return sessions.load_account(given["account"])
    except NotFound as exc:
        with hub().database.reading() as db:
            matches = accounts.search_accounts(
                db, hub().plans, given["account"], among=sessions.visible_accounts()
            )
        named = [one for one in matches if one.name.casefold() == given["account"].casefold()]
        if len(named) == 1:
            return named[0]
        exc.fields = (("account", exc.message),)
        raise


def parse_id(given: str, *, digits: int = 9) -> int | None:
    """Return a text of at most so many digits as an integer, else None."""
    return int(given) if given.isascii() and given.isdigit() and len(given) <= digits else None
