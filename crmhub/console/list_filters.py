"""The filters above a list, parsed from the query parameters of the page's URL."""

from __future__ import annotations

import flask

from crmhub import durations
from crmhub.accounts.accounts import Account
from crmhub.api.http.authentication import hub
from crmhub.errors import BadRequest

_MAX_LENGTH = 500
# PostgreSQL stores no NUL character in a text.
_UNSTORABLE = str.maketrans("", "", "\0")


def params(*names: str) -> dict[str, str]:
    """Return the query parameters with these names that are not empty."""
    given = {name: text(flask.request.args.get(name, "")) for name in names}
    return {name: value for name, value in given.items() if value}


def text(given: str) -> str:
    """Return a search text without NULs and surrounding blanks, cut to the maximum length."""
    return given.translate(_UNSTORABLE).strip()[:_MAX_LENGTH]


def age(given: dict[str, str], name: str, label: str) -> int:
    """Return the duration in a query parameter in ms, 0 without it; raises BadRequest."""
    if name not in given:
        return 0
    milliseconds = durations.milliseconds(given[name])
    if milliseconds is None:
        raise BadRequest(f"{label}: {given[name][:40]!r} is not {durations.FORM}.")
    return milliseconds


def one_of(given: dict[str, str], name: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the comma-separated values of a query parameter.

    Raises BadRequest for unknown values.
    """
    values = tuple(given[name].split(",")) if name in given else ()
    if unknown := [value for value in values if value not in allowed]:
        raise BadRequest(f"{name}: {unknown[0][:40]!r} is none of {', '.join(allowed)}.")
    return values


def account(given: dict[str, str]) -> Account | None:
    """Return the account in the query parameters, or None; raises NotFound."""
    return hub().load_account(given["account"]) if "account" in given else None


def parse_id(given: str) -> int | None:
    """Return a database id from a text, or None for any other text."""
    return int(given) if given.isascii() and given.isdigit() and len(given) < 10 else None
