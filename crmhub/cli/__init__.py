"""The command line: `crmhub COMMAND`.

The functions of the commands import their modules when they run, so that `crmhub --help` stays
fast.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NoReturn

import rich_click as click
from click.exceptions import NoArgsIsHelpError

from crmhub import __version__
from crmhub.cli.account import account
from crmhub.cli.actions import actions
from crmhub.cli.adapters import adapter, adapters
from crmhub.cli.admin import admin
from crmhub.cli.alert import alert
from crmhub.cli.csv_files import export, import_
from crmhub.cli.db import db
from crmhub.cli.demo import demo
from crmhub.cli.doctor import doctor
from crmhub.cli.duplicates import duplicates
from crmhub.cli.erase import erase
from crmhub.cli.events import events
from crmhub.cli.examples import add_examples
from crmhub.cli.fake import fake
from crmhub.cli.inputs import refuse_blank_values
from crmhub.cli.mcp import mcp
from crmhub.cli.open_console import open_console
from crmhub.cli.operators import audit, key, workflow
from crmhub.cli.serve import serve
from crmhub.cli.sync import sync
from crmhub.cli.team import team
from crmhub.cli.worker import worker
from crmhub.errors import BadRequest, HubError, Semantic, error_body

_FAILED = 1
_USAGE_ERROR = 2
# click handles EPIPE itself: a reader that closed the pipe is no failure.
_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_STDOUT = 1


class _Commands(click.RichGroup):
    """The commands of `crmhub`; an expected error is a short message, without a traceback."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command with this name; `fake-NAME` is an old name of `fake NAME`."""
        if cmd_name.startswith("fake-"):
            return fake.get_command(ctx, cmd_name.removeprefix("fake-"))
        return super().get_command(ctx, cmd_name)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        _open_standard_streams()
        words = sys.argv[1:] if args is None else list(args)
        # Errors may occur before the option is parsed.
        as_json = "--json" in words
        with _print_errors(as_json) if standalone_mode else nullcontext():
            outcome = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        if standalone_mode:
            # Only `--help` and Exit return a number; a command returns None.
            sys.exit(outcome if isinstance(outcome, int) else 0)
        return outcome


def _open_standard_streams() -> None:
    """Open closed standard streams, whose numbers a file or socket opened later would get."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            devnull = os.open(os.devnull, os.O_RDWR)
            if devnull != number:
                os.dup2(devnull, number)
                os.close(devnull)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode))


@contextmanager
def _print_errors(as_json: bool) -> Iterator[None]:
    def fail(error: type[HubError], message: str, code: int) -> NoReturn:
        if as_json:
            click.echo(
                json.dumps(error_body(error.category, message), ensure_ascii=False), err=True
            )
        else:
            for line in message.splitlines():
                click.echo(f"crmhub: {line}", err=True)
        sys.exit(code)

    try:
        yield
    except NoArgsIsHelpError as exc:
        click.echo(exc.message)
        sys.exit(_USAGE_ERROR)
    except click.UsageError as exc:
        hint = f" See `{exc.ctx.command_path} --help`." if exc.ctx else ""
        fail(BadRequest, exc.format_message() + hint, _USAGE_ERROR)
    except click.ClickException as exc:
        fail(Semantic, exc.format_message(), exc.exit_code)
    except click.Abort:
        fail(Semantic, "Stopped.", _FAILED)
    except HubError as exc:
        fail(type(exc), exc.message, _FAILED)
    except OSError as exc:
        if exc.filename:
            # A path from the command line that this user may not read.
            fail(BadRequest, f"{exc.filename}: {exc.strerror}.", _FAILED)
        if exc.errno not in _OUTPUT_ERRORS:
            raise
        # Otherwise Python writes the rest of the output again when it exits, and fails again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)
        fail(HubError, f"The output cannot be written: {exc.strerror}.", _FAILED)
    except UnicodeEncodeError as exc:
        # Python decodes command-line bytes that are not UTF-8 to these surrogates.
        if not "\udc80" <= exc.object[exc.start] <= "\udcff":
            raise
        hint = "Set the terminal to UTF-8."
        fail(BadRequest, f"An argument is not valid UTF-8. {hint}", _USAGE_ERROR)
    # Any exception may be a SettingsError; importing that class first would slow `--help` down.
    except Exception as exc:
        from crmhub.settings import SettingsError

        if not isinstance(exc, SettingsError):
            raise
        fail(HubError, "\n".join(exc.problems), _USAGE_ERROR)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="crmhub")
def main() -> None:
    """The hub between chatbots and integrators on one side and CRMs on the other.

    Settings come from the environment (CRMHUB_…) and from config/crmhub.toml.
    """


_PANELS = {
    "Run the service": (serve, worker, open_console, doctor, db, demo),
    "Accounts and their CRM": (account, key, events, team, adapters, workflow, mcp),
    "Follow and fix": (actions, alert, audit),
    "Records and persons": (import_, export, sync, duplicates, erase),
    "Operators": (admin,),
    "Write an adapter": (adapter, fake),
}
for _title, _commands in _PANELS.items():
    for _command in _commands:
        main.add_command(_command)
    main = click.command_panel(_title, commands=[str(each.name) for each in _commands])(main)
add_examples(main)
refuse_blank_values(main)
