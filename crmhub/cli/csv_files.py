"""`crmhub import` and `crmhub export`: import records from CSV files, and export them."""

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
from crmhub.cli.open_hub import author, opened_hub
from crmhub.cli.output import print_json
from crmhub.cli.progress import progress

if TYPE_CHECKING:
    from crmhub.records.search.filters import Filter

# Copied from crmhub.properties.kinds, so that `--help` does not import it.
_KINDS = ("contacts", "deals", "companies", "tickets")
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(name="import")
@click.argument("client_id")
@click.argument("kind", type=click.Choice(_KINDS), metavar="RES")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True, readable=True))
@click.option(
    "--by",
    default="",
    metavar="NAME",
    help="Update the record with the same value: a unique property, or id.",
)
@click.option(
    "--column",
    "columns",
    type=assignment,
    multiple=True,
    metavar="TITLE=NAME",
    help="The property of a column; TITLE= skips the column.",
)
@click.option("--clear", is_flag=True, help="With --by: empty cells clear values.")
@click.option("--delimiter", default="", metavar="CHARACTER", help="Detected if not given.")
@click.option("--encoding", default="utf-8", show_default=True)
@click.option("--raw", is_flag=True, help="Keep the apostrophe before a cell that begins with =.")
@click.option("--refused", type=_FILE, help="File for rejected rows.")
@click.option("--again", is_flag=True, help="Import the file again from its start.")
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

    The first line names the properties, by name or label. Each row creates a record; with --by
    email it updates the record with the same email, if there is one.

    Rejected rows go to FILE.refused.csv with the reason; correct them and import that file. Exits
    with 1 if a row was rejected. After an interruption, run the same command again: it continues
    where it stopped, and stores no row twice.
    """
    if by == "" and clear:
        raise click.UsageError("--clear needs --by: a new record has nothing to clear.")
    if len(delimiter) > 1 and delimiter != "\\t":
        raise click.UsageError("--delimiter: give one character, or \\t for a tab.")
    if not file.is_file():
        raise click.UsageError(
            f"{file} is not a regular file; an import reads its file several times."
        )
    try:
        b"email".decode(encoding, "replace")
    except (LookupError, ValueError):
        raise click.UsageError(
            f"--encoding: {encoding} is not a known encoding; give for example cp1252."
        ) from None
    refused = refused or file.with_name(f"{file.stem}.refused.csv")
    with opened_hub() as hub:
        from crmhub.csv.columns import Choices
        from crmhub.csv.importing import Import
        from crmhub.csv.spreadsheets import Sheet
        from crmhub.properties.kinds import KINDS

        account = hub.load_account(client_id)
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
            click.echo(f"Skipped columns: {', '.join(job.left_out)}.", err=True)
        if job.tally.rows:
            click.echo(f"Continuing after row {job.tally.rows:,}.", err=True)
        try:
            with progress("rows", total=sheet.rows, done=job.tally.rows) as report:
                for tally in job.run():
                    report(tally.rows)
        except OSError as exc:
            raise click.ClickException(
                f"{exc.filename or refused}: {exc.strerror}. The rows imported so far are kept;"
                " run the same command again to continue."
            ) from exc
        tally = job.tally
    if as_json:
        print_json(
            {
                "created": tally.created,
                "updated": tally.updated,
                "refused": tally.refused,
                "refusedFile": str(refused) if tally.refused else "",
                "leftOut": job.left_out,
            }
        )
    else:
        click.echo(f"{tally.created:,} created, {tally.updated:,} updated.")
        if tally.refused:
            click.echo(f"{tally.refused:,} refused, with their reasons in {refused}.")
    if tally.refused:
        raise Exit(1)


@click.command()
@click.argument("client_id")
@click.argument("kind", type=click.Choice(_KINDS), metavar="RES")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@click.option(
    "--property", "names", multiple=True, metavar="NAME", help="Only this property; repeatable."
)
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="'NAME OPERATOR VALUE'",
    help="As in a search; IN and NOT_IN take comma-separated values.",
)
@click.option(
    "--raw", is_flag=True, help="For programs: no apostrophe before a cell that begins with =."
)
@click.option("--force", is_flag=True, help="Overwrite FILE.")
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

    The file appears only when it is complete. A cell that a spreadsheet would read as a formula
    gets an apostrophe in front, which crmhub import removes.
    """
    parsed_filters = tuple(_filter(text) for text in filters)
    with opened_hub() as hub:
        from crmhub.csv.exporting import Selection
        from crmhub.csv.exporting import export as exported
        from crmhub.properties.kinds import KINDS

        account = hub.load_account(client_id)
        selection = Selection(parsed_filters, names, raw)
        written = 0
        with _write_whole(file, force=force) as out:
            steps = exported(hub.records, account, KINDS[kind], selection, out, by=author())
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
def _write_whole(file: Path, *, force: bool) -> Iterator[TextIO]:
    """Open a file for writing that gets its name only when it is complete and on the disk.

    The file `-` is standard output. Without `force`, raises UsageError if the file exists.
    """
    if str(file) == "-":
        yield sys.stdout
        sys.stdout.flush()
        return
    if file.exists() and not file.is_file():
        raise click.UsageError(f"{file} is not a regular file; - is standard output.")
    if file.exists() and not force:
        raise click.UsageError(f"{file} exists already; --force overwrites it.")
    # Replace the target of a link, not the link itself, which may be /dev/stdout.
    file = Path(os.path.realpath(file))
    part = file.with_name(f"{file.name}.part")
    try:
        # The file holds personal data, so only its owner may read it.
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
