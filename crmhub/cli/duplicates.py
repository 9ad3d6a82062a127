"""`crmhub duplicates`: possible duplicates of an account, seen, merged and unmerged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from crmhub.cli.inputs import as_mapping, assignment
from crmhub.cli.open_hub import (
    author,
    load_account,
    opened_hub,
)
from crmhub.cli.output import in_words, iso, print_columns, print_json

if TYPE_CHECKING:
    from crmhub.operations.compare_contacts import (
        Preview,
        Side,
        Value,
    )

# Said again, so that `--help` needs to load nothing.
_STATES = ("open", "merged", "dismissed")
_SHOWN = 40


@click.group()
def duplicates() -> None:
    """Contacts that may be one person: list, merge, unmerge, dismiss."""


@duplicates.command("list")
@click.argument("client_id")
@click.option("--state", type=click.Choice((*_STATES, "all")), default="open", show_default=True)
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--after", nargs=2, metavar="ONE OTHER", help="Begin behind this pair.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_pairs(
    client_id: str, state: str, limit: int, after: tuple[str, str] | None, as_json: bool
) -> None:
    """List pairs of contacts of the account's CRM, the newest first."""
    with opened_hub() as hub:
        from crmhub.api.admin.duplicate_answers import pair_shown
        from crmhub.identity import possible_duplicates as pairs

        account = load_account(hub, client_id)
        with hub.database.reading() as db:
            last = pairs.find(db, account, *after) if after else None
            found = pairs.listed(
                db,
                account,
                state="" if state == "all" else state,
                after=(last.found_at, *last.ids) if last else None,
                limit=limit,
            )
    if as_json:
        print_json([pair_shown(pair) for pair in found])
        return
    print_columns(
        ("ONE", "OTHER", "BOTH HAVE", "STATE", "FOUND", "KEPT", "UNMERGE UNTIL"),
        [
            (
                *pair.ids,
                ", ".join(pair.shares),
                pair.state,
                iso(pair.found_at) or "",
                pair.kept_id,
                in_words(pair.unmerge_until or None, never=""),
            )
            for pair in found
        ],
    )


@duplicates.command()
@click.argument("client_id")
@click.argument("one")
@click.argument("other")
@click.option("--keep", metavar="ID", default="", help="The contact to keep; else the older one.")
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
@click.option("--json", "as_json", is_flag=True, help="Print JSON; wants --yes or --dry-run.")
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
    """Merge two contacts of the hub's own records, once you have seen what comes of it.

    The values of the contact that is kept win, and its blanks are filled from the other one, which
    is archived. Links, conversations and enrolments move, and later calls with the other id follow.
    The preview holds personal data.
    """
    if as_json and not (yes or dry_run):
        raise click.UsageError("--json asks nothing: add --yes or --dry-run.")
    take = as_mapping(takes, "--take")
    with opened_hub() as hub:
        from crmhub.api.admin.duplicate_answers import pair_shown, preview_shown
        from crmhub.errors import Conflict
        from crmhub.operations import compare_contacts, merge_contacts

        account = load_account(hub, client_id)
        seen = compare_contacts.preview(hub, account, one, other, keep=keep, take=take)
        if not as_json:
            _print(seen)
        elif dry_run:
            print_json(preview_shown(seen))
        if dry_run:
            return
        if seen.obstacle:
            raise Conflict(seen.obstacle)
        kept, gone = seen.sides
        if not yes:
            click.confirm(f"Merge contact {gone.id} into contact {kept.id}?", abort=True)
        merged = merge_contacts.merge(
            hub, account, one, other, version=seen.version, keep=kept.id, take=take, by=author()
        )
    if as_json:
        print_json(pair_shown(merged))
        return
    click.echo(f"Contact {merged.merged_id} is merged into contact {merged.kept_id}.")
    click.echo(f"This can be undone until {in_words(merged.unmerge_until)}.")


@duplicates.command()
@click.argument("client_id")
@click.argument("one")
@click.argument("other")
def unmerge(client_id: str, one: str, other: str) -> None:
    """Undo a merge of the last 30 days.

    Both contacts are there again. What was written since stays with the one that was kept.
    """
    with opened_hub() as hub:
        from crmhub.operations import merge_contacts

        pair = merge_contacts.unmerge(hub, load_account(hub, client_id), one, other, by=author())
    click.echo(f"Contacts {pair.one} and {pair.other} are two again.")


@duplicates.command()
@click.argument("client_id")
@click.argument("one")
@click.argument("other")
@click.option("--merged", is_flag=True, help="They are one person, and merged in the CRM.")
def dismiss(client_id: str, one: str, other: str, merged: bool) -> None:
    """Close a pair as two different persons. It comes back only if they share more."""
    with opened_hub() as hub:
        from crmhub.operations import merge_contacts

        account = load_account(hub, client_id)
        pair = merge_contacts.dismiss(hub, account, one, other, by=author(), merged=merged)
    what = "merged" if merged else "two different persons"
    click.echo(f"Contacts {pair.one} and {pair.other} are {what}.")


def _print(seen: Preview) -> None:
    """Print both contacts side by side, and what moves."""
    kept, other = seen.sides
    if seen.values:
        print_columns(
            ("PROPERTY", f"{kept.id}, KEPT", other.id, "WINS"),
            [
                (value.name, _cell(value, kept), _cell(value, other), value.winner)
                for value in seen.values
            ],
        )
    moved = ", ".join(f"{count} {name}" for name, count in seen.moves.items() if count)
    if moved:
        click.echo(f"Moves to {kept.id}: {moved}.")
    for side in seen.sides:
        if side.url or side.error:
            click.echo(f"Contact {side.id}: {side.url or side.error}")
    if seen.obstacle:
        click.echo(seen.obstacle)


def _cell(value: Value, side: Side) -> str:
    # On one line, and nothing that a terminal would carry out.
    text = "".join(c if c.isprintable() else " " for c in value.of[side.id])
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
