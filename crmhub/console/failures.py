"""The console's pages on why actions fail, and the forms that fix all actions of one cause."""

from __future__ import annotations

from collections import Counter
from typing import Any

import flask
from flask_babel import gettext

from crmhub.accounts.field_maps import IDENTITY, KINDS
from crmhub.api.http.authentication import hub
from crmhub.console import list_filters
from crmhub.console.list_filters import params
from crmhub.console.pages import done, errors_on, page, refused
from crmhub.console.sessions import author, blueprint, needs, signed_in, visible_accounts
from crmhub.console.template_filters import number
from crmhub.console.visibility import visible_action
from crmhub.errors import HubError
from crmhub.helpers.actions import ACTIONS
from crmhub.operators.actions import action_queries
from crmhub.operators.actions.correct_action import can_correct
from crmhub.operators.failures import fix_group, forecast, groups
from crmhub.operators.failures.fix_group import Verb
from crmhub.operators.failures.forecast import Forecast, NewValues, Options
from crmhub.operators.failures.groups import Group

# So long a form waits for a fix; a worker does the rest.
_RUN_S = 2.0
_PAGE = "activity/cause.html"


@blueprint.get("/activity/causes")
@needs("activity")
def causes() -> flask.Response:
    given = params("account", *list_filters.PERIOD)
    shared: dict[str, Any] = {
        "given": given,
        "accounts": list_filters.account_choices(given),
        "periods": list_filters.period_choices(given),
    }
    try:
        account, ended = list_filters.account(given), list_filters.period(given)
    except HubError as exc:
        return refused(exc, "activity/causes.html", groups=[], **shared)
    found, count = groups.groups(
        hub().database,
        account=account,
        account_ids=visible_accounts(),
        ended=ended,
    )
    titles = {one.cause.adapter: _title(one) for one in found}
    return page("activity/causes.html", groups=found, count=count, titles=titles, **shared)


def _title(group: Group) -> str:
    return hub().registry.title(group.cause.adapter)


def _group(key: str) -> Group:
    """Return the group, of the account in the URL if it names one."""
    account = list_filters.account(params("account"))
    seen = visible_accounts() if account is None else {account.id}
    return groups.group(hub().database, key, account_ids=seen)


def _context(cause: str) -> dict[str, Any]:
    group, user = _group(cause), signed_in()
    example = visible_action(action_queries.shown(hub().database, group.example[1]))
    is_correctable = group.failed and can_correct(group.cause.kind, group.cause.name)
    may_correct = bool(is_correctable and user.may("change"))
    values = forecast.values_in(hub().database, group) if may_correct else Counter[str]()
    has_options = may_correct and group.cause.fault not in ("unknown", "read_only", "taken")
    return {
        "group": group,
        "title": _title(group),
        "given": params("account"),
        "example": example,
        "correctable": may_correct,
        "values": dict(values.most_common(forecast.MOST_VALUES)),
        "more_values": max(0, len(values) - forecast.MOST_VALUES),
        "options": forecast.options(hub(), group) if has_options else Options(),
        "typed": _typed(group),
        "rules": _rules(group),
        "told": None,
        "cannot_know": forecast.UNKNOWN,
        "reason": flask.request.form.get("reason", ""),
    }


def _typed(group: Group) -> NewValues:
    form = flask.request.form
    was, to = (
        [text.replace("\r\n", "\n") for text in form.getlist(part)] for part in ("was", "to")
    )
    pairs = {old: new for old, new in zip(was, to, strict=False) if new}
    return NewValues(group.cause.name, pairs, form.get("other", "").strip() or None)


def _rules(group: Group) -> list[tuple[str, str]]:
    """Return a link to the rule of the field map, for each of the named accounts."""
    kind, name = ACTIONS[group.cause.kind].record, group.cause.name
    if not name or kind not in KINDS or (kind == "contacts" and name in IDENTITY):
        return []
    of: dict[str, Any] = {"kind": kind, "name": name, "action": group.example[1]}
    return [
        (client_id, flask.url_for("console.fieldmap", client_id=client_id, **of))
        for client_id in group.client_ids
    ]


@blueprint.get("/activity/causes/<cause>")
@needs("activity")
def cause(cause: str) -> flask.Response:
    return page(_PAGE, **_context(cause))


@blueprint.post("/activity/causes/<cause>/forecast")
@needs("decide")
@errors_on(_PAGE, _context)
def cause_forecast(cause: str) -> flask.Response:
    """Show a dry run of a correction, or of a retry as they are."""
    context = _context(cause)
    is_correction = context["correctable"] and flask.request.form.get("verb") == "correct"
    values = context["typed"] if is_correction else None
    told = forecast.forecast(hub(), context["group"], values)
    return page(_PAGE, **{**context, "told": told, "told_text": _forecast_text(told)})


def _forecast_text(told: Forecast) -> str:
    good, checked = number(told.good), number(told.checked - told.left)
    parts = [gettext("%(count)s of %(total)s will succeed", count=good, total=checked)]
    if unknown := told.unknown.total():
        parts.append(gettext("%(count)s cannot be checked", count=number(unknown)))
    if told.left:
        parts.append(gettext("%(count)s stay as they are", count=number(told.left)))
    if told.rest:
        more = number(told.rest)
        parts.append(
            gettext("%(count)s more are not checked, since the group is large", count=more)
        )
    return "; ".join(parts) + "."


@blueprint.post("/activity/causes/<cause>/correct")
@needs("change")
@errors_on(_PAGE, _context)
def cause_correct(cause: str) -> flask.Response:
    group = _group(cause)
    return _start(group, "correct", values=_typed(group))


@blueprint.post("/activity/causes/<cause>/retry")
@needs("decide")
@errors_on(_PAGE, _context)
def cause_retry(cause: str) -> flask.Response:
    return _start(_group(cause), "retry")


@blueprint.post("/activity/causes/<cause>/discard")
@needs("decide")
@errors_on(_PAGE, _context)
def cause_discard(cause: str) -> flask.Response:
    return _start(_group(cause), "discard", reason=flask.request.form.get("reason", ""))


def _start(group: Group, verb: Verb, **choice: Any) -> flask.Response:
    id = fix_group.start(hub(), group, verb, by=author(), **choice)
    fix_group.run(hub(), id, seconds=_RUN_S)
    return done("", "console.fix", fix=id)


# --- what becomes of it ------------------------------------------------------------------------


@blueprint.get("/activity/fixes/<fix>")
@needs("activity")
def fix(fix: str) -> flask.Response:
    found = fix_group.progress(hub().database, fix, visible_accounts())
    return page("activity/fix.html", fix=found, title=hub().registry.title(found.cause.adapter))


@blueprint.post("/activity/fixes/<fix>/stop")
@needs("decide")
def fix_stop(fix: str) -> flask.Response:
    fix_group.stop(hub().database, fix, visible_accounts())
    return done(gettext("Stopped. What was changed stays."), "console.fix", fix=fix)
