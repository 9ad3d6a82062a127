"""The public API's routes that enrol contacts in workflows.

The routes are for accounts whose CRM does not report the workflow of a contact.
"""

from __future__ import annotations

import flask

from crmhub.api.http.answers import nothing
from crmhub.api.http.authentication import account, hub, needs
from crmhub.api.http.blueprint import Blueprint
from crmhub.api.http.documentation import documents
from crmhub.api.public.properties import in_path
from crmhub.helpers import enrolments
from crmhub.identity.bindings import LONGEST

blueprint = Blueprint(
    "workflows",
    __name__,
    url_prefix="/<client_id>/api/v1/workflows",
    description="Enrolments of contacts in workflows, which getType answers with.",
)

_PATH = "/<workflow_id>/enrolments/<contact_id>"
_PARAMETERS = [
    in_path("workflow_id", minLength=1, maxLength=LONGEST),
    in_path("contact_id", minLength=1, maxLength=LONGEST),
]

_ERRORS = (400, 401, 403, 404, 429, 500, 503)


@blueprint.put(_PATH, parameters=_PARAMETERS)
@documents(
    "enrolContact",
    204,
    None,
    "Note that a contact entered a workflow now; again: anew",
    errors=_ERRORS,
)
@needs("contacts:write")
def _enrol(workflow_id: str, contact_id: str) -> flask.Response:
    enrolments.enrol(hub(), account(), workflow_id=workflow_id, contact_id=contact_id)
    return nothing()


@blueprint.delete(_PATH, parameters=_PARAMETERS)
@documents("unenrolContact", 204, None, "Forget that a contact entered a workflow", errors=_ERRORS)
@needs("contacts:write")
def _unenrol(workflow_id: str, contact_id: str) -> flask.Response:
    enrolments.unenrol(hub(), account(), workflow_id=workflow_id, contact_id=contact_id)
    return nothing()
