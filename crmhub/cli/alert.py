"""`crmhub alert`: list the active alerts, and send a test message to the operator's webhook."""

from __future__ import annotations

import rich_click as click

from crmhub.cli.open_hub import opened_hub
from crmhub.cli.output import print_json


@click.group()
def alert() -> None:
    """List alerts, such as refused credentials and failed actions, and test their delivery."""


@alert.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_alerts(as_json: bool) -> None:
    """List the active alerts."""
    from crmhub.operators.alerts import alerts

    with opened_hub() as hub, hub.database.reading() as db:
        active = alerts.current(db, old_ms=hub.settings.alert_queue_age)
        public_url = hub.settings.public_url
    if as_json:
        print_json(
            [
                {"type": alerts.STARTED[alert.kind], **alerts.message_data(alert, public_url)}
                for alert in active
            ]
        )
        return
    for alert in active:
        url = alerts.fix_url(alert, public_url)
        click.echo(f"{alert.client_id}: {alert.in_words()}{f' Fix it at {url}' if url else ''}")
    if not active:
        click.echo("No active alerts.")


@alert.command()
def test() -> None:
    """Send the message `alert.test` to CRMHUB_ALERT_URL, and report whether it was accepted."""
    from crmhub.database.connection import now_ms
    from crmhub.events import messages, sending

    with opened_hub() as hub:
        url, secret = hub.settings.alert_url, hub.settings.alert_secret
        if url is None or secret is None:
            raise click.UsageError("Set CRMHUB_ALERT_URL and CRMHUB_ALERT_SECRET first.")
        now = now_ms()
        body = messages.alert_body(type="alert.test", created_at=now, data="{}")
        attempt = sending.send(hub.egress, url, secret, messages.new_id(now), body)
    if attempt.reason:
        raise click.ClickException(f"The message was not accepted: {attempt.reason}")
    click.echo("The message was accepted.")
