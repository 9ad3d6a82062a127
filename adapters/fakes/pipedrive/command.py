"""`crmhub fake pipedrive`: serve a fake Pipedrive, to try the hub without a company there."""

from __future__ import annotations

from typing import Any

import rich_click as click

from adapters.fakes import command


@click.command(name="pipedrive")
@command.common_options(port=8183, limit="20/2s")
@command.limit_option("--search-limit", "10/2s", "The same of searches.")
@click.option("--token", help="The API token; one is made when it is not given.")
@click.option(
    "--daily-tokens",
    default=30_000,
    show_default=True,
    type=click.IntRange(1),
    help="Tokens that the calls of a day may cost.",
)
@command.expires_option(3600.0)
@click.option(
    "--phone-search",
    default="digits",
    show_default=True,
    type=click.Choice(["digits", "text"]),
    help="Whether the search compares the digits of phones, or their text.",
)
@click.option("--mark", "marks", is_flag=True, help='Define the custom fields "crmhub mark".')
def serve(token: str | None, **options: Any) -> None:
    """Serve a Pipedrive-like CRM: records in memory, with Pipedrive's rules, errors and limits.

    For trying the hub and for tests; Ctrl-C stops it and its records are gone. Faults are
    ordered at /_control/faults: {"status": 503, "times": 2, "path": "*/persons*"}.
    """
    import secrets

    from adapters.fakes.pipedrive import FakePipedrive, Options

    made = Options(token=token or secrets.token_hex(20), **options)
    marks = {"mark_field": "'crmhub mark'"} if made.marks else {}
    command.serve(
        FakePipedrive(made),
        "pipedrive",
        facts={
            "API token": made.token,
            "OAuth": f"{made.client_id}, {made.client_secret}, {made.refresh_token}",
        },
        settings=lambda url: {"base_url": url, "support_pipeline": "Support", **marks},
        secrets={"api_token": made.token},
    )
