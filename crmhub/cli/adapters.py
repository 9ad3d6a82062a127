"""`crmhub adapters` lists the installed adapters; `crmhub adapter new` writes a new adapter."""

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
    """List the installed adapters, or show the settings of the adapter NAME.

    Exits with 1 if an adapter that is shown cannot be loaded.
    """
    from crmhub.adapter.registry import Registry

    installed = Registry().installed()
    if name is not None:
        installed = [_find_adapter(installed, name)]
    if as_json:
        from crmhub.api.admin.account_answers import AdapterShown

        shown = AdapterShown(many=True).dump(installed)
        print_json(shown if name is None else shown[0])
    elif name is not None:
        _print_adapter(installed[0])
    elif installed:
        print_columns(
            ("ADAPTER", "VERSION", "FROM", "CAPABILITIES"),
            [
                (
                    adapter.name,
                    adapter.version,
                    adapter.distribution,
                    adapter.error or _capabilities(adapter),
                )
                for adapter in installed
            ],
        )
    else:
        click.echo("No adapter is installed, not even `local`: reinstall crmhub.", err=True)
    if not installed or any(adapter.error for adapter in installed):
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
    help="A new or empty directory for the package; crmhub-NAME if missing.",
)
def new(name: str, directory: Path | None) -> None:
    """Write a package with a working adapter, a fake CRM and tests, as a starting point.

    NAME is the name of the adapter in accounts: lower-case letters, digits, - and _.
    """
    from crmhub.adapter.registry import Registry
    from crmhub.cli.adapter_skeleton import InvalidTarget, write

    directory = directory or Path(f"crmhub-{name}")
    try:
        write(name, directory, taken=Registry().names)
    except InvalidTarget as exc:
        raise click.UsageError(str(exc)) from exc
    click.echo(f"The adapter {name} is in {directory}. Run its tests:\n")
    click.echo(f"cd {shlex.quote(str(directory))}")
    click.echo("pip install -e '.[testing]'")
    click.echo("pytest")


def _find_adapter(installed: list[Installed], name: str) -> Installed:
    for adapter in installed:
        if adapter.name == name:
            return adapter
    names = ", ".join(adapter.name for adapter in installed) or "none"
    raise click.ClickException(f"No adapter named {name!r} is installed; installed are: {names}.")


def _capabilities(adapter: Installed) -> str:
    return ", ".join(sorted(adapter.features)) or "-"


def _created_kinds(adapter: Installed) -> str:
    kinds = (
        f"{kind} (with the setting {setting})" if setting else kind
        for kind, setting in adapter.linked_kinds.items()
    )
    return ", ".join(["contacts", *kinds])


def _print_adapter(adapter: Installed) -> None:
    source = f"{adapter.distribution} {adapter.version}".strip() or "-"
    fields = [("Adapter", adapter.name), ("From", source)]
    if adapter.error:
        print_fields([*fields, ("Error", adapter.error)])
        return
    fields += [("CRM", adapter.title), ("Creates", _created_kinds(adapter))]
    print_fields([*fields, ("Capabilities", _capabilities(adapter))])
    if not adapter.settings:
        click.echo("\nIt has no settings.")
        return
    click.echo()
    print_columns(
        ("SETTING", "OPTION", "REQUIRED", "DEFAULT", "DESCRIPTION"),
        [
            (
                setting.name,
                "--secret" if setting.secret else "--set",
                "yes" if setting.required else "-",
                setting.default or "-",
                _description(setting),
            )
            for setting in adapter.settings
        ],
    )
    for setting in adapter.settings:
        if setting.help:
            click.echo(f"\n{setting.name}: {setting.help}")


def _description(setting: Setting) -> str:
    return f"{setting.label}: {', '.join(setting.choices)}" if setting.choices else setting.label
