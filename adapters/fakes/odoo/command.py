"""`crmhub fake odoo`: serve a fake Odoo, to try the hub without an Odoo."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from adapters.fakes import command

if TYPE_CHECKING:
    from adapters.fakes.limits import RetryAfter


@click.command(name="odoo")
@command.common_options(port=8184, limit="none", lags=False)
@click.option("--key", help="The API key; one is made when it is not given.")
@click.option(
    "--release",
    default="19",
    show_default=True,
    type=click.Choice(["17", "18", "19"]),
    help="Which Odoo; 19 has JSON-2.",
)
@click.option(
    "--tickets",
    default="helpdesk.ticket",
    show_default=True,
    type=click.Choice(["helpdesk.ticket", "project.task"]),
    help="The model of tickets.",
)
def serve(
    host: str,
    port: int,
    latency: float,
    limit: str,
    retry_after: RetryAfter,
    key: str | None,
    release: str,
    tickets: str,
) -> None:
    """Serve an Odoo-like CRM: records in memory, with Odoo's rules and errors.

    For trying the hub and for tests; Ctrl-C stops it and its records are gone. Faults are
    ordered at /_control/faults: {"status": 502, "times": 2, "path": "/json/2/*"}.
    """
    import secrets

    from adapters.fakes.odoo import FakeOdoo, Options

    options = Options(
        host=host,
        port=port,
        latency=latency,
        limit=limit,
        retry_after=retry_after,
        version=int(release),
        tickets=tickets,  # type: ignore[arg-type]
        api_key=key or secrets.token_hex(20),
    )
    interface = "json-2" if release == "19" else "json-rpc"
    settings = {"interface": interface, "db": options.database, "user": options.user}
    settings |= {"tickets": tickets} | ({"project": "1"} if tickets == "project.task" else {})
    command.serve(
        FakeOdoo(options),
        "odoo",
        facts={"Database": options.database, "User": options.user, "API key": options.api_key},
        settings=lambda url: {"base_url": url, **settings},
        secrets={"api_key": options.api_key},
    )
