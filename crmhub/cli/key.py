"""`crmhub key`: create, list and revoke the API keys of an account."""

from __future__ import annotations

import rich_click as click

from crmhub.cli.inputs import expiring
from crmhub.cli.open_hub import author, opened_hub
from crmhub.cli.output import in_words, print_columns, print_json, validity


@click.group()
def key() -> None:
    """Create, list and revoke API keys."""


@key.command()
@click.argument("client_id")
@click.option("--name", default="", metavar="NAME", help="What the key is for.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="RESOURCE:RIGHT",
    help="A scope of the key, such as contacts:read or deals:write; repeatable. "
    "Not given: full access.",
)
@expiring
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def create(
    client_id: str, name: str, scopes: tuple[str, ...], expires: int | None, as_json: bool
) -> None:
    """Create an API key and print it. It is shown only once."""
    with opened_hub() as hub:
        from crmhub.operators.accounts import change_account

        issued = change_account.create_key(
            hub, client_id, name=name, scopes=scopes, expires_at=expires, by=author()
        )
    if as_json:
        from crmhub.api.admin.account_answers import IssuedKeyShown

        print_json(IssuedKeyShown().dump(issued))
        return
    click.echo(f"API key  {issued.api_key}")
    click.echo(f"Key id   {issued.key_id}")
    if issued.name:
        click.echo(f"Name     {issued.name}")
    click.echo(f"Scopes   {', '.join(issued.scopes)}")
    click.echo(f"Expires  {in_words(issued.expires_at)}")
    click.echo("\nThe key is not shown again: store it now.")


@key.command(name="list")
@click.argument("client_id")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_keys(client_id: str, as_json: bool) -> None:
    """List an account's keys. The keys themselves are not shown."""
    with opened_hub() as hub:
        from crmhub.accounts import keys

        account = hub.load_account(client_id)
        with hub.database.reading() as db:
            listed = keys.list_keys(db, account.id)
    if as_json:
        from crmhub.api.admin.account_answers import KeyShown

        print_json(KeyShown(many=True).dump(listed))
        return

    print_columns(
        ("KEY ID", "NAME", "ENDS IN", "STATE", "LAST USED", "SCOPES"),
        [
            (
                key.key_id,
                key.name or "–",
                f"…{key.hint}",
                validity(expires_at=key.expires_at, revoked_at=key.revoked_at),
                in_words(key.last_used_at),
                "all" if key.scopes == keys.SCOPES else " ".join(key.scopes),
            )
            for key in listed
        ],
    )


@key.command()
@click.argument("client_id")
@click.argument("key_id")
def revoke(client_id: str, key_id: str) -> None:
    """Revoke a key. Every server process refuses it within a second.

    The event subscriptions that the key has made are disabled.
    """
    with opened_hub() as hub:
        from crmhub.operators.accounts import change_account

        ended = change_account.revoke_key(hub, client_id, key_id, by=author())
    click.echo(f"Key {key_id} is revoked.")
    for subscription in ended:
        click.echo(f"Its event subscription {subscription.id} is disabled.")
