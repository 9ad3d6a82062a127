"""`crmhub import` and `crmhub export`: import records from CSV files, and export them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import rich_click as click
from click.exceptions import Exit

from crmhub.cli.inputs import as_mapping, assignment
from crmhub.cli.open_hub import author, opened_hub
from crmhub.cli.output import print_columns, print_json
from crmhub.cli.progress import progress

if TYPE_CHECKING:
    from crmhub.csv.columns import Plan
    from crmhub.csv.progress import Tally
    from crmhub.csv.spreadsheets import Sheet
    from crmhub.records.search.filters import Filter

# Copied from crmhub.properties.kinds, so that `--help` does not import it.
_KINDS = ("contacts", "deals", "companies", "tickets")
_NOTES = "notes"
_PREVIEW_ROWS = 3
_PREVIEW_WIDTH = 24
_SHOWN_REASONS = 10
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
@click.option("--dry-run", is_flag=True, help="Show the columns and all faults; store nothing.")
@click.option(
    "--column",
    "columns",
    type=assignment,
    multiple=True,
    metavar="TITLE=NAME",
    help="The property of a column; TITLE= skips the column.",
)
@click.option("--ignore-unknown", is_flag=True, help="Skip columns that are no property.")
@click.option(
    "--link",
    "links",
    type=assignment,
    multiple=True,
    metavar="TITLE=RES.NAME",
    help="Link to the record with the cell's value: 'Company=companies.name', 'Deal=deals.id'.",
)
@click.option("--clear", is_flag=True, help="With --by: empty cells clear values.")
@click.option("--delimiter", default="", metavar="CHARACTER", help="Detected if not given.")
@click.option("--encoding", default="", metavar="NAME", help="Detected if not given.")
@click.option(
    "--decimal", type=click.Choice([".", ","]), default=None, help="Detected if not given."
)
@click.option(
    "--dates",
    type=click.Choice(["dmy", "mdy"]),
    default=None,
    help="Whether 3/4/2024 is in April or March. Detected if not given.",
)
@click.option(
    "--timezone", default="", metavar="NAME", help="Of times without a zone: Europe/Berlin. [UTC]"
)
@click.option("--raw", is_flag=True, help="Keep the apostrophe before a cell that begins with =.")
@click.option("--refused", type=_FILE, help="File for rejected rows.")
@click.option("--keep-going", is_flag=True, help="Go on even if the first 200 rows are rejected.")
@click.option("--again", is_flag=True, help="Import the file again from its start.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def import_(
    client_id: str,
    kind: str,
    file: Path,
    by: str,
    dry_run: bool,
    columns: tuple[tuple[str, str], ...],
    ignore_unknown: bool,
    links: tuple[tuple[str, str], ...],
    clear: bool,
    delimiter: str,
    encoding: str,
    decimal: str | None,
    dates: str | None,
    timezone: str,
    raw: bool,
    refused: Path | None,
    keep_going: bool,
    again: bool,
    as_json: bool,
) -> None:
    """Import records (RES: contacts, deals, companies, tickets) from a CSV file.

    The first line names the properties, by name, by label or as HubSpot exports them. Each row
    creates a record; with --by email it updates the record with the same email, if there is one.
    Labels of options, pipelines and stages are understood.

    Rejected rows go to FILE.refused.csv with the reason; correct them and import that file. Exits
    with 1 if a row was rejected. After an interruption, run the same command again: it continues
    where it stopped, and stores no row twice.

    Example: crmhub import acme contacts people.csv --by email --dry-run
    """
    if by == "" and clear:
        raise click.UsageError("--clear needs --by: a new record has nothing to clear.")
    if len(delimiter) > 1 and delimiter != "\\t":
        raise click.UsageError("--delimiter: give one character, or \\t for a tab.")
    if not file.is_file():
        raise click.UsageError(
            f"{file} is not a regular file; an import reads its file several times."
        )
    if encoding:
        from crmhub.csv.encodings import ENCODINGS, normalize_encoding

        try:
            normalize_encoding(encoding)
        except LookupError:
            raise click.UsageError(
                f"--encoding: {encoding[:40]} is not a known encoding; give one of"
                f" {', '.join(ENCODINGS)}."
            ) from None
    refused = refused or file.with_name(f"{file.stem}.refused.csv")
    if not refused.exists() and not refused.parent.is_dir():
        raise click.UsageError(f"--refused: there is no directory {refused.parent}.")
    with opened_hub() as hub:
        from crmhub.csv.columns import Choices, plan_columns
        from crmhub.csv.importing import Import, load_catalogues
        from crmhub.csv.spreadsheets import Sheet
        from crmhub.operators.files.running_imports import open_command
        from crmhub.properties.kinds import KINDS

        account = hub.load_account(client_id)
        sheet = Sheet(file, delimiter=delimiter.replace("\\t", "\t"), encoding=encoding)
        choices = Choices(
            by=by,
            columns=as_mapping(columns, "--column"),
            clear=clear,
            raw=raw,
            ignore_unknown=ignore_unknown,
            links=as_mapping(links, "--link"),
            decimal=decimal or "",
            dates=dates or "",
            timezone=timezone,
        )
        read = f"{sheet.rows:,} rows in {sheet.encoding}, separated by {sheet.delimiter_name}."
        if dry_run and not as_json:
            click.echo(read)
            # Before the check, so that it shows what is at fault.
            catalogues = load_catalogues(hub.records, account)
            plan = plan_columns(catalogues[kind], sheet.header, choices, catalogues)
            _print_plan(plan, sheet)
        if dry_run:
            job = Import(
                hub.records,
                account,
                KINDS[kind],
                sheet,
                choices=choices,
                refusals=None,
                by=author(),
                dry_run=True,
                stop_early=not keep_going,
            )
            opened: AbstractContextManager[tuple[Import, Iterator[Tally]]]
            opened = nullcontext((job, job.run()))
        else:
            opened = open_command(
                hub,
                account,
                KINDS[kind],
                sheet,
                choices,
                refused=refused,
                by=author(),
                again=again,
                keep_going=keep_going,
            )
        try:
            with opened as (job, tallies):
                if as_json or not dry_run:
                    click.echo(read, err=True)
                    if job.plan.left_out:
                        click.echo(f"Skipped columns: {', '.join(job.plan.left_out)}.", err=True)
                if job.tally.rows:
                    click.echo(f"Continuing after row {job.tally.rows:,}.", err=True)
                with progress("rows", total=sheet.rows, done=job.tally.rows) as report:
                    for tally in tallies:
                        report(tally.rows)
        except OSError as exc:
            raise click.ClickException(
                f"{exc.filename or refused}: {exc.strerror}. The rows imported so far are kept;"
                " run the same command again to continue."
            ) from exc
        tally = job.tally
    if as_json:
        result = {
            "created": tally.created,
            "updated": tally.updated,
            "refused": tally.refused,
            "refusedFile": str(refused) if tally.refused and not dry_run else "",
            "leftOut": job.plan.left_out,
            "reasons": job.reasons.most_common(),
        }
        print_json(result | ({"dryRun": True} if dry_run else {}))
    else:
        would = "would be " if dry_run else ""
        click.echo(f"{tally.created:,} {would}created, {tally.updated:,} {would}updated.")
        if tally.refused:
            where = "" if dry_run else f", with their reasons in {refused}"
            click.echo(f"{tally.refused:,} {would}refused{where}.")
            for text in job.reasons.describe(_SHOWN_REASONS):
                click.echo(f"  {text}")
        if job.warning:
            click.echo(job.warning)
        if dry_run:
            click.echo("Nothing was stored. Run the command without --dry-run to import.")
    if tally.refused:
        raise Exit(1)


def _print_plan(plan: Plan, sheet: Sheet) -> None:
    first_rows = list(islice(sheet.read(sheet.start), _PREVIEW_ROWS))
    rows = []
    for index, column in enumerate(plan.columns):
        cells = [row.cells[index] for row in first_rows if index < len(row.cells)]
        name = column.name or ("" if column.target else "(skipped)")
        if column.target:
            link = f"link to {column.target.kind.name}.{column.target.property}"
            name = f"{name}, {link}" if name else link
        shown = (" ".join(cell.split())[:_PREVIEW_WIDTH] for cell in cells if cell)
        found_by = "(see the error)" if column.fault else column.found_by
        rows.append((column.title, name, found_by, " | ".join(shown)))
    print_columns(("COLUMN", "PROPERTY", "FOUND BY", "FIRST ROWS"), rows)


@click.command()
@click.argument("client_id")
@click.argument("kind", type=click.Choice((*_KINDS, _NOTES)), metavar="RES")
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
@click.option("--labels", is_flag=True, help="Titles are labels instead of names.")
@click.option("--bom", is_flag=True, help="Begin with a byte order mark, for Excel.")
@click.option(
    "--delimiter", default=",", show_default=True, metavar="CHARACTER", help="\\t for a tab."
)
@click.option("--force", is_flag=True, help="Overwrite FILE.")
def export(
    client_id: str,
    kind: str,
    file: Path,
    names: tuple[str, ...],
    filters: tuple[str, ...],
    raw: bool,
    labels: bool,
    bom: bool,
    delimiter: str,
    force: bool,
) -> None:
    """Export records (RES: contacts, deals, companies, tickets, notes) into a CSV file, - for
    standard output.

    RES notes are the notes and tasks of all records.

    The file appears only when it is complete. A cell that a spreadsheet would read as a formula
    gets an apostrophe in front, which crmhub import removes.

    Example: crmhub export acme contacts people.csv --labels --bom
    """
    delimiter = delimiter.replace("\\t", "\t")
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise click.UsageError("--delimiter: give one character, or \\t for a tab.")
    if kind == _NOTES and (names or filters or labels):
        raise click.UsageError("--property, --filter and --labels are for records, not for notes.")
    parsed_filters = tuple(_filter(text) for text in filters)
    with opened_hub() as hub:
        from crmhub.csv.exporting import Selection, export_notes
        from crmhub.csv.exporting import export as exported
        from crmhub.properties.kinds import KINDS

        account = hub.load_account(client_id)
        selection = Selection(parsed_filters, names, raw, labels, delimiter)
        written = 0
        with _write_whole(file, force=force) as out:
            out.write("\ufeff" * bom)
            if kind == _NOTES:
                steps = export_notes(hub.records, account, selection, out, by=author())
            else:
                steps = exported(hub.records, account, KINDS[kind], selection, out, by=author())
            written, total = next(steps)
            with closing(steps), progress(kind, total=total) as tell:
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
    """Open a file that gets its name only when it is complete; `-` is standard output."""
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
