"""`crmhub fake NAME`: serve the fake CRM of an installed adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from crmhub.cli.inputs import refuse_blank_values

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "crmhub.fakes"


class _Fakes(click.RichGroup):
    """The installed fake CRMs: each entry point of `crmhub.fakes` is a command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_installed())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        point = _installed().get(cmd_name)
        if point is None:
            return None
        try:
            command: click.Command = point.load()
        # A plug-in is foreign code, and its import may raise any exception.
        except Exception as exc:
            raise click.ClickException(
                f"The fake {cmd_name} ({point.value}) cannot be loaded: {type(exc).__name__}: {exc}"
            ) from exc
        return refuse_blank_values(command)


def _installed() -> dict[str, EntryPoint]:
    # The import takes a tenth of the time of a short command.
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}


@click.group(cls=_Fakes)
def fake() -> None:
    """Serve a fake CRM in memory, with the rules and errors of the real one."""
