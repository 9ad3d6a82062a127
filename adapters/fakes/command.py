"""The options and the serving loop that the commands `crmhub fake NAME` share."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import rich_click as click

if TYPE_CHECKING:
    from adapters.fakes.fake import Fake

_LAG = "Seconds until a change can be searched."
Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def _limit(context: click.Context, option: click.Parameter, value: str) -> str:
    from adapters.fakes.limits import parse

    try:
        parse(value)
    except ValueError as exc:
        raise click.UsageError(f"{option.opts[0]} {exc}.") from None
    return value


def limit_option(flag: str, default: str, help: str) -> Decorator:
    """Return the click option `flag` for a rate limit, such as --search-limit."""
    return click.option(
        flag, default=default, show_default=True, metavar="N/Ss|none", callback=_limit, help=help
    )


def seconds_option(flag: str, most: float, help: str) -> Decorator:
    """Return the click option `flag` for a time in seconds from 0, the default, to `most`."""
    return click.option(
        flag,
        default=0.0,
        show_default=True,
        type=click.FloatRange(0, most),
        metavar="S",
        help=help,
    )


def common_options(*, port: int, limit: str, lags: bool = True) -> Decorator:
    """Return the click options of every fake: those of `fake.Options` but at_once.

    `port` and `limit` are the default values of --port and --limit. There is no --search-lag for a
    CRM whose searches see each change at once (`lags` is False).
    """
    options: list[Decorator] = [
        click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen."),
        click.option(
            "--port",
            default=port,
            show_default=True,
            type=click.IntRange(0, 65535),
            help="On which port.",
        ),
        *([seconds_option("--search-lag", 60, _LAG)] if lags else []),
        seconds_option("--latency", 300, "Seconds that each answer takes."),
        limit_option("--limit", limit, "Calls taken in any such time."),
        click.option(
            "--retry-after",
            default="none",
            show_default=True,
            type=click.Choice(["none", "seconds", "date"]),
            help="Whether a refusal over a limit says when to come back.",
        ),
    ]
    return _together(options)


def expires_option(expires_in: float) -> Decorator:
    """Return the click option --expires-in of a fake with OAuth; the default is `expires_in`."""
    return click.option(
        "--expires-in",
        default=expires_in,
        show_default=True,
        type=click.FloatRange(min=0, min_open=True),
        metavar="S",
        help="Seconds that an access token from a refresh lives.",
    )


def _together(options: list[Decorator]) -> Decorator:
    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def connecting_line(adapter: str, settings: Mapping[str, Any], secrets: Mapping[str, str]) -> str:
    """Return the shell line that connects an account with the adapter to a fake.

    A single secret comes from standard input; several ones need bash.
    """
    values = " ".join(f"--set {name}={value}" for name, value in settings.items())
    line = f"crmhub account adapter CLIENT_ID {adapter} {values}"
    if len(secrets) == 1:
        [(name, secret)] = secrets.items()
        return f"printf %s {secret} | {line} --secret {name}=-"
    files = (f"--secret {name}=@<(printf %s {secret})" for name, secret in secrets.items())
    return f"{line} {' '.join(files)}"


def serve(
    fake: Fake,
    adapter: str,
    *,
    facts: Mapping[str, str],
    settings: Callable[[str], Mapping[str, str]],
    secrets: Mapping[str, str],
) -> None:
    """Serve a fake until SIGINT or SIGTERM, after printing its address and how to connect it.

    `facts` are printed below the address, by their labels. `settings` is called with the address
    and returns the settings with which the adapter named `adapter` reaches the fake; `secrets` are
    the adapter's secrets. Raises ClickException if the address cannot be used.
    """
    try:
        fake.start()
    except OSError as exc:
        where = f"{fake.options.host}:{fake.options.port}"
        raise click.ClickException(f"{where}: {exc.strerror}.") from exc
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    for label, value in {"Address": fake.url, **facts}.items():
        click.echo(f"{label:<13} {value}")
    click.echo("\nWhile it runs, an account uses it after this line:\n")
    click.echo(connecting_line(adapter, settings(fake.url), secrets))
    stopped.wait()
    fake.stop()
