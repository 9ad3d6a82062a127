"""All routes of the admin API, registered on the blueprint."""

from crmhub.api.admin import accounts, connections, field_maps  # noqa: F401
from crmhub.api.admin.blueprint import blueprint
from crmhub.api.admin.resources import add_routes
from crmhub.operators import audit_resource
from crmhub.operators.accounts import key_resource
from crmhub.operators.accounts import resources as account_resources
from crmhub.operators.actions import resources as action_resources
from crmhub.operators.alerts import resources as alert_resources
from crmhub.operators.duplicates import resources as duplicate_resources
from crmhub.operators.events import resources as event_resources
from crmhub.operators.failures import resources as failure_resources
from crmhub.operators.teams import resources as team_resources

add_routes(*account_resources.ACCOUNT_VERBS)
add_routes(*account_resources.INSTALLED_VERBS)
add_routes(*account_resources.ENROLMENT_VERBS)
add_routes(audit_resource.LIST, key_resource.LIST, key_resource.CREATE, key_resource.REVOKE)
add_routes(*action_resources.VERBS)
add_routes(*failure_resources.VERBS)
add_routes(*alert_resources.VERBS)
add_routes(*duplicate_resources.VERBS)
add_routes(*event_resources.VERBS)
add_routes(*team_resources.VERBS)

__all__ = ["blueprint"]
