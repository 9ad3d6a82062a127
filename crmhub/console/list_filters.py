"""Parse the filters of a list in the console from the query parameters of its URL."""

from __future__ import annotations

from typing import Any

import flask
from flask_babel import gettext, lazy_gettext, pgettext

from crmhub import durations, periods
from crmhub.accounts import accounts
from crmhub.accounts.accounts import Account
from crmhub.api.http.authentication import hub
from crmhub.console import sessions
from crmhub.console.reader_zone import reader_zone
from crmhub.errors import BadRequest, NotFound

_MAX_LENGTH = 500
# So many accounts are a select; of more, so many are suggested while a name is typed.
_MOST_LISTED = 100
_MOST_SUGGESTED = 500
_NAMED_MATCHES = 5
PERIOD = ("when", "from", "to")
"""The query parameters of a period: a named one, or its first and its last day."""
OF_PERSON = ("contact", "contactToken", "email", "phone", "reason")
TIMES = ("newerThan", "olderThan", "acceptedFrom", "acceptedUntil", "endedFrom", "endedUntil")
OF_ACTIVITY = ("cause", "fix", "q", "account", "helper", "state", *PERIOD, *OF_PERSON, *TIMES)
OF_AUDIT = ("account", "object", "verb", "by", *PERIOD, "newerThan", "olderThan")
_PERIODS = {
    "": lazy_gettext("Any time"),
    "today": lazy_gettext("Today"),
    "yesterday": lazy_gettext("Yesterday"),
    "24h": lazy_gettext("Last 24 hours"),
    "7d": lazy_gettext("Last 7 days"),
    "30d": lazy_gettext("Last 30 days"),
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
        text, form = repr(given[name][:40]), gettext(durations.FORM)
        reason = gettext("%(text)s is not %(form)s.", text=text, form=form)
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
        text = repr(given[name][:40])
        reason = gettext("%(text)s is not a time. Write 2026-11-26 14:00.", text=text)
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
        form = gettext(periods.FORM)
        reason = gettext("%(text)s is not a period. Use %(form)s.", text=repr(text[:60]), form=form)
        if field != "when":
            reason = gettext("The last day is before the first, or one of them is not a date.")
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
        raise BadRequest(
            "%(name)s: %(value)s is not known; use %(allowed)s.",
            name=name,
            value=repr(unknown[0][:40]),
            allowed=", ".join(allowed),
        )
    return values


def several(name: str) -> str:
    """Return the comma-separated values of a query parameter that the URL may repeat, "" for none.

    Checkboxes repeat it, links separate its values by commas.
    """
    given = ",".join(map(text, flask.request.args.getlist(name)))
    return ",".join(dict.fromkeys(filter(None, given.split(","))))


def account(given: dict[str, str]) -> Account | None:
    """Return the account that `given["account"]` means; None without one.

    That is the one with this client id, or the only one with this name or this part of a name.
    Raises NotFound also for one that the user does not see.
    """
    if "account" not in given:
        return None
    try:
        return sessions.load_account(given["account"])
    except NotFound as exc:
        found = _matches(_visible_names(), given["account"])
        if len(found) == 1:
            return sessions.load_account(found[0].client_id)
        if found:
            named = ", ".join(f"{row.name} ({row.client_id})" for row in found[:_NAMED_MATCHES])
            raise NotFound(
                "%(count)s accounts match: %(names)s. Choose one.",
                field="account",
                count=len(found),
                names=f"{named}, …" if len(found) > _NAMED_MATCHES else named,
            ) from exc
        exc.fields = (("account", exc.message),)
        raise


def account_choices(given: dict[str, str]) -> dict[str, Any]:
    """Return what the field for an account shows.

    `options`: pairs of client id and name. `is_select`: False if there are so many accounts that
    some are only suggested: those that match what was typed, else the first by name.
    """
    rows, value = _visible_names(), given.get("account", "")
    found = _matches(rows, value) if value else []
    if len(rows) > _MOST_LISTED:
        shown = (found if len(found) > 1 else rows)[:_MOST_SUGGESTED]
        return {"options": [(row.client_id, row.name) for row in shown], "is_select": False}
    value = found[0].client_id if len(found) == 1 else value
    options = {"": pgettext("filter", "All accounts")} | ({value: value} if value else {})
    options |= {row.client_id: row.name for row in rows}
    return {"options": list(options.items()), "is_select": True, "value": value}


def is_visible(client_id: str) -> bool:
    return any(row.client_id == client_id for row in _visible_names())


def _visible_names() -> list[Any]:
    """Return the names of the accounts that the user sees, read once a request."""
    if "account_names" not in flask.g:
        with hub().database.reading() as db:
            flask.g.account_names = accounts.account_names(db, sessions.visible_accounts())
    found: list[Any] = flask.g.account_names
    return found


def _matches(rows: list[Any], words: str) -> list[Any]:
    """Return the accounts with this client id or name, else those that have it as a part."""
    folded = words.casefold()
    for equal in (
        lambda row: row.client_id == words,
        lambda row: row.name.casefold() == folded,
        lambda row: folded in row.name.casefold() or folded in row.client_id.casefold(),
    ):
        if found := [row for row in rows if equal(row)]:
            return found
    return []


def parse_id(given: str, *, digits: int = 9) -> int | None:
    """Return a text of at most so many digits as an integer, else None."""
    return int(given) if given.isascii() and given.isdigit() and len(given) <= digits else None
