"""The admin API's routes for enrolments of contacts in workflows.

The routes are for accounts whose CRM does not report the workflow of a contact.
"""

from __future__ import annotations

from typing import Any

import flask
from marshmallow import fields

from crmhub.api.admin.account_answers import EnrolmentShown
from crmhub.api.admin.blueprint import blueprint, documented
from crmhub.api.admin.callers import author
from crmhub.api.admin.lists import Filled, Listing, PageQuery
from crmhub.api.http.answers import nothing
from crmhub.api.http.authentication import hub, needs
from crmhub.api.http.schemas import PageOf
from crmhub.api.public.properties import in_path
from crmhub.helpers import enrolments
from crmhub.identity.bindings import LONGEST
from crmhub.operators.resources import WITHOUT_BODY

_PATH = "/accounts/<client_id>/workflows/<workflow_id>/enrolments/<contact_id>"
_PARAMETERS = [
    in_path("workflow_id", minLength=1, maxLength=LONGEST),
    in_path("contact_id", minLength=1, maxLength=LONGEST),
]


class EnrolmentsQuery(PageQuery):
    workflow_id = Filled("Of this workflow.", LONGEST, data_key="workflowId")
    contact_id = Filled("Of the contact with this id in the CRM.", LONGEST, data_key="contactId")


class EnrolmentPageShown(PageOf):
    results = fields.List(fields.Nested(EnrolmentShown), required=True)


@blueprint.get("/accounts/<client_id>/enrolments")
@documented("listEnrolments", 200, EnrolmentPageShown, "List the enrolments on the present CRM")
@needs("accounts:read")
@blueprint.arguments(EnrolmentsQuery(), location="query")
def _list(query: dict[str, Any], client_id: str) -> flask.Response:
    account = hub().load_account(client_id)
    listing = Listing.from_query(f"enrolments of {account.id}", query)
    contact_id, workflow_id = listing.after or ("", "")
    with hub().database.reading() as db:
        found = enrolments.listed(
            db,
            account,
            **listing.filters,
            after=(contact_id, workflow_id),
            limit=listing.limit + 1,
        )
    return listing.page(
        found,
        EnrolmentShown().dump,
        lambda enrolment: [enrolment.contact_id, enrolment.workflow_id],
    )


@blueprint.put(_PATH, parameters=_PARAMETERS)
@documented(
    "enrolContactOfAccount", 204, None, "Note that a contact entered a workflow now; again: anew"
)
@needs("accounts:write")
def _enrol(client_id: str, workflow_id: str, contact_id: str) -> flask.Response:
    account = hub().load_account(client_id)
    enrolments.enrol(hub(), account, workflow_id=workflow_id, contact_id=contact_id, by=author())
    return nothing()


@blueprint.delete(_PATH, parameters=_PARAMETERS)
@documented(
    "unenrolContactOfAccount",
    204,
    None,
    "Forget that a contact entered a workflow",
    errors=WITHOUT_BODY,
)
@needs("accounts:write")
def _unenrol(client_id: str, workflow_id: str, contact_id: str) -> flask.Response:
    account = hub().load_account(client_id)
    enrolments.unenrol(hub(), account, workflow_id=workflow_id, contact_id=contact_id, by=author())
    return nothing()
