"""Sends the requests that the OpenAPI document shows as examples, and records the answers.

`python -m tests.made_examples` writes crmhub/api/http/examples.json.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import flask
from werkzeug.test import TestResponse

import crmhub.api.http
from crmhub.accounts.changes import IssuedIds
from crmhub.app import create_app
from crmhub.hub import Hub
from crmhub.operations.open_account import open_account
from crmhub.settings import Settings
from tests import databases
from tests.admin import open_admin
from tests.clients import TESTS

FILE = Path(crmhub.api.http.__file__).with_name("examples.json")

Examples = dict[str, dict[str, Any]]
# What is created for each kind of record, changed, and what a batch creates.
_KINDS: dict[str, tuple[str, dict[str, str], dict[str, str], dict[str, str], dict[str, str]]] = {
    "contacts": (
        "Contact",
        {"email": "ada@example.com", "firstname": "Ada", "phone": "+1 202-555-0143"},
        {"jobtitle": "Programmer"},
        {"email": "grace@example.com", "firstname": "Grace"},
        {"propertyName": "email", "operator": "CONTAINS_TOKEN", "value": "ada"},
    ),
    "companies": (
        "Company",
        {"name": "Analytical Engines", "domain": "engines.example.com"},
        {"numberofemployees": "12"},
        {"name": "Harvard Mark I"},
        {"propertyName": "domain", "operator": "EQ", "value": "engines.example.com"},
    ),
    "deals": (
        "Deal",
        {"dealname": "Difference engine", "amount": "17000"},
        {"dealstage": "contractsent"},
        {"dealname": "Punched cards", "amount": "250.5"},
        {"propertyName": "amount", "operator": "GTE", "value": "1000"},
    ),
    "tickets": (
        "Ticket",
        {"subject": "Where is my invoice?", "hs_ticket_priority": "MEDIUM"},
        {"hs_pipeline_stage": "2"},
        {"subject": "A question"},
        {"propertyName": "hs_ticket_priority", "operator": "IN", "values": ["MEDIUM", "HIGH"]},
    ),
}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
_RANDOM = (
    (re.compile(r"\bact-\w+"), "act-0mwvlbwdp03a4x8qmqdb8w4u"),
    (re.compile(r"\bhub-\w+"), "hub-j42rdw0nd3uqvx292hn"),
    (re.compile(r"\badm_\w+"), "adm_5t0v7qk2"),
    (re.compile(r"\bsub_\w+"), "sub_3kq0b1w9z5t7x2m8c4d6"),
    (re.compile(r"\bevt_\w+"), "evt_0mwvlbwdp03a4x8qmqdb8w4u"),
)
_CURSORS = {"next": "JYvNkQxHwSmpq6aZ", "nextLink": "?cursor=JYvNkQxHwSmpq6aZ"}
_SECRETS = re.compile(r"\b(crmhub_|crmhub_admin_|whsec_)[\w+/=]+")


class Recorder:
    """Sends requests, and keeps each with its answer under the id of its operation."""

    def __init__(self, app: flask.Flask, client_id: str, issued: IssuedIds, token: str) -> None:
        self.examples: Examples = {}
        self.generated, self.portal = issued.generated_id, issued.portal_id
        self._http = app.test_client()
        self._base = f"/{client_id}/api/v1"
        self._key, self._token = issued.api_key, token
        self._names: dict[str, str] = {}
        self._ids: dict[int, int] = {}

    def rename(self, text: str, shown: str) -> None:
        """Show `shown` wherever an answer holds `text`, such as a secret."""
        self._names[text] = shown

    def api(self, operation: str, method: str, path: str, body: Any = None) -> Any:
        headers = {"service-apikey": self._key}
        return self._send(operation, method, self._base + path, body, headers)

    def admin(self, operation: str, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self._token}"}
        return self._send(operation, method, f"/admin/v1{path}", body, headers)

    def helper(self, operation: str, path: str, body: Any) -> Any:
        return self._send(operation, "POST", path, body, {})

    def _send(
        self, operation: str, method: str, path: str, body: Any, headers: dict[str, str]
    ) -> Any:
        answer = self._http.open(path, method=method, json=body, headers=headers)
        if answer.status_code >= 300:
            raise AssertionError(f"{operation}: {answer.status_code} {answer.text}")
        self.examples[operation] = self._shown(body, answer)
        return answer.json if answer.data else None

    def _shown(self, body: Any, answer: TestResponse) -> dict[str, Any]:
        shown: dict[str, Any] = {} if body is None else {"request": self._stable(body)}
        if answer.data:
            shown |= {"status": answer.status_code, "answer": self._stable(answer.json)}
        return shown

    def _stable(self, value: Any) -> Any:
        """Return a JSON value in which ids, times and secrets are the same in each run."""
        if isinstance(value, dict):
            return {
                name: _CURSORS[name] if name in _CURSORS and member else self._stable(member)
                for name, member in value.items()
            }
        if isinstance(value, list):
            return [self._stable(member) for member in value]
        if isinstance(value, int) and value > 10**9:
            return self._id(value)
        if not isinstance(value, str):
            return value
        for text, shown in self._names.items():
            value = value.replace(text, shown)
        value = _TIME.sub("2026-11-21T09:51:10.417Z", value)
        value = _SECRETS.sub(r"\1…", value)
        if value.isdecimal() and len(value) > 9:
            return str(self._id(int(value)))
        for pattern, shown in _RANDOM:
            value = pattern.sub(shown, value)
        return value

    def _id(self, number: int) -> int:
        return self._ids.setdefault(number, 481516234211 + len(self._ids))


@contextmanager
def _recorder() -> Iterator[Recorder]:
    with TemporaryDirectory(prefix="crmhub-examples-") as root:
        url = databases.sqlite_database(Path(root))
        app = create_app(Settings.load({"CRMHUB_DATABASE_URL": url}, Path(root)))
        hub: Hub = app.extensions["crmhub"]
        _, issued = open_account(hub, name="Demo", client_id="demo", by=TESTS)
        recorder = Recorder(app, "demo", issued, open_admin(app).token)
        recorder.rename(issued.generated_id, "s37cq478zh06sakm00ge21z1q7")
        recorder.rename(issued.portal_id, "ztt33x0dmo31arx31ph4vvd2yi")
        yield recorder
        hub.close()


def record() -> Examples:
    """Return the example of each operation: `request`, `status` and `answer`."""
    with _recorder() as recorder:
        _record_records(recorder)
        _record_catalogue(recorder)
        _record_subscriptions(recorder)
        _record_helpers(recorder)
        _record_admin(recorder)
        return dict(sorted(recorder.examples.items()))


def _record_records(recorder: Recorder) -> None:
    ids: dict[str, int] = {}
    for kind, (name, properties, changes, other, search) in _KINDS.items():
        plural = kind.capitalize()
        ids[kind] = recorder.api(f"create{name}", "POST", f"/{kind}", {"properties": properties})[
            "id"
        ]
        path = f"/{kind}/{ids[kind]}"
        recorder.api(f"update{name}", "PATCH", path, {"properties": changes})
        if kind != "contacts":
            link = f"/contacts/{ids['contacts']}/associations/{kind}/{ids[kind]}"
            recorder.api("associateContact", "PUT", link)
            recorder.api(f"listAssociationsOf{name}", "GET", f"{path}/associations/contacts")
        recorder.api(f"get{name}", "GET", path)
        recorder.api(f"list{plural}", "GET", f"/{kind}?limit=20")
        recorder.api(f"search{plural}", "POST", f"/{kind}/search", {"filters": [search]})
        batch = f"/{kind}/batch"
        made = recorder.api(
            f"createBatchOf{plural}", "POST", f"{batch}/create", {"inputs": [{"properties": other}]}
        )
        inputs = [{"id": made[0]["id"], "properties": changes}]
        recorder.api(f"updateBatchOf{plural}", "POST", f"{batch}/update", {"inputs": inputs})
        recorder.api(
            f"readBatchOf{plural}", "POST", f"{batch}/read", {"inputs": [{"id": ids[kind]}]}
        )
        if kind == "contacts":
            upsert = {"idProperty": "email", "id": "grace@example.com", "properties": changes}
            recorder.api("upsertBatchOfContacts", "POST", f"{batch}/upsert", {"inputs": [upsert]})
        recorder.api(
            f"archiveBatchOf{plural}",
            "POST",
            f"{batch}/archive",
            {"inputs": [{"id": made[0]["id"]}]},
        )
    contact = f"/contacts/{ids['contacts']}"
    recorder.api("listAssociationsOfContact", "GET", f"{contact}/associations/deals")
    recorder.api("enrol", "PUT", f"/workflows/welcome/enrolments/{ids['contacts']}")
    recorder.api("getUsage", "GET", "/usage")


def _record_catalogue(recorder: Recorder) -> None:
    options = [{"value": "gold", "label": "Gold"}, {"value": "silver", "label": "Silver"}]
    level = {"name": "level", "label": "Level", "type": "enumeration", "options": options}
    recorder.api("createProperty", "POST", "/properties/contacts", level)
    recorder.api("getProperty", "GET", "/properties/contacts/level")
    recorder.api(
        "updateProperty", "PATCH", "/properties/contacts/level", {"label": "Customer level"}
    )
    stages = [
        {"id": "requested", "label": "Requested"},
        {"id": "paid", "label": "Paid", "probability": "1.0", "closed": True},
    ]
    pipeline = {"id": "orders", "label": "Orders", "stages": stages}
    recorder.api("createPipeline", "POST", "/pipelines/deals", pipeline)
    recorder.api("getPipeline", "GET", "/pipelines/deals/orders")
    recorder.api("updatePipeline", "PATCH", "/pipelines/deals/orders", {"label": "Web orders"})
    recorder.api("listPipelines", "GET", "/pipelines/tickets")


def _record_subscriptions(recorder: Recorder) -> None:
    path = "/events/subscriptions"
    new = {"url": "http://127.0.0.1:9/crm", "types": ["contact.created", "deal.stage_changed"]}
    # A host name would have to be found first.
    recorder.rename(new["url"], "https://example.com/crm")
    made = recorder.api("createSubscription", "POST", path, new)
    recorder.api("listSubscriptions", "GET", path)
    recorder.api("getSubscription", "GET", f"{path}/{made['id']}")
    change = {"types": ["contact.created"]}
    recorder.api("updateSubscription", "PATCH", f"{path}/{made['id']}", change)
    recorder.api("testSubscription", "POST", f"{path}/{made['id']}/test")
    period = {"since": "2026-11-20T08:00:00Z", "until": "2026-11-21T08:00:00Z"}
    recorder.api("replayEvents", "POST", f"{path}/{made['id']}/replay", period)


def _record_helpers(recorder: Recorder) -> None:
    generated, portal = recorder.generated, recorder.portal
    lead = {
        "contactToken": "chat-17",
        "name": "Katherine Johnson",
        "email": "kj@example.com",
        "phone": "+1 202-555-0188",
    }
    found = recorder.helper("createLead", f"/chatbot/createLead/{generated}", lead)
    contact = found["contactId"]
    asked = {"contactToken": "chat-17", "props": ["firstname", "phone"]}
    said = {"contactToken": "chat-17", "props": {"city": "Hampton"}}
    # The only account is the one that is meant.
    recorder.helper("getProperties", "/chatbot/getProperties", asked)
    recorder.helper("getPropertiesOfAccount", f"/chatbot/getProperties/{generated}", asked)
    recorder.helper("setProperties", "/chatbot/setProperties", said)
    recorder.helper("setPropertiesOfAccount", f"/chatbot/setProperties/{generated}", said)
    recorder.api("enrol", "PUT", f"/workflows/welcome/enrolments/{contact}")
    spoken = {"contactnumber": "+1 202-555-0188", "interval": 24, "lastChatInterval": 0}
    recorder.helper("getType", f"/chatbot/getType/{generated}", spoken)
    functions = "/crm-api-interface"
    # One number to choose from: it is the same in each run.
    recorder.helper("getRandomInt", f"{functions}/getRandomInt", {"min": 1, "max": 1})
    recorder.helper(
        "getRandomIntOfAccount", f"{functions}/getRandomInt/{portal}", {"min": 1, "max": 1}
    )
    deal = {"contactId": contact, "properties": {"dealname": "A first order", "amount": "120"}}
    recorder.helper("createDealForContact", f"{functions}/createDeal/{portal}", deal)
    ticket = {"contactId": contact, "properties": {"subject": "A question"}}
    recorder.helper("createTicketForContact", f"{functions}/createTicket/{portal}", ticket)


def _record_admin(recorder: Recorder) -> None:
    recorder.admin("listActions", "GET", "/actions?account=demo&helper=createDeal&limit=1")
    recorder.admin("listAccounts", "GET", "/accounts?limit=1")
    recorder.admin("changeAccount", "PATCH", "/accounts/demo", {"switches": {"region": "US"}})
    recorder.admin("getConnection", "GET", "/accounts/demo/connection")
    connection = {"adapter": "local", "settings": {}}
    recorder.admin("checkConnection", "POST", "/accounts/demo/connection/check", connection)
    rules = {"deals": {"dealstage": {"values": {"won": "closedwon"}}}}
    recorder.admin("setFieldMap", "PUT", "/accounts/demo/field-map", rules)
    recorder.admin("getFieldMap", "GET", "/accounts/demo/field-map")
    call = {"helper": "createDeal", "properties": {"dealname": "Call back", "dealstage": "won"}}
    recorder.admin("previewFieldMap", "POST", "/accounts/demo/field-map/preview", call)
    recorder.admin("getAccountUsage", "GET", "/accounts/demo/usage")
    recorder.admin("listEnrolments", "GET", "/accounts/demo/enrolments?limit=1")
    recorder.admin("listPlans", "GET", "/plans")
    recorder.admin("listAudit", "GET", "/audit?object=account&verb=change&limit=1")
    some = {"account": "demo", "reason": "no such stage"}
    recorder.admin("retryActions", "POST", "/actions/retry", some)
    gone = {"account": "demo", "state": ["queued"], "reason": "sent by mistake"}
    recorder.admin("discardActions", "POST", "/actions/discard", gone)


if __name__ == "__main__":
    FILE.write_text(json.dumps(record(), indent=1, ensure_ascii=False) + "\n", "utf-8")
