"""`crmhub demo`: create an account with sample records, and print commands to try."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from crmhub.cli.open_hub import author, opened_hub
from crmhub.errors import NotFound

if TYPE_CHECKING:
    from crmhub.accounts.accounts import Account
    from crmhub.database.connection import Connection
    from crmhub.hub import Hub

_CLIENT_ID = "demo"
# The conversation in the printed commands.
_TOKEN = "demo-conversation"
# Prints a line break after the answer.
_CURL = r"curl -sw '\n'"
_WORKFLOW = "welcome"

_COMPANY = {"name": "Analytical Engines Ltd", "domain": "engines.example.com", "city": "London"}
_ADA = {
    "firstname": "Ada",
    "lastname": "Lovelace",
    "email": "ada@example.com",
    "phone": "+12025550143",
    "jobtitle": "Programmer",
}
_OTHERS = (
    {"firstname": "Charles", "lastname": "Babbage", "email": "charles@example.com"},
    {"firstname": "Grace", "lastname": "Hopper", "email": "grace@example.com"},
    {"firstname": "Alan", "lastname": "Turing", "email": "alan@example.com"},
)
_DEALS = (
    {"dealname": "Difference engine", "amount": "17000", "dealstage": "contractsent"},
    {"dealname": "Punched cards", "amount": "250.5"},
)
_TICKETS = ({"subject": "Where is my invoice?", "hs_ticket_priority": "MEDIUM"},)


@click.command()
@click.option("--host", metavar="ADDRESS", help="Address of the service. [setting: host]")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the service. [setting: port]")
def demo(host: str | None, port: int | None) -> None:
    """Create an account with sample records, and print how to try the service.

    Prints a one-time link that creates the first console user, while there is none. Run again, it
    prints the same commands. Without samples if the account uses another CRM. For development only:
    the account's key is stored in var/demo.json.
    """
    with opened_hub() as hub:
        if hub.settings.env == "production":
            raise click.ClickException(
                "There is no demo in production, because its key is stored in a file; "
                "`crmhub account create NAME` creates a real account."
            )
        from crmhub.operators.users import setup_link
        from crmhub.server.processes import local_host, origin

        account = _demo_account(hub)
        key = "" if account.disabled else _api_key(hub, account)
        if account.connection.adapter == "local":
            _create_samples(hub, account)
        generated_id, portal_id = _webhook_ids(hub, account)
        link = setup_link.issue_first(hub, by=author())
        local = origin(local_host(host or hub.settings.host), port or hub.settings.port)
        address = (hub.settings.public_url or local).rstrip("/")
    if link:
        click.echo(f"Console  {address}{link.path}")
        click.echo("         This link creates your console user. It works once, for 24 hours.")
    else:
        click.echo(f"Console  {address}/console")
    click.echo(f"Docs     {address}/docs")
    if account.disabled:
        click.echo("\nThe account demo is disabled; `crmhub account enable demo` enables it.\n")
        return
    click.echo("\nPaste these lines into another terminal to try the account demo:\n")
    click.echo(f"export KEY={key} GENERATED={generated_id} PORTAL={portal_id}")
    for line in _sample_commands(address):
        click.echo(line)
    click.echo()


def _demo_account(hub: Hub) -> Account:
    from crmhub.operators.accounts.open_account import open_account

    try:
        return hub.load_account(_CLIENT_ID)
    except NotFound:
        account, issued = open_account(hub, name="Demo", client_id=_CLIENT_ID, by=author())
        _store_key(_key_file(hub), issued.api_key)
        return account


def _api_key(hub: Hub, account: Account) -> str:
    """Return the demo account's key from its file, or store a new one if it is not valid."""
    from crmhub.accounts import keys
    from crmhub.operators.accounts import change_account

    path = _key_file(hub)
    try:
        stored = str(json.loads(path.read_text(encoding="utf-8"))["apiKey"])
    except (OSError, ValueError, KeyError, TypeError):
        stored = ""
    caller = hub.directory.by_api_key(stored)
    if caller and caller.account.id == account.id and caller.scopes == set(keys.SCOPES):
        return stored
    issued = change_account.create_key(hub, _CLIENT_ID, scopes=(), expires_at=None, by=author())
    _store_key(path, issued.api_key)
    return issued.api_key


def _key_file(hub: Hub) -> Path:
    return hub.settings.var / "demo.json"


def _store_key(path: Path, key: str) -> None:
    """Write the key to a file that only its owner can read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".demo.")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump({"clientId": _CLIENT_ID, "apiKey": key}, file)
    os.replace(temporary, path)


def _create_samples(hub: Hub, account: Account) -> None:
    from crmhub.helpers import enrolments
    from crmhub.properties.kinds import COMPANIES, CONTACTS, DEALS, TICKETS
    from crmhub.records.models import NewRecord

    records = hub.records
    existing = {
        contact.properties["email"]: contact.id
        for contact in records.read_by(
            account, CONTACTS, "email", [values["email"] for values in (_ADA, *_OTHERS)]
        )
    }
    missing = [values for values in (_ADA, *_OTHERS) if values["email"] not in existing]

    def create_missing(_: Connection) -> int:
        created = records.create(account, CONTACTS, [NewRecord(values) for values in missing])
        ids = existing | {contact.properties["email"]: contact.id for contact in created}
        ada = ids[_ADA["email"]]
        if not existing:
            all_contacts = {"contacts": sorted(ids.values())}
            records.create(account, COMPANIES, [NewRecord(_COMPANY, all_contacts)])
            of_ada = {"contacts": [ada]}
            records.create(account, DEALS, [NewRecord(values, of_ada) for values in _DEALS])
            records.create(account, TICKETS, [NewRecord(values, of_ada) for values in _TICKETS])
        return ada

    # One transaction: if the contacts exist, the other samples do, too.
    ada = hub.database.transact(create_missing)
    # Enrol at each run, because getType looks back from now.
    enrolments.enrol(hub, account, workflow_id=_WORKFLOW, contact_id=str(ada))


def _webhook_ids(hub: Hub, account: Account) -> tuple[str, str]:
    """Return the newest generated id and the newest portal id of an account."""
    from crmhub.accounts.webhook_ids import webhook_ids

    with hub.database.reading() as db:
        ids = webhook_ids(db, account.id)
    newest = {webhook_id.purpose: webhook_id.value for webhook_id in reversed(ids)}
    return newest["generated"], newest["portal"]


def _sample_commands(address: str) -> Iterator[str]:
    """Yield the shell commands to print; they can be run several times."""
    lead = {
        "contactToken": _TOKEN,
        "name": "Katherine Johnson",
        "email": "katherine@example.com",
        "phone": "+1 202-555-0187",
    }
    properties = {"contactToken": _TOKEN, "props": ["firstname", "phone"]}
    contacts = f"{address}/{_CLIENT_ID}/api/v1/contacts?limit=2"
    chatbot = f"{address}/chatbot"
    yield f"""{_CURL} '{contacts}' -H "service-apikey: $KEY\""""
    yield f"{_CURL} {chatbot}/createLead/$GENERATED -d '{json.dumps(lead)}'"
    yield f"{_CURL} {chatbot}/getProperties/$GENERATED -d '{json.dumps(properties)}'"
