"""`crmhub fake pipedrive`: serve a fake Pipedrive, to try the hub without a company there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from adapters.fakes import command

if TYPE_CHECKING:
    from adapters.fakes.limits import RetryAfter
    from adapters.fakes.pipedrive.company import PhoneSearch


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
@click.option(
    "--expires-in",
    default=3600.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Seconds that an access token from a refresh lives.",
)
@click.option(
    "--phone-search",
    default="digits",
    show_default=True,
    type=click.Choice(["digits", "text"]),
    help="Whether the search compares the digits of phones, or their text.",
)
@click.option("--mark", is_flag=True, help='Define the custom fields "crmhub mark".')
def serve(
    host: str,
    port: int,
    search_lag: float,
    latency: float,
    limit: str,
    retry_after: RetryAfter,
    search_limit: str,
    token: str | None,
    daily_tokens: int,
    expires_in: float,
    phone_search: PhoneSearch,
    mark: bool,
) -> None:
    """Serve a Pipedrive-like CRM: records in memory, with Pipedrive's rules, errors and limits.

    For trying the hub and for tests; Ctrl-C stops it and its records are gone. Faults are
    ordered at /_control/faults: {"status": 503, "times": 2, "path": "*/persons*"}.
    """
    import secrets

    from adapters.fakes.pipedrive import FakePipedrive, Options

    fake = FakePipedrive(
        Options(
            host=host,
            port=port,
            search_lag=search_lag,
            latency=latency,
            limit=limit,
            retry_after=retry_after,
            search_limit=search_limit,
            token=token or secrets.token_hex(20),
            daily_tokens=daily_tokens,
            expires_in=expires_in,
            phone_search=phone_search,
            marks=mark,
        )
    )
    options = fake.options
    marks = {"mark_field": "'crmhub mark'"} if mark else {}
    command.serve(
        fake,
        "pipedrive",
        facts={
            "API token": options.token,
            "OAuth": f"{options.client_id}, {options.client_secret}, {options.refresh_token}",
        },
        settings=lambda url: {"base_url": url, "support_pipeline": "Support", **marks},
        secrets={"api_token": options.token},
    )
