"""`crmhub demo`: an account to try the service with, and the lines to try."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from crmhub.cli.open_hub import author, opened_hub
from crmhub.cli.output import print_fields
from crmhub.errors import Conflict, NotFound
from crmhub.server.processes import origin, reachable

if TYPE_CHECKING:
    from crmhub.accounts.accounts import Account
    from crmhub.database.connection import Connection
    from crmhub.hub import Hub

_CLIENT_ID = "demo"
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
@click.option("--host", metavar="ADDRESS", help="Where the service will listen. [setting: host]")
@click.option("--port", type=click.IntRange(1, 65535), help="On which port. [setting: port]")
def demo(host: str | None, port: int | None) -> None:
    """Make an account with sample records, and print lines to try the service with.

    Again, it prints the same lines. For development only: the account's key is kept in
    var/demo.json.
    """
    with opened_hub() as hub:
        if hub.settings.env == "production":
            raise click.ClickException(
                "There is no demo in production, since its key is kept in a file; "
                "`crmhub account create NAME` opens a real account."
            )
        account = _account(hub)
        key = _key(hub, account)
        contact_id = _samples(hub, account)
        generated_id, portal_id = _ids(hub, account)
        address = origin(reachable(host or hub.settings.host), port or hub.settings.port)
    print_fields(
        [
            ("Address", address),
            ("Account", account.client_id),
            ("API key", key),
            ("Generated id", generated_id),
            ("Portal id", portal_id),
        ]
    )
    click.echo("\nWhile `crmhub serve` runs, each of these lines works as it is:")
    for title, line in _lines(address, key, generated_id, portal_id, contact_id):
        click.echo(f"\n# {title}\n{line}")


def _account(hub: Hub) -> Account:
    """Return the demo account, opened when there is none; raises Conflict when it is no use."""
    from crmhub.accounts import accounts
    from crmhub.operations.open_account import open_account

    try:
        with hub.database.reading() as db:
            account = accounts.load(db, _CLIENT_ID, hub.plans)
    except NotFound:
        account, issued = open_account(hub, name="Demo", client_id=_CLIENT_ID, by=author())
        _keep(_file(hub), issued.api_key)
    if account.disabled:
        raise Conflict("The account demo is disabled; `crmhub account enable demo` undoes it.")
    if account.connection.adapter != "local":
        raise Conflict(
            f"The account demo uses {account.connection.adapter}, where the samples are not; "
            "`crmhub account adapter demo local` takes it back."
        )
    return account


def _key(hub: Hub, account: Account) -> str:
    """Return the kept API key, or a new one when it is gone or works no longer."""
    from crmhub.accounts import keys
    from crmhub.operations import change_account

    path = _file(hub)
    try:
        kept = str(json.loads(path.read_text(encoding="utf-8"))["apiKey"])
    except (OSError, ValueError, KeyError, TypeError):
        kept = ""
    caller = hub.directory.by_any_key(kept)
    works = caller is not None and caller.account.id == account.id
    if works and caller is not None and caller.scopes == set(keys.SCOPES):
        return kept
    issued = change_account.create_key(hub, _CLIENT_ID, scopes=(), expires_at=None, by=author())
    _keep(path, issued.api_key)
    return issued.api_key


def _file(hub: Hub) -> Path:
    return hub.settings.var / "demo.json"


def _keep(path: Path, key: str) -> None:
    """Write the key where only its owner can read it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".demo.")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump({"clientId": _CLIENT_ID, "apiKey": key}, file)
    os.replace(temporary, path)


def _samples(hub: Hub, account: Account) -> int:
    """Make the sample records that are missing; return the id of the contact the lines use."""
    from crmhub.helpers import get_type
    from crmhub.properties.kinds import (
        COMPANIES,
        CONTACTS,
        DEALS,
        TICKETS,
    )
    from crmhub.records.writing import NewRecord

    records = hub.records
    found = {
        one.properties["email"]: one.id
        for one in records.read_by(
            account, CONTACTS, "email", [each["email"] for each in (_ADA, *_OTHERS)]
        )
    }
    missing = [each for each in (_ADA, *_OTHERS) if each["email"] not in found]

    def make(_: Connection) -> int:
        made = records.create(account, CONTACTS, [NewRecord(each) for each in missing])
        ids = found | {one.properties["email"]: one.id for one in made}
        ada = ids[_ADA["email"]]
        if not found:
            everybody = {"contacts": sorted(ids.values())}
            records.create(account, COMPANIES, [NewRecord(_COMPANY, everybody)])
            of_ada = {"contacts": [ada]}
            records.create(account, DEALS, [NewRecord(each, of_ada) for each in _DEALS])
            records.create(account, TICKETS, [NewRecord(each, of_ada) for each in _TICKETS])
        return ada

    # Together: who finds the contacts finds the others.
    ada = hub.database.transact(make)
    # Anew each time: getType looks back from now.
    get_type.enrol(hub, account, workflow_id=_WORKFLOW, contact_id=str(ada))
    return ada


def _ids(hub: Hub, account: Account) -> tuple[str, str]:
    """Return the newest generated id and portal id."""
    from crmhub.accounts.webhook_ids import webhook_ids

    with hub.database.reading() as db:
        ids = webhook_ids(db, account.id)
    newest = {one.purpose: one.value for one in reversed(ids)}
    return newest["generated"], newest["portal"]


def _lines(
    address: str, key: str, generated_id: str, portal_id: str, contact_id: int
) -> Iterator[tuple[str, str]]:
    """Yield what each line shows, and the line; they may be pasted again, in this order."""
    api = f"{address}/{_CLIENT_ID}/api/v1"
    chatbot, functions = f"{address}/chatbot", f"{address}/crm-api-interface"
    contact = str(contact_id)
    header = f"service-apikey: {key}"
    token = "demo-conversation"
    lead = {
        "contactToken": token,
        "name": "Katherine Johnson",
        "email": "katherine@example.com",
        "phone": "+1 202-555-0187",
    }
    search = {
        "filters": [
            {"propertyName": "lastname", "operator": "CONTAINS_TOKEN", "value": "love"},
            {"propertyName": "phone", "operator": "HAS_PROPERTY"},
        ]
    }
    deal = {"dealname": "Flight plan", "dealstage": "qualifiedtobuy", "pipeline": "default"}
    ticket = {
        "subject": "Check the numbers",
        "hs_pipeline": "0",
        "hs_pipeline_stage": "1",
        "hs_ticket_priority": "HIGH",
    }
    yield "list contacts", _curl(f"{api}/contacts?limit=2", header)
    # Without an email, which is unique: so the line works twice.
    created = {"properties": {"firstname": "Mary", "lastname": "Jackson", "jobtitle": "Engineer"}}
    yield "create a contact", _curl(f"{api}/contacts", header, body=created)
    yield "search contacts", _curl(f"{api}/contacts/search", header, body=search)
    yield "createLead", _curl(f"{chatbot}/createLead/{generated_id}", body=lead)
    yield (
        "setProperties",
        _curl(
            f"{chatbot}/setProperties/{generated_id}",
            body={"contactToken": token, "props": {"city": "Hampton", "lifecyclestage": "lead"}},
        ),
    )
    yield (
        "getProperties",
        _curl(
            f"{chatbot}/getProperties/{generated_id}",
            body={"contactToken": token, "props": ["firstname", "city"]},
        ),
    )
    yield (
        "getType",
        _curl(
            f"{chatbot}/getType/{generated_id}",
            body={"contactnumber": _ADA["phone"], "interval": 48, "lastChatInterval": 0},
        ),
    )
    yield "getRandomInt", _curl(f"{functions}/getRandomInt", body={"min": 1, "max": 3})
    yield (
        "createDeal",
        _curl(
            f"{functions}/createDeal/{portal_id}",
            body={"contactId": contact, "properties": deal},
        ),
    )
    yield (
        "createTicket",
        _curl(
            f"{functions}/createTicket/{portal_id}",
            body={"contactId": contact, "properties": ticket},
        ),
    )


def _curl(url: str, *headers: str, body: Any = None) -> str:
    """Return a line for any POSIX shell; its answer ends with a line break."""
    words = ["curl", "-s", "-w", "\\n", url]
    if body is not None:
        headers = (*headers, "Content-Type: application/json")
    for header in headers:
        words += ["-H", header]
    if body is not None:
        words += ["-d", json.dumps(body)]
    return shlex.join(words)
