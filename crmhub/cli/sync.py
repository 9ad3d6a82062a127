"""`crmhub sync`: the copies of CRMs in the hub."""

from __future__ import annotations

from dataclasses import asdict

import rich_click as click

from crmhub.cli.open_hub import author, opened_hub
from crmhub.cli.output import in_words, print_columns, print_json


@click.group()
def sync() -> None:
    """Show the copy of an account's CRM, load it anew, or compare it with the CRM.

    `crmhub account set CLIENT_ID mirror=true` begins the copy, mirror=false deletes it.
    """


@sync.command()
@click.argument("client_id")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(client_id: str, as_json: bool) -> None:
    """Show how far the copy is, up to when it has the CRM's changes, and why it does not go on."""
    with opened_hub() as hub:
        from crmhub.operators.crm import copy_crm

        account = hub.load_account(client_id)
        found = copy_crm.states(hub, account)
        address = copy_crm.webhook_address(hub, account)
    if as_json:
        print_json([asdict(each) for each in found])
        return
    if not found:
        click.echo(f"{client_id} has no copy of its CRM.")
        return
    if address:
        click.echo(f"The CRM may send webhooks to {address}")
    print_columns(
        ("RECORDS", "STATE", "HERE", "UP TO", "COMPARED", "DIFFERENCES", "LEFT OUT", "FAILURE"),
        [
            (
                each.kind,
                each.state,
                f"{each.records}{_part(each.share)}",
                in_words(each.synced_at) if each.synced_at else "-",
                in_words(each.compared_at) if each.compared_at else "-",
                "-" if each.differences is None else str(each.differences),
                str(each.left_out),
                each.failure or "-",
            )
            for each in found
        ],
    )


def _part(share: float | None) -> str:
    return "" if share in (None, 1) else f" ({share:.0%})"


@sync.command()
@click.argument("client_id")
def load(client_id: str) -> None:
    """Read all records of the CRM again; the copy stays readable meanwhile."""
    with opened_hub() as hub:
        from crmhub.operators.crm import copy_crm

        copy_crm.load_anew(hub, hub.load_account(client_id), by=author())
    click.echo(f"A worker loads the copy of {client_id} anew.")


@sync.command()
@click.argument("client_id")
@click.option(
    "--accept-deletions",
    is_flag=True,
    help="Archive the records that the last comparison found missing in the CRM and kept.",
)
def compare(client_id: str, accept_deletions: bool) -> None:
    """Find the records that only the copy or only the CRM has; this runs once a day anyway."""
    with opened_hub() as hub:
        from crmhub.operators.crm import copy_crm

        account = hub.load_account(client_id)
        copy_crm.compare(hub, account, accept=accept_deletions, by=author())
    click.echo(f"A worker compares the copy of {client_id} with its CRM.")
