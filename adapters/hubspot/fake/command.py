"""`crmhub fake hubspot`: serve a fake HubSpot, to try the hub without a HubSpot account."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from adapters.fakes import command

if TYPE_CHECKING:
    from adapters.fakes.limits import RetryAfter


@click.command(name="hubspot")
@command.common_options(port=8181, limit="100/10s")
@click.option("--token", help="The access token; one is made when it is not given.")
@command.limit_option("--search-limit", "5/1s", "The same of searches.")
@command.token_options(expires_in=1800.0)
@click.option("--mark", is_flag=True, help="Define the unique property crmhub_mark.")
def serve(
    host: str,
    port: int,
    token: str | None,
    search_lag: float,
    latency: float,
    limit: str,
    search_limit: str,
    retry_after: RetryAfter,
    rotate: bool,
    expires_in: float,
    mark: bool,
) -> None:
    """Serve a HubSpot-like CRM: records in memory, with HubSpot's rules, errors and limits.

    For trying the hub and for tests; Ctrl-C stops it and its records are gone. Faults are
    ordered at /_control/faults: {"status": 503, "times": 2, "path": "*/contacts*"}.
    """
    import secrets

    from adapters.fakes.limits import parse
    from adapters.hubspot.fake import FakeHubSpot, Options

    for name, value in (("--limit", limit), ("--search-limit", search_limit)):
        try:
            parse(value)
        except ValueError as exc:
            raise click.UsageError(f"{name} {exc}.") from None
    fake = FakeHubSpot(
        Options(
            host=host,
            port=port,
            token=token or f"pat-na1-{secrets.token_hex(18)}",
            search_lag=search_lag,
            latency=latency,
            limit=limit,
            search_limit=search_limit,
            retry_after=retry_after,
            rotates=rotate,
            expires_in=expires_in,
            marks=mark,
        )
    )
    client = f"{fake.options.client_id}, {fake.options.client_secret}"
    command.serve(
        fake,
        "hubspot",
        facts={
            "Access token": fake.token,
            "OAuth": f"{client}, {fake.options.refresh_token}",
        },
        settings=lambda url: {"base_url": url},
        secrets={"access_token": fake.token},
    )
