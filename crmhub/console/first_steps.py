"""The overview's checklist of a new hub: from the first user to a bot's first lead in a CRM."""

from __future__ import annotations

from dataclasses import dataclass

import flask
from flask_babel import gettext

from crmhub.api.http.authentication import hub
from crmhub.console.bots import TEST_TOKEN
from crmhub.console.pages import done
from crmhub.console.sessions import access_of, blueprint, needs, signed_in
from crmhub.operators import first_steps
from crmhub.operators.alerts.channels import TITLES
from crmhub.operators.first_steps import FirstSteps
from crmhub.operators.users import console_users

_COMPLETE = "crmhub.console.first_steps"


@dataclass(frozen=True, slots=True)
class Step:
    """`link` is the text of the link to `address`; both are "" while a step before is missing."""

    title: str
    is_done: bool
    text: str
    link: str
    address: str


def steps() -> list[Step]:
    """Return the steps for users who may do all of them; none once all are done, or if hidden."""
    user, app = signed_in(), flask.current_app
    # Nothing makes a complete hub incomplete while its processes run.
    if app.extensions.get(_COMPLETE) or user.hides_first_steps:
        return []
    access = access_of("console.first_steps")
    if access is None or not access.allows(user):
        return []
    with hub().database.reading() as db:
        found = first_steps.progress(hub(), db, TEST_TOKEN)
    if found.is_complete:
        app.extensions[_COMPLETE] = True
        return []
    return [
        Step(
            gettext("Your user"),
            True,
            gettext(
                "You are signed in as %(email)s. A second factor is optional.", email=user.email
            ),
            gettext("Your profile"),
            flask.url_for("console.profile"),
        ),
        _crm(found),
        _test_call(found),
        _bot(found),
        _alerts(found),
    ]


def _crm(found: FirstSteps) -> Step:
    if not found.client_id:
        text = gettext("An account is one customer or one bot. Create one, then connect its CRM.")
        link, address = gettext("Create an account"), flask.url_for("console.new_account")
        return Step("CRM", False, text, link, address)
    address = flask.url_for("console.crm", client_id=found.client_id)
    if found.is_connected:
        text = gettext("Leads of %(account)s go to %(crm)s.", account=found.name, crm=found.crm)
        return Step("CRM", True, text, gettext("CRM settings"), address)
    if found.is_external:
        text = gettext("The last connection test of %(crm)s failed.", crm=found.crm)
        return Step("CRM", False, text, gettext("Check the CRM"), address)
    text = gettext(
        "Leads of %(account)s stay in the hub until you connect a CRM.", account=found.name
    )
    return Step("CRM", False, text, gettext("Connect a CRM"), address)


def _test_call(found: FirstSteps) -> Step:
    if found.is_tested:
        text = gettext("A contact has arrived in %(crm)s.", crm=found.crm)
    elif found.is_connected:
        text = gettext("Send a lead to %(crm)s as a bot does, and see the answer.", crm=found.crm)
    else:
        text = gettext("Once a CRM is connected, send a lead to it as a bot does.")
    address = flask.url_for("console.bots", client_id=found.client_id) if found.client_id else ""
    title = gettext("Test call")
    link = (title if found.is_tested else gettext("Send a test call")) if address else ""
    return Step(title, found.is_tested, text, link, f"{address}#test" if address else "")


def _bot(found: FirstSteps) -> Step:
    if found.has_bot:
        text = gettext("A bot's lead is in %(crm)s.", crm=found.crm)
    else:
        text = gettext(
            "Copy the URL of createLead into your bot. Its first lead completes this step."
        )
    address = flask.url_for("console.bots", client_id=found.client_id) if found.client_id else ""
    link = gettext("Webhook URLs") if address else ""
    return Step(gettext("Your bot"), found.has_bot, text, link, address)


def _alerts(found: FirstSteps) -> Step:
    address = flask.url_for("console.alerts")
    if found.channels:
        titles = ", ".join(gettext(TITLES[name]) for name in found.channels)
        text = gettext("Alerts are sent: %(channels)s.", channels=titles)
        return Step(gettext("Alerts"), True, text, gettext("See the alerts"), address)
    text = gettext("Let a chat, an email or a webhook tell you when leads fail.")
    return Step(gettext("Alerts"), False, text, gettext("Set up alerts"), address)


@blueprint.post("/first-steps", endpoint="first_steps")
@needs("change", all_accounts=True)
def hide_first_steps() -> flask.Response:
    is_hidden = flask.request.form.get("hidden") == "true"
    console_users.hide_first_steps(hub(), signed_in().user_id, is_hidden)
    if is_hidden:
        message = gettext("The first steps are hidden. Your profile shows them again.")
        return done(message, "console.home")
    return done(gettext("The first steps are shown again, while any is left."), "console.home")
