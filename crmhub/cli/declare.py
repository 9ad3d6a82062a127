"""`crmhub account apply` and `export`: accounts as a file declares them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from crmhub.cli.open_hub import author, opened_hub
from crmhub.cli.output import print_json

if TYPE_CHECKING:
    from crmhub.operations.declared_accounts import Outcome
    from crmhub.operations.switch_crm import Decision


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--queued",
    type=click.Choice(("finish", "move", "drop")),
    help="What becomes of what is queued for a CRM that an account leaves.",
)
@click.option("--dry-run", is_flag=True, help="Show what differs, and stop.")
@click.option("--yes", is_flag=True, help="Apply without asking.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; wants --yes or --dry-run.")
def apply(file: Path, queued: Decision | None, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Make accounts what FILE declares: all of them, or none where something is wrong.

    What differs is shown first. Accounts that are not there are opened, and their keys and secrets
    printed, this once. config/accounts.example.toml shows what FILE may say; a secret is never in
    it, but in the environment or in a file of its own.
    """
    if as_json and not (yes or dry_run):
        raise click.UsageError("--json asks nothing: add --yes or --dry-run.")
    with opened_hub() as hub:
        from crmhub.operations import declared_accounts

        wanted = declared_accounts.read(file, os.environ)
        found = declared_accounts.rehearse(hub, file, wanted, queued=queued, by=author())
        if not as_json:
            _print_differences(found)
        applies = bool(found) and not dry_run
        if applies and not yes:
            click.confirm("Apply this?", abort=True)
        if applies:
            found = declared_accounts.apply(hub, file, wanted, queued=queued, by=author())
    if as_json:
        print_json({"applied": applies, "accounts": [_as_json(one, applies) for one in found]})
    elif applies:
        click.echo("Applied.")
        _print_opened(found)


@click.command()
@click.argument("client_ids", metavar="[CLIENT_ID]...", nargs=-1)
def export(client_ids: tuple[str, ...]) -> None:
    """Print accounts as a file that `crmhub account apply` takes; all of them, or those named.

    Secrets become references to variables of the environment.
    """
    with opened_hub() as hub:
        from crmhub.operations import declared_accounts

        click.echo(declared_accounts.export(hub, client_ids), nl=False)


def _print_differences(found: list[Outcome]) -> None:
    for one in found:
        click.echo(f"{one.client_id}: {'is opened' if one.opened else 'changes'}")
        for name, was, becomes in one.differences:
            click.echo(f"  {name}: {_shown(was)} -> {_shown(becomes)}")
    if not found:
        click.echo("Nothing differs.")


def _shown(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def _print_opened(found: list[Outcome]) -> None:
    opened = [(one.client_id, one.opened) for one in found if one.opened is not None]
    for client_id, issued in opened:
        click.echo(f"\nClient id       {client_id}")
        click.echo(f"API key         {issued.api_key}")
        click.echo(f"Generated id    {issued.generated_id}")
        click.echo(f"Portal id       {issued.portal_id}")
        click.echo(f"Webhook secret  {issued.webhook_secret}")
    if opened:
        click.echo("\nAPI keys and webhook secrets are not shown again: keep them now.")


def _as_json(one: Outcome, applied: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "clientId": one.client_id,
        "opened": one.opened is not None,
        "differences": [
            {"name": name, "before": was, "after": becomes}
            for name, was, becomes in one.differences
        ],
    }
    if applied and one.opened is not None:
        shown["apiKey"] = one.opened.api_key
        shown["generatedId"] = one.opened.generated_id
        shown["portalId"] = one.opened.portal_id
        shown["webhookSecret"] = one.opened.webhook_secret
    return shown
