"""`crmhub workflow`: enrol contacts in workflows, and remove contacts from workflows."""

from __future__ import annotations

import rich_click as click

from crmhub.cli.open_hub import author, opened_hub


@click.group()
def workflow() -> None:
    """Enrol contacts in workflows for getType."""


@workflow.command()
@click.argument("client_id")
@click.argument("workflow_id")
@click.argument("contact_id")
def enrol(client_id: str, workflow_id: str, contact_id: str) -> None:
    """Enrol a contact in a workflow now.

    CONTACT_ID is the contact's id in the account's CRM.
    """
    with opened_hub() as hub:
        from crmhub.helpers import enrolments

        account = hub.load_account(client_id)
        key = {"workflow_id": workflow_id, "contact_id": contact_id}
        enrolments.enrol(hub, account, **key, by=author())
    click.echo(f"Contact {contact_id} is in workflow {workflow_id}.")


@workflow.command()
@click.argument("client_id")
@click.argument("workflow_id")
@click.argument("contact_id")
def unenrol(client_id: str, workflow_id: str, contact_id: str) -> None:
    """Remove a contact from a workflow."""
    with opened_hub() as hub:
        from crmhub.helpers import enrolments

        account = hub.load_account(client_id)
        enrolments.unenrol(
            hub, account, workflow_id=workflow_id, contact_id=contact_id, by=author()
        )
    click.echo(f"Contact {contact_id} is no longer in workflow {workflow_id}.")
