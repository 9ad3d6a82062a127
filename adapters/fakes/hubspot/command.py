"""`crmhub fake hubspot`: serve a fake HubSpot, to try the hub without a HubSpot account."""

from __future__ import annotations

from typing import Any

import rich_click as click

from adapters.fakes import command


@click.command(name="hubspot")
@command.common_options(port=8181, limit="100/10s")
@click.option("--token", help="The access token; one is made when it is not given.")
@command.limit_option("--search-limit", "5/1s", "The same of searches.")
@click.option("--rotate", "rotates", is_flag=True, help="Give a new refresh token at each refresh.")
@command.expires_option(1800.0)
@click.option("--mark", "marks", is_flag=True, help="Define the unique property crmhub_mark.")
def serve(token: str | None, **options: Any) -> None:
    """Serve a HubSpot-like CRM: records in memory, with HubSpot's rules, errors and limits.

    For trying the hub and for tests; Ctrl-C stops it and its records are gone. Faults are
    ordered at /_control/faults: {"status": 503, "times": 2, "path": "*/contacts*"}.
    """
    import secrets

    from adapters.fakes.hubspot import FakeHubSpot, Options

    token = token or f"pat-na1-{secrets.token_hex(18)}"
    fake = FakeHubSpot(Options(token=token, **options))
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
