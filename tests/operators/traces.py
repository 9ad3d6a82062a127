"""A person who leaves traces everywhere, and a search for what is left of them anywhere."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, quote_plus

import flask

from crmhub.database.connection import Connection
from crmhub.events.event_types import TYPES
from crmhub.helpers import enrolments
from crmhub.hub import Hub
from tests.api.helpers.helper_calls import (
    CREATE_DEAL,
    CREATE_TICKET,
    GET_PROPERTIES,
    GET_RANDOM_INT,
    SET_PROPERTIES,
    known,
    lead,
    switch,
)
from tests.clients import Client
from tests.events.receivers import subscribe

EMAIL = "erased.person@planted.example"
FORMER = "former.person@planted.example"
PHONE = "+4930901777"
FIRST, LAST = "Zephyrine", "Quixworthy"
TOKEN = "planted-token-of-zephyrine"
CITY = "Plantedtown-on-Sea"
# A colleague with the same last name, a number that begins alike, and the same company.
COLLEAGUE = {"email": "bob@planted.example", "phone": "+49309017799"}
PLANTED = (EMAIL, FORMER, PHONE[1:], FIRST, TOKEN, CITY)


@dataclass(frozen=True)
class Planted:
    """A person who left traces everywhere, and what else is linked with them."""

    contact_id: int
    archived_id: int
    hub_id: str
    colleague: int
    company: int
    deal: int
    shared_deal: int
    ticket: int


def once(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


def plant(app: flask.Flask, client: Client) -> Planted:
    """Let a person leave traces in every table."""
    hub: Hub = app.extensions["crmhub"]
    subscribe(hub, client, *TYPES)
    switch(app, client, rotation="round_robin+sticky", lead_requires="email_or_phone")
    person = {"email": EMAIL, "firstname": FIRST, "lastname": LAST, "phone": PHONE, "city": CITY}
    former = client.make(**person)
    client.delete(f"/contacts/{former}")
    company = client.make("companies", name="Both work here")
    links = {"associations": {"companies": [company]}}
    inputs = [
        {"properties": person, **links},
        {"properties": {**COLLEAGUE, "firstname": "Bob", "lastname": LAST}, **links},
    ]
    batch = client.post("/contacts/batch/create", {"inputs": inputs}, headers=once("batch"))
    assert batch.status_code == 201, batch.text
    id, colleague = (one["id"] for one in batch.json)
    again = client.post("/contacts", {"properties": person}, headers=once("refused"))
    assert again.status_code == 409
    client.post(
        "/contacts",
        {"properties": {"email": "new@planted.example", "amount": CITY, CITY: EMAIL}},
        headers=once(f"key-of-{EMAIL}"),
    )
    client.patch(f"/contacts/{id}", {"properties": {"email": FORMER}})
    client.patch(f"/contacts/{id}", {"properties": {"email": EMAIL}})
    assert known(client, TOKEN, name=f"{FIRST} {LAST}", email=EMAIL, phone=PHONE) == str(id)
    known(client, "bobs-token", name=f"Bob {LAST}", **COLLEAGUE)
    lead(client, "second-" + TOKEN, name=FIRST, email=None, phone=PHONE)
    client.helper(SET_PROPERTIES, {"contactToken": TOKEN, "props": {"city": CITY, "no such": "x"}})
    client.helper(GET_PROPERTIES, {"contactToken": TOKEN, "props": ["email", "city", "phone"]})
    client.helper(GET_RANDOM_INT, {"min": 1, "max": 9, "contactToken": TOKEN})
    client.helper(GET_RANDOM_INT, {"min": 1, "max": 9, "contactId": str(id)})
    call = {"contactId": str(id), "properties": {"dealname": "A deal"}}
    deal = client.helper(CREATE_DEAL, call, headers=once(f"deal-of-{EMAIL}")).json
    shared = client.make("deals", dealname="Of both")
    for one in (id, colleague):
        assert client.put(f"/deals/{shared}/associations/contacts/{one}").status_code < 300
    call = {"contactId": str(id), "properties": {"subject": "A ticket"}}
    ticket = client.helper(CREATE_TICKET, call).json
    enrolments.enrol(hub, client.account, workflow_id="w1", contact_id=str(id))
    ((hub_id,),) = query(hub, client, "select hub_id from binding where contact_token = :it", TOKEN)
    return Planted(
        id, former, hub_id, colleague, company, int(deal["dealId"]), shared, int(ticket["ticketId"])
    )


def query(hub: Hub, client: Client, sql: str, it: Any = None) -> list[Any]:
    with hub.database.reading() as connection:
        return connection.rows(
            sql.replace(" where ", " where account_id = :id and "),
            {"id": client.account.id, "it": it},
        )


def forms(text: str) -> set[bytes]:
    """Return the bytes by which a text would be found: clear, escaped, url-encoded, base64, hex."""
    raw = text.lower().encode()
    found = {
        raw,
        raw.hex().encode(),
        text.encode().hex().encode(),
        json.dumps(text.lower())[1:-1].encode(),
    }
    found |= {quote(text, safe="").lower().encode(), quote_plus(text).lower().encode()}
    for original in (text.encode(), raw):
        for skipped in range(3):
            # Whatever stands before it shifts the letters: those that depend on it are left out.
            whole = base64.b64encode(b"\0" * skipped + original)
            start, end = (skipped * 8 + 5) // 6, ((skipped + len(original)) * 8) // 6
            found |= {whole[start:end].lower(), whole[start:end].lower().translate(_URL)}
    return found


_URL = bytes.maketrans(b"+/", b"-_")


def left(hub: Hub, texts: Collection[str], account_id: int | None = None) -> list[str]:
    """Return where one of the texts is left, as `table.column: text`; of one account or of all."""
    wanted = {text: forms(text) for text in texts}
    found = []
    with hub.database.reading() as connection:
        for table in _tables(connection):
            for column, value in _cells(connection, table, account_id):
                written = _bytes(value).lower()
                found += [
                    f"{table}.{column}: {text}"
                    for text, each in wanted.items()
                    if any(form in written for form in each)
                ]
    return sorted(set(found))


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes | memoryview):
        return bytes(value)
    return str(value).encode()


def _tables(connection: Connection) -> list[str]:
    rows = connection.rows(
        # The blocks of an index are no texts; its own tests look into it.
        "select name from sqlite_master where type = 'table' and name not in"
        " ('text_part_data', 'text_part_idx')"
        if connection.dialect == "sqlite"
        else "select tablename from pg_tables where schemaname = 'public'"
    )
    return sorted(name for (name,) in rows)


def _cells(connection: Connection, table: str, account_id: int | None) -> Iterator[tuple[str, Any]]:
    names = connection.rows(
        f"select name from pragma_table_info('{table}')"
        if connection.dialect == "sqlite"
        else "select column_name from information_schema.columns"
        f" where table_schema = 'public' and table_name = '{table}'"
    )
    columns = [name for (name,) in names]
    of = ""
    mine = "id" if table == "account" else "account_id"
    if account_id is not None and mine in columns:
        of = f" where {mine} = {account_id}"
    texts = ", ".join(f"cast({column} as text)" for column in columns)
    for row in connection.rows(f"select {texts} from {table}{of}"):
        yield from zip(columns, row, strict=True)
