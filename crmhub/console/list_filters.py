"""Parse the filters of a list in the console from the query parameters of its URL."""

from __future__ import annotations

import flask

from crmhub import durations, periods
from crmhub.accounts import accounts
from crmhub.accounts.accounts import Account
from crmhub.api.http.authentication import hub
from crmhub.console import sessions
from crmhub.console.reader_zone import reader_zone
from crmhub.errors import BadRequest, NotFound

_MAX_LENGTH = 500
PERIOD = ("when", "from", "to")
"""The query parameters of a period: a named one, or its first and its last day."""
_PERIODS = {
    "": "Any time",
    "today": "Today",
    "yesterday": "Yesterday",
    "24h": "Last 24 hours",
    "7d": "Last 7 days",
    "30d": "Last 30 days",
}
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
    """Return the time in `given[name]` in ms since 1970, by default in the reader's time zone.

    0 if there is none.
    """
    if name not in given:
        return 0
    try:
        return periods.moment(given[name], reader_zone().zone)
    except ValueError:
        reason = f"{given[name][:40]!r} is not a time. Write 2026-11-26 14:00."
        raise BadRequest(f"{label}: {reason}", fields=[(name, reason)]) from None


def period(given: dict[str, str]) -> tuple[int, int]:
    """Return the begin and the end of the period in ms since 1970, 0 for none.

    Days are those of the reader's time zone. A named period goes before chosen days.
    """
    field, text = "when", given.get("when", "")
    if not text:
        field = "from" if "from" in given else "to"
        text = f"{given.get('from', '')}..{given.get('to', '')}"
    if text == "..":
        return 0, 0
    try:
        return periods.parse(text, reader_zone().zone)
    except ValueError:
        reason = f"{text[:60]!r} is not a period. Use {periods.FORM}."
        if field != "when":
            reason = "The last day is before the first, or one of them is not a date."
        raise BadRequest(reason, fields=[(field, reason)]) from None


def period_choices(given: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the named periods as pairs of value and label, and the one of a link."""
    when = given.get("when", "")
    others = {} if when in _PERIODS else {when: when}
    return tuple({**_PERIODS, **others}.items())


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
