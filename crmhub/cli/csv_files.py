"""`crmhub import` and `crmhub export`: records from a CSV file, and into one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import rich_click as click
from click.exceptions import Exit

from crmhub.cli.inputs import as_mapping, assignment
from crmhub.cli.open_hub import (
    author,
    load_account,
    opened_hub,
)
from crmhub.cli.output import print_json
from crmhub.cli.progress import progress

if TYPE_CHECKING:
    from crmhub.records.search.filters import Filter

# Said again, so that `--help` needs to load nothing.
_KINDS = ("contacts", "deals", "companies", "tickets")
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(name="import")
@click.argument("client_id")
@click.argument("kind", type=click.Choice(_KINDS), metavar="RES")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True, readable=True))
@click.option("--by", default="", metavar="NAME", help="A unique property, or id: whose row it is.")
@click.option(
    "--column",
    "columns",
    type=assignment,
    multiple=True,
    metavar="TITLE=NAME",
    help="What a column holds; TITLE= leaves it out.",
)
@click.option("--clear", is_flag=True, help="Empty cells clear values, with --by.")
@click.option("--delimiter", default="", metavar="CHARACTER", help="Found by itself if not given.")
@click.option("--encoding", default="utf-8", show_default=True)
@click.option("--raw", is_flag=True, help="Take cells as they are: an apostrophe before = stays.")
@click.option("--refused", type=_FILE, help="Where rows go that cannot be stored.")
@click.option("--again", is_flag=True, help="Import anew what was imported before.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def import_(
    client_id: str,
    kind: str,
    file: Path,
    by: str,
    columns: tuple[tuple[str, str], ...],
    clear: bool,
    delimiter: str,
    encoding: str,
    raw: bool,
    refused: Path | None,
    again: bool,
    as_json: bool,
) -> None:
    """Import records (RES: contacts, deals, companies, tickets) from a CSV file.

    The first line names the properties, by name or label. Each row becomes a new record; with
    --by email it changes the record that has its e-mail address, where there is one.

    Rows that cannot be stored go to FILE.refused.csv with the reason, to be corrected and imported
    from there; then it exits with 1. Stopped or killed, the same command goes on where it was, and
    no row is stored twice.
    """
    if by == "" and clear:
        raise click.UsageError("--clear needs --by: a new record has nothing to clear.")
    if len(delimiter) > 1 and delimiter != "\\t":
        raise click.UsageError("--delimiter: give one character, or \\t for a tab.")
    if not file.is_file():
        raise click.UsageError(f"{file} is no regular file, and an import reads it several times.")
    try:
        b"email".decode(encoding, "replace")
    except (LookupError, ValueError):
        raise click.UsageError(
            f"--encoding: {encoding} is no encoding of files; give cp1252, say."
        ) from None
    refused = refused or file.with_name(f"{file.stem}.refused.csv")
    with opened_hub() as hub:
        from crmhub.csv.importing import Choices, Import
        from crmhub.csv.spreadsheets import Sheet
        from crmhub.properties.kinds import KINDS

        account = load_account(hub, client_id)
        sheet = Sheet(file, delimiter=delimiter.replace("\\t", "\t"), encoding=encoding)
        choices = Choices(by, as_mapping(columns, "--column"), clear, raw)
        job = Import(
            hub.records,
            account,
            KINDS[kind],
            sheet,
            choices=choices,
            refused=refused,
            by=author(),
            again=again,
        )
        if job.left_out:
            click.echo(f"Columns that are left out: {', '.join(job.left_out)}.", err=True)
        if job.tally.rows:
            click.echo(f"Going on behind row {job.tally.rows:,}.", err=True)
        try:
            with progress("rows", total=sheet.rows, done=job.tally.rows) as tell:
                for tally in job.run():
                    tell(tally.rows)
        except OSError as exc:
            raise click.ClickException(
                f"{exc.filename or refused}: {exc.strerror}. What was imported so far is kept;"
                " the same command goes on."
            ) from exc
        done = job.tally
    if as_json:
        print_json(
            {
                "created": done.created,
                "updated": done.updated,
                "refused": done.refused,
                "refusedFile": str(refused) if done.refused else "",
                "leftOut": job.left_out,
            }
        )
    else:
        click.echo(f"{done.created:,} created, {done.updated:,} updated.")
        if done.refused:
            click.echo(f"{done.refused:,} refused, with their reasons in {refused}.")
    if done.refused:
        raise Exit(1)


@click.command()
@click.argument("client_id")
@click.argument("kind", type=click.Choice(_KINDS), metavar="RES")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@click.option("--property", "names", multiple=True, metavar="NAME", help="Not given: all.")
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="'NAME OPERATOR VALUE'",
    help="As in a search; IN and NOT_IN take values with commas between.",
)
@click.option("--raw", is_flag=True, help="For programs: no apostrophe before what begins with =.")
@click.option("--force", is_flag=True, help="Write over FILE.")
def export(
    client_id: str,
    kind: str,
    file: Path,
    names: tuple[str, ...],
    filters: tuple[str, ...],
    raw: bool,
    force: bool,
) -> None:
    """Export records (RES: contacts, deals, companies, tickets) into a CSV file, - for standard
    output.

    The file is there once it is whole. A cell that a spreadsheet would take for a formula begins
    with an apostrophe, which crmhub import takes off again.
    """
    wanted_filters = tuple(_filter(text) for text in filters)
    with opened_hub() as hub:
        from crmhub.csv.exporting import Wanted
        from crmhub.csv.exporting import export as exported
        from crmhub.properties.kinds import KINDS

        account = load_account(hub, client_id)
        wanted = Wanted(wanted_filters, names, raw)
        written = 0
        with _whole(file, force=force) as out:
            steps = exported(hub.records, account, KINDS[kind], wanted, out, by=author())
            written, total = next(steps)
            with progress(kind, total=total) as tell:
                tell(written)
                for written, _ in steps:
                    tell(written)
    click.echo(f"{written:,} {kind}.", err=True)


def _filter(text: str) -> Filter:
    from crmhub.records.search.filters import Filter

    name, operator, value = [*text.split(None, 2), "", "", ""][:3]
    if operator in ("IN", "NOT_IN"):
        return Filter(name, operator, None, tuple(value.split(",")))
    return Filter(name, operator, value or None)


@contextmanager
def _whole(file: Path, *, force: bool) -> Iterator[TextIO]:
    """Lend a file to write that takes its name once it is whole; `-` is standard output."""
    if str(file) == "-":
        yield sys.stdout
        sys.stdout.flush()
        return
    if file.exists() and not file.is_file():
        raise click.UsageError(f"{file} is no regular file; - stands for standard output.")
    if file.exists() and not force:
        raise click.UsageError(f"{file} is there already; --force writes over it.")
    # What a link leads to is written over, and not the link, which may be /dev/stdout.
    file = Path(os.path.realpath(file))
    part = file.with_name(f"{file.name}.part")
    try:
        # Personal data: for nobody else to read.
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8", newline="") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        part.replace(file)
    except OSError as exc:
        raise click.ClickException(f"{exc.filename or part}: {exc.strerror}.") from exc
    finally:
        part.unlink(missing_ok=True)
