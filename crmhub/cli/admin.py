"""`crmhub admin`: tokens of the admin API, and users of the console."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rich_click as click

from crmhub.cli.inputs import expiring, moment, read_password
from crmhub.cli.open_hub import author, opened_hub
from crmhub.cli.output import in_words, iso, print_columns, print_json, validity
from crmhub.server.processes import local_host, origin

if TYPE_CHECKING:
    from crmhub.accounts.users import User


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
        from crmhub.operations import users

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
        from crmhub.operations import users

        users.revoke_token(hub, token_id, by=author())
    click.echo(f"Token {token_id} is revoked.")


# --- users of the console ----------------------------------------------------------------------

_password = click.option(
    "--password-file",
    "password",
    required=True,
    metavar="FILE",
    callback=lambda _ctx, _option, source: read_password(source),
    help="File with the password; - reads standard input, or asks.",
)


@admin.group()
def user() -> None:
    """Manage console users."""


@user.command(name="create")
@click.argument("email")
@_password
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def create_user(email: str, password: str, as_json: bool) -> None:
    """Create a console user with EMAIL and a password of at least 12 characters."""
    with opened_hub() as hub:
        from crmhub.operations import users

        user = users.create_user(hub, email, password, by=author())
    if as_json:
        print_json(_user_as_json(user))
        return
    click.echo(f"{user.email} may sign in at /console.")


@user.command(name="link")
@click.option(
    "--expires",
    type=moment,
    default="24h",
    show_default=True,
    metavar="TIME",
    help="Expires: 2h from now, or on a date (UTC); at most 7 days ahead.",
)
@click.option("--url", metavar="URL", help="The service's public URL. [default: host and port]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def issue_link(expires: int, url: str | None, as_json: bool) -> None:
    """Print a one-time link by which a person creates their console user.

    The person chooses email and password. The link works once; a new link replaces the former one.
    """
    with opened_hub() as hub:
        from crmhub.operations import setup_link

        issued = setup_link.issue(hub, expires_at=expires, by=author())
        address = url or origin(local_host(hub.settings.host), hub.settings.port)
    link = address.rstrip("/") + issued.path
    if as_json:
        print_json({"link": link, "expiresAt": iso(issued.expires_at)})
        return
    click.echo(f"{link}\n\nThe link works once, until {in_words(issued.expires_at)}.")


@user.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_users(as_json: bool) -> None:
    """List the console users with their state."""
    with opened_hub() as hub:
        from crmhub.operations import users

        users_found = users.list_users(hub)
    if as_json:
        print_json([_user_as_json(user) for user in users_found])
        return
    print_columns(
        ("USER ID", "EMAIL", "STATE", "LAST SIGN-IN"),
        [
            (
                user.user_id,
                user.email,
                f"disabled {in_words(user.disabled_at)}" if user.disabled_at else "live",
                in_words(user.last_sign_in_at),
            )
            for user in users_found
        ],
    )


@user.command()
@click.argument("email")
def disable(email: str) -> None:
    """Disable a user. Their sessions end within a second."""
    _set_disabled(email, True)
    click.echo(f"{email} is disabled.")


@user.command()
@click.argument("email")
def enable(email: str) -> None:
    """Enable a disabled user."""
    _set_disabled(email, False)
    click.echo(f"{email} may sign in at /console.")


@user.command(name="password")
@click.argument("email")
@_password
def change_password(email: str, password: str) -> None:
    """Set a new password for a user. Their sessions end within a second."""
    with opened_hub() as hub:
        from crmhub.operations import users

        users.set_password(hub, email, password, by=author())
    click.echo(f"{email} has a new password.")


def _set_disabled(email: str, disabled: bool) -> None:
    with opened_hub() as hub:
        from crmhub.operations import users

        users.set_disabled(hub, email, disabled, by=author())


def _user_as_json(user: User) -> dict[str, Any]:
    return {
        "userId": user.user_id,
        "email": user.email,
        "createdAt": iso(user.created_at),
        "disabledAt": iso(user.disabled_at),
        "lastSignInAt": iso(user.last_sign_in_at),
    }
