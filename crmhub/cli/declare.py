"""`crmhub account apply` and `crmhub account export`: accounts that a file declares."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from crmhub.cli.open_hub import author, opened_hub
from crmhub.cli.output import print_json
from crmhub.cli.resources import print_one
from crmhub.operators.accounts import resources

if TYPE_CHECKING:
    from crmhub.operators.accounts.declared_accounts import Outcome
    from crmhub.operators.crm.switch_crm import Decision


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--queued",
    type=click.Choice(("finish", "move", "drop")),
    help="Actions queued for an old CRM: finish them there, move or drop them.",
)
@click.option("--dry-run", is_flag=True, help="Show the differences, and stop.")
@click.option("--yes", is_flag=True, help="Apply without asking.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; needs --yes or --dry-run.")
def apply(file: Path, queued: Decision | None, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Create and change accounts as FILE declares: all of them, or none if there is an error.

    The differences are shown first. Missing accounts are created, and their keys and secrets
    printed once. config/accounts.example.toml documents FILE; secrets are not in FILE, but in the
    environment or in separate files.
    """
    if as_json and not (yes or dry_run):
        raise click.UsageError("--json cannot ask: add --yes or --dry-run.")
    with opened_hub() as hub:
        from crmhub.operators.accounts import accounts_file, declared_accounts

        declared = accounts_file.read(file, os.environ)
        outcomes = declared_accounts.rehearse(hub, file, declared, queued=queued, by=author())
        if not as_json:
            _print_differences(outcomes)
        will_apply = bool(outcomes) and not dry_run
        if will_apply and not yes:
            click.confirm("Apply this?", abort=True)
        if will_apply:
            outcomes = declared_accounts.apply(hub, file, declared, queued=queued, by=author())
    if as_json:
        print_json(
            {
                "applied": will_apply,
                "accounts": [_as_json(outcome, will_apply) for outcome in outcomes],
            }
        )
    elif will_apply:
        click.echo("Applied.")
        _print_opened(outcomes)


@click.command()
@click.argument("client_ids", metavar="[CLIENT_ID]...", nargs=-1)
def export(client_ids: tuple[str, ...]) -> None:
    """Print accounts as a file for `crmhub account apply`: all of them, or those given.

    Secrets are replaced by references to environment variables.
    """
    with opened_hub() as hub:
        from crmhub.operators.accounts import declared_accounts

        click.echo(declared_accounts.export(hub, client_ids), nl=False)


def _print_differences(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        click.echo(f"{outcome.client_id}: {'is opened' if outcome.opened else 'changes'}")
        for name, before, after in outcome.differences:
            click.echo(f"  {name}: {_value_text(before)} -> {_value_text(after)}")
    if not outcomes:
        click.echo("No differences.")


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def _print_opened(outcomes: list[Outcome]) -> None:
    opened = [(each.client_id, each.opened) for each in outcomes if each.opened is not None]
    for client_id, issued in opened:
        click.echo()
        print_one(resources.OPENED, {"client_id": client_id, **asdict(issued)})
    if opened:
        click.echo("\nAPI keys and webhook secrets are not shown again: store them now.")


def _as_json(outcome: Outcome, applied: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "clientId": outcome.client_id,
        "opened": outcome.opened is not None,
        "differences": [
            {"name": name, "before": before, "after": after}
            for name, before, after in outcome.differences
        ],
    }
    if applied and outcome.opened is not None:
        shown["apiKey"] = outcome.opened.api_key
        shown["generatedId"] = outcome.opened.generated_id
        shown["portalId"] = outcome.opened.portal_id
        shown["webhookSecret"] = outcome.opened.webhook_secret
    return shown
