"""`crmhub fake zoho`: serve a fake Zoho CRM, to try the hub without a Zoho account."""

from __future__ import annotations

from typing import Any

import rich_click as click

from adapters.fakes import command


@click.command(name="zoho")
@command.common_options(port=8185, limit="50000/86400s")
@click.option("--at-once", default=10, show_default=True, help="Calls taken at the same time.")
@command.expires_option(3600.0)
@click.option("--unique-email", is_flag=True, help="Take no email twice.")
@click.option("--mark", is_flag=True, help="Define the unique field crmhub_mark.")
def serve(mark: bool, **options: Any) -> None:
    """Serve a Zoho-like CRM: records in memory, with Zoho's rules, errors, credits and COQL.

    For trying the hub and for tests; Ctrl-C stops it and its records are gone. Faults are
    ordered at /_control/faults: {"status": 503, "times": 2, "path": "*/Contacts*"}.
    """
    from adapters.fakes.zoho import FakeZoho, Options

    fake = FakeZoho(Options(mark="crmhub_mark" if mark else "", **options))
    tokens = fake.tokens
    command.serve(
        fake,
        "zoho",
        facts={"OAuth": f"{tokens.client_id}, {tokens.client_secret}, {tokens.refresh_token}"},
        settings=lambda url: (
            {"accounts_url": url} | ({"mark_field": "crmhub_mark"} if mark else {})
        ),
        secrets={
            "client_id": tokens.client_id,
            "client_secret": tokens.client_secret,
            "refresh_token": tokens.refresh_token,
        },
    )
