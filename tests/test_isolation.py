"""Accounts are apart: without the clause that names the account, each statement would be noticed.

One scenario uses the public API, the helpers and the worker for an account beside another one with
the same data. Each statement that it sends is looked at again without each of its account clauses
in turn: the check of `tests.statements` must refuse it, and row-level security must leave its
result as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import flask
import psycopg
import pytest
from werkzeug.test import TestResponse

from crmhub.app import create_app
from crmhub.database.connection import Connection
from crmhub.database.drivers import ALL_ACCOUNTS
from crmhub.events.event_types import TYPES
from crmhub.hub import Hub
from crmhub.queue import claiming
from crmhub.secrets import EncryptionKey
from crmhub.settings import Settings
from tests import databases
from tests.clients import Client, open_client
from tests.console.test_imports import start, upload
from tests.consoles import open_console
from tests.queue.working import hurry, try_due
from tests.statements import find_faults

# A column of the account compared with a parameter, a number or another such column.
_VALUE = r"(?:%\(\w+\)s|:\w+|%s|\?|\d+|(?:\b\w+\.)?account_id|cast\([^()]*\))"
_CLAUSE = re.compile(rf"(?:\b\w+\.)?account_id = ({_VALUE})", re.IGNORECASE)


def without_clauses(sql: str) -> Iterator[str]:
    """Yield the statement without each of its account clauses in turn."""
    for clause in _CLAUSE.finditer(sql):
        # A parameter by place must stay.
        instead = f"{clause[1]} is not null" if clause[1] in ("%s", "?") else "true"
        yield sql[: clause.start()] + instead + sql[clause.end() :]


def use(app: flask.Flask, client: Client) -> None:
    """Use every part of the hub for an account: its API, its helpers, its journal."""
    _subscriptions(client)
    _definitions(client)
    _records(client)
    contact_id = _helpers(client)
    client.patch(f"/contacts/{contact_id}", {"properties": {"lastname": "Byron"}})
    hub: Hub = app.extensions["crmhub"]
    with hub.database.across_accounts():
        claiming.spare(hub.database)
        hurry(hub, client)
        try_due(hub, client)


def _right(answer: TestResponse) -> Any:
    assert answer.status_code < 300, answer.text
    return answer.json


def _records(client: Client) -> None:
    company = client.make("companies", name="A company")
    person = {"city": "Paris", "phone": "+4930901821", "height": "171", "born": "2001-02-03"}
    ids = [client.make(firstname=f"Ada {i}", **person) for i in range(4)]
    client.make(firstname="Eve", email="eve@example.org")
    page = _right(client.get("/contacts?limit=2&sort=date_modified&order=asc"))
    _right(client.get(f"/contacts?cursor={page['cursor']['next']}"))
    _right(client.get("/contacts?limit=2&sort=date_added"))
    _right(client.get(f"/contacts/{ids[0]}?associations=companies"))
    _right(client.get("/contacts/eve@example.org?idProperty=email"))
    for filters in (
        [("city", "EQ", "Paris")],
        [("city", "NEQ", "Paris"), ("firstname", "CONTAINS_TOKEN", "Ada")],
        [("firstname", "GT", "A"), ("city", "HAS_PROPERTY", None)],
        [("height", "GT", "170"), ("born", "LT", "2020-01-01")],
    ):
        conditions = [
            {"propertyName": name, "operator": operator, **({"value": value} if value else {})}
            for name, operator, value in filters
        ]
        _right(client.post("/contacts/search", {"filters": conditions, "limit": 2}))
    changed = {"city": "Rome", "email": "a@example.org"}
    _right(client.patch(f"/contacts/{ids[0]}", {"properties": changed}))
    _right(client.post("/contacts/batch/read", {"inputs": [{"id": id} for id in ids]}))
    moved = {"id": ids[1], "properties": {"city": "Oslo"}}
    _right(client.post("/contacts/batch/update", {"inputs": [moved]}))
    both = [{"properties": {"firstname": "Bob", "email": f"b{i}@example.org"}} for i in "12"]
    _right(client.post("/contacts/batch/create", {"inputs": both}))
    upserts = [
        {"idProperty": "email", "id": f"{name}@example.org", "properties": {"city": "Kyiv"}}
        for name in ("b1", "cy")
    ]
    _right(client.post("/contacts/batch/upsert", {"inputs": upserts}))
    link = f"/contacts/{ids[0]}/associations/companies"
    _right(client.put(f"{link}/{company}"))
    _right(client.get(link))
    _right(client.delete(f"{link}/{company}"))
    _right(client.post("/contacts/batch/archive", {"inputs": [{"id": ids[3]}]}))
    _right(client.delete(f"/contacts/{ids[2]}"))
    _right(client.get("/usage"))


def _subscriptions(client: Client) -> None:
    """Subscribe to all events; nobody listens at the address."""
    path = "/events/subscriptions"
    made = _right(client.post(path, {"url": "http://127.0.0.1:9/", "types": [*TYPES]}))
    _right(client.get(path))
    _right(client.patch(f"{path}/{made['id']}", {"state": "active"}))
    _right(client.post(f"{path}/{made['id']}/replay", {"since": "2026-01-01"}))


def _definitions(client: Client) -> None:
    size = {"name": "size", "label": "Size", "type": "number"}
    _right(client.post("/properties/contacts", size))
    for name, kind in (("height", "number"), ("born", "date")):
        _right(client.post("/properties/contacts", {"name": name, "label": name, "type": kind}))
    _right(client.get("/properties/contacts"))
    _right(client.patch("/properties/contacts/size", {"label": "The size"}))
    _right(client.delete("/properties/contacts/size"))
    _right(client.get("/pipelines/deals"))


def _helpers(client: Client) -> str:
    """Call each helper; return the id of the contact."""
    chatbot, functions = "/chatbot/{}/{{generated}}", "/crm-api-interface/{}/{{portal}}"

    def call(path: str, body: Any) -> Any:
        return _right(client.helper(path, body))

    lead = {"contactToken": "a visitor", "name": "Ada L", "email": "ada@example.org"}
    lead["phone"] = "+4930901820"
    contact_id: str = call(chatbot.format("createLead"), lead)["contactId"]
    call(chatbot.format("createLead"), {**lead, "name": "Ada B"})
    call(chatbot.format("createLead"), {**lead, "contactToken": "another"})
    stranger = {**lead, "contactToken": "a third", "email": "cy@example.org"}
    call(chatbot.format("createLead"), stranger)
    asked = {"contactToken": "a visitor", "props": ["email", "city"]}
    call(chatbot.format("getProperties"), asked)
    call(chatbot.format("setProperties"), {**asked, "props": {"city": "Berlin"}})
    hours = {"interval": 1, "lastChatInterval": 1}
    call(chatbot.format("getType"), {"contactnumber": lead["phone"], **hours})
    call(functions.format("getRandomInt"), {"min": 1, "max": 3, "contactId": contact_id})
    deal, ticket = {"dealname": "A deal"}, {"subject": "A ticket"}
    call(functions.format("createDeal"), {"contactId": contact_id, "properties": deal})
    call(functions.format("createTicket"), {"contactId": contact_id, "properties": ticket})
    return contact_id


Look = Callable[[Connection, str, Any], None]


@contextmanager
def _looking(monkeypatch: pytest.MonkeyPatch, look: Look) -> Iterator[None]:
    """Call `look` before each statement that holds an account clause."""
    send = Connection._send

    def looking(connection: Connection, sql: str, params: Any = None) -> Any:
        if _CLAUSE.search(sql):
            look(connection, sql, params)
        return send(connection, sql, params)

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "_send", looking)
        yield


def test_no_statement_passes_without_one_of_its_account_clauses(
    app: flask.Flask, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = dict[str, str]()
    with _looking(monkeypatch, lambda db, sql, _: seen.update({sql: db.dialect})):
        use(app, client)
    passed = [
        f"{changed}\nfrom: {sql}"
        for sql, dialect in seen.items()
        if not find_faults(sql, dialect)
        for changed in without_clauses(sql)
        if not find_faults(changed, dialect)
    ]
    assert len(seen) > 60, len(seen)
    assert not passed, "\n\n".join(passed)


class _Probes:
    """Runs each statement without each of its account clauses, undoes it, and compares results."""

    def __init__(self) -> None:
        self.done = 0
        self.leaks = dict[str, str]()

    def look(self, connection: Connection, sql: str, params: Any) -> None:
        if connection._database.account in ("", ALL_ACCOUNTS):
            return
        # The transaction begins, and the account is set, as before the statement itself.
        connection._message("select 1")
        right = self._result(connection, sql, params)
        for changed in without_clauses(sql):
            self.done += 1
            found = self._result(connection, changed, params)
            if found != right:
                self.leaks[changed] = f"{found} instead of {right}"

    def _result(self, connection: Connection, sql: str, params: Any) -> Any:
        driver = connection._driver
        with driver.transaction(force_rollback=True):
            try:
                cursor = driver.execute(sql, params)
            except psycopg.Error as exc:
                # The end of the block rolls back to where it began.
                return str(exc)
            return cursor.rowcount, sorted(
                map(str, cursor.fetchall() if cursor.description else [])
            )


def _probe(app: flask.Flask, monkeypatch: pytest.MonkeyPatch) -> _Probes:
    hub: Hub = app.extensions["crmhub"]
    with hub.database.across_accounts():
        accounts = [open_client(app), open_client(app)]
    use(app, accounts[0])
    probes = _Probes()
    with _looking(monkeypatch, probes.look):
        use(app, accounts[1])
    return probes


def _app(url: str, root: Path) -> flask.Flask:
    key = EncryptionKey("k1", b"k" * 32)
    return create_app(
        Settings(
            root=root, database_url=url, secret_key="a secret of this test", encryption_keys=(key,)
        )
    )


def _probed(url: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> _Probes:
    app = _app(url, root)
    with closing(app.extensions["crmhub"]):
        return _probe(app, monkeypatch)


def test_without_account_clauses_statements_mix_accounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason := databases.left_out("postgresql"):
        pytest.skip(f"PostgreSQL left out: {reason}")
    # Its own database: what a statement without its clause changes for a moment is nobody else's.
    with databases.postgresql_database() as url:
        probes = _probed(url, tmp_path, monkeypatch)
    assert len(probes.leaks) > 15, (probes.done, len(probes.leaks))


def test_a_file_is_read_after_its_request(
    secured_url: str, tmp_path: Path, quick_passwords: None
) -> None:
    app = _app(secured_url, tmp_path)
    with closing(app.extensions["crmhub"]) as hub:
        with hub.database.across_accounts():
            client = open_client(app)
            operator = open_console(app)
        client.make(firstname="Grace", email="grace@example.org")
        account = f"/accounts/{client.account.client_id}"
        assert "grace@example.org" in operator.get(f"{account}/export?kind=contacts").text
        at = upload(operator, client, "firstname,email\nAda,ada@example.org\nEve,none\n")
        start(hub, operator, at)
        assert "none" in operator.get(f"{at}/refused.csv").text


def test_row_level_security_holds_without_account_clauses(
    secured_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes = _probed(secured_url, tmp_path, monkeypatch)
    assert probes.done >= 200
    assert not probes.leaks
