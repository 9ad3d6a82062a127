"""`crmhub account field-map`: show, set and preview the field map of an account."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from crmhub.cli.inputs import HELPERS, as_mapping, assignment
from crmhub.cli.open_hub import author, opened_hub
from crmhub.cli.output import print_columns, print_json

if TYPE_CHECKING:
    from crmhub.accounts.field_maps import FieldMap, Rule
    from crmhub.operators.crm.map_fields import Preview

_SOURCES = {"bot": "bot", "constant": "constant", "constantIfEmpty": "constant, if empty"}


@click.command(name="field-map")
@click.argument("client_id")
@click.option(
    "--file",
    "source",
    metavar="FILE|-",
    help="Set this field map: JSON from a file or from standard input.",
)
@click.option("--no-check", is_flag=True, help="Save without checking with the CRM.")
@click.option(
    "--preview", "helper", type=click.Choice(HELPERS), help="Preview a call of this helper."
)
@click.option(
    "--sample",
    multiple=True,
    type=assignment,
    metavar="K=V",
    help="A property of that call; repeatable. Not given: the newest call.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def field_map(
    client_id: str,
    source: str | None,
    no_check: bool,
    helper: str | None,
    sample: tuple[tuple[str, str], ...],
    as_json: bool,
) -> None:
    """Show the field map of an account's CRM, set it, or preview a call.

    The key of a rule is the name that bots use, under contacts, deals or tickets:

    \b
    {"deals": {"topic": "deal_topic",
               "dealstage": {"to": "stage", "values": {"new": "17"}},
               "source": {"constant": "chatbot"}}}

    --preview sends nothing, and does not save the map from --file.
    """
    if sample and not helper:
        raise click.UsageError("--sample needs --preview.")
    if no_check and (source is None or helper):
        raise click.UsageError("--no-check needs --file, without --preview.")
    with opened_hub() as hub:
        from crmhub.operators.crm import field_map_reading, map_fields

        account = hub.load_account(client_id)
        given = None if source is None else field_map_reading.read(_read_json(source))
        if helper:
            properties = as_mapping(sample, "--sample") if sample else None
            _print_preview(
                map_fields.preview(hub, account, helper, sample=properties, field_map=given),
                as_json,
            )
            return
        notes: Any = ()
        if given is not None:
            account, notes = map_fields.set_field_map(
                hub, client_id, given, test=not no_check, by=author()
            )
    for path, words in notes:
        click.echo(f"Note: {path}: {words}{'' if words.endswith('?') else '.'}", err=True)
    if as_json:
        print_json(account.connection.field_map.plain())
    elif given is not None:
        click.echo(f"The field map of {client_id} is set.")
    else:
        _print_map(account.connection.field_map)


def _read_json(source: str) -> Any:
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
        return json.loads(text.removeprefix("\ufeff"))
    except OSError as exc:
        raise click.UsageError(f"--file: {source} cannot be read: {exc.strerror}.") from exc
    except (ValueError, RecursionError) as exc:
        raise click.UsageError(f"--file: it is not JSON in UTF-8: {exc}.") from exc


def _print_map(field_map: FieldMap) -> None:
    rows = [
        (kind, name, rule.to, _values(rule), _constant(rule))
        for kind, rules in field_map.kinds.items()
        for name, rule in rules.rules.items()
    ]
    if rows:
        titles = ("KIND", "BOTS SAY", "THE CRM", "VALUES", "CONSTANT")
        print_columns(titles, rows, shorten=("VALUES", "CONSTANT"))
    else:
        click.echo("The field map is empty: properties keep their names.")


def _values(rule: Rule) -> str:
    return ", ".join(f"{ours}={theirs}" for ours, theirs in rule.values.items()) or "-"


def _constant(rule: Rule) -> str:
    if not rule.constant:
        return "-"
    return f"{rule.constant} (if empty)" if rule.when == "empty" else rule.constant


def _print_preview(preview: Preview, as_json: bool) -> None:
    if as_json:
        from crmhub.api.admin.field_maps import preview_shown

        print_json(preview_shown(preview))
        return
    print_columns(
        ("THE CRM GETS", "VALUE", "OF", "GIVEN", "BY"),
        [
            (value.name, value.value, value.of, value.given, _SOURCES[value.source])
            for value in preview.sent
        ],
        shorten=("GIVEN", "VALUE"),
    )
    for value in preview.refused:
        click.echo(f"Refused: {value.name}: {value.reason}")
    if preview.note:
        click.echo(preview.note)
