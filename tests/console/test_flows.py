"""n8n and Node-RED run the printed flows and snippets on a served hub whose CRM is a fake HubSpot.

Both are installed from npm, n8n once for all runs (`n8n` in conftest.py). Each flow is loaded under
a name of its own, and called as a bot calls it: by a POST with the bot's variables.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest
from sqlalchemy.engine import make_url

from adapters.fakes.hubspot import FakeHubSpot, Options
from benchmarks.places import free_port
from crmhub.console import snippets
from crmhub.operators.accounts.open_account import open_account
from crmhub.operators.crm.set_crm import Crm, set_crm
from crmhub.operators.teams import change_team
from tests import chains, databases
from tests.clients import TESTS
from tests.console.conftest import Served
from tests.scrapes import Scrape
from tests.server.servers import soon

pytestmark = pytest.mark.databases("sqlite")

_BOT = {
    "contactToken": "chat-17",
    "name": "Katherine Johnson",
    "email": "kj@example.com",
    "phone": "+1 202-555-0188",
    "city": "Hampton",
    "transcript": "Bot: How can we help?\nKatherine: I need an offer.",
    "dealname": "A first order",
    "subject": "A question",
}
_OWNER = "41629779"
_NO_IDS = {"contactId": "", "dealId": "", "ticketId": ""}
_OF_SEVERAL = ("createLead", "createDeal")
Calls = list[tuple[snippets.Helper, str]]
Run = Callable[[str, Any], Any]
"""Sends a body to the flow of a name, and returns the flow's answer."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A builder, a hub, the CRM of its account, and the calls of each flow by the flow's name.

    `whole` calls all helpers. `unavailable` is the same of an account whose CRM is unavailable,
    `unreachable` the same with a server for createTicket that is unreachable. `several` takes a
    list of leads.
    """

    builder: str
    url: str
    crm: FakeHubSpot
    flows: dict[str, Calls]


@pytest.fixture(scope="module", params=["node-red", "n8n"])
def scene(request: pytest.FixtureRequest, served: Served) -> Iterator[Scene]:
    with FakeHubSpot(Options(limit="none", search_limit="none")) as crm:
        whole = _calls(served, crm.url, [_OWNER])
        nobody = f"http://127.0.0.1:{free_port()}"
        unreachable = [
            (helper, nobody if helper.name == "createTicket" else url) for helper, url in whole
        ]
        flows = {
            "whole": whole,
            "unavailable": _calls(served, nobody),
            "unreachable": unreachable,
            "several": [(helper, url) for helper, url in whole if helper.name in _OF_SEVERAL],
        }
        yield Scene(request.param, served.url, crm, flows)


def _calls(served: Served, crm_url: str, owners: Sequence[str] = ()) -> Calls:
    """Return all helpers with their URLs, of a new account with its CRM at `crm_url`.

    `owners`: those of its team, which only an available CRM confirms.
    """
    account, issued = open_account(served.hub, name="Flows", by=TESTS)
    token = {"access_token": Options().token}
    crm = Crm("hubspot", {"base_url": crm_url}, token)
    set_crm(served.hub, account.client_id, crm, by=TESTS, test=False)
    if owners:
        change_team.set_team(served.hub, account.client_id, "Sales", members=owners, by=TESTS)
    ids = {"generated": issued.generated_id, "portal": issued.portal_id}
    return [(helper, served.url + helper.path.format(**ids)) for helper in snippets.HELPERS]


@pytest.fixture(scope="module")
def run(
    request: pytest.FixtureRequest, scene: Scene, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Run]:
    """The builder, which has all flows of the scene."""
    root = tmp_path_factory.mktemp("builder")
    if scene.builder == "n8n":
        started = _n8n(request.getfixturevalue("n8n"), root, scene.flows)
    else:
        started = _node_red(request.getfixturevalue("npm"), root, scene.flows)
    with started as base:
        yield lambda name, body: _post(f"{base}/{name}", body, root / "log")


def test_a_flow_calls_every_helper_and_answers_the_ids(run: Run, scene: Scene) -> None:
    before = _answered(scene.url)
    answer = run("whole", _BOT)
    assert list(answer) == list(snippets.RESULTS)
    assert answer["failed"] == ""
    contact = scene.crm.contacts[answer["contactId"]]
    assert (contact["city"], contact["hubspot_owner_id"]) == ("Hampton", _OWNER)
    for kind in ("notes", "tasks", "deals", "tickets"):
        assert len(scene.crm.linked("contacts", answer["contactId"], kind)) == 1, kind
    assert answer["dealId"] in scene.crm.linked("contacts", answer["contactId"], "deals")
    assert scene.crm.deals[answer["dealId"]]["hubspot_owner_id"] == _OWNER
    assert answer["ticketId"] in scene.crm.linked("contacts", answer["contactId"], "tickets")
    assert _answered(scene.url) == {name: count + 1 for name, count in before.items()}


def test_a_bot_may_lack_phone_and_city(run: Run, scene: Scene) -> None:
    lead = {"contactToken": "chat-18", "name": "Dorothy Vaughan", "email": "dv@example.com"}
    order = {name: _BOT[name] for name in ("transcript", "dealname", "subject")}
    answer = run("whole", lead | order)
    assert answer["failed"] == ""
    assert "phone" not in scene.crm.contacts[answer["contactId"]]


def test_failed_names_the_refused_helper_and_the_others_go_on(run: Run, scene: Scene) -> None:
    former = {"failed": "createTicket", "dealId": "40200000001"}
    lead = {"contactToken": "chat-19", "name": "Mary Jackson", "email": "mj@example.com"}
    answer = run("whole", {**_BOT, **lead, **former, "dealname": ""})
    assert answer["failed"] == "createDeal"
    assert answer["dealId"] == ""
    assert scene.crm.contacts[answer["contactId"]]["email"] == "mj@example.com"
    assert scene.crm.linked("contacts", answer["contactId"], "tickets") == [answer["ticketId"]]


def test_a_refused_lead_leads_to_no_deal_of_a_former_contact(run: Run, scene: Scene) -> None:
    other = scene.crm.add_contact(email="other@example.com")
    new = {"contactToken": "chat-20", "email": "", "contactId": other}
    answer = run("whole", _BOT | new)
    assert {name: answer[name] for name in _NO_IDS} == _NO_IDS
    assert {"createLead", "createDeal", "createTicket"} <= set(answer["failed"].split(","))
    assert scene.crm.linked("contacts", other, "deals") == []


def test_a_lead_is_queued_while_the_crm_is_unavailable(run: Run, scene: Scene) -> None:
    answer = run("unavailable", {**_BOT, "contactToken": "chat-21"})
    assert answer["contactId"].startswith("hub-")
    assert not {"createLead", "createDeal", "createTicket"} & set(answer["failed"].split(","))


def test_failed_names_a_helper_whose_server_is_unreachable(run: Run, scene: Scene) -> None:
    answer = run("unreachable", {**_BOT, "contactToken": "chat-22", "email": "kg@example.com"})
    assert answer["failed"] == "createTicket"
    assert answer["ticketId"] == ""
    assert answer["dealId"] in scene.crm.linked("contacts", answer["contactId"], "deals")


def test_each_of_several_leads_keeps_its_own_ids(run: Run, scene: Scene) -> None:
    leads = [
        {**_BOT, "contactToken": f"several-{name}", "email": f"{name}@example.com"}
        for name in ("ada", "grace", "joan")
    ]
    leads[1] = {**leads[1], "dealname": ""}
    answers = run("several", leads)
    assert [answer["failed"] for answer in answers] == ["", "createDeal", ""]
    for lead, answer in zip(leads, answers, strict=True):
        assert scene.crm.contacts[answer["contactId"]]["email"] == lead["email"]
        deals = [answer["dealId"]] if answer["dealId"] else []
        assert scene.crm.linked("contacts", answer["contactId"], "deals") == deals


@contextmanager
def _node_red(npm: Path, root: Path, flows: dict[str, Calls]) -> Iterator[str]:
    """Run Node-RED with a tab for each flow; give the base of the flows' URLs."""
    port = free_port()
    nodes: list[dict[str, Any]] = []
    for name, calls in flows.items():
        flow = json.loads(chains.node_red_flow(calls, secret=False))
        if name == "several":
            _split(flow)
        text = json.dumps(flow).replace("/crmhub", f"/{name}").replace("crmhub.", f"{name}.")
        nodes.append({"id": name, "type": "tab", "label": name})
        nodes += [{**node, "z": name} for node in json.loads(text)]
    (root / "flows.json").write_text(json.dumps(nodes))
    settings = {
        "flowFile": "flows.json",
        "uiHost": "127.0.0.1",
        "uiPort": port,
        "httpAdminRoot": False,
        "telemetry": {"enabled": False, "updateNotification": False},
        "logging": {"console": {"level": "warn"}},
    }
    (root / "settings.js").write_text(f"module.exports = {json.dumps(settings)};")
    command = ["node", os.fspath(npm / "node-red" / "red.js"), "-u", os.fspath(root)]
    with _running(command, root, None):
        yield f"http://127.0.0.1:{port}"


def _split(flow: list[dict[str, Any]]) -> None:
    """Let a flow of Node-RED take a list: split before the first snippet, join after the last."""
    by_id = {node["id"]: node for node in flow}
    [[first]] = by_id["crmhub.in"]["wires"]
    by_id["crmhub.in"]["wires"] = [["crmhub.split"]]
    last = next(node for node in flow if "crmhub.answer" in (node.get("wires") or [[]])[0])
    last["wires"] = [["crmhub.join"]]
    place = {"x": 140, "y": 40}
    flow.append(
        {"id": "crmhub.split", "type": "split", "wires": [[first]], "arraySplt": 1, **place}
    )
    flow.append({"id": "crmhub.join", "type": "join", "mode": "auto", "wires": [["crmhub.one"]]})
    code = "msg.statusCode = 200; delete msg.headers; return msg;"
    one = {"id": "crmhub.one", "type": "function", "func": code, "wires": [["crmhub.out"]]}
    flow.append(one | place)


@contextmanager
def _n8n(n8n: Path, root: Path, flows: dict[str, Calls]) -> Iterator[str]:
    """Run n8n with a workflow for each flow; give the base of the workflows' URLs."""
    port = free_port()
    with databases.empty_postgresql_database() as url:
        environment = os.environ | _n8n_environment(root, port, url)
        workflows = [_workflow(name, calls) for name, calls in flows.items()]
        (root / "workflows.json").write_text(json.dumps(workflows))
        program = os.fspath(n8n / ".bin" / "n8n")
        _done([program, "import:workflow", f"--input={root / 'workflows.json'}"], environment)
        for name in flows:
            _done([program, "publish:workflow", f"--id={name}"], environment)
        with _running([program, "start"], root, environment):
            yield f"http://127.0.0.1:{port}/webhook"


def _workflow(name: str, calls: Calls) -> dict[str, Any]:
    flow = json.loads(chains.n8n_workflow(calls, secret=False))
    webhook = flow["nodes"][0]
    webhook["webhookId"] = webhook["parameters"]["path"] = name
    if name == "several":
        # All items are answered, and the last snippet's output as it is.
        webhook["parameters"]["responseData"] = "allEntries"
        [answer] = [node for node in flow["nodes"] if node["name"] == "Answer"]
        flow["nodes"].remove(answer)
        split = {"name": "Split", "type": "n8n-nodes-base.splitOut", "typeVersion": 1}
        split |= {"position": [-110, 0], "parameters": {"fieldToSplitOut": "body", "options": {}}}
        flow["nodes"].append(split)
        wires = flow["connections"]
        wires["Split"] = wires["Webhook"]
        wires["Webhook"] = {"main": [[{"node": "Split", "type": "main", "index": 0}]]}
        wires.pop(f"{calls[-1][0].name} answer")
    return flow | {"id": name, "name": name, "active": True, "settings": {}}


def _n8n_environment(root: Path, port: int, database_url: str) -> dict[str, str]:
    """Return the environment of n8n: own ports and database, no call beyond this machine."""
    url = make_url(database_url)
    off = ("DIAGNOSTICS", "VERSION_NOTIFICATIONS", "VERSION_NOTIFICATIONS_WHATS_NEW", "TEMPLATES")
    off += ("DYNAMIC_BANNERS", "HIRING_BANNER", "PERSONALIZATION", "LICENSE_AUTO_RENEW")
    off += ("COMMUNITY_PACKAGES", "PYTHON")
    return {f"N8N_{name}_ENABLED": "false" for name in off} | {
        "N8N_USER_FOLDER": os.fspath(root),
        "N8N_PORT": str(port),
        "N8N_LISTEN_ADDRESS": "127.0.0.1",
        "N8N_RUNNERS_BROKER_PORT": str(free_port()),
        "DB_TYPE": "postgresdb",
        "DB_POSTGRESDB_HOST": url.host or "127.0.0.1",
        "DB_POSTGRESDB_PORT": str(url.port or 5432),
        "DB_POSTGRESDB_DATABASE": url.database or "",
        "DB_POSTGRESDB_USER": url.username or "",
        "DB_POSTGRESDB_PASSWORD": url.password or "",
    }


def _done(command: Sequence[str], environment: dict[str, str]) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def _running(
    command: Sequence[str], root: Path, environment: dict[str, str] | None
) -> Iterator[None]:
    """Run a builder, and end it afterwards."""
    with (root / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=root, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def _post(url: str, body: Any, log: Path) -> Any:
    """Return a flow's answer, once the builder has started it; fail with the log of an error."""
    request = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    answers: list[Any] = []

    def answered() -> bool:
        try:
            with urlopen(request) as response:
                # n8n answers with a page while it starts.
                if response.headers.get_content_type() == "application/json":
                    answers.append(json.load(response))
        except HTTPError as error:
            # 404 until the flow has started; another status is the flow's own failure.
            if error.code != 404:
                pytest.fail(error.read().decode() + log.read_text())
        except URLError:
            pass
        return bool(answers)

    soon(answered)
    return answers[0]


def _answered(url: str) -> dict[str, float]:
    """Return how many calls of each helper were answered 200."""
    with urlopen(f"{url}/metrics") as response:
        scrape = Scrape(response.read().decode())
    return {
        helper.name: scrape.of("helper_answers_total", helper=helper.name, status="200")
        for helper in snippets.HELPERS
    }
