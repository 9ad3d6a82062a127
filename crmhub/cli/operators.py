"""Commands that are made whole from the descriptions of what operators see and do."""

from __future__ import annotations

from crmhub.cli.resources import group
from crmhub.operators import audit_resource
from crmhub.operators.accounts import key_resource, resources

key = group(
    "key",
    "Create, list and revoke API keys.",
    key_resource.CREATE,
    key_resource.LIST,
    key_resource.REVOKE,
)
audit = group(
    "audit",
    "Show changes made by command, in the console or through the admin API.",
    audit_resource.LIST,
)
workflow = group(
    "workflow", "Enrol contacts in workflows for getType.", resources.ENROL, resources.UNENROL
)
