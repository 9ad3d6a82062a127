"""`crmhub key`: the API keys of an account."""

from __future__ import annotations

import rich_click as click

from crmhub.cli.inputs import expiring
from crmhub.cli.open_hub import (
    author,
    load_account,
    opened_hub,
)
from crmhub.cli.output import in_words, print_columns, print_json, standing


@click.group()
def key() -> None:
    """Make and end API keys."""


@key.command()
@click.argument("client_id")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="RESOURCE:RIGHT",
    help="What the key may do, such as contacts:read or deals:write; again for more. "
    "None named: everything.",
)
@expiring
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def create(client_id: str, scopes: tuple[str, ...], expires: int | None, as_json: bool) -> None:
    """Make an API key and print it, this once."""
    with opened_hub() as hub:
        from crmhub.operations import change_account

        issued = change_account.create_key(
            hub, client_id, scopes=scopes, expires_at=expires, by=author()
        )
    if as_json:
        from crmhub.api.admin.account_answers import issued_key_shown

        print_json(issued_key_shown(issued))
        return
    click.echo(f"API key  {issued.api_key}")
    click.echo(f"Key id   {issued.key_id}")
    click.echo(f"Scopes   {', '.join(issued.scopes)}")
    click.echo(f"Expires  {in_words(issued.expires_at)}")
    click.echo("\nThe key is not shown again: keep it now.")


@key.command(name="list")
@click.argument("client_id")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_keys(client_id: str, as_json: bool) -> None:
    """List an account's keys, without showing them."""
    with opened_hub() as hub:
        from crmhub.accounts import keys

        account = load_account(hub, client_id)
        with hub.database.reading() as db:
            found = keys.list_keys(db, account.id)
    if as_json:
        from crmhub.api.admin.account_answers import key_shown

        print_json([key_shown(one) for one in found])
        return

    print_columns(
        ("KEY ID", "ENDS IN", "STATE", "LAST USED", "SCOPES"),
        [
            (
                one.key_id,
                f"…{one.hint}",
                standing(expires_at=one.expires_at, revoked_at=one.revoked_at),
                in_words(one.last_used_at),
                "all" if one.scopes == keys.SCOPES else " ".join(one.scopes),
            )
            for one in found
        ],
    )


@key.command()
@click.argument("client_id")
@click.argument("key_id")
def revoke(client_id: str, key_id: str) -> None:
    """End a key; every server process refuses it within a second."""
    with opened_hub() as hub:
        from crmhub.operations import change_account

        change_account.revoke_key(hub, client_id, key_id, by=author())
    click.echo(f"Key {key_id} is revoked.")
