"""The time zone of the reader: of their profile, else of their browser, else UTC.

The console's script stores the browser's time zone in a cookie, since no browser sends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, tzinfo
from functools import cache
from zoneinfo import available_timezones

import flask
from flask_babel import LazyString, lazy_gettext

from crmhub.console.sessions import signed_in
from crmhub.periods import parse_zone

COOKIE = "crmhub_zone"
_NOT_OF_A_PLACE = ("Etc/", "SystemV/", "US/")


@dataclass(frozen=True, slots=True)
class ReaderZone:
    """`is_known` is False if it is UTC only because nothing better is known."""

    name: str
    zone: tzinfo
    is_known: bool


def reader_zone() -> ReaderZone:
    """Return the time zone of the signed-in user, found once a request."""
    if "reader_zone" not in flask.g:
        flask.g.reader_zone = _find()
    found: ReaderZone = flask.g.reader_zone
    return found


def _find() -> ReaderZone:
    user = signed_in() if flask.g.get("signed_in") else None
    for name in (user.time_zone if user else "", flask.request.cookies.get(COOKIE, "")):
        if name:
            try:
                return ReaderZone(name, parse_zone(name), is_known=True)
            except ValueError:
                # A browser, or a former installation, may know a time zone that this one lacks.
                continue
    return ReaderZone("UTC", UTC, is_known=False)


@cache
def zone_choices() -> tuple[tuple[str, str | LazyString], ...]:
    """Return the time zones that a user can choose, as pairs of value and label."""
    places = (name for name in available_timezones() if "/" in name)
    names = sorted(name for name in places if not name.startswith(_NOT_OF_A_PLACE))
    return (("", lazy_gettext("The browser's")), ("UTC", "UTC"), *((name, name) for name in names))
