"""`crmhub duplicates`: list, merge, unmerge and dismiss possible duplicates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rich_click as click

from crmhub.cli.inputs import as_mapping, assignment
from crmhub.cli.open_hub import author, opened_hub
from crmhub.cli.output import in_words, print_columns
from crmhub.cli.resources import command, print_shown, print_table
from crmhub.operators.duplicates import resources

if TYPE_CHECKING:
    from crmhub.operators.duplicates.compare_contacts import Preview

# Copied from possible_duplicates, so that `--help` does not import it.
_STATES = ("open", "merged", "dismissed")


@click.group()
def duplicates() -> None:
    """List, merge, unmerge and dismiss contacts that may be one person."""


@duplicates.command("list")
@click.argument("client_id")
@click.option("--state", type=click.Choice((*_STATES, "all")), default="open", show_default=True)
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--after", nargs=2, metavar="ONE OTHER", help="Start after this pair.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_pairs(
    client_id: str, state: str, limit: int, after: tuple[str, str] | None, as_json: bool
) -> None:
    """List pairs of contacts that may be one person, newest first."""
    with opened_hub() as hub:
        listed = resources.list_pairs(
            hub, client_id, state="" if state == "all" else state, after=after, limit=limit
        )
    if as_json:
        print_shown(resources.PAIR, listed, many=True)
    else:
        print_table(resources.PAIR, listed)


@duplicates.command()
@click.argument("client_id")
@click.argument("one")
@click.argument("other")
@click.option(
    "--keep", metavar="ID", default="", help="The contact to keep. Default: the older one."
)
@click.option(
    "--take",
    "takes",
    metavar="NAME=ID",
    multiple=True,
    type=assignment,
    help="A property, and the contact whose value wins.",
)
@click.option("--dry-run", is_flag=True, help="Show the preview, and stop.")
@click.option("--yes", is_flag=True, help="Merge without asking.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; needs --yes or --dry-run.")
def merge(
    client_id: str,
    one: str,
    other: str,
    keep: str,
    takes: tuple[tuple[str, str], ...],
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Merge two contacts of the hub's own records, after a preview.

    The values of the kept contact win; its empty properties are filled from the other contact,
    which is archived. Links, conversations and enrolments move to the kept contact, and later
    calls with the other id reach it. The preview contains personal data.
    """
    if as_json and not (yes or dry_run):
        raise click.UsageError("--json cannot ask: add --yes or --dry-run.")
    take = as_mapping(takes, "--take")
    with opened_hub() as hub:
        from crmhub.errors import Conflict
        from crmhub.operators.duplicates import compare_contacts, merge_contacts

        account = hub.load_account(client_id)
        preview = compare_contacts.preview(hub, account, one, other, keep=keep, take=take)
        if not as_json:
            _print_preview(preview)
        elif dry_run:
            print_shown(resources.PREVIEW, preview)
        if dry_run:
            return
        if preview.obstacle:
            raise Conflict(preview.obstacle)
        kept, archived = preview.sides
        if not yes:
            click.confirm(f"Merge contact {archived.id} into contact {kept.id}?", abort=True)
        merged = merge_contacts.merge(
            hub, account, one, other, version=preview.version, keep=kept.id, take=take, by=author()
        )
    if as_json:
        print_shown(resources.PAIR, merged)
        return
    click.echo(f"Contact {merged.merged_id} is merged into contact {merged.kept_id}.")
    click.echo(f"This can be undone until {in_words(merged.unmerge_until)}.")


duplicates.add_command(command(resources.UNMERGE))


@duplicates.command()
@click.argument("client_id")
@click.argument("one")
@click.argument("other")
@click.option("--merged", is_flag=True, help="They are one person, already merged in the CRM.")
def dismiss(client_id: str, one: str, other: str, merged: bool) -> None:
    """Dismiss a pair: two different persons. It is listed again only if they share more values."""
    with opened_hub() as hub:
        reason: Any = resources.REASONS[merged]
        pair = resources.dismiss(hub, client_id, one, other, reason=reason, by=author())
    what = "merged" if merged else "two different persons"
    click.echo(f"Contacts {pair.one} and {pair.other} are {what}.")


def _print_preview(preview: Preview) -> None:
    kept, other = preview.sides
    if preview.values:
        print_columns(
            ("PROPERTY", f"{kept.id}, KEPT", other.id, "WINS"),
            [
                (value.name, value.of[kept.id], value.of[other.id], value.winner)
                for value in preview.values
            ],
            shorten=(other.id, f"{kept.id}, KEPT"),
        )
    moved = ", ".join(f"{count} {name}" for name, count in preview.moves.items() if count)
    if moved:
        click.echo(f"Moves to {kept.id}: {moved}.")
    for side in preview.sides:
        if side.url or side.error:
            click.echo(f"Contact {side.id}: {side.url or side.error}")
    if preview.obstacle:
        click.echo(preview.obstacle)
