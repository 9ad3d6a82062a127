"""`crmhub account`: create, show and change accounts."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import rich_click as click
from click.core import ParameterSource

from crmhub.cli.connect_link import link
from crmhub.cli.declare import apply, export
from crmhub.cli.field_map import field_map
from crmhub.cli.inputs import (
    adapter_options,
    as_mapping,
    assignment,
    duration,
    read_secrets,
    refuse_secrets,
)
from crmhub.cli.open_hub import author, opened_hub
from crmhub.cli.output import in_words, iso, print_fields, print_json
from crmhub.cli.resources import print_one, print_shown, print_table
from crmhub.errors import listed
from crmhub.operators.accounts import resources

if TYPE_CHECKING:
    from crmhub.accounts.webhook_ids import Rotatable, WebhookId
    from crmhub.hub import Hub
    from crmhub.operators.accounts.change_account import Detail
    from crmhub.operators.crm.switch_crm import Decision


@click.group()
def account() -> None:
    """Create and change accounts."""


account.add_command(apply)
account.add_command(export)
account.add_command(field_map)
account.add_command(link)


@account.command()
@click.argument("name")
@click.option("--client-id", help="The account's id in URLs. Not given: derived from the name.")
@click.option(
    "--adapter", default="local", show_default=True, help="The account's CRM: an adapter."
)
@click.option("--plan", default="default", show_default=True, help="The account's plan.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def create(name: str, client_id: str | None, adapter: str, plan: str, as_json: bool) -> None:
    """Create an account and print its API key and secret. They are shown only once."""
    with opened_hub() as hub:
        opened = resources.open_account(
            hub, name=name, client_id=client_id, adapter=adapter, plan=plan, by=author()
        )
        crm_settings = hub.registry.load(adapter).settings
    if as_json:
        print_shown(resources.OPENED, opened)
        return
    click.echo(f"The account {name} was created.\n")
    print_one(resources.OPENED, opened)
    click.echo("\nThe API key and the webhook secret are not shown again: store them now.")
    if crm_settings:
        click.echo(
            f"Its CRM needs settings: `crmhub adapters {adapter}` lists them,"
            " `crmhub account adapter --help` shows how to set them."
        )


@account.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_accounts(as_json: bool) -> None:
    """List the accounts."""
    with opened_hub() as hub:
        from crmhub.accounts import accounts

        with hub.database.reading() as db:
            readable = accounts.list_accounts(db, hub.plans)
            listed_ids = {account.client_id for account in readable}
            missing = [account for account in accounts.client_ids(db) if account not in listed_ids]
    if missing:
        left_out = f"Not listed, because their stored data cannot be read: {', '.join(missing)}."
        click.echo(f"{left_out} `crmhub doctor` names the fields.", err=True)
    if as_json:
        print_shown(resources.LISTED, readable, many=True)
    elif readable:
        print_table(resources.LISTED, readable)
    elif not missing:
        click.echo("There are no accounts yet: `crmhub account create NAME` creates one.")


@account.command()
@click.argument("client_id")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(client_id: str, as_json: bool) -> None:
    """Show an account and its webhook ids. Keys and secrets are never shown."""
    with opened_hub() as hub:
        from crmhub.operators.accounts import change_account

        detail = change_account.detail(hub, client_id)
    if as_json:
        print_shown(resources.ACCOUNT, detail)
    else:
        _print_account(detail)


@account.command(name="set")
@click.argument("client_id")
@click.argument("values", nargs=-1, required=True, type=assignment)
@click.option("--yes", is_flag=True, help="Delete a copy without asking.")
def set_switches(client_id: str, values: tuple[tuple[str, str], ...], yes: bool) -> None:
    """Change the settings of an account, as name=value.

    \b
    strict=true                  one invalid property refuses the whole helper call
    soft_errors=true             helpers answer errors with status 200
    require_secret=true          helper calls need the webhook secret
    bare_tokens=false            a contactToken alone does not identify the account
    lead_requires=email_or_phone what createLead needs besides the name (default: email)
    deadline_s=3                 seconds a helper call may take, 1 to 25
    region=DE                    country of phone numbers without a country code, and of the
                                 order of day and month in dates
    language=es                  language of words for yes and no, beside English, and of the
                                 answers' message (es, pt)
    blank_clears=false           blank values of setProperties change nothing
    auto_define_properties=true  the API defines unknown properties
    rotation=round_robin         how getRandomInt chooses: random, round_robin, shuffle_bag or
                                 weighted:5,3,1; with +sticky, a contact keeps its number
    phone_identifies=true        a lead's phone decides before its conversation (WhatsApp, SMS)
    mirror=true                  the hub keeps a copy of the CRM's records; false deletes it,
                                 after a question
    mirror_properties=email,phone  the properties that are copied; empty: all
    mirror_every_s=300           seconds until the CRM is asked for changes again (default: 60)
    answer_format=chatfuel       form of the helpers' answers: flat, chatfuel or manychat
    allowed_origins=https://a.example,https://b.example
                                 origins whose pages may call the helpers; empty: none
    name="Acme GmbH"             the display name
    plan=free                    the plan
    portal_alias=12345678        the CRM's portal id, accepted with the secret; empty: none
    """
    with opened_hub() as hub:
        from crmhub.operators.accounts import change_account

        given = as_mapping(values, "set")
        if not yes:
            _confirm_deletion(hub, client_id, given)
        change_account.change(hub, client_id, given, by=author())
    click.echo(f"Set {', '.join(given)} of {client_id}.")


def _confirm_deletion(hub: Hub, client_id: str, given: Mapping[str, str]) -> None:
    """Ask before the copy of a CRM is deleted; the answer no ends the command."""
    from crmhub.accounts.switches import read_switches
    from crmhub.operators.crm import copy_crm

    account = hub.load_account(client_id)
    read, _ = read_switches({name: text for name, text in given.items() if name == "mirror"})
    if account.switches.mirror and read.get("mirror") is False:
        count = copy_crm.count_records(hub, account)
        crm = hub.registry.title(account.connection.adapter)
        click.confirm(
            f"Delete the hub's copy of {crm}, {count:,} record{'s' * (count != 1)}? Nothing is"
            f" deleted in {crm}.",
            abort=True,
        )


@account.command()
@click.argument("client_id")
@click.argument("name")
@adapter_options("A secret of the adapter, from a file or from standard input")
@click.option(
    "--queued",
    type=click.Choice(("finish", "move", "drop")),
    help="Actions queued for the old CRM: finish them there, move them to the new CRM (except for"
    " contacts the old CRM already has), or drop them.",
)
@click.option(
    "--restore",
    is_flag=True,
    help="Take what is not given from the account's last connection to this CRM, the field map"
    " included. It is kept for 30 days.",
)
@click.option(
    "--check", "test", is_flag=True, help="Test the connection first; save only if it works."
)
def adapter(
    client_id: str,
    name: str,
    queued: Decision | None,
    restore: bool,
    test: bool,
    settings: tuple[tuple[str, str], ...],
    secrets: tuple[tuple[str, str], ...],
) -> None:
    """Choose an account's CRM, or change its settings.

    Settings that are not named keep their values. A different adapter starts without any, unless
    --restore is given.
    """
    with opened_hub() as hub:
        from crmhub.operators.accounts import change_account
        from crmhub.operators.crm import set_crm

        given = as_mapping(settings, "--set")
        refuse_secrets(set_crm.load_adapter(hub, name), given)
        past = set_crm.LAST if restore else None
        crm = set_crm.Crm(name, given, read_secrets(secrets), past=past)
        set_crm.set_crm(hub, client_id, crm, test=test, queued=queued, by=author())
        former = change_account.detail(hub, client_id).former
    hint = "" if test else f" `crmhub account check {client_id}` tests the connection."
    click.echo(f"{client_id} uses {name}.{hint}")
    for former_crm in former:
        count = former_crm.queued + former_crm.running
        click.echo(
            f"To be finished in {former_crm.adapter}: {count} action{'s' if count > 1 else ''}."
        )


@account.command()
@click.argument("client_id")
def check(client_id: str) -> None:
    """Test the connection to an account's CRM, and check the field map with it.

    Warns of properties that the CRM requires and neither helpers nor field map fill, and if the
    running service cannot use the CRM. Exits with 1 on a fault.
    """
    with opened_hub() as hub:
        from crmhub.operators.crm import crm_states, map_fields, mappable_properties, set_crm

        account = hub.load_account(client_id)
        field_map = account.connection.field_map
        found = set_crm.check_crm(hub, client_id)
        fault = found.message if found else ""
        if not fault and (faults := map_fields.check(hub, account, field_map).faults):
            fault = f"field map: {listed(faults)}"
        warnings = [] if fault else mappable_properties.unfilled(hub, account)
        with hub.database.reading() as db:
            [state, *_] = crm_states.states_of(hub, db, [account])[account.id]
        if state.is_down:
            warnings.append(f"the service's last attempt failed: {state.reason}")
    if fault:
        raise click.ClickException(f"{account.connection.adapter}: {fault}")
    click.echo(f"{account.connection.adapter}: connection test passed.")
    for warning in warnings:
        click.echo(f"Warning: {warning}")


@account.command()
@click.argument("client_id")
@click.argument("what", type=click.Choice(["generated", "portal", "secret"]))
@click.option("--now", "at_once", is_flag=True, help="Invalidate the old one immediately.")
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

    The old one stays valid for a week, so that there is time to update the bots.
    """
    keep_old_given = ctx.get_parameter_source("keep_old") is not ParameterSource.DEFAULT
    if at_once and keep_old_given:
        raise click.UsageError("Give --now or --keep-old, not both.")
    keep_ms = 0 if at_once else keep_old
    with opened_hub() as hub:
        from crmhub.operators.accounts import change_account

        value, until = change_account.rotate(hub, client_id, what, keep_ms=keep_ms, by=author())
    if as_json:
        print_json({what: value, "oldValidUntil": iso(until)})
        return
    name = {"generated": "generated id", "portal": "portal id", "secret": "webhook secret"}[what]
    click.echo(f"The new {name} is {value}")
    click.echo(
        f"Every older {name} is invalid now."
        if at_once
        else f"The old one is valid until {in_words(until)}."
    )
    if what == "secret":
        click.echo("The secret is not shown again: store it now.")


@account.command()
@click.argument("client_id")
@click.option("--yes", is_flag=True, help="Disable without asking.")
def disable(client_id: str, yes: bool) -> None:
    """Disable an account. Its data is kept.

    Its API and its helpers refuse every call, and its queued actions wait. On a terminal you are
    asked first; a script is not.
    """
    with opened_hub() as hub:
        from crmhub.operators.accounts import change_account

        account = hub.load_account(client_id)
        # Scripts that were written before the question existed cannot answer it.
        if not yes and not account.disabled and sys.stdin.isatty():
            question = f"Disable {client_id} ({account.name})? All its calls will be refused."
            click.confirm(question, abort=True)
        change_account.change(hub, client_id, {}, disabled=True, by=author())
    click.echo(f"{client_id} is disabled. `crmhub account enable {client_id}` undoes it.")


@account.command()
@click.argument("client_id")
def enable(client_id: str) -> None:
    """Enable a disabled account."""
    with opened_hub() as hub:
        from crmhub.operators.accounts import change_account

        change_account.change(hub, client_id, {}, disabled=False, by=author())
    click.echo(f"{client_id} is enabled.")


def _print_account(detail: Detail) -> None:
    from dataclasses import asdict

    account, ids, secrets = detail.account, detail.ids, detail.secrets
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
            *(
                [("Field map", f"{len(rules)} rule{'s' if len(rules) > 1 else ''}")]
                if rules
                else []
            ),
            *(
                (f"{webhook_id.purpose.capitalize()} id", _id_with_expiry(webhook_id))
                for webhook_id in ids
                if webhook_id.purpose != "alias"
            ),
            *(
                ("Portal alias", webhook_id.value)
                for webhook_id in ids
                if webhook_id.purpose == "alias"
            ),
        ]
    )
    click.echo()
    print_fields((name, _value_text(value)) for name, value in asdict(account.switches).items())


def _id_with_expiry(webhook_id: WebhookId) -> str:
    expiry = (
        f" (until {in_words(webhook_id.expires_at)})" if webhook_id.expires_at is not None else ""
    )
    return f"{webhook_id.value}{expiry}"


def _value_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value) or "-"
