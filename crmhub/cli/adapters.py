"""`crmhub adapters`: the kinds of CRM that are installed; `crmhub adapter new`: one more."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click
from click.exceptions import Exit

from crmhub.cli.output import print_columns, print_fields, print_json

if TYPE_CHECKING:
    from crmhub.adapter import Setting
    from crmhub.adapter.registry import Installed


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def adapters(name: str | None, as_json: bool) -> None:
    """List the installed adapters, where they come from and what they can do; or show one.

    With a NAME, its settings too. Exits with 1 when one of those shown cannot be loaded.
    """
    from crmhub.adapter.registry import Registry

    found = Registry().installed()
    if name is not None:
        found = [_named(found, name)]
    if as_json:
        from crmhub.api.admin.account_answers import adapter_shown

        described = [adapter_shown(one) for one in found]
        print_json(described if name is None else described[0])
    elif name is not None:
        _print_adapter(found[0])
    elif found:
        print_columns(
            ("ADAPTER", "VERSION", "FROM", "CAN ALSO"),
            [(one.name, one.version, one.distribution, one.error or _can(one)) for one in found],
        )
    else:
        click.echo("No adapter is installed, not even `local`: install crmhub anew.", err=True)
    if not found or any(one.error for one in found):
        raise Exit(1)


@click.group()
def adapter() -> None:
    """Write an adapter for another CRM."""


@adapter.command()
@click.argument("name")
@click.option(
    "--to",
    "directory",
    type=click.Path(path_type=Path),
    help="Where to write it: a new or empty directory; crmhub-NAME when not given.",
)
def new(name: str, directory: Path | None) -> None:
    """Write a package with a working adapter, a fake CRM and their tests, to start from.

    NAME is what accounts will call the adapter: lower-case letters, digits, - and _.
    """
    from crmhub.adapter.registry import Registry
    from crmhub.cli.adapter_skeleton import Unfit, write

    directory = directory or Path(f"crmhub-{name}")
    try:
        write(name, directory, taken=Registry().names)
    except Unfit as exc:
        raise click.UsageError(str(exc)) from exc
    click.echo(f"The adapter {name} is in {directory}. Its tests pass as it is:\n")
    click.echo(f"cd {shlex.quote(str(directory))}")
    click.echo("pip install -e '.[testing]'")
    click.echo("pytest")


def _named(found: list[Installed], name: str) -> Installed:
    for one in found:
        if one.name == name:
            return one
    known = ", ".join(one.name for one in found) or "none"
    raise click.ClickException(f"No adapter named {name!r} is installed; installed are: {known}.")


def _can(one: Installed) -> str:
    return ", ".join(sorted(one.features)) or "-"


def _print_adapter(one: Installed) -> None:
    come_from = f"{one.distribution} {one.version}".strip() or "-"
    fields = [("Adapter", one.name), ("From", come_from)]
    if one.error:
        print_fields([*fields, ("Error", one.error)])
        return
    print_fields([*fields, ("CRM", one.title), ("Can also", _can(one))])
    if not one.settings:
        click.echo("\nIt has no settings.")
        return
    click.echo()
    print_columns(
        ("SETTING", "GIVEN BY", "NEEDED", "DEFAULT", "WHAT IT IS"),
        [
            (
                each.name,
                "--secret" if each.secret else "--set",
                "yes" if each.required else "-",
                each.default or "-",
                _meaning(each),
            )
            for each in one.settings
        ],
    )
    for each in one.settings:
        if each.help:
            click.echo(f"\n{each.name}: {each.help}")


def _meaning(one: Setting) -> str:
    return f"{one.label}: {', '.join(one.choices)}" if one.choices else one.label
