"""`crmhub fake NAME`: a CRM that comes with an adapter, to try the hub with."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

import rich_click as click

GROUP = "crmhub.fakes"


class _Fakes(click.RichGroup):
    """The fakes that are installed, each a command found by its entry point."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all fakes."""
        return sorted(_installed())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command that serves a fake, None when no fake has this name.

        Raises ClickException when it cannot be imported.
        """
        point = _installed().get(cmd_name)
        if point is None:
            return None
        try:
            command: click.Command = point.load()
        # A plug-in is foreign code: whatever its import raises is told by name.
        except Exception as exc:
            raise click.ClickException(
                f"The fake {cmd_name} ({point.value}) cannot be loaded: {type(exc).__name__}: {exc}"
            ) from exc
        return command


def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


@click.group(cls=_Fakes)
def fake() -> None:
    """Serve a CRM in memory, with its rules and errors, without an account there."""
