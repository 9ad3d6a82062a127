"""Requests full of personal data and secrets, in a process of its own so that its log is whole.

`python -m tests.api.planted DATABASE_URL DIRECTORY` makes them, logs to standard error as the
service does, and prints as JSON what must not be found there, and how many requests there were.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import flask

from crmhub.app import create_app
from crmhub.secrets import EncryptionKey
from crmhub.settings import Settings
from tests.admin import open_admin
from tests.clients import Client, open_client

EMAIL = "ada.planted@example.com"
PHONE = "+4930901820"
PERSON = {
    "email": EMAIL,
    "phone": PHONE,
    "firstname": "Plantedfirst",
    "lastname": "Plantedlast",
}
TOKEN = "planted-contact-token"
SECRET_KEY = "the planted secret key of all signatures"


def main(url: str, root: Path) -> None:
    app = create_app(
        Settings(
            root=root,
            database_url=url,
            secret_key=SECRET_KEY,
            encryption_keys=(EncryptionKey("k1", b"p" * 32),),
            log_level="debug",
        )
    )
    client = open_client(app)
    http = app.test_client()
    counted = _Counted(client, http)
    public_api(counted)
    helpers(counted)
    shown = operators(app, counted)
    failures(app, counted)
    planted = [
        *shown,
        *PERSON.values(),
        "planted@",
        PHONE[1:],
        TOKEN,
        SECRET_KEY,
        client.key,
        client.key[10:30],
        client.ids.generated_id,
        client.ids.portal_id,
        client.ids.webhook_secret,
    ]
    app.extensions["crmhub"].close()
    json.dump({"planted": planted, "requests": counted.n}, sys.stdout)


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
    """Do what operators do with secrets; return those, and what they were shown once."""
    secret, admin = "pat-planted-credential", open_admin(app)
    path = f"/accounts/{hub.client.account.client_id}"

    def call(method: str, tail: str, body: Any) -> Any:
        hub.n += 1
        return admin.call(method, path + tail, body).get_json()

    crm = {"adapter": "hubspot", "secrets": {"access_token": secret}}
    crm["settings"] = {"base_url": "https://crm.planted.invalid"}
    call("PUT", "/connection", crm)
    call("PUT", "/connection", {**crm, "adapter": secret})
    call("PUT", "/connection", {**crm, "secrets": {secret: secret}})
    call("POST", "/connection/check", crm)
    call("PUT", "/connection?check=false", crm)
    call("POST", "/connection/check", {})
    call("PUT", "/connection", {"adapter": "local"})
    key = call("POST", "/keys", {})["apiKey"]
    call("DELETE", f"/keys/{key}", None)
    rotated = call("POST", "/webhook-ids/rotate", {"what": "secret"})["secret"]
    generated = call("POST", "/webhook-ids/rotate", {"what": "generated"})["generated"]
    return [secret, admin.token, key, rotated, generated]


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
