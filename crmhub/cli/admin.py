"""`crmhub admin`: who may call the admin API."""

from __future__ import annotations

import rich_click as click

from crmhub.cli.inputs import expiring
from crmhub.cli.opening import author, opened_hub
from crmhub.cli.output import in_words, iso, print_columns, print_json, standing


@click.group()
def admin() -> None:
    """What belongs to the operator: tokens of the admin API."""


@admin.group()
def token() -> None:
    """Make and end tokens of the admin API."""


@token.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="RESOURCE:RIGHT",
    help="What the token may do, such as actions:read; again for more. None named: everything.",
)
@expiring
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def create(name: str, scopes: tuple[str, ...], expires: int | None, as_json: bool) -> None:
    """Make a token and print it, this once; NAME says what it is for."""
    with opened_hub() as hub:
        from crmhub.actions import operating

        issued = operating.create_token(hub, name, scopes=scopes, expires_at=expires, by=author())
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
    click.echo("\nThe token is not shown again: keep it now.")


@token.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_tokens(as_json: bool) -> None:
    """List the tokens, without showing them."""
    with opened_hub() as hub:
        from crmhub.accounts import admin_tokens

        with hub.database.reading() as db:
            found = admin_tokens.list_tokens(db)
    if as_json:
        print_json(
            [
                {
                    "tokenId": one.token_id,
                    "name": one.name,
                    "hint": one.hint,
                    "scopes": list(one.scopes),
                    "createdAt": iso(one.created_at),
                    "expiresAt": iso(one.expires_at),
                    "revokedAt": iso(one.revoked_at),
                    "lastUsedAt": iso(one.last_used_at),
                }
                for one in found
            ]
        )
        return
    print_columns(
        ("TOKEN ID", "NAME", "ENDS IN", "STATE", "LAST USED", "SCOPES"),
        [
            (
                one.token_id,
                one.name,
                f"…{one.hint}",
                standing(expires_at=one.expires_at, revoked_at=one.revoked_at),
                in_words(one.last_used_at),
                "all" if one.scopes == admin_tokens.SCOPES else " ".join(one.scopes),
            )
            for one in found
        ],
    )


@token.command()
@click.argument("token_id")
def revoke(token_id: str) -> None:
    """End a token; every server process refuses it within a second."""
    with opened_hub() as hub:
        from crmhub.actions import operating

        operating.revoke_token(hub, token_id, by=author())
    click.echo(f"Token {token_id} is revoked.")
