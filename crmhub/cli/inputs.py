"""Parse values of the command line: `name=value`, durations, times, and secrets from files."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import rich_click as click
from click.core import ParameterSource

from crmhub import durations, periods

if TYPE_CHECKING:
    from crmhub.adapter import Adapter

_Command = TypeVar("_Command", bound=Callable[..., Any])

HELPERS = ("createLead", "setProperties", "createDeal", "createTicket")
"""Those whose calls are stored in the journal."""

# A column separator may be a tab or a blank.
_MAY_BE_WHITESPACE = ("delimiter",)


def refuse_blank_values(command: click.Command) -> click.Command:
    """Let the options of a command, and of all commands below it, refuse blank values.

    An empty variable of a script would else do what the command does without the option, such as
    discard everything.
    """
    for option in command.params:
        if isinstance(option, click.Option):
            setattr(option, "consume_value", partial(_consume_value, option))  # noqa: B010
    for below in getattr(command, "commands", {}).values():
        refuse_blank_values(below)
    return command


def _consume_value(
    option: click.Option, context: click.Context, given: Mapping[str, Any]
) -> tuple[Any, ParameterSource]:
    value, source = type(option).consume_value(option, context, given)
    if source is ParameterSource.COMMANDLINE:
        for each in value if isinstance(value, tuple | list) else (value,):
            if isinstance(each, str) and not (
                each.strip() or (each and option.name in _MAY_BE_WHITESPACE)
            ):
                raise click.BadParameter(
                    "it is blank; give a value, or leave it out.", context, option
                )
    return value, source


# These functions are click option types: click adds the option's name to their errors.


def assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        # The text is not repeated in the error, because it may be a secret in the wrong place.
        raise click.BadParameter("give name=value; an empty value is name= alone.")
    return name, value


def adapter_options(secret_help: str) -> Callable[[_Command], _Command]:
    """Add the options --set and --secret; the command gets pairs of name and value."""
    kinds = (
        ("--set", "settings", "K=V", "A setting of the adapter; repeatable. Empty: the default."),
        ("--secret", "secrets", "K=@FILE|K=-", f"{secret_help}; repeatable. Empty: remove it."),
    )

    def decorate(command: _Command) -> _Command:
        for name, variable, form, text in reversed(kinds):
            add = click.option(
                name, variable, multiple=True, type=assignment, metavar=form, help=text
            )
            command = add(command)
        return command

    return decorate


def duration(text: str) -> int:
    """Return a duration, such as `7d`, in milliseconds."""
    milliseconds = durations.milliseconds(text)
    if milliseconds is None:
        raise click.BadParameter(f"{text!r} is not a time; give {durations.FORM}.")
    return milliseconds


def moment(text: str) -> int:
    """Return a time in ms since 1970, from a local date or time, or a duration from now."""
    milliseconds = durations.milliseconds(text)
    if milliseconds is not None:
        return time.time_ns() // 1_000_000 + milliseconds
    try:
        # A time without a zone is local, like all times that commands print.
        return periods.moment(text, None)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a time; give {durations.FORM}, or a date such as 2031-12-31."
        ) from None


def period(text: str) -> tuple[int, int]:
    """Return the begin and the end of a period in ms since 1970, in the machine's time zone."""
    try:
        return periods.parse(text, None)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a period; give {periods.FORM}.") from None


def as_mapping(pairs: Iterable[tuple[str, str]], option: str) -> dict[str, str]:
    """Raise UsageError, which names `option`, if a name occurs twice."""
    mapping: dict[str, str] = {}
    for name, value in pairs:
        if name in mapping:
            raise click.UsageError(f"{option}: {name} is given twice.")
        mapping[name] = value
    return mapping


def read_secrets(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Read secrets from `@FILE` or `-`, standard input, at most once; "" removes the secret.

    Any other source raises UsageError: a secret on the command line would be visible to all users
    of the machine and stay in the shell's history.
    """
    sources = as_mapping(pairs, "--secret")
    if list(sources.values()).count("-") > 1:
        raise click.UsageError("--secret: only one secret can come from standard input.")
    return {name: _read_secret(name, source) for name, source in sources.items()}


def read_password(source: str) -> str:
    """Read a password from a file, or from standard input if `source` is `-`."""
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


def refuse_secrets(adapter: type[Adapter], settings: dict[str, str]) -> None:
    """Raise UsageError if `settings`, the values of --set, contain a secret of the adapter."""
    for name in settings:
        if any(setting.secret and setting.name == name for setting in adapter.settings):
            raise click.UsageError(
                f"--set {name} is a secret, and would stay in the shell's history; "
                f"put it in a file and give --secret {name}=@FILE, or pipe it in and give "
                f"--secret {name}=-."
            )
