"""`crmhub mcp`: the tools of agents over standard input and output."""

from __future__ import annotations

import sys

import rich_click as click


@click.command()
@click.argument("client_id")
@click.option(
    "--scope",
    "scopes",
    metavar="SCOPE",
    multiple=True,
    help="Only what this scope allows, such as contacts:read; may be repeated. Without it: all.",
)
def mcp(client_id: str, scopes: tuple[str, ...]) -> None:
    """Serve the tools of agents for one account over standard input and output.

    A local agent starts this command and speaks the Model Context Protocol with it. The command
    needs no API key. Queued actions are finished by the service's worker.
    """
    from crmhub import logs
    from crmhub.accounts import credentials as scope_names
    from crmhub.accounts.keys import SCOPES, scopes_of
    from crmhub.api.agents.stdio import serve
    from crmhub.api.agents.tool import Agent
    from crmhub.cli.open_hub import author, opened_hub
    from crmhub.errors import Forbidden

    allowed = frozenset(scopes_of(scope_names.to_store(scopes, SCOPES)))
    with opened_hub() as hub:

        def current() -> Agent:
            account = hub.directory.by_client_id(client_id) or hub.load_account(client_id)
            if account.disabled:
                hint = "`crmhub account enable` ends that."
                raise Forbidden(f"The account {client_id} is disabled; {hint}")
            return Agent(hub, account, allowed, author())

        account_id = current().account.id
        # Standard output belongs to the protocol; logs go to standard error.
        logs.configure("error")
        with hub.database.for_account(account_id):
            serve(current, sys.stdin.buffer, sys.stdout.buffer)
