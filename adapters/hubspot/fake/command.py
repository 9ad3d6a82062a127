"""`crmhub fake hubspot`: serve a fake HubSpot, to try the hub without a HubSpot account."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import rich_click as click

if TYPE_CHECKING:
    from adapters.fakes.limits import RetryAfter


@click.command(name="hubspot")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--port", default=8181, show_default=True, type=click.IntRange(0, 65535), help="On which port."
)
@click.option("--token", help="The access token; one is made when it is not given.")
@click.option(
    "--search-lag",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0, 60),
    metavar="S",
    help="Seconds until a change can be searched.",
)
@click.option(
    "--latency",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0, 300),
    metavar="S",
    help="Seconds that each answer takes.",
)
@click.option(
    "--limit",
    default="100/10s",
    show_default=True,
    metavar="N/Ss|none",
    help="Calls taken in any such time.",
)
@click.option(
    "--search-limit",
    default="5/1s",
    show_default=True,
    metavar="N/Ss|none",
    help="The same of searches.",
)
@click.option(
    "--retry-after",
    default="none",
    show_default=True,
    type=click.Choice(["none", "seconds", "date"]),
    help="Whether a refusal over a limit says when to come back.",
)
@click.option("--rotate", is_flag=True, help="Give a new refresh token at each refresh.")
@click.option(
    "--expires-in",
    default=1800.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Seconds that an access token from a refresh lives.",
)
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
    try:
        fake.start()
    except OSError as exc:
        raise click.ClickException(f"{host}:{port}: {exc.strerror}.") from exc
    stopped = threading.Event()
    for option in (signal.SIGINT, signal.SIGTERM):
        signal.signal(option, lambda *_: stopped.set())
    _print_address(fake.url, fake.token, fake.options.refresh_token)
    stopped.wait()
    fake.stop()


def _print_address(url: str, token: str, refresh_token: str) -> None:
    click.echo(f"Address       {url}")
    click.echo(f"Access token  {token}")
    click.echo(f"OAuth         fake-client-id, fake-client-secret, {refresh_token}")
    click.echo("\nWhile it runs, an account uses it after this line:\n")
    setting = f"--set base_url={url} --secret access_token=-"
    click.echo(f"printf %s {token} | crmhub account adapter CLIENT_ID hubspot {setting}")
