"""`crmhub admin`: tokens of the admin API, and users of the console."""

from __future__ import annotations

import rich_click as click

from crmhub.cli.admin_users import user
from crmhub.cli.inputs import expiring
from crmhub.cli.open_hub import author, opened_hub
from crmhub.cli.output import in_words, iso, print_columns, print_json, validity


@click.group()
def admin() -> None:
    """Manage tokens of the admin API and users of the console."""


@admin.group()
def token() -> None:
    """Create and revoke tokens of the admin API."""


@token.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="RESOURCE:RIGHT",
    help="A scope of the token, such as actions:read; repeatable. Not given: full access.",
)
@expiring
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def create(name: str, scopes: tuple[str, ...], expires: int | None, as_json: bool) -> None:
    """Create a token and print it. It is shown only once. NAME says what it is for."""
    with opened_hub() as hub:
        from crmhub.operators.users import console_users as users

        issued = users.create_token(hub, name, scopes=scopes, expires_at=expires, by=author())
    if as_json:
        print_json(
            {
                "tokenId": issued.token_id,
                "name": issued.name,
                "token": issued.token,
                "scopes": list(issued.scopes),
                "expiresAt": iso(issued.expires_at),
            }
        )
        return
    click.echo(f"Token     {issued.token}")
    click.echo(f"Token id  {issued.token_id}")
    click.echo(f"Name      {issued.name}")
    click.echo(f"Scopes    {', '.join(issued.scopes)}")
    click.echo(f"Expires   {in_words(issued.expires_at)}")
    click.echo("\nThe token is not shown again: store it now.")


@token.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_tokens(as_json: bool) -> None:
    """List the tokens. The tokens themselves are not shown."""
    with opened_hub() as hub:
        from crmhub.accounts import admin_tokens

        with hub.database.reading() as db:
            tokens = admin_tokens.list_tokens(db)
    if as_json:
        print_json(
            [
                {
                    "tokenId": token.token_id,
                    "name": token.name,
                    "hint": token.hint,
                    "scopes": list(token.scopes),
                    "createdAt": iso(token.created_at),
                    "expiresAt": iso(token.expires_at),
                    "revokedAt": iso(token.revoked_at),
                    "lastUsedAt": iso(token.last_used_at),
                }
                for token in tokens
            ]
        )
        return
    print_columns(
        ("TOKEN ID", "NAME", "ENDS IN", "STATE", "LAST USED", "SCOPES"),
        [
            (
                token.token_id,
                token.name,
                f"…{token.hint}",
                validity(expires_at=token.expires_at, revoked_at=token.revoked_at),
                in_words(token.last_used_at),
                "all" if token.scopes == admin_tokens.SCOPES else " ".join(token.scopes),
            )
            for token in tokens
        ],
    )


@token.command()
@click.argument("token_id")
def revoke(token_id: str) -> None:
    """Revoke a token. Every server process refuses it within a second."""
    with opened_hub() as hub:
        from crmhub.operators.users import console_users as users

        users.revoke_token(hub, token_id, by=author())
    click.echo(f"Token {token_id} is revoked.")


admin.add_command(user)
