"""`crmhub account`: open accounts and change them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rich_click as click
from click.core import ParameterSource

from crmhub.cli.declare import apply, export
from crmhub.cli.field_map import field_map
from crmhub.cli.inputs import as_mapping, assignment, duration, read_secrets
from crmhub.cli.open_hub import (
    author,
    load_account,
    opened_hub,
)
from crmhub.cli.output import in_words, iso, print_columns, print_fields, print_json
from crmhub.errors import listed

if TYPE_CHECKING:
    from collections.abc import Sized

    from crmhub.accounts.webhook_ids import Rotatable, WebhookId
    from crmhub.adapter import Adapter
    from crmhub.operations.change_account import Detail
    from crmhub.operations.switch_crm import Decision


@click.group()
def account() -> None:
    """Open accounts and change them."""


account.add_command(apply)
account.add_command(export)
account.add_command(field_map)


@account.command()
@click.argument("name")
@click.option("--client-id", help="Its id in addresses; made from the name when not given.")
@click.option("--adapter", default="local", show_default=True, help="Its CRM.")
@click.option("--plan", default="default", show_default=True, help="Its plan.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def create(name: str, client_id: str | None, adapter: str, plan: str, as_json: bool) -> None:
    """Open an account and print its API key and secret, this once."""
    with opened_hub() as hub:
        from crmhub.operations.open_account import open_account

        opened, issued = open_account(
            hub, name=name, client_id=client_id, adapter=adapter, plan=plan, by=author()
        )
        to_set = hub.registry.load(adapter).settings
    if as_json:
        from crmhub.api.admin.account_answers import issued_shown

        print_json(issued_shown(opened, issued))
        return
    click.echo(f"The account {opened.name} is open.\n")
    print_fields(
        [
            ("Client id", opened.client_id),
            ("API key", issued.api_key),
            ("Generated id", issued.generated_id),
            ("Portal id", issued.portal_id),
            ("Webhook secret", issued.webhook_secret),
        ]
    )
    click.echo("\nThe API key and the webhook secret are not shown again: keep them now.")
    if to_set:
        click.echo(
            f"Its CRM waits for its settings: `crmhub adapters {adapter}` lists them,"
            " `crmhub account adapter --help` says how to give them."
        )


@account.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_accounts(as_json: bool) -> None:
    """List the accounts."""
    with opened_hub() as hub:
        from crmhub.accounts import accounts

        with hub.database.reading() as db:
            found = accounts.list_accounts(db, hub.plans)
            listed_ids = {one.client_id for one in found}
            missing = [one for one in accounts.client_ids(db) if one not in listed_ids]
    if missing:
        left_out = f"Left out, for what is stored of them cannot be read: {', '.join(missing)}."
        click.echo(f"{left_out} `crmhub doctor` says where.", err=True)
    if as_json:
        from crmhub.api.admin.account_answers import outline_shown

        print_json([outline_shown(one) for one in found])
    elif found:
        print_columns(
            ("CLIENT ID", "NAME", "PLAN", "ADAPTER", "STATE"),
            [
                (
                    one.client_id,
                    one.name,
                    one.plan.name,
                    one.connection.adapter,
                    "disabled" if one.disabled else "live",
                )
                for one in found
            ],
        )
    elif not missing:
        click.echo("There are no accounts yet: `crmhub account create NAME` opens one.")


@account.command()
@click.argument("client_id")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(client_id: str, as_json: bool) -> None:
    """Show an account and the ids it is called by; never its key or secrets."""
    with opened_hub() as hub:
        from crmhub.api.admin.account_answers import account_shown
        from crmhub.operations import change_account

        found = change_account.detail(hub, client_id)
    if as_json:
        print_json(account_shown(found))
    else:
        _print_account(found)


@account.command(name="set")
@click.argument("client_id")
@click.argument("values", nargs=-1, required=True, type=assignment)
def set_switches(client_id: str, values: tuple[tuple[str, str], ...]) -> None:
    """Set switches of an account, each as name=value.

    \b
    strict=true                  one bad property refuses the whole helper call
    soft_errors=true             helpers answer errors with status 200
    require_secret=true          helpers demand the webhook secret
    bare_tokens=false            a contactToken alone finds no account
    lead_requires=email_or_phone what createLead needs beside the name (email)
    deadline_s=3                 seconds a helper call may take, 1 to 25
    region=DE                    where phone numbers without country code belong
    auto_define_properties=true  the API defines unknown properties
    rotation=round_robin         how getRandomInt chooses: random, round_robin, shuffle_bag or
                                 weighted:5,3,1; +sticky behind it: a contact keeps its number
    phone_identifies=true        a lead's phone decides before its conversation (WhatsApp, SMS)
    name="Acme GmbH"             what people call it
    plan=free                    the plan
    portal_alias=12345678        the CRM's portal id, taken with the secret; empty for none
    """
    with opened_hub() as hub:
        from crmhub.operations import change_account

        given = as_mapping(values, "set")
        change_account.change(hub, client_id, given, by=author())
    click.echo(f"Set {', '.join(given)} of {client_id}.")


@account.command()
@click.argument("client_id")
@click.argument("name")
@click.option(
    "--set",
    "settings",
    multiple=True,
    type=assignment,
    metavar="K=V",
    help="A setting of the adapter; again for more. Empty: its default.",
)
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    type=assignment,
    metavar="K=@FILE|K=-",
    help="A secret of the adapter, from a file or from standard input; again for more."
    " Empty: it is removed.",
)
@click.option(
    "--queued",
    type=click.Choice(("finish", "move", "drop")),
    help="What becomes of what is queued for the former CRM: it is finished there, moved where that"
    " CRM was not told of the person yet, or dropped.",
)
@click.option("--check", "ask", is_flag=True, help="Ask the CRM first; save when all is well.")
def adapter(
    client_id: str,
    name: str,
    queued: Decision | None,
    ask: bool,
    settings: tuple[tuple[str, str], ...],
    secrets: tuple[tuple[str, str], ...],
) -> None:
    """Choose an account's CRM, or change what is set for it.

    What is not named stays as it is. Another adapter than before starts afresh.
    """
    with opened_hub() as hub:
        from crmhub.operations import change_account

        given = as_mapping(settings, "--set")
        _refuse_secrets(change_account.adapter_class(hub, name), given)
        crm = change_account.Crm(name, given, read_secrets(secrets))
        change_account.set_crm(hub, client_id, crm, ask=ask, queued=queued, by=author())
        former = change_account.detail(hub, client_id).former
    told = "" if ask else f" `crmhub account check {client_id}` tries it."
    click.echo(f"{client_id} uses {name}.{told}")
    for one in former:
        count = one.queued + one.running
        click.echo(f"To be finished in {one.adapter}: {count} action{'s' if count > 1 else ''}.")


@account.command()
@click.argument("client_id")
def check(client_id: str) -> None:
    """Talk to an account's CRM and say what is wrong; exits with 1 when something is.

    Its field map is held against what the CRM has.
    """
    with opened_hub() as hub:
        from crmhub.helpers.crm_connection import check as find_fault
        from crmhub.operations import map_fields

        checked = load_account(hub, client_id)
        field_map = checked.connection.field_map
        wrong = find_fault(hub, checked)
        if not wrong and (faults := map_fields.check(hub, checked, field_map).faults):
            wrong = f"field map: {listed(faults)}"
    if wrong:
        raise click.ClickException(f"{checked.connection.adapter}: {wrong}")
    click.echo(f"{checked.connection.adapter}: all is well.")


@account.command()
@click.argument("client_id")
@click.argument("what", type=click.Choice(["generated", "portal", "secret"]))
@click.option("--now", "at_once", is_flag=True, help="End the old one at once.")
@click.option(
    "--keep-old",
    type=duration,
    default="7d",
    show_default=True,
    metavar="TIME",
    help="How long the old one stays valid.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def rotate(
    ctx: click.Context, client_id: str, what: Rotatable, at_once: bool, keep_old: int, as_json: bool
) -> None:
    """Replace the generated id, the portal id or the webhook secret, and print the new one.

    The old one stays valid for a week, so that bots can be changed in peace.
    """
    given = ctx.get_parameter_source("keep_old") is not ParameterSource.DEFAULT
    if at_once and given:
        raise click.UsageError("Give --now or --keep-old, not both.")
    keep_ms = 0 if at_once else keep_old
    with opened_hub() as hub:
        from crmhub.operations import change_account

        value, until = change_account.rotate(hub, client_id, what, keep_ms=keep_ms, by=author())
    if as_json:
        print_json({what: value, "oldValidUntil": iso(until)})
        return
    name = {"generated": "generated id", "portal": "portal id", "secret": "webhook secret"}[what]
    click.echo(f"The new {name} is {value}")
    click.echo(
        f"Every older {name} ended now." if at_once else f"The old one ends {in_words(until)}."
    )
    if what == "secret":
        click.echo("The secret is not shown again: keep it now.")


@account.command()
@click.argument("client_id")
def disable(client_id: str) -> None:
    """Refuse an account everywhere, within a second; its data stay."""
    with opened_hub() as hub:
        from crmhub.operations import change_account

        change_account.change(hub, client_id, {}, disabled=True, by=author())
    click.echo(f"{client_id} is disabled. `crmhub account enable {client_id}` undoes it.")


@account.command()
@click.argument("client_id")
def enable(client_id: str) -> None:
    """Let a disabled account work again."""
    with opened_hub() as hub:
        from crmhub.operations import change_account

        change_account.change(hub, client_id, {}, disabled=False, by=author())
    click.echo(f"{client_id} is live.")


def _refuse_secrets(adapter: type[Adapter], settings: dict[str, str]) -> None:
    for name in settings:
        if any(one.secret and one.name == name for one in adapter.settings):
            raise click.UsageError(
                f"--set {name}: it is a secret, and typed here it stays in the shell's history; "
                f"put it in a file and give --secret {name}=@FILE, or pipe it in and give "
                f"--secret {name}=-."
            )


def _print_account(found: Detail) -> None:
    from dataclasses import asdict

    account, ids, secrets = found.account, found.ids, found.secrets
    rules = account.connection.field_map.flat()
    settings = [f"{name}={value}" for name, value in account.connection.settings.items()]
    hidden = (
        ["secrets that cannot be opened"]
        if secrets is None
        else [f"{name} (secret)" for name in secrets]
    )
    print_fields(
        [
            ("Client id", account.client_id),
            ("Name", account.name),
            ("State", "disabled" if account.disabled else "live"),
            ("Opened", in_words(account.created_at)),
            ("Plan", account.plan.name),
            ("CRM", ", ".join([account.connection.adapter, *settings, *hidden])),
            *([("Field map", _counted(rules))] if rules else []),
            *(
                (f"{one.purpose.capitalize()} id", _valid(one))
                for one in ids
                if one.purpose != "alias"
            ),
            *(("Portal alias", one.value) for one in ids if one.purpose == "alias"),
        ]
    )
    click.echo()
    print_fields((name, _shown(value)) for name, value in asdict(account.switches).items())


def _counted(rules: Sized) -> str:
    return f"{len(rules)} rule{'s' if len(rules) > 1 else ''}"


def _valid(one: WebhookId) -> str:
    ends = f" (until {in_words(one.expires_at)})" if one.expires_at is not None else ""
    return one.value + ends


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value) or "-"
