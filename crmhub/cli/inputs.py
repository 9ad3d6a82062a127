"""What is typed on the command line, read: `k=v`, times, secrets that are not typed."""

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
"""Those that write, and so stand in the journal."""

# These three are types of click's options; with what they raise, click names the option.


def assignment(text: str) -> tuple[str, str]:
    """Return name and value of `name=value`."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        # Not repeated: it may be a secret in the wrong place.
        raise click.BadParameter("give name=value; an empty value is name= alone.")
    return name, value


def duration(text: str) -> int:
    """Return the milliseconds that `7d` and the like stand for."""
    milliseconds = durations.milliseconds(text)
    if milliseconds is None:
        raise click.BadParameter(f"{text!r} is not a time; give {durations.FORM}.")
    return milliseconds


def moment(text: str) -> int:
    """Return a time in ms since 1970, from a date (UTC), a date with time, or `90d` from now."""
    milliseconds = durations.milliseconds(text)
    if milliseconds is not None:
        return time.time_ns() // 1_000_000 + milliseconds
    try:
        read = datetime.fromisoformat(text)
        # Like every time that crmhub prints: without a zone, it is UTC.
        read = (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is not a time; give {durations.FORM}, or a date such as 2031-12-31."
        ) from None
    return int(read.timestamp() * 1000)


expiring = click.option(
    "--expires",
    type=moment,
    metavar="TIME",
    help="When it ends: 90d from now, or a date (UTC). Not given: never.",
)


def as_mapping(pairs: Iterable[tuple[str, str]], option: str) -> dict[str, str]:
    """Return the pairs as a mapping; raises UsageError for a name given twice."""
    read: dict[str, str] = {}
    for name, value in pairs:
        if name in read:
            raise click.UsageError(f"{option}: {name} is given twice.")
        read[name] = value
    return read


def read_secrets(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return secrets by name from `@file` or, for one of them, `-` (standard input).

    A secret itself is refused: the command line is seen by every user of the machine, and kept
    in the shell's history. An empty value stays empty, which removes the secret.
    """
    sources = as_mapping(pairs, "--secret")
    if list(sources.values()).count("-") > 1:
        raise click.UsageError("--secret: only one secret can come from standard input.")
    return {name: _read_secret(name, source) for name, source in sources.items()}


def read_password(source: str) -> str:
    """Return the password in a file, or from standard input when that is `-`.

    Raises UsageError when there is none.
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
        whence = "standard input" if source == "-" else source[1:]
        reason = getattr(exc, "strerror", None) or exc
        raise click.UsageError(f"{option}: {whence} cannot be read: {reason}.") from exc
    if not secret:
        raise click.UsageError(f"{option}: nothing was given.")
    return secret
