"""Requests full of personal data and secrets, in a process of its own so that its log is whole.

`python -m tests.api.planted DATABASE_URL DIRECTORY` makes them, logs to standard error as the
service does, and leaves in the directory what else is looked through: `metrics`, `audit`, the
console's `pages`, and the whole database as `dump`. It prints as JSON what was planted, and how
many requests there were.
"""

from __future__ import annotations

import base64
import html
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import flask
from sqlalchemy.engine import make_url

from adapters.fakes.hubspot.fake import FakeHubSpot, Options
from crmhub.app import create_app
from crmhub.console.sessions import COOKIE
from crmhub.hub import Hub
from crmhub.secrets import EncryptionKey
from crmhub.settings import Settings
from tests.admin import open_admin
from tests.clients import Client, open_client
from tests.consoles import Operator, new_user
from tests.queue.working import hurry, rows, soon, working

EMAIL = "ada.planted@example.com"
PHONE = "+4930901820"
PERSON = {
    "email": EMAIL,
    "phone": PHONE,
    "firstname": "Plantedfirst",
    "lastname": "Plantedlast",
}
TOKEN = "planted-contact-token"
KEY = b"planted key of all credentials.."
PASSWORD = "planted horse battery staple"
# Of a page of the console, without its files.
_LINK = re.compile(r'href="/console(?!/static)(/[^"#]+)')
SECRET_KEY = "the planted secret key of all signatures"


def main(url: str, root: Path) -> None:
    app = create_app(
        Settings(
            root=root,
            database_url=url,
            secret_key=SECRET_KEY,
            encryption_keys=(EncryptionKey("k1", KEY),),
            log_level="debug",
        )
    )
    client = open_client(app)
    http = app.test_client()
    counted = _Counted(client, http)
    public_api(counted)
    helpers(counted)
    *secrets, rotated = operators(app, counted)
    secrets += with_a_crm(app, counted)
    secrets += at_the_console(app, counted, root)
    secrets += [SECRET_KEY, client.key, client.key[10:30], client.ids.webhook_secret]
    secrets += [KEY.decode(), base64.b64encode(KEY).decode()]
    # What leads to an account is in the database, for operators to copy it.
    ids = [client.ids.generated_id, client.ids.portal_id, rotated]
    admin = open_admin(app)
    counted.n += 1
    audit = admin.get("/audit?limit=100").get_json()
    assert not audit["hasMore"]
    (root / "audit").write_text(json.dumps(audit["results"]))
    (root / "metrics").write_text(counted.get("/metrics").text)
    (root / "dump").write_bytes(dump(url))
    failures(app, counted)
    app.extensions["crmhub"].close()
    personal = [*PERSON.values(), "planted@", PHONE[1:], TOKEN]
    told = {"secrets": [*secrets, admin.token], "personal": personal, "ids": ids}
    json.dump({**told, "requests": counted.n}, sys.stdout)


def dump(url: str) -> bytes:
    """Return all that a thief of the database gets."""
    if url.startswith("sqlite"):
        path = Path(url.removeprefix("sqlite:///"))
        return b"".join(one.read_bytes() for one in sorted(path.parent.glob(f"{path.name}*")))
    libpq = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return subprocess.run(["pg_dump", libpq], check=True, capture_output=True).stdout


class _Counted:
    """A client that counts its requests."""

    def __init__(self, client: Client, http: Any) -> None:
        self.client = client
        self._http = http
        self.n = 0

    def call(self, method: str, path: str, json: Any = None, **options: Any) -> Any:
        self.n += 1
        return self.client.call(method, path, json, **options)

    def post(self, path: str, json: Any = None, **options: Any) -> Any:
        self.n += 1
        path = path.format(generated=self.client.ids.generated_id, portal=self.client.ids.portal_id)
        return self._http.post(path, json=json, **options)

    def get(self, path: str, **options: Any) -> Any:
        self.n += 1
        return self._http.get(path, **options)


def public_api(hub: _Counted) -> None:
    made = hub.call("POST", "/contacts", {"properties": PERSON})
    assert made.status_code == 201, made.text
    id = made.json["id"]
    hub.call("GET", f"/contacts/{EMAIL}?idProperty=email")
    hub.call("GET", f"/contacts/{EMAIL}")
    hub.call("GET", f"/contacts?{EMAIL}={PHONE}")
    hub.call("POST", "/contacts", {"properties": PERSON})
    hub.call("POST", "/contacts", {"properties": {"email": f"{EMAIL} no"}})
    hub.call("PATCH", f"/contacts/{id}", {"properties": {EMAIL: PHONE}})
    hub.call("POST", "/contacts", data=f'{{"{EMAIL}": ', content_type="application/json")
    value = {"propertyName": "email", "operator": "EQ", "value": EMAIL}
    hub.call("POST", "/contacts/search", {"filters": [value]})
    hub.call("POST", "/contacts/search", {"filters": [{**value, "propertyName": EMAIL}]})
    hub.call("GET", f"/{EMAIL}/{PHONE}")
    hub.call("GET", "/contacts", headers={"service-apikey": f"{hub.client.key[:-1]}_"})
    hub.call("GET", "/contacts", headers={"X-Request-Id": f"for {EMAIL}"})
    hub.get(f"/{hub.client.key}/api/v1/contacts")
    hub.get(f"/{EMAIL}", headers={"User-Agent": EMAIL, "Referer": EMAIL, "Cookie": EMAIL})


def helpers(hub: _Counted) -> None:
    lead = {"contactToken": TOKEN, "name": "Plantedfirst Plantedlast", "email": EMAIL}
    lead["phone"] = PHONE
    done = hub.post("/chatbot/createLead/{generated}", lead)
    assert done.status_code == 200, done.text
    hub.post("/chatbot/createLead/{generated}", {**lead, "email": f"{EMAIL} no"})
    hub.post("/chatbot/createLead/{portal}", lead)
    hub.post("/chatbot/createLead/{generated}x", lead)
    secret = {"X-Webhook-Secret": hub.client.ids.webhook_secret}
    hub.post("/chatbot/createLead/{generated}", lead, headers=secret)
    asked = {"contactToken": TOKEN, "props": ["email", "nothing"]}
    hub.post("/chatbot/getProperties", asked, headers=secret)
    hub.post("/chatbot/setProperties/{generated}", {**asked, "props": {"city": EMAIL}})
    hub.post(
        "/chatbot/getType/{generated}",
        {"contactnumber": PHONE, "interval": 48, "lastChatInterval": 0},
    )
    deal = {"contactId": done.json["contactId"], "properties": {"dealname": EMAIL, EMAIL: "x"}}
    hub.post("/crm-api-interface/createDeal/{portal}", deal)
    hub.post("/crm-api-interface/createTicket/{portal}", {**deal, "contactId": EMAIL})


def operators(app: flask.Flask, hub: _Counted) -> list[str]:
    """Do what operators do with secrets; return those, and a generated id."""
    secret, admin = "pat-planted-credential", open_admin(app)
    path = f"/accounts/{hub.client.account.client_id}"

    def call(method: str, tail: str, body: Any, **options: Any) -> Any:
        hub.n += 1
        return admin.call(method, path + tail, body, **options).get_json()

    crm = {"adapter": "hubspot", "secrets": {"access_token": secret}}
    crm["settings"] = {"base_url": "https://crm.planted.invalid"}
    call("PUT", "/connection", crm)
    call("PUT", "/connection", {**crm, "adapter": secret})
    call("PUT", "/connection", {**crm, "secrets": {secret: secret}})
    call("POST", "/connection/check", crm)
    call("PUT", "/connection?check=false", crm)
    call("POST", "/connection/check", {})
    call("PUT", "/connection", {"adapter": "local"})
    key = call("POST", "/keys", {}, headers={"Idempotency-Key": "planted"})["apiKey"]
    call("DELETE", f"/keys/{key}", None)
    rotated = call("POST", "/webhook-ids/rotate", {"what": "secret"})["secret"]
    generated = call("POST", "/webhook-ids/rotate", {"what": "generated"})["generated"]
    return [secret, admin.token, key, rotated, generated]


def with_a_crm(app: flask.Flask, hub: _Counted) -> list[str]:
    """Send leads to a CRM that renews tokens, refuses values and goes away; return its secrets."""
    inner: Hub = app.extensions["crmhub"]
    secrets = {name: f"planted-{name}" for name in ("client_secret", "refresh_token")}
    options = Options(limit="none", search_limit="none", rotates=True, **secrets)
    path = f"/accounts/{hub.client.account.client_id}"
    admin = open_admin(app)
    token = "planted-token-of-the-crm"
    lead = {"contactToken": token, "name": "Plantedfirst Plantedlast", "email": EMAIL}
    with FakeHubSpot(options) as fake:
        given = {"client_id": fake.options.client_id, **secrets}
        crm = {"adapter": "hubspot", "settings": {"base_url": fake.url}, "secrets": given}
        rules = {"contacts": {"topic": {"to": "jobtitle", "values": {EMAIL: "lead"}}}}
        for part, body in (("connection", crm), ("field-map", rules)):
            hub.n += 1
            answer = admin.put(f"{path}/{part}", body)
            assert answer.status_code == 200, answer.text
        done = hub.post("/chatbot/createLead/{generated}", lead)
        assert done.status_code == 200, done.text
        issued = [*fake.tokens.issued, fake.tokens.refresh_token]
        fake.expire_tokens()
        props = {"topic": EMAIL, "city": PHONE, EMAIL: "x"}
        hub.post("/chatbot/setProperties/{generated}", {"contactToken": token, "props": props})
        deal = {"dealname": EMAIL, "dealstage": PHONE}
        contact = {"contactId": done.json["contactId"], "properties": deal}
        assert hub.post("/crm-api-interface/createDeal/{portal}", contact).status_code == 422
        issued += [*fake.tokens.issued, fake.tokens.refresh_token]
    away = {**lead, "contactToken": f"{token}-away", "phone": PHONE}
    assert hub.post("/chatbot/createLead/{generated}", away).status_code == 202
    before = len(rows(inner, hub.client, "outcome", "action_try"))
    with working(inner):
        soon(
            lambda: (
                hurry(inner, hub.client)
                or len(rows(inner, hub.client, "outcome", "action_try")) > before
            )
        )
    hub.n += 1
    admin.put(f"{path}/connection", {"adapter": "local", "queued": "drop"})
    assert len(set(issued)) >= 4, "tokens were renewed"
    return [*secrets.values(), *issued, admin.token]


def at_the_console(app: flask.Flask, hub: _Counted, root: Path) -> list[str]:
    """Sign in, wrongly first, and leave every page; return the password and the session."""
    operator = Operator(app, new_user(app.extensions["crmhub"], PASSWORD))
    # Each time the form is opened, and sent.
    hub.n += 4
    assert operator.sign_in(f"{PASSWORD} no").status_code >= 400
    assert operator.sign_in(PASSWORD).status_code == 303
    pages = {"/accounts": "", "/activity": "", "/audit": ""}
    while todo := [path for path, text in pages.items() if not text]:
        for path in todo:
            hub.n += 1
            answer = operator.get(path)
            assert answer.status_code in (200, 303), f"{path}: {answer.text}"
            pages[path] = f"{answer.headers} {answer.text}"
            links = _LINK.findall(answer.text)
            pages |= {html.unescape(one): "" for one in links if html.unescape(one) not in pages}
        assert len(pages) < 500
    (root / "pages").write_text(json.dumps(pages))
    cookie = operator.http.get_cookie(COOKIE, path="/console")
    assert cookie is not None
    return [PASSWORD, cookie.value]


def failures(app: flask.Flask, hub: _Counted) -> None:
    def crash() -> flask.Response:
        raise RuntimeError(f"{EMAIL} {PHONE} {hub.client.key}")

    app.view_functions["healthz"] = crash
    assert hub.get("/healthz").status_code == 500
    # An error of the database names the values that it was about.
    app.extensions["crmhub"].database.transact(lambda tx: tx.run("drop table binding"))
    lead = {"contactToken": TOKEN, "name": "Plantedfirst", "email": EMAIL}
    assert hub.post("/chatbot/createLead/{generated}", lead).status_code == 500


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
