"""`crmhub team`: the teams of owners from which assignOwner chooses."""

from __future__ import annotations

import rich_click as click

from crmhub.cli.open_hub import opened_hub
from crmhub.cli.resources import group, print_one, print_shown, print_table
from crmhub.operators.teams import resources


@click.command("show")
@click.argument("client_id")
@click.argument("team")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(client_id: str, team: str, as_json: bool) -> None:
    """Show a team and its members."""
    with opened_hub() as hub:
        from crmhub.operators.teams import change_team

        found = change_team.find_team(hub, client_id, team)
    if as_json:
        print_shown(resources.TEAM, found)
        return
    print_one(resources.TEAM, found)
    click.echo()
    print_table(resources.MEMBER, found.members)


team = group(
    "team",
    "Manage the teams of owners from which assignOwner chooses.",
    resources.LIST,
    show,
    resources.SET,
    resources.SET_MEMBER,
    resources.FROM_ROTATION,
    resources.REMOVE_MEMBER,
    resources.REMOVE,
)
