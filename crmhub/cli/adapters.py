"""`crmhub adapters`: the CRMs that can be connected."""

from __future__ import annotations

import rich_click as click
from click.exceptions import Exit

from crmhub.cli.output import print_columns, print_json


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def adapters(as_json: bool) -> None:
    """List the installed adapters, their versions and what they can do.

    Exits with 1 when one of them cannot be loaded.
    """
    from crmhub.adapter.registry import Registry

    found = Registry().installed()
    if as_json:
        print_json(
            [
                {
                    "name": one.name,
                    "title": one.title,
                    "version": one.version,
                    "features": sorted(one.features),
                    "error": one.error,
                }
                for one in found
            ]
        )
    elif found:
        print_columns(
            ("ADAPTER", "VERSION", "CAN ALSO"),
            [
                (one.name, one.version, one.error or ", ".join(sorted(one.features)) or "-")
                for one in found
            ],
        )
    else:
        click.echo("No adapter is installed, not even `local`: install crmhub anew.", err=True)
    if not found or any(one.error for one in found):
        raise Exit(1)
