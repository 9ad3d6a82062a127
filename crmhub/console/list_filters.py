"""What the form above a list asks for, as it stands in the page's address."""

from __future__ import annotations

import flask

from crmhub import durations
from crmhub.accounts.accounts import Account
from crmhub.api.http.authentication import hub
from crmhub.errors import BadRequest
from crmhub.operations import change_account

_LONGEST = 500
# Neither database takes it in a text.
_UNSTORABLE = str.maketrans("", "", "\0")


def asked(*names: str) -> dict[str, str]:
    """Return these parameters of the address that say something, by name."""
    given = {name: text(flask.request.args.get(name, "")) for name in names}
    return {name: value for name, value in given.items() if value}


def text(given: str) -> str:
    """Return a text as it is looked for: without blanks around it, and no longer than any is."""
    return given.translate(_UNSTORABLE).strip()[:_LONGEST]


def age(given: dict[str, str], name: str, label: str) -> int:
    """Return a length of time in ms, 0 when there is none; raises BadRequest."""
    if name not in given:
        return 0
    found = durations.milliseconds(given[name])
    if found is None:
        raise BadRequest(f"{label}: {given[name][:40]!r} is not {durations.FORM}.")
    return found


def one_of(given: dict[str, str], name: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the values of a parameter, joined by commas; raises BadRequest for unknown ones."""
    values = tuple(given[name].split(",")) if name in given else ()
    if unknown := [value for value in values if value not in known]:
        raise BadRequest(f"{name}: {unknown[0][:40]!r} is none of {', '.join(known)}.")
    return values


def account(given: dict[str, str]) -> Account | None:
    """Return the account that is asked for, if one is; raises NotFound."""
    return change_account.find(hub(), given["account"]) if "account" in given else None


def whole(given: str) -> int | None:
    """Return a whole number that a column of ids can hold; None for any other text."""
    return int(given) if given.isascii() and given.isdigit() and len(given) < 10 else None
