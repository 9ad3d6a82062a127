"""The banner with alerts at the top of every console page."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import flask
from flask_babel import gettext, ngettext

from crmhub.accounts import admin_tokens
from crmhub.api.http.authentication import hub
from crmhub.console.template_filters import attention, is_ending, number
from crmhub.errors import Unavailable
from crmhub.hub import Hub
from crmhub.operators.actions.attention import Attention
from crmhub.operators.alerts import alerts
from crmhub.operators.alerts.alerts import KINDS, Alert, Kind
from crmhub.users.user_sessions import SignedIn

# Queries for alerts take at most a tenth of the time, however many pages are opened.
_CACHE_S = 3.0
_PAUSE_FACTOR = 9
_MAX_ACCOUNTS = 3
STATES: dict[Kind, str] = {"queue": "queued,running", "dead": "dead,parked"}
_PAGES: dict[Kind, str] = {
    "keys": "console.keys",
    "credentials": "console.crm",
    "copies": "console.crm",
    "events": "console.events",
}


@dataclass(frozen=True, slots=True)
class Line:
    """All alerts of one kind, or those of admin tokens, as one line of the banner.

    `accounts`: client id and URL of the first three accounts; `others` counts the further ones.
    `address`: the activity page for all of them, or "".
    """

    bad: bool
    said: str
    accounts: Sequence[tuple[str, str]]
    others: int
    address: str


class Banner:
    """A cache of the current alerts of all accounts, per process, for a few seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alerts: list[Alert] = []
        self.ending_tokens = 0
        self._next_query_at = 0.0

    def alerts(self, hub: Hub) -> list[Alert]:
        """Return the current alerts; none while the database is unavailable."""
        if time.monotonic() < self._next_query_at or not self._lock.acquire(blocking=False):
            # Another request is already querying; this page shows the cached alerts.
            return self._alerts
        try:
            started_at = time.monotonic()
            with hub.database.reading() as db:
                self._alerts = alerts.current(db, old_ms=hub.settings.alert_queue_age)
                tokens = admin_tokens.list_tokens(db)
            self.ending_tokens = sum(map(is_ending, tokens))
            ended_at = time.monotonic()
            self._next_query_at = ended_at + max(_CACHE_S, _PAUSE_FACTOR * (ended_at - started_at))
        except Unavailable:
            # The page itself reports that the database is unavailable.
            self._alerts = []
        finally:
            self._lock.release()
        return self._alerts

    def forget(self) -> None:
        """Query again at the next page: call this after a change that may start or end an alert."""
        self._next_query_at = 0.0


def banner(user: SignedIn) -> list[Line]:
    """Return the lines of the banner about accounts that the user sees."""
    alerts = visible_alerts(user)
    by_kind = {kind: [alert for alert in alerts if alert.kind == kind] for kind in KINDS}
    lines = [_line(kind, of_kind) for kind, of_kind in by_kind.items() if of_kind]
    if (count := _banner().ending_tokens) and user.may("people"):
        said = ngettext(
            "%(num)s admin token expires soon:", "%(num)s admin tokens expire soon:", count
        )
        link = (gettext("Admin tokens"), flask.url_for("console.tokens"))
        lines.append(Line(False, said, [link], 0, ""))
    return lines


def visible_alerts(user: SignedIn) -> list[Alert]:
    return [
        alert
        for alert in _banner().alerts(hub())
        if user.sees(alert.account_id) and (alert.kind != "keys" or user.may("data"))
    ]


def forget() -> None:
    _banner().forget()


def _banner() -> Banner:
    banner: Banner = flask.current_app.extensions["crmhub.console.banner"]
    return banner


def _line(kind: Kind, alerts: Sequence[Alert]) -> Line:
    names = list(dict.fromkeys(alert.client_id for alert in alerts))
    count, blocked = sum(alert.count for alert in alerts), sum(alert.blocked for alert in alerts)
    crms, shown, needs = len(alerts), number(count), attention(Attention(count, blocked))
    said = {
        "credentials": ngettext(
            "%(count)s CRM cannot be used:",
            "%(count)s CRMs cannot be used:",
            crms,
            count=number(crms),
        ),
        "queue": ngettext(
            "%(count)s action queued for too long:",
            "%(count)s actions queued for too long:",
            count,
            count=shown,
        ),
        "dead": gettext("Actions that need attention: %(counts)s:", counts=needs),
        "copies": ngettext(
            "The copy of %(count)s CRM is behind:",
            "The copies of %(count)s CRMs are behind:",
            crms,
            count=number(crms),
        ),
        "keys": ngettext(
            "%(count)s API key expires soon:", "%(count)s API keys expire soon:", count, count=shown
        ),
        "events": ngettext(
            "%(count)s event subscription switched off:",
            "%(count)s event subscriptions switched off:",
            count,
            count=shown,
        ),
    }
    state = STATES.get(kind, "")
    accounts = []
    for name in names[:_MAX_ACCOUNTS]:
        if state:
            address = flask.url_for("console.activity", account=name, state=state)
        else:
            address = flask.url_for(_PAGES.get(kind, "console.account"), client_id=name)
        accounts.append((name, address))
    is_bad, others = kind in ("credentials", "dead", "events"), len(names) - len(accounts)
    all_of_kind = flask.url_for("console.activity", state=state) if state else ""
    return Line(is_bad, said[kind], accounts, others, all_of_kind)
