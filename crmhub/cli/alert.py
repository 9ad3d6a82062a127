"""`crmhub alert`: what is the matter, and whether the operator's webhook hears of it."""

from __future__ import annotations

import rich_click as click

from crmhub.cli.open_hub import opened_hub
from crmhub.cli.output import iso, print_json


@click.group()
def alert() -> None:
    """What needs an operator: refused credentials, old queues, failed actions."""


@alert.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_alerts(as_json: bool) -> None:
    """List what is the matter now."""
    from crmhub.operations import alerts

    with opened_hub() as hub, hub.database.reading() as db:
        found = alerts.now(db, old_ms=hub.settings.alert_queue_age)
    if as_json:
        print_json(
            [
                {
                    "type": alerts.BEGINS[each.kind],
                    "clientId": each.client_id,
                    "adapter": each.adapter,
                    "connectionId": each.connection_id,
                    "since": iso(each.since),
                    "actions": each.count,
                    "blocked": each.blocked,
                }
                for each in found
            ]
        )
        return
    for each in found:
        click.echo(f"{each.client_id}: {each.in_words()}")
    if not found:
        click.echo("Nothing is the matter.")


@alert.command()
def test() -> None:
    """Send the message `alert.test` to CRMHUB_ALERT_URL, and say whether it was taken."""
    from crmhub.journal import outbox

    with opened_hub() as hub:
        url, secret = hub.settings.alert_url, hub.settings.alert_secret
        if url is None or secret is None:
            raise click.UsageError("Set CRMHUB_ALERT_URL and CRMHUB_ALERT_SECRET first.")
        wrong = outbox.send(hub.egress, url, secret, *outbox.message("alert.test", {}))
    if wrong:
        raise click.ClickException(f"The message was not taken: {wrong}")
    click.echo("The message was taken.")
