"""The pages that connect an account by OAuth, and to where a CRM may send people back."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import flask
import pytest
from werkzeug.test import TestResponse

from crmhub.operators.crm import connect_crm
from crmhub.operators.crm.set_crm import Crm
from tests.adapters.hubspot.hubspot_crm import OAUTH, HubSpotCrm
from tests.clients import TESTS, Client
from tests.consoles import Operator, fault_of, open_console, text_of, value_of

pytestmark = pytest.mark.databases("sqlite")
PUBLIC = "https://hub.example.com"


@pytest.fixture(autouse=True)
def _public(app: flask.Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Serve at a public address."""
    hub = app.extensions["crmhub"]
    public = replace(hub, settings=replace(hub.settings, public_url=PUBLIC))
    monkeypatch.setitem(app.extensions, "crmhub", public)


@pytest.fixture
def path(client: Client) -> str:
    return f"/accounts/{client.account.client_id}/crm"


def form(url: str) -> dict[str, str]:
    return {
        "adapter": "hubspot",
        "shown": "hubspot",
        "setting.base_url": url,
        "secret.client_id": OAUTH["client_id"],
        "secret.client_secret": OAUTH["client_secret"],
    }


def target(page: TestResponse) -> dict[str, str]:
    """Return the parameters of the address to which the page sends the browser."""
    found = re.search(r'http-equiv="refresh" content="0; url=([^"]*)"', page.text)
    assert found is not None, text_of(page)
    query = urlsplit(html.unescape(found[1])).query
    return {name: values[0] for name, values in parse_qs(query).items()}


def test_the_browser_is_sent_to_the_crm_with_pkce(operator: Operator, path: str) -> None:
    page = operator.send(f"{path}/connect", form("http://127.0.0.1:9"), at=path)
    asked = target(page)
    assert asked["redirect_uri"] == f"{PUBLIC}/console/connect/callback"
    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    assert "crm.objects.contacts.write" in asked["scope"]
    # The page of a CRM is on another host, but nothing loads from there.
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]


def test_a_host_that_the_caller_names_is_not_believed(
    operator: Operator, path: str, app: flask.Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = app.extensions["crmhub"]
    without = replace(hub, settings=replace(hub.settings, public_url=None))
    monkeypatch.setitem(app.extensions, "crmhub", without)
    # This machine alone is trusted without a setting.
    evil = {"X-Forwarded-Host": "evil.example"}
    own = operator.get(f"{path}?adapter=hubspot", headers=evil)
    assert value_of(own, "redirect") == "http://localhost/console/connect/callback"
    monkeypatch.setattr(flask.Request, "host", "localhost.evil.example")
    assert "public_url" in text_of(operator.get(f"{path}?adapter=hubspot"))
    page = operator.send(f"{path}/connect", form("http://127.0.0.1:9"), at=path)
    assert page.status_code == 422
    assert "evil.example" not in page.text


def test_an_app_without_its_secret_is_told_at_the_field(operator: Operator, path: str) -> None:
    given = form("http://127.0.0.1:9") | {"secret.client_secret": ""}
    page = operator.send(f"{path}/connect", given, at=path)
    assert page.status_code == 422
    assert "Connect needs the OAuth client secret." in text_of(page)


def test_a_link_shows_a_plain_page_to_anybody(
    operator: Operator, path: str, app: flask.Flask, client: Client
) -> None:
    with HubSpotCrm() as crm:
        made = operator.send(f"{path}/link", form(crm.url), at=path)
    assert made.status_code == 201
    link = value_of(made, "link")
    assert link.startswith(f"{PUBLIC}/console/connect/link/{client.account.client_id}.")
    customer = Operator(app)
    place = link.removeprefix(f"{PUBLIC}/console")
    page = customer.get(place)
    assert page.status_code == 200
    assert client.account.name in text_of(page)
    assert "/console/accounts" not in page.text
    assert target(customer.send(place))["client_id"] == OAUTH["client_id"]
    assert customer.get(path).status_code == 303


INVITED = {
    "en": (
        "{sender} asks you to connect your HubSpot account. Leads for {account} will then be",
        "What is shared Read and changed contacts, companies, deals, tickets Added notes, tasks"
        " Only read users, pipelines, fields",
        "Connect HubSpot",
    ),
    "es": (
        "{sender} le pide que conecte su cuenta de HubSpot. Los leads de {account} se guardarán",
        "Qué se comparte Se leen y cambian contactos, empresas, negocios, tickets Se agregan notas,"
        " tareas Solo se leen usuarios, pipelines, campos",
        "Conectar HubSpot",
    ),
    "pt": (
        "{sender} pede que você conecte sua conta do HubSpot. Os leads de {account} passarão",
        "O que é compartilhado São lidos e alterados contatos, empresas, negócios, tickets"
        " São adicionadas notas, tarefas Só são lidos usuários, pipelines, campos",
        "Conectar o HubSpot",
    ),
}


@pytest.mark.parametrize("language", INVITED)
def test_a_customer_reads_who_asks_and_what_is_shared(
    operator: Operator, path: str, app: flask.Flask, client: Client, language: str
) -> None:
    place = value_of(operator.send(f"{path}/link", form("http://127.0.0.1:9"), at=path), "link")
    place = place.removeprefix(f"{PUBLIC}/console")
    page = Operator(app).get(place, headers={"Accept-Language": language})
    asked, shared, button = INVITED[language]
    asked = asked.format(sender=operator.email, account=client.account.name)
    assert asked in text_of(page)
    assert shared in text_of(page)
    assert re.findall(r"<button[^>]*>([^<]+)<", page.text) == [button]


def test_a_program_that_makes_a_link_is_not_named(
    app: flask.Flask, client: Client, path: str
) -> None:
    hub = app.extensions["crmhub"]
    secrets = {name: OAUTH[name] for name in ("client_id", "client_secret")}
    crm = Crm("hubspot", {"base_url": "http://127.0.0.1:9"}, secrets)
    link = connect_crm.make_link(hub, client.account.client_id, crm, by=TESTS)
    page = text_of(Operator(app).get(f"/connect/link/{link.token}"))
    assert TESTS.kind != "user"
    assert "asks you" not in page
    assert f"Leads for {client.account.name} will then be stored there." in page


@pytest.mark.parametrize("place", ["/connect/link/x", "/connect/callback?state=x&code=y"])
def test_what_is_no_link_and_no_approval_is_told(app: flask.Flask, place: str) -> None:
    page = Operator(app).get(place)
    assert page.status_code in (403, 404)
    assert "Not connected" in text_of(page)


def test_a_customer_whose_form_is_refused_sees_the_customers_page(app: flask.Flask) -> None:
    page = Operator(app).open("POST", "/connect/link/x")
    assert page.status_code == 403
    assert "Not connected" in text_of(page)
    assert "theme.css" in page.text
    assert "/console/accounts" not in page.text


def test_a_form_keeps_its_values_after_a_failed_visit(
    app: flask.Flask, operator: Operator, path: str
) -> None:
    with HubSpotCrm() as crm:
        state = target(operator.send(f"{path}/connect", form(crm.url), at=path))["state"]
        denied = {"state": state, "error": "access_denied"}
        page = operator.get("/connect/callback", query_string=denied)
        back = re.search(r'href="/console(/accounts/[^"]+typed=[^"]+)"', page.text)
        assert back is not None
        page = operator.get(html.unescape(back[1]))
        assert f'value="{crm.url}"' in page.text
        # Secrets are kept, and shown nowhere.
        assert OAUTH["client_secret"] not in page.text
        visit = re.search(r'name="typed" value="([^"]+)"', page.text)
        assert visit is not None
        again = {**form(crm.url), "typed": visit[1]}
        again |= {"secret.client_id": "", "secret.client_secret": ""}
        page = operator.send(f"{path}/connect", again, at=path)
        assert target(page)["client_id"] == OAUTH["client_id"]
        elsewhere = again | {"setting.base_url": "https://thief.example"}
        page = operator.send(f"{path}/connect", elsewhere, at=path)
        assert "For another address, enter again" in fault_of(page, "setting.base_url")
        # Nobody else gets them.
        other = open_console(app)
        page = other.send(f"{path}/connect", again, at=path)
        assert fault_of(page, "secret.client_secret")
