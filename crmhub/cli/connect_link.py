"""`crmhub account link`: create a link with which a customer connects an account to its CRM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from crmhub.cli.inputs import adapter_options, as_mapping, read_secrets, refuse_secrets
from crmhub.cli.open_hub import author, opened_hub
from crmhub.cli.output import in_words, iso, print_json

if TYPE_CHECKING:
    from crmhub.operators.crm.switch_crm import Decision


@click.command()
@click.argument("client_id")
@click.argument("name")
@adapter_options("client_id or client_secret of your app in the CRM, unless they are stored")
@click.option(
    "--queued",
    type=click.Choice(("finish", "move", "drop")),
    help="What becomes of actions queued for the old CRM, as for `account adapter`.",
)
@click.option(
    "--days", type=click.IntRange(1, 30), default=7, show_default=True, help="How long it is valid."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def link(
    client_id: str,
    name: str,
    queued: Decision | None,
    days: int,
    as_json: bool,
    settings: tuple[tuple[str, str], ...],
    secrets: tuple[tuple[str, str], ...],
) -> None:
    """Create a link with which a customer connects the account to a CRM by OAuth.

    The link works once, and the customer needs no user. Nothing changes before the customer
    approves. Needs CRMHUB_PUBLIC_URL.
    """
    with opened_hub() as hub:
        from crmhub.operators.crm import connect_crm, set_crm

        base = connect_crm.require_public_url(hub)
        given = as_mapping(settings, "--set")
        refuse_secrets(set_crm.load_adapter(hub, name), given)
        crm = set_crm.Crm(name, given, read_secrets(secrets))
        made = connect_crm.make_link(hub, client_id, crm, by=author(), queued=queued, days=days)
    if as_json:
        print_json({"url": made.url(base), "expiresAt": iso(made.expires_at)})
        return
    click.echo(made.url(base))
    click.echo(
        f"It works once, until {in_words(made.expires_at)}. It is not shown again.", err=True
    )
