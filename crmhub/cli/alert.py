"""`crmhub alert`: list the active alerts, and send a test message on each channel."""

from __future__ import annotations

import rich_click as click

from crmhub.cli.open_hub import author, opened_hub
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
    """Send a test message on each channel that is set, and say what came of it."""
    from crmhub.operators.alerts.alert_tests import send_tests
    from crmhub.operators.alerts.channels import TITLES

    tried = failed = 0
    with opened_hub() as hub:
        for name, attempt in send_tests(hub, by=author()):
            tried += 1
            failed += not attempt.succeeded
            said = attempt.note or "accepted." if attempt.succeeded else attempt.reason
            click.echo(f"{TITLES[name]}: {said}", err=not attempt.succeeded)
    if failed:
        raise click.ClickException(f"{failed} of {tried} messages were not accepted.")
