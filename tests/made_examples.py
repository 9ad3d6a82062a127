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

import crmhub.api.http
from crmhub.app import create_app
from crmhub.hub import Hub
from crmhub.operators.accounts.open_account import open_account
from crmhub.properties.kinds import KINDS
from crmhub.settings import Settings
from tests import databases
from tests.admin import open_admin
from tests.api.admin.test_admin_actions import end
from tests.clients import TESTS, Client
from tests.console.past import give_cause
from tests.duplicates import listed_pair

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
    (re.compile(r"\bfix-\w+"), "fix-fjufi22araquj71zmiuv"),
    (re.compile(r"\badm_\w+"), "adm_5t0v7qk2"),
    (re.compile(r"\bsub_\w+"), "sub_3kq0b1w9z5t7x2m8c4d6"),
    (re.compile(r"\bkey_\w{11}\b"), "key_2f9t5b8n"),
    (re.compile(r"\bcontacts:\d+"), "contacts:481516234211"),
    (re.compile(r"\bevt_\w+"), "evt_0mwvlbwdp03a4x8qmqdb8w4u"),
)
_CURSORS = {"next": "JYvNkQxHwSmpq6aZ", "nextLink": "?cursor=JYvNkQxHwSmpq6aZ"}
# What differs from run to run, by its key.
_VARYING: dict[str, Any] = {**_CURSORS, "hint": "4f2a", "ms": 12, "durationMs": 12}
_SECRETS = re.compile(r"\b(crmhub_|crmhub_admin_|whsec_)[\w+/=]+")


class Recorder:
    """Sends requests, and keeps each with its answer under the id of its operation."""

    def __init__(self, app: flask.Flask, client: Client, token: str) -> None:
        self._sent: dict[str, tuple[Any, int, Any]] = {}
        self._others: dict[str, dict[str, Any]] = {}
        self.hub: Hub = app.extensions["crmhub"]
        self.client = client
        self.generated, self.portal = client.ids.generated_id, client.ids.portal_id
        self._http = app.test_client()
        self._base = client.base
        self._key, self._token = client.key, token
        self._names: dict[str, str] = {}
        self._ids: dict[int, int] = {}

    def examples(self) -> Examples:
        """Return the requests and answers so far, in which everything is the same in each run."""
        shown = {id: self._shown(*sent) for id, sent in self._sent.items()}
        for id, others in self._others.items():
            shown[id]["others"] = self._stable(others)
        return shown

    def rename(self, text: str, shown: str) -> None:
        """Show `shown` wherever an answer holds `text`, such as a secret."""
        self._names[text] = shown

    def api(self, operation: str, method: str, path: str, body: Any = None) -> Any:
        headers = {"service-apikey": self._key}
        return self._send(operation, method, self._base + path, body, headers)

    def admin(
        self, operation: str, method: str, path: str, body: Any = None, *, last: bool = False
    ) -> Any:
        """Call the admin API; with `last`, the example has the last item of the page alone."""
        headers = {"Authorization": f"Bearer {self._token}"}
        answer = self._send(operation, method, f"/admin/v1{path}", body, headers)
        if last:
            del answer["results"][:-1]
        return answer

    def other(self, operation: str, path: str, body: Any) -> None:
        """Send a request that is answered with another status; keep the answer beside the first."""
        headers = {"service-apikey": self._key}
        answer = self._http.post(self._base + path, json=body, headers=headers)
        self._others.setdefault(operation, {})[str(answer.status_code)] = answer.json

    def read(self, path: str, body: Any) -> Any:
        """Send a request that is no example, and return its answer."""
        headers = {"service-apikey": self._key}
        return self._http.post(self._base + path, json=body, headers=headers).json

    def rename_id(self, id: int) -> None:
        """Show an id in messages as it is shown in answers."""
        self.rename(str(id), str(self._id(id)))

    def helper(self, operation: str, path: str, body: Any) -> Any:
        return self._send(operation, "POST", path, body, {})

    def _send(
        self, operation: str, method: str, path: str, body: Any, headers: dict[str, str]
    ) -> Any:
        answer = self._http.open(path, method=method, json=body, headers=headers)
        if answer.status_code >= 300:
            raise AssertionError(f"{operation}: {answer.status_code} {answer.text}")
        found = answer.json if answer.data else None
        self._sent[operation] = (body, answer.status_code, found)
        return found

    def _shown(self, body: Any, status: int, answer: Any) -> dict[str, Any]:
        shown: dict[str, Any] = {} if body is None else {"request": self._stable(body)}
        if answer is not None:
            shown |= {"status": status, "answer": self._stable(answer)}
        return shown

    def _stable(self, value: Any) -> Any:
        """Return a JSON value in which ids, times and secrets are the same in each run."""
        if isinstance(value, dict):
            return {
                name: _VARYING[name] if name in _VARYING and member else self._stable(member)
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
        given = {"CRMHUB_DATABASE_URL": url, "CRMHUB_PUBLIC_URL": "https://hub.example.com"}
        given["CRMHUB_ALERT_CHAT_URL"] = "https://hooks.example.com/services/T0/B0"
        app = create_app(Settings.load(given, Path(root)))
        hub: Hub = app.extensions["crmhub"]
        account, issued = open_account(hub, name="Demo", client_id="demo", by=TESTS)
        recorder = Recorder(app, Client(app, account, issued), open_admin(app).token)
        recorder.rename(issued.generated_id, "s37cq478zh06sakm00ge21z1q7")
        recorder.rename(issued.portal_id, "ztt33x0dmo31arx31ph4vvd2yi")
        yield recorder
        hub.close()


def record() -> Examples:
    """Return the example of each operation: `request`, `status` and `answer`."""
    with _recorder() as recorder:
        pairs = _record_records(recorder)
        _record_catalogue(recorder)
        _record_subscriptions(recorder)
        _record_helpers(recorder)
        _record_admin(recorder)
        _record_accounts(recorder)
        _record_event_subscriptions(recorder)
        _record_actions(recorder)
        _record_duplicates(recorder)
        _record_partial(recorder)
        for kind, (keep, other) in pairs.items():
            if not KINDS[kind].pipeline:
                ids = {"keep": keep, "merge": other}
                recorder.api(f"merge{kind.capitalize()}", "POST", f"/{kind}/merge", ids)
        return dict(sorted(recorder.examples().items()))


def _record_records(recorder: Recorder) -> dict[str, tuple[int, int]]:
    """Return the ids of two records of each kind."""
    ids: dict[str, int] = {}
    pairs: dict[str, tuple[int, int]] = {}
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
        note = {"text": "Calls back on Monday", "author": "Grace"}
        added = recorder.api(f"createNoteOf{name}", "POST", f"{path}/notes", note)
        recorder.api(f"listNotesOf{name}", "GET", f"{path}/notes")
        recorder.api(f"deleteNoteOf{name}", "DELETE", f"{path}/notes/{added['id']}")
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
        else:
            # None of their properties is unique before an account makes it so.
            number = {"name": "reference", "type": "string", "unique": True}
            recorder.api("createProperty", "POST", f"/properties/{kind}", number)
            upsert = {"idProperty": "reference", "id": "A-17", "properties": {**other, **changes}}
        recorder.api(f"upsertBatchOf{plural}", "POST", f"{batch}/upsert", {"inputs": [upsert]})
        recorder.api(
            f"archiveBatchOf{plural}",
            "POST",
            f"{batch}/archive",
            {"inputs": [{"id": made[0]["id"]}]},
        )
        recorder.api(f"restore{name}", "POST", f"/{kind}/{made[0]['id']}/restore")
        pairs[kind] = (ids[kind], made[0]["id"])
    contact = f"/contacts/{ids['contacts']}"
    recorder.api("listAssociationsOfContact", "GET", f"{contact}/associations/deals")
    recorder.api("enrolContact", "PUT", f"/workflows/welcome/enrolments/{ids['contacts']}")
    recorder.api("getUsage", "GET", "/usage")
    recorder.api("getSync", "GET", "/sync")
    return pairs


def _record_catalogue(recorder: Recorder) -> None:
    options = [{"value": "gold", "label": "Gold"}, {"value": "silver", "label": "Silver"}]
    level = {"name": "level", "label": "Level", "type": "enumeration", "options": options}
    recorder.api("createProperty", "POST", "/properties/contacts", level)
    recorder.api("getProperty", "GET", "/properties/contacts/level")
    recorder.api("listProperties", "GET", "/properties/tickets")
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
    recorder.api("listPipelines", "GET", "/pipelines/deals")


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


def _record_event_subscriptions(recorder: Recorder) -> None:
    """Record what operators do; the deliveries are those of the leads that were created before."""
    of_demo = "/accounts/demo/events/subscriptions"
    listed = recorder.admin("listEventSubscriptions", "GET", of_demo)
    one = f"{of_demo}/{listed['results'][0]['id']}"
    recorder.admin("listEventDeliveries", "GET", f"{one}/deliveries", last=True)
    recorder.admin("getEventSubscription", "GET", one)
    recorder.admin("testEventSubscription", "POST", f"{one}/test")
    period = {"since": "2026-11-20T08:00:00Z", "until": "2026-11-21T08:00:00Z"}
    recorder.admin("replayEventSubscription", "POST", f"{one}/replay", period)
    recorder.admin("updateEventSubscription", "PATCH", one, {"state": "disabled"})
    new = {"url": "http://127.0.0.1:9/crm", "types": ["lead.failed", "connection.failing"]}
    path = "/accounts/acme/events/subscriptions"
    recorder.admin("createEventSubscription", "POST", path, new)


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
    recorder.api("enrolContact", "PUT", f"/workflows/welcome/enrolments/{contact}")
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
    transcript = [{"from": "Katherine", "text": "Are you open?"}, {"from": "Bot", "text": "Yes."}]
    note = {"contactToken": "chat-17", "text": transcript}
    recorder.helper("addNote", f"/chatbot/addNote/{generated}", note)
    note = {"contactId": contact, "text": "Wants to be called.", "author": "Katherine"}
    recorder.helper("addNoteById", f"{functions}/addNote/{portal}", note)
    task = {"subject": "Call back", "due": "2026-12-01", "priority": "high"}
    body = {"contactId": contact, "properties": task}
    recorder.helper("createTaskForContact", f"{functions}/createTask/{portal}", body)
    teams = "/accounts/demo/teams"
    member = {"weight": 2, "hours": "mon-fri 09:00-17:00", "timeZone": "Europe/Madrid"}
    recorder.admin("setTeam", "PUT", f"{teams}/Sales", {"members": ["ana@example.com"]})
    recorder.helper("assignOwner", f"{functions}/assignOwner/{portal}", {"contactId": contact})
    recorder.admin("setTeamMember", "PUT", f"{teams}/Sales/members/ana@example.com", member)
    recorder.admin("getTeam", "GET", f"{teams}/Sales")
    recorder.admin("listTeams", "GET", teams)
    owners = {"owners": ["ana@example.com"]}
    recorder.admin("createTeamOfRotation", "POST", f"{teams}/Support/from-rotation", owners)
    recorder.admin("deleteTeamMember", "DELETE", f"{teams}/Support/members/ana@example.com")
    recorder.admin("deleteTeam", "DELETE", f"{teams}/Support")


def _record_partial(recorder: Recorder) -> None:
    """Record the 207 of partial batches: a good input, and one with another contact's email."""
    emails = ("ada@example.com", "mary@example.com")
    inputs: list[dict[str, Any]] = [{"properties": {"email": email}} for email in emails]
    found = {"idProperty": "email", "inputs": [{"id": email} for email in emails]}
    ada = recorder.read("/contacts/batch/read", found)[0]["id"]
    recorder.rename_id(ada)
    recorder.other(
        "createBatchOfContacts", "/contacts/batch/create?partial=true", {"inputs": inputs}
    )
    mary = recorder.read("/contacts/batch/read", found)[1]["id"]
    changes: list[dict[str, Any]] = [
        {"id": mary, "properties": {"firstname": "Mary"}},
        {"id": ada, "properties": {"email": "no address"}},
    ]
    recorder.other(
        "updateBatchOfContacts", "/contacts/batch/update?partial=true", {"inputs": changes}
    )
    upserts = [
        {"idProperty": "email", "id": "mary@example.com", "properties": {"lastname": "Somerville"}},
        {"idProperty": "email", "id": "no address", "properties": {}},
    ]
    recorder.other(
        "upsertBatchOfContacts", "/contacts/batch/upsert?partial=true", {"inputs": upserts}
    )


def _record_admin(recorder: Recorder) -> None:
    recorder.admin("listActions", "GET", "/actions?account=demo&helper=createDeal&limit=1")
    recorder.admin("listAccounts", "GET", "/accounts?limit=1")
    recorder.admin("updateAccount", "PATCH", "/accounts/demo", {"switches": {"region": "US"}})
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
    recorder.admin("listAuditEntries", "GET", "/audit?object=account&verb=change&limit=1")
    some = {"account": "demo", "reason": "no such stage"}
    recorder.admin("retryActions", "POST", "/actions/retry", some)
    gone = {"account": "demo", "state": ["queued"], "reason": "sent by mistake"}
    recorder.admin("discardActions", "POST", "/actions/discard", gone)


def _record_accounts(recorder: Recorder) -> None:
    opened = recorder.admin("createAccount", "POST", "/accounts", {"name": "Acme"})
    recorder.rename(opened["generatedId"], "w82jq0ahk5d7u3m1rcz6n9t4xe")
    recorder.rename(opened["portalId"], "c5n0y7g2vq8r1kd4jx9ms6whtb")
    recorder.rename(opened["webhookSecret"], "…")
    recorder.admin("getAccount", "GET", "/accounts/acme")
    rotated = recorder.admin(
        "rotateWebhookId", "POST", "/accounts/acme/webhook-ids/rotate", {"what": "portal"}
    )
    recorder.rename(rotated["portal"], "p4t8z1k6w3xm9d0c7vhq2yb5ra")
    key = {"name": "Website", "scopes": ["contacts:read"], "expiresAt": "2031-12-31"}
    made = recorder.admin("createKey", "POST", "/accounts/acme/keys", key)
    recorder.rename(made["keyId"], "key_7x0c2m4q")
    listed = recorder.admin("listKeys", "GET", "/accounts/acme/keys")
    recorder.rename(listed["results"][0]["keyId"], "key_2f9t5b8n")
    recorder.admin("setConnection", "PUT", "/accounts/acme/connection", {"adapter": "local"})
    oauth = {"adapter": "hubspot", "secrets": {"client_id": "7b1c…", "client_secret": "0a4d…"}}
    link = recorder.admin("createConnectLink", "POST", "/accounts/acme/connection/link", oauth)
    recorder.rename(link["url"], "https://hub.example.com/console/connect/…")
    # Of the others, linters take some settings for faulty schemas: they have a type and a default.
    listed = recorder.admin("listAdapters", "GET", "/adapters")
    # Linters of OpenAPI take settings in an example for schemas; the hub's own records have none.
    listed["results"] = [one for one in listed["results"] if one["name"] == "local"]
    recorder.admin("getAdapter", "GET", "/adapters/local")


def _record_actions(recorder: Recorder) -> None:
    ids = [_failed_deal(recorder) for _ in range(3)]
    recorder.admin("getAction", "GET", f"/actions/{ids[0]}")
    recorder.api("getActionState", "GET", f"/actions/{_deal(recorder)}")
    recorder.admin("retryAction", "POST", f"/actions/{ids[0]}/retry")
    fixed = {"properties": {"amount": "120"}}
    recorder.admin("editAction", "POST", f"/actions/{ids[1]}/edit", fixed)
    recorder.admin("discardAction", "POST", f"/actions/{ids[2]}/discard", {"reason": "test data"})
    failed = _failed_deal(recorder)
    end(recorder.hub, recorder.client, failed, "dead", "amount: is not a number; send digits")
    cause = give_cause(recorder.hub, recorder.client.account, failed)
    recorder.admin("listCauses", "GET", "/causes?account=demo")
    fixed = {"account": "demo", "to": "120"}
    recorder.admin("previewCause", "POST", f"/causes/{cause}/preview", fixed)
    recorder.admin("fixCause", "POST", f"/causes/{cause}/fix", {"how": "correct", **fixed})
    with recorder.hub.database.reading() as db:
        id = db.scalar("select max(id) from group_fix where cause = :cause", {"cause": cause})
    recorder.admin("getFix", "GET", f"/fixes/{id}")
    test = recorder.admin("createAlertTest", "POST", "/alerts/tests")
    recorder.admin("getAlertTest", "GET", f"/alerts/tests/{test['testId']}")


def _failed_deal(recorder: Recorder) -> str:
    """Return the id of an action that creates a deal and has failed."""
    id = _deal(recorder)
    end(recorder.hub, recorder.client, id, "dead", "The CRM refused the amount.")
    return id


def _deal(recorder: Recorder) -> str:
    """Return the id of an action that has created a deal."""
    contact = recorder.client.make(firstname="Mary")
    call = {"contactId": str(contact), "properties": {"dealname": "A second order"}}
    answer = recorder.client.helper(f"/crm-api-interface/createDeal/{recorder.portal}", call)
    id: str = answer.get_json()["actionId"]
    return id


def _record_duplicates(recorder: Recorder) -> None:
    contacts = "/accounts/demo/duplicates"
    pairs = []
    for given, other in (("Ann", "Anne"), ("Joe", "Joseph")):
        ids = [
            str(recorder.client.make(firstname=name, email=f"{name.lower()}@example.com"))
            for name in (given, other)
        ]
        listed_pair(recorder.hub, recorder.client, *ids)
        pairs.append(f"{contacts}/{'/'.join(ids)}")
    recorder.admin("listDuplicates", "GET", f"{contacts}?limit=1")
    seen = recorder.admin("previewDuplicate", "GET", pairs[0])
    recorder.admin("mergeDuplicate", "POST", f"{pairs[0]}/merge", {"version": seen["version"]})
    recorder.admin("unmergeDuplicate", "POST", f"{pairs[0]}/unmerge")
    recorder.admin("dismissDuplicate", "POST", f"{pairs[1]}/dismiss", {"reason": "different"})


if __name__ == "__main__":
    FILE.write_text(json.dumps(record(), indent=1, ensure_ascii=False) + "\n", "utf-8")
