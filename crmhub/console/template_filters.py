"""Jinja filters and tests for the console's templates."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from typing import Any

import flask
from flask_babel import LazyString, format_decimal, gettext, lazy_gettext, ngettext
from markupsafe import Markup

from crmhub import periods, translatable
from crmhub.accounts.accounts import Unreadable
from crmhub.accounts.credentials import ends_soon
from crmhub.accounts.plans import Rate
from crmhub.api.http.authentication import hub
from crmhub.console.reader_zone import reader_zone
from crmhub.errors import Unavailable
from crmhub.operators.actions.action_queries import STATE_WORDS
from crmhub.operators.actions.attention import Attention
from crmhub.records.search.filters import iso


def register(app: flask.Flask) -> None:
    for template_filter in (
        when, clock, exactly, lasted, readable, share, number, rate, label, as_sent,
        points, kilobytes, coded, account_name, one_line, end_reason, local_input,
        translated, with_count, attention,
    ):  # fmt: skip
        app.add_template_filter(template_filter)
    app.add_template_test(is_ending, "ending")


_NEVER = lazy_gettext("never")


def when(milliseconds: int | None, never: str | LazyString = _NEVER) -> Markup:
    """Return a time (ms since 1970) to the minute; `never` for None and 0."""
    return _time_element(milliseconds, never, "%Y-%m-%d %H:%M")


def exactly(milliseconds: int | None, never: str | LazyString = _NEVER) -> Markup:
    """Return a time (ms since 1970) to the second; `never` for None and 0."""
    return _time_element(milliseconds, never, "%Y-%m-%d %H:%M:%S", exact=True)


def clock(milliseconds: int) -> Markup:
    """Return the time of day (ms since 1970) in the reader's zone, whose day stands above it."""
    here = reader_zone()
    shown = f"{datetime.fromtimestamp(milliseconds / 1000, here.zone):%H:%M}"
    shown = Markup('<time title="{}">{}</time>').format(iso(milliseconds), shown)
    return shown if here.is_known else shown + " UTC"


def _time_element(
    milliseconds: int | None, never: str | LazyString, form: str, *, exact: bool = False
) -> Markup:
    """Return a time in the reader's zone; console.js shows it relative to now, too."""
    if not milliseconds:
        return Markup.escape(never)
    shown = f"{datetime.fromtimestamp(milliseconds / 1000, reader_zone().zone):{form} %Z}"
    at, seconds = iso(milliseconds), Markup(" data-exact") if exact else ""
    return Markup('<time datetime="{}" title="{}"{}>{}</time>').format(at, at, seconds, shown)


def local_input(given: str) -> str:
    """Return a time of a filter as `<input type="datetime-local">` takes it, in the reader's zone.

    "" for a text that is no time.
    """
    zone = reader_zone().zone
    try:
        at = datetime.fromtimestamp(periods.moment(given, zone) / 1000, zone)
    except ValueError:
        return ""
    return f"{at:%Y-%m-%dT%H:%M}"


_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))


def lasted(milliseconds: int) -> str:
    """Return a duration (in ms): `80 ms`, `4.2 s`, `3 min 20 s` or `2 d`."""
    if milliseconds < 1_000:
        return f"{max(0, milliseconds)} ms"
    if milliseconds < 10_000:
        return f"{_to_a_tenth(milliseconds / 1000)} s"
    for (unit, size), (smaller, part) in zip(_UNITS, (*_UNITS[1:], ("ms", 1)), strict=True):
        if milliseconds >= size:
            count, rest = divmod(milliseconds, size)
            rest = 0 if unit == "s" else rest // part
            return f"{count} {unit} {rest} {smaller}" if rest else f"{count} {unit}"
    raise AssertionError("unreachable")


def readable(value: Any) -> str:
    """Return a JSON value as people read it: texts bare, lists of texts joined by commas."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    several = isinstance(value, (dict, list)) and len(value) > 1
    return json.dumps(value, ensure_ascii=False, indent=2 if several else None)


def number(value: int) -> str:
    return str(format_decimal(value))


def _to_a_tenth(value: float) -> str:
    return str(format_decimal(Decimal(f"{value:.1f}"), "0.0"))


def share(value: float) -> str:
    """Return a fraction as a percentage; only 1 or more is `100 %`."""
    return f"{_to_a_tenth(min(value * 100, 99.9))} %" if value < 1 else "100 %"


def kilobytes(count: int) -> str:
    """Return a number of bytes: `0.08 kB`, `2 kB`."""
    return f"{format_decimal(Decimal(f'{count / 1000:g}'), '0.######')} kB"


def rate(limit: Rate | None) -> str:
    """Return a rate limit as text: `1,000 in 10 s`."""
    if not limit:
        return str(gettext("no limit"))
    count, duration = number(limit.count), lasted(limit.seconds * 1000)
    return str(gettext("%(count)s in %(duration)s", count=count, duration=duration))


def points(counts: Sequence[int]) -> str:
    """Return the points of a line for an SVG that is 20 high, 4 apart."""
    highest = max(1, *counts)
    return " ".join(f"{4 * i},{19 - 18 * n / highest:.1f}" for i, n in enumerate(counts))


_CODE = re.compile("`([^`]+)`")


def coded(message: str) -> Markup:
    """Return an error message as HTML; what it has between backticks becomes `<code>`."""
    # Escaping adds no backtick and removes none. A Markup would escape what is put into it.
    escaped = str(Markup.escape(message))
    return Markup(_CODE.sub(r"<code>\1</code>", escaped))


_EMAIL = re.compile(
    r"(?<![^\s<>&,;:()\"'])[^\s<>&,;:()\"'@]++@[^\s<>&,;:()\"']+\.[^\s<>&,;:()\"']+"
)


def one_line(text: str) -> Markup:
    """Return a text as HTML, in which no email is broken over lines; a longer one is cut short."""
    escaped = str(Markup.escape(text))
    return Markup(
        _EMAIL.sub(lambda m: f'<span class="unbroken" title="{m[0]}">{m[0]}</span>', escaped)
    )


def account_name(client_id: str) -> str:
    """Return the name of the account, or the client id if it cannot be read."""
    # The banner and the error page name accounts, too: a broken account must not break them.
    with suppress(Unavailable, Unreadable):
        if account := hub().directory.by_client_id(client_id):
            return account.name
    return client_id


def label(state: str) -> str:
    """Return the name that the console uses for an action's state; "dead" is shown as `failed`."""
    return str(gettext(STATE_WORDS.get(state, state)))


def translated(text: str) -> str:
    """Return a text of a lower layer in the reader's language; of `name: reason`, the reason."""
    whole = translatable.translated(text, gettext)
    name, colon, reason = text.partition(": ")
    if not colon or whole != text:
        return whole
    # Not gettext itself, which returns the catalogue's header for "".
    return f"{name}: {translatable.translated(reason, gettext)}"


def with_count(word: str, count: int) -> str:
    """Return a number of records or of actions in a state: `1 deal`, `2,000 failed`."""
    shown = number(count)
    texts = {
        "contacts": ngettext("%(count)s contact", "%(count)s contacts", count, count=shown),
        "deals": ngettext("%(count)s deal", "%(count)s deals", count, count=shown),
        "companies": ngettext("%(count)s company", "%(count)s companies", count, count=shown),
        "tickets": ngettext("%(count)s ticket", "%(count)s tickets", count, count=shown),
        "failed": ngettext("%(count)s failed", "%(count)s failed", count, count=shown),
        "blocked": ngettext("%(count)s blocked", "%(count)s blocked", count, count=shown),
        "queued": ngettext("%(count)s queued", "%(count)s queued", count, count=shown),
        "refused": ngettext("%(count)s refused", "%(count)s refused", count, count=shown),
        "retrying": ngettext("%(count)s retrying", "%(count)s retrying", count, count=shown),
    }
    return str(texts[STATE_WORDS.get(word, word)])


def attention(counts: Attention) -> str:
    """Return the numbers of actions that need an operator: `2 failed, 1 blocked`."""
    of = {"failed": counts.failed, "blocked": counts.blocked}
    return ", ".join(with_count(word, count) for word, count in of.items() if count)


_WIRE_NAMES = {"contact_token": "contactToken", "contact_id": "contactId"}


def as_sent(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request under the names that bots send, without an empty note `before`."""
    shown = {name: value for name, value in request.items() if name != "before" or value}
    return {_WIRE_NAMES.get(name, name): value for name, value in shown.items()}


def end_reason(one: Any) -> str:
    """Return why an API key or admin token is not valid, "" for a valid one."""
    if one.revoked_at is not None:
        return str(gettext("revoked"))
    is_expired = one.expires_at is not None and one.expires_at <= now_ms()
    return str(gettext("expired")) if is_expired else ""


def is_ending(one: Any) -> bool:
    return (
        one.expires_at is not None
        and not end_reason(one)
        and ends_soon(one.created_at, one.expires_at, now_ms())
    )


def now_ms() -> int:
    return time.time_ns() // 1_000_000
