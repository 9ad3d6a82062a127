"""`crmhub admin`: tokens of the admin API, and users of the console."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import rich_click as click

from crmhub.cli.inputs import moment, read_password
from crmhub.cli.open_hub import author, base_url, opened_hub
from crmhub.cli.output import in_words, iso, print_columns, print_json
from crmhub.cli.resources import group
from crmhub.operators.users.token_resource import VERBS

if TYPE_CHECKING:
    from crmhub.hub import Hub
    from crmhub.users.users import User

_ROLES = ("owner", "operator", "support", "reader")
_password = click.option(
    "--password-file",
    "password",
    required=True,
    metavar="FILE",
    callback=lambda _ctx, _option, source: read_password(source),
    help="File with the password; - reads standard input, or asks.",
)
_accounts = click.option(
    "--account",
    "client_ids",
    multiple=True,
    metavar="CLIENT_ID",
    help="An account that the user may see; repeatable. Not given: all accounts.",
)
_url = click.option(
    "--url",
    metavar="URL",
    help="Address of the console, such as https://hub.example.com. Not given: this machine's.",
)


@click.group()
def admin() -> None:
    """Manage tokens of the admin API and users of the console."""


admin.add_command(group("token", "Create and revoke tokens of the admin API.", *VERBS))


@admin.group()
def user() -> None:
    """Manage console users."""


@user.command(name="create")
@click.argument("email")
@_password
@click.option(
    "--role", type=click.Choice(_ROLES), default="owner", show_default=True, help="Role of the user"
)
@_accounts
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def create_user(
    email: str, password: str, role: str, client_ids: tuple[str, ...], as_json: bool
) -> None:
    """Create a console user with EMAIL and a password of at least 12 characters."""
    with opened_hub() as hub:
        from crmhub.operators.users import console_users as users

        user = users.create_user(
            hub, email, password, role=role, client_ids=client_ids or None, by=author()
        )
        shown = _as_json(user, users.client_ids_of(hub, [user]))
    if as_json:
        print_json(shown)
        return
    click.echo(f"{user.email} may sign in at /console.")


@user.command()
@click.argument("email")
@click.option("--role", type=click.Choice(_ROLES), required=True, help="Role of the user")
@_accounts
@_url
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def invite(
    email: str, role: str, client_ids: tuple[str, ...], url: str | None, as_json: bool
) -> None:
    """Invite a person, and print a link by which they join. It works once, for 7 days."""
    with opened_hub() as hub:
        from crmhub.operators.users import console_users as users

        token = users.invite(hub, email, role=role, client_ids=client_ids or None, by=author())
        _print_link(hub, token, url, as_json)


@user.command(name="link")
@click.option(
    "--expires",
    type=moment,
    default="24h",
    show_default=True,
    metavar="TIME",
    help="Expires: 2h from now, or on a local date; at most 7 days ahead.",
)
@_url
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def issue_link(expires: int, url: str | None, as_json: bool) -> None:
    """Print a one-time link by which a person creates their console user, an owner.

    The person chooses email and password. The link works once; a new link replaces the former one.
    """
    with opened_hub() as hub:
        from crmhub.operators.users import setup_link

        issued = setup_link.issue(hub, expires_at=expires, by=author())
        link = base_url(hub, url) + issued.path
    if as_json:
        print_json({"link": link, "expiresAt": iso(issued.expires_at)})
        return
    click.echo(f"{link}\n\nThe link works once, until {in_words(issued.expires_at)}.")


@user.command()
@click.argument("email")
@_url
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def reset(email: str, url: str | None, as_json: bool) -> None:
    """End a user's sessions, and print a link for a new password. It works once, for 24 hours."""
    with opened_hub() as hub:
        from crmhub.operators.users import console_users as users

        _print_link(hub, users.create_link(hub, email, by=author()), url, as_json)


def _print_link(hub: Hub, token: str, url: str | None, as_json: bool) -> None:
    from crmhub.operators.users import console_users as users

    link = users.find_link(hub, token)
    address = f"{base_url(hub, url)}/console/join/{token}"
    if as_json:
        print_json({"email": link.email, "link": address, "expiresAt": iso(link.ends_at)})
        return
    click.echo(f"Link     {address}")
    click.echo(f"User     {link.email}")
    click.echo(f"Expires  {in_words(link.ends_at)}")
    click.echo("\nThe link works once and is not shown again: send it now.")


@user.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_users(as_json: bool) -> None:
    """List the console users with their role, accounts and state."""
    with opened_hub() as hub:
        from crmhub.operators.users import console_users as users

        listed = users.list_users(hub)
        client_ids = users.client_ids_of(hub, listed)
    shown = [_as_json(user, client_ids) for user in listed]
    if as_json:
        print_json(shown)
        return
    print_columns(
        ("USER ID", "EMAIL", "ROLE", "ACCOUNTS", "STATE", "SECOND FACTOR", "LAST SIGN-IN"),
        [
            (
                user.user_id,
                user.email,
                user.role,
                "all" if one["accounts"] is None else " ".join(one["accounts"]),
                _state(user),
                "on" if user.has_second_factor else "off",
                in_words(user.last_sign_in_at),
            )
            for user, one in zip(listed, shown, strict=True)
        ],
        shorten=("ACCOUNTS",),
    )


def _state(user: User) -> str:
    if user.disabled_at:
        return f"disabled {in_words(user.disabled_at)}"
    return f"invited until {in_words(user.invited_until)}" if user.invited_until else "live"


@user.command(name="role")
@click.argument("email")
@click.argument("role", type=click.Choice(_ROLES))
@_accounts
def set_role(email: str, role: str, client_ids: tuple[str, ...]) -> None:
    """Set the role and the accounts of a user. Their sessions end within a second."""
    with opened_hub() as hub:
        from crmhub.operators.users import console_users as users

        users.set_role(hub, email, role, client_ids or None, by=author())
    seen = ", ".join(client_ids) or "all accounts"
    click.echo(f"{email} has the role {role} and sees {seen}.")


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


@user.command()
@click.argument("email")
@click.confirmation_option(prompt="Remove this user for good?", help="Do not ask.")
def remove(email: str) -> None:
    """Remove a user. The audit log keeps their changes."""
    with opened_hub() as hub:
        from crmhub.operators.users import console_users as users

        users.remove_user(hub, email, by=author())
    click.echo(f"{email} is removed.")


@user.command(name="password")
@click.argument("email")
@_password
def change_password(email: str, password: str) -> None:
    """Set a new password for a user. Their sessions end within a second."""
    with opened_hub() as hub:
        from crmhub.operators.users import console_users as users

        users.set_password(hub, email, password, by=author())
    click.echo(f"{email} has a new password.")


@user.command(name="reset-second-factor")
@click.argument("email")
def reset_second_factor(email: str) -> None:
    """Turn off the second factor of a user who has lost it. Their sessions end."""
    with opened_hub() as hub:
        from crmhub.operators.users import console_users as users

        users.reset_second_factor(hub, email, by=author())
    click.echo(f"The second factor of {email} is off.")


def _set_disabled(email: str, disabled: bool) -> None:
    with opened_hub() as hub:
        from crmhub.operators.users import console_users as users

        users.set_disabled(hub, email, disabled, by=author())


def _as_json(user: User, client_ids: Mapping[int, str]) -> dict[str, Any]:
    accounts = user.accounts
    return {
        "userId": user.user_id,
        "email": user.email,
        "createdAt": iso(user.created_at),
        "disabledAt": iso(user.disabled_at),
        "lastSignInAt": iso(user.last_sign_in_at),
        "role": user.role,
        "accounts": None if accounts is None else [client_ids[id] for id in sorted(accounts)],
        "invitedUntil": iso(user.invited_until),
        "secondFactor": user.has_second_factor,
    }
