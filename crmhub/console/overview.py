"""The console's pages about the whole hub: the landing page, its plans, its running processes.

The landing page shows what needs attention, the CRMs of accounts, and the latest leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import flask
from flask_babel import gettext, ngettext

from crmhub import __version__
from crmhub.accounts import accounts as stored
from crmhub.api.http.authentication import hub
from crmhub.console import banner, first_steps, list_filters
from crmhub.console.pages import page
from crmhub.console.sessions import blueprint, needs, signed_in, visible_accounts
from crmhub.console.template_filters import attention, number
from crmhub.console.visibility import visible_states, visible_text
from crmhub.operators import processes
from crmhub.operators.actions import lead_counts
from crmhub.operators.actions.attention import Attention
from crmhub.operators.alerts.alerts import Alert, Kind
from crmhub.operators.crm import crm_states
from crmhub.operators.crm.crm_states import CrmState
from crmhub.properties.kinds import KINDS

_PAGE_SIZE = 25
_MAX_PROBLEMS = 10
# Refused credentials are problems of CRMs already.
_ALERTS: tuple[Kind, ...] = ("queue", "dead", "copies", "events")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that needs attention. `label` is the text of the link to `address`."""

    client_id: str
    said: str
    reason: str
    since: int
    bad: bool
    label: str
    address: str


@blueprint.get("")
@needs("activity")
def home() -> flask.Response:
    after = list_filters.parse_id(flask.request.args.get("after", "")) or 0
    with hub().database.reading() as db:
        visible = visible_accounts()
        matches = stored.search_accounts(
            db, hub().plans, "", after=after, limit=_PAGE_SIZE + 1, among=visible
        )
        shown = matches[:_PAGE_SIZE]
        crms = visible_states(crm_states.states_of(hub(), db, shown))
        leads = lead_counts.of_accounts(db, [account.id for account in shown])
        all_leads = lead_counts.of_all(db, visible)
        down = [one for one in crm_states.down(hub(), db) if signed_in().sees(one.account_id)]
    alerts = [a for a in banner.visible_alerts(signed_in()) if a.kind in _ALERTS]
    problems = [*map(_of_crm, down), *map(_of_alert, alerts[:_MAX_PROBLEMS])]
    return page(
        "overview.html",
        # Of a page of accounts, those in trouble stand first; the page itself stays the same.
        accounts=sorted(shown, key=lambda account: _calm(crms[account.id])),
        crms=crms,
        leads=leads,
        all_leads=all_leads,
        steps=first_steps.steps(),
        problems=problems[:_MAX_PROBLEMS],
        others=len(down) + len(alerts) - _MAX_PROBLEMS,
        after=after,
        next=shown[-1].id if len(matches) > _PAGE_SIZE else None,
    )


def _calm(states: Sequence[CrmState]) -> tuple[bool, bool]:
    """Return a key that sorts accounts in trouble first, then those that wait too long."""
    trouble = any(one.is_down or one.attention for one in states)
    return not trouble, all(one.word != "behind" for one in states)


def _of_crm(crm: Any) -> Problem:
    title = gettext("%(crm)s (former CRM)", crm=crm.title) if crm.former else crm.title
    said = (
        gettext("%(crm)s cannot be used", crm=title)
        if crm.refused
        else gettext("%(crm)s is failing", crm=title)
    )
    label, address = (
        gettext("Check the CRM"),
        flask.url_for("console.crm", client_id=crm.client_id),
    )
    reason = visible_text(crm.reason)
    return Problem(crm.client_id, said, reason, crm.since, True, label, address)


def _of_alert(alert: Alert) -> Problem:
    if alert.kind == "events":
        return _of_subscriptions(alert)
    if alert.kind == "copies":
        return _of_copy(alert)
    title = hub().registry.title(alert.adapter)
    if alert.kind == "queue":
        state = banner.STATES[alert.kind]
        address = flask.url_for("console.activity", account=alert.client_id, state=state)
        said = ngettext(
            "%(count)s action for %(crm)s waiting too long",
            "%(count)s actions for %(crm)s waiting too long",
            alert.count,
            count=number(alert.count),
            crm=title,
        )
        label = gettext("See the queue")
        return Problem(alert.client_id, said, "", alert.since, False, label, address)
    counts = attention(Attention(alert.count, alert.blocked))
    said = gettext("Actions for %(crm)s: %(counts)s", crm=title, counts=counts)
    address = flask.url_for("console.causes", account=alert.client_id)
    return Problem(alert.client_id, said, "", alert.since, True, gettext("Why, and retry"), address)


def _of_copy(alert: Alert) -> Problem:
    said = gettext("The copy of %(crm)s is behind", crm=hub().registry.title(alert.adapter))
    address = flask.url_for("console.crm", client_id=alert.client_id)
    return Problem(alert.client_id, said, "", alert.since, False, gettext("See the copy"), address)


def _of_subscriptions(alert: Alert) -> Problem:
    said = ngettext(
        "%(count)s event subscription was switched off",
        "%(count)s event subscriptions were switched off",
        alert.count,
        count=number(alert.count),
    )
    label, address = (
        gettext("See the subscriptions"),
        flask.url_for("console.events", client_id=alert.client_id),
    )
    return Problem(alert.client_id, said, "", alert.since, True, label, address)


# --- plans and processes -----------------------------------------------------------------------


@blueprint.get("/plans")
@needs("data", all_accounts=True)
def plans() -> flask.Response:
    with hub().database.reading() as db:
        counts = stored.count_by_plan(db)
    return page(
        "plans/plans.html",
        plans=sorted(hub().plans.values(), key=lambda plan: plan.name),
        counts=counts,
        kinds=list(KINDS),
        file=hub().settings.plans,
    )


@blueprint.get("/workers")
@needs("data", all_accounts=True)
def workers() -> flask.Response:
    listed = processes.list_processes(hub().database)
    return page(
        "plans/workers.html",
        processes=listed,
        current=__version__,
        has_worker=any(one.kind == "worker" and one.alive for one in listed),
    )
