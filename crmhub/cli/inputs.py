"""Parsers of command-line values: `k=v`, durations, times, and secrets from files."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import rich_click as click

from crmhub import durations

HELPERS = ("createLead", "setProperties", "createDeal", "createTicket")
"""The helpers that write, and whose calls are in the journal."""

# The next three functions are click option types: click adds the option's name to their errors.


def assignment(text: str) -> tuple[str, str]:
    """Split `name=value` into name and value."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        # The text is not repeated in the error, because it may be a secret in the wrong place.
        raise click.BadParameter("give name=value; an empty value is name= alone.")
    return name, value


def duration(text: str) -> int:
    """Parse a duration such as `7d` to milliseconds."""
    milliseconds = durations.milliseconds(text)
    if milliseconds is None:
        raise click.BadParameter(f"{text!r} is not a time; give {durations.FORM}.")
    return milliseconds


def moment(text: str) -> int:
    """Parse a date (UTC), a date with time, or `90d` from now, to ms since 1970."""
    milliseconds = durations.milliseconds(text)
    if milliseconds is not None:
        return time.time_ns() // 1_000_000 + milliseconds
    try:
        parsed = datetime.fromisoformat(text)
        # A time without a zone is UTC, like all times that crmhub prints.
        parsed = (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is not a time; give {durations.FORM}, or a date such as 2031-12-31."
        ) from None
    return int(parsed.timestamp() * 1000)


expiring = click.option(
    "--expires",
    type=moment,
    metavar="TIME",
    help="Expires: 90d from now, or on a date (UTC). Not given: never.",
)


def as_mapping(pairs: Iterable[tuple[str, str]], option: str) -> dict[str, str]:
    """Return pairs of name and value as a mapping; raises UsageError for a repeated name."""
    mapping: dict[str, str] = {}
    for name, value in pairs:
        if name in mapping:
            raise click.UsageError(f"{option}: {name} is given twice.")
        mapping[name] = value
    return mapping


def read_secrets(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Read secrets from `@file`, or one of them from `-` (standard input); return them by name.

    A secret on the command line is refused: every user of the machine can see it, and the shell
    stores it in its history. An empty value removes the secret.
    """
    sources = as_mapping(pairs, "--secret")
    if list(sources.values()).count("-") > 1:
        raise click.UsageError("--secret: only one secret can come from standard input.")
    return {name: _read_secret(name, source) for name, source in sources.items()}


def read_password(source: str) -> str:
    """Read a password from a file, or from standard input for `-`.

    Raises UsageError for an empty password.
    """
    if source == "-" and sys.stdin.isatty():
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))
    return _read_secret("password", source if source == "-" else f"@{source}", "--password-file")


def _read_secret(name: str, source: str, option: str = "") -> str:
    from crmhub.secrets import read_secret

    option = option or f"--secret {name}"
    if not source:
        return ""
    if source != "-" and not source.startswith("@"):
        raise click.UsageError(
            f"{option}: a secret typed here would stay in the shell's history; "
            f"put it in a file and give {name}=@FILE, or pipe it in and give {name}=-."
        )
    try:
        if source == "-":
            if sys.stdin.isatty():
                return str(click.prompt(name, hide_input=True))
            secret = read_secret(sys.stdin)
        else:
            with Path(os.path.expanduser(source[1:])).open(encoding="utf-8") as file:
                secret = read_secret(file)
    except (OSError, ValueError) as exc:
        origin = "standard input" if source == "-" else source[1:]
        reason = getattr(exc, "strerror", None) or exc
        raise click.UsageError(f"{option}: {origin} cannot be read: {reason}.") from exc
    if not secret:
        raise click.UsageError(f"{option}: the value is empty.")
    return secret
