"""The page about alerts: their channels, quiet hours, and a test message with its outcome."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import flask
from flask_babel import gettext, ngettext

from crmhub.api.http.authentication import hub
from crmhub.console.pages import add_page, done, errors_on
from crmhub.console.sessions import author, blueprint, needs
from crmhub.operators import processes
from crmhub.operators.alerts import alert_tests
from crmhub.operators.alerts.channels import TITLES, Channel, channels_of

_SHOWN_ADDRESSES = 3


def _context() -> dict[str, Any]:
    settings = hub().settings
    channels = channels_of(settings)
    return {
        "channels": [(TITLES[name], _target(name)) for name in channels.names],
        "quiet": settings.alert_quiet_hours,
        "quiet_zone": str(settings.alert_time_zone),
        "test": alert_tests.last_test(hub().database),
        "has_worker": any(
            one.kind == "worker" and one.alive for one in processes.list_processes(hub().database)
        ),
    }


def _target(name: Channel) -> str:
    """Return where messages go; the address of a chat is a secret, except for its host."""
    settings = hub().settings
    if name != "email":
        url = settings.alert_url if name == "webhook" else settings.alert_chat_url
        return urlsplit(url or "").hostname or ""
    to = settings.alert_email_to
    shown, others = ", ".join(to[:_SHOWN_ADDRESSES]), len(to) - _SHOWN_ADDRESSES
    if others > 0:
        shown = ngettext(
            "%(addresses)s and %(num)s others",
            "%(addresses)s and %(num)s others",
            others,
            addresses=shown,
        )
    return str(gettext("%(addresses)s, through %(host)s", addresses=shown, host=settings.smtp_host))


_needs = needs("data", all_accounts=True)
add_page("/alerts", "alerts", _needs, "plans/alerts.html", _context)


@blueprint.post("/alerts/test")
@needs("change", all_accounts=True)
@errors_on("plans/alerts.html", _context)
def alert_test() -> flask.Response:
    alert_tests.start_test(hub(), by=author())
    return done(gettext("Test messages are on their way."), "console.alerts")
