"""`crmhub sync`: the copies of CRMs in the hub."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import rich_click as click

from crmhub.cli.open_hub import author, opened_hub
from crmhub.cli.output import in_words, print_columns, print_fields, print_json

if TYPE_CHECKING:
    from crmhub.operators.crm.copy_plan import CopyPlan, PlannedKind


@click.group()
def sync() -> None:
    """Show the copy of an account's CRM, load it again, or compare it with the CRM.

    `crmhub account set CLIENT_ID mirror=true` begins the copy, mirror=false deletes it.
    """


@sync.command()
@click.argument("client_id")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan(client_id: str, as_json: bool) -> None:
    """Show what a copy of the account's CRM would hold and take; nothing is changed.

    Asks the CRM which properties the connection may read. Those left out by `mirror_properties`
    are in parentheses; sensitive data is never copied.
    """
    with opened_hub() as hub:
        from crmhub.operators.crm import copy_plan

        account = hub.load_account(client_id)
        planned = copy_plan.plan(hub, account)
        crm = hub.registry.title(account.connection.adapter)
    if as_json:
        print_json(asdict(planned))
        return
    print_fields((each.kind, _properties_in_words(each)) for each in planned.kinds)
    click.echo()
    for line in _estimates(planned, crm):
        click.echo(line)
    if planned.obstacle:
        click.echo(f"The copy cannot begin yet: {planned.obstacle}")
        return
    click.echo(
        f"`crmhub account set {client_id} mirror_properties=email,city mirror=true` begins the copy"
        " with these properties only; without mirror_properties, with all of them."
    )


def _properties_in_words(planned: PlannedKind) -> str:
    if planned.obstacle:
        return planned.obstacle
    names = [one.name if one.is_chosen else f"({one.name})" for one in planned.properties]
    chosen = sum(one.is_chosen for one in planned.properties)
    return f"{chosen} of {len(names)} properties: {', '.join(names)}"


def _estimates(planned: CopyPlan, crm: str) -> list[str]:
    from crmhub.operators.crm.copy_plan import EXAMPLE

    minutes = (
        f"about {max(1, round(planned.minutes))} min for {EXAMPLE:,} records, within a third of"
        f" {crm}'s limit of calls"
        if planned.minutes
        else f"not known, since the adapter for {crm} declares no limit of calls per second"
    )
    record, value = planned.bytes_of_record / 1000, planned.bytes_of_value / 1000
    return [
        f"Records: not known before the load; {crm} is not asked for their number.",
        f"Time: {minutes}.",
        f"Disk: about {record:g} kB for a record with name, email and phone, and {value:g} kB for"
        " each further value.",
    ]


@sync.command()
@click.argument("client_id")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(client_id: str, as_json: bool) -> None:
    """Show how far the copy is, up to when it has the CRM's changes, and why it does not go on."""
    with opened_hub() as hub:
        from crmhub.crm.watching import describe, watch_state
        from crmhub.operators.crm import copy_crm

        account = hub.load_account(client_id)
        found = copy_crm.states(hub, account)
        watch = watch_state(hub, account)
        warnings = copy_crm.warnings(hub, account)
    if as_json:
        print_json({"copies": [asdict(each) for each in found], "webhooks": asdict(watch)})
        return
    if not found:
        click.echo(f"{client_id} has no copy of its CRM.")
        return
    if webhooks := describe(watch):
        click.echo(webhooks)
        if watch.set_at is not None:
            ends = in_words(watch.until) if watch.until else "no end"
            click.echo(f"Webhooks last set up: {in_words(watch.set_at)}; they last until: {ends}")
    for warning in warnings:
        click.echo(warning)
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
        shorten=("FAILURE",),
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
    click.echo(f"A worker loads the copy of {client_id} again.")


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
