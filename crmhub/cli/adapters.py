"""`crmhub adapters` lists the installed adapters; `crmhub adapter new` writes a new adapter."""

from __future__ import annotations

import keyword
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click
from click.exceptions import Exit

from crmhub.cli.output import print_columns, print_fields
from crmhub.cli.resources import print_shown
from crmhub.operators.accounts.resources import ADAPTER

if TYPE_CHECKING:
    from crmhub.adapter.registry import Installed

_NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*", re.ASCII)
_MAX_NAME_LENGTH = 30
_SKELETON = Path(__file__).parents[1] / "adapter" / "skeleton"


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
        names = ", ".join(adapter.name for adapter in installed) or "none"
        installed = [adapter for adapter in installed if adapter.name == name]
        if not installed:
            raise click.ClickException(
                f"No adapter named {name!r} is installed; installed are: {names}."
            )
    if as_json:
        print_shown(ADAPTER, installed if name is None else installed[0], many=name is None)
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
            shorten=("CAPABILITIES",),
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

    directory = directory or Path(f"crmhub-{name}")
    write_package(name, directory, taken=Registry().names)
    click.echo(f"The adapter {name} is in {directory}. Run its tests:\n")
    click.echo(f"cd {shlex.quote(str(directory))}")
    click.echo("pip install -e '.[testing]'")
    click.echo("pytest")


def _capabilities(adapter: Installed) -> str:
    return ", ".join(sorted(adapter.features)) or "-"


def _print_adapter(adapter: Installed) -> None:
    source = f"{adapter.distribution} {adapter.version}".strip() or "-"
    fields = [("Adapter", adapter.name), ("From", source)]
    if adapter.error:
        print_fields([*fields, ("Error", adapter.error)])
        return
    created = ["contacts"]
    for kind, needed in adapter.linked_kinds.items():
        created.append(f"{kind} (with the setting {needed})" if needed else kind)
    fields += [("CRM", adapter.title), ("Creates", ", ".join(created))]
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
                setting.label + (f": {', '.join(setting.choices)}" if setting.choices else ""),
            )
            for setting in adapter.settings
        ],
        shorten=("DESCRIPTION",),
    )
    if explained := [(setting.name, setting.help) for setting in adapter.settings if setting.help]:
        click.echo()
        print_fields(explained)


# --- a new adapter -------------------------------------------------------------------------------


def write_package(name: str, directory: Path, *, taken: Iterable[str]) -> None:
    """Write the package of a new adapter into a new or empty directory.

    `taken`: the names of the installed adapters. The template is a working package for a CRM named
    acme; only this name is replaced.
    """
    _check_name(name, taken)
    try:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise click.UsageError(
                f"{directory} is not empty; name a new or empty directory with --to."
            )
        _write_atomically(name, directory)
    except OSError as exc:
        raise click.UsageError(f"{directory} cannot be written: {exc.strerror}.") from exc


def _check_name(name: str, taken: Iterable[str]) -> None:
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME_LENGTH:
        raise click.UsageError(
            f"{name[: 2 * _MAX_NAME_LENGTH]!r} is not a valid adapter name: use lower-case letters"
            " and digits, words joined by - or _, a letter first,"
            f" {_MAX_NAME_LENGTH} characters at most."
        )
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise click.UsageError(f"{name!r} is a word of Python's own; take another name.")
    for other in taken:
        # Package names that differ only in - and _ are the same distribution.
        if other.replace("-", "_") == name.replace("-", "_"):
            raise click.UsageError(
                f"An adapter named {other!r} is installed already; take another name."
            )


def _write_atomically(name: str, directory: Path) -> None:
    """Write all files by way of a temporary directory, or none on an error."""
    is_new = not directory.exists()
    directory.mkdir(exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=directory, prefix=".draft-"))
    try:
        for source in _SKELETON.rglob("*"):
            if source.is_dir() or "__pycache__" in source.parts:
                continue
            path = draft / _rename_acme(str(source.relative_to(_SKELETON)), name)
            path.parent.mkdir(parents=True, exist_ok=True)
            text = _rename_acme(source.read_text(encoding="utf-8"), name)
            path.write_text(text, encoding="utf-8")
        for entry in list(draft.iterdir()):
            entry.rename(directory / entry.name)
        draft.rmdir()
    except BaseException:
        # Also after Ctrl-C: a half-written directory looks like a package.
        shutil.rmtree(directory if is_new else draft, ignore_errors=True)
        raise


def _rename_acme(text: str, name: str) -> str:
    """Replace the name acme, also as part of module names, class names and titles."""
    word = "".join(part.capitalize() for part in re.split("[-_]", name))
    text = text.replace("_acme", f"_{name.replace('-', '_')}").replace("Acme", word)
    return text.replace("acme", name)
