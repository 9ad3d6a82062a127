"""`crmhub admin`: who may call the admin API, and who may use the console."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rich_click as click

from crmhub.cli.inputs import expiring, read_password
from crmhub.cli.open_hub import author, opened_hub
from crmhub.cli.output import in_words, iso, print_columns, print_json, standing

if TYPE_CHECKING:
    from crmhub.accounts.users import User


@click.group()
def admin() -> None:
    """What belongs to the operator: tokens of the admin API, users of the console."""


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
        from crmhub.operations import change_account

        issued = change_account.create_token(
            hub, name, scopes=scopes, expires_at=expires, by=author()
        )
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
        from crmhub.operations import change_account

        change_account.revoke_token(hub, token_id, by=author())
    click.echo(f"Token {token_id} is revoked.")


# --- users of the console ----------------------------------------------------------------------

_password = click.option(
    "--password-file",
    "password",
    required=True,
    metavar="FILE",
    callback=lambda _ctx, _option, source: read_password(source),
    help="Where the password is; - reads standard input, or asks.",
)


@admin.group()
def user() -> None:
    """Let people use the console, and shut them out."""


@user.command(name="create")
@click.argument("email")
@_password
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def create_user(email: str, password: str, as_json: bool) -> None:
    """Let somebody sign in at /console with EMAIL and a password of 12 characters or more."""
    with opened_hub() as hub:
        from crmhub.operations import users

        made = users.create_user(hub, email, password, by=author())
    if as_json:
        print_json(_user_shown(made))
        return
    click.echo(f"{made.email} may sign in at /console.")


@user.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_users(as_json: bool) -> None:
    """List who may use the console, and who no more."""
    with opened_hub() as hub:
        from crmhub.operations import users

        found = users.list_users(hub)
    if as_json:
        print_json([_user_shown(one) for one in found])
        return
    print_columns(
        ("USER ID", "EMAIL", "STATE", "LAST SIGN-IN"),
        [
            (
                one.user_id,
                one.email,
                f"disabled {in_words(one.disabled_at)}" if one.disabled_at else "live",
                in_words(one.last_sign_in_at),
            )
            for one in found
        ],
    )


@user.command()
@click.argument("email")
def disable(email: str) -> None:
    """Shut a user out; their sessions end within a second."""
    _set_disabled(email, True)
    click.echo(f"{email} is shut out.")


@user.command()
@click.argument("email")
def enable(email: str) -> None:
    """Let a disabled user sign in again."""
    _set_disabled(email, False)
    click.echo(f"{email} may sign in at /console.")


@user.command(name="password")
@click.argument("email")
@_password
def change_password(email: str, password: str) -> None:
    """Give a user another password; their sessions end within a second."""
    with opened_hub() as hub:
        from crmhub.operations import users

        users.set_password(hub, email, password, by=author())
    click.echo(f"{email} has another password.")


def _set_disabled(email: str, disabled: bool) -> None:
    with opened_hub() as hub:
        from crmhub.operations import users

        users.set_disabled(hub, email, disabled, by=author())


def _user_shown(one: User) -> dict[str, Any]:
    return {
        "userId": one.user_id,
        "email": one.email,
        "createdAt": iso(one.created_at),
        "disabledAt": iso(one.disabled_at),
        "lastSignInAt": iso(one.last_sign_in_at),
    }
