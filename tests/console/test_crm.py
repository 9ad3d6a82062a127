"""Which CRM an account uses: the form that its class declares, and what the CRM says to it."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from ipaddress import ip_network

import pytest

from crmhub.operators.accounts import change_account
from crmhub.operators.crm import set_crm
from crmhub.operators.crm.set_crm import Crm
from crmhub.properties.kinds import CONTACTS
from crmhub.settings import Settings
from tests.adapters.hubspot.hubspot_crm import TOKEN, HubSpotCrm
from tests.api.helpers.helper_calls import known
from tests.clients import TESTS
from tests.consoles import text_of
from tests.queue.working import change

pytestmark = pytest.mark.databases("postgresql")

WRONG = "HubSpot refuses the access token"
SECRET = "pat-na1-not-the-right-one"


@pytest.fixture(scope="session")
def settings(settings: Settings) -> Settings:
    return replace(settings, egress_allow=(ip_network("127.0.0.0/8"),))


@pytest.fixture(scope="module")
def hubspot():
    with HubSpotCrm() as crm:
        yield crm


@pytest.fixture
def path(client):
    return f"/accounts/{client.account.client_id}/crm"


@pytest.fixture
def form(hubspot):
    """The form of HubSpot, filled in rightly."""
    return {
        "adapter": "hubspot",
        "setting.base_url": hubspot.url,
        "setting.api_version": "2026-09",
        "secret.access_token": TOKEN["access_token"],
    }


@pytest.fixture
def on_hubspot(hub, client, hubspot):
    crm = Crm("hubspot", {"base_url": hubspot.url}, TOKEN)
    set_crm.set_crm(hub, client.account.client_id, crm, test=False, by=TESTS)


def seen(page):
    return re.search(r'name="seen" value="(\w+)"', page.text)[1]


def detail(hub, client):
    return change_account.detail(hub, client.account.client_id)


def buttons(page):
    """Return what the buttons of the form say that people see."""
    form = page.text.partition('id="crm-form"')[2].partition("</form>")[0]
    shown = re.findall(r"<button(.*?)>(.*?)</button>", form)
    return [label for attributes, label in shown if "hidden" not in attributes]


def test_a_test_warns_of_required_properties_that_nothing_fills(
    operator, on_hubspot, hubspot, form, path
):
    hubspot.fake.require("deals", "amount")
    try:
        stored, other = (
            text_of(operator.send(f"{path}/check", form | {"secret.access_token": text}, at=path))
            for text in ("", TOKEN["access_token"])
        )
    finally:
        hubspot.fake.require("deals")
    assert "Connection test passed." in stored
    assert "The CRM requires amount of new deals." in stored
    # A new token may be of another portal, which is not asked.
    assert "Connection test passed." in other
    assert "The CRM requires" not in other


def test_a_crm_without_settings_has_nothing_to_test(operator, on_hubspot, path):
    assert "Test connection" in buttons(operator.get(path))
    back = operator.get(f"{path}?adapter=local")
    assert buttons(back) == ["Show fields", "Save"]
    assert "Leads are stored in the hub's own records." in html.unescape(text_of(back))


def test_the_hubs_own_records_have_nothing_to_save(operator, path):
    page = operator.get(path)
    assert buttons(page) == ["Show fields"]
    assert "To connect a CRM, choose it above." in text_of(page)


def test_the_form_is_what_the_class_declares(operator, path):
    page = operator.get(f"{path}?adapter=hubspot")
    assert "HubSpot in place of local" in text_of(page)
    assert 'placeholder="https://api.hubapi.com"' in page.text
    assert '<option value="2026-09" selected>' in page.text
    assert "HubSpot supports a dated version for 18 months" in text_of(page)
    secret = re.search(r'<input[^>]*name="secret.access_token"[^>]*>', page.text)[0]
    assert 'type="password"' in secret
    assert 'autocomplete="new-password"' in secret
    # Nobody is asked for what the adapter keeps itself.
    assert "OAuth access token" not in text_of(page)


def test_a_crm_that_says_no_is_not_saved_and_quoted(hub, client, operator, path, form):
    answer = operator.send(path, form | {"secret.access_token": SECRET})
    assert answer.status_code == 422
    assert WRONG in text_of(answer)
    assert form["setting.base_url"] in answer.text
    assert SECRET not in answer.text
    assert detail(hub, client).account.connection.adapter == "local"


def test_a_crm_that_says_yes_is_saved(hub, client, operator, path, form):
    answer = operator.send(path, form)
    assert answer.status_code == 303
    page = operator.get(path)
    assert "Saved. Connection test passed." in text_of(page)
    assert "Stored. Leave empty to keep it." in text_of(page)
    assert TOKEN["access_token"] not in page.text
    assert detail(hub, client).secrets == ("access_token",)


@pytest.mark.parametrize("token", [SECRET, TOKEN["access_token"]])
def test_a_connection_is_tested_without_being_saved(hub, client, operator, path, form, token):
    form = form | {"secret.access_token": token}
    answer = operator.send(f"{path}/check", form, at=path)
    assert answer.status_code == 200
    said = "Connection test passed" if token != SECRET else WRONG
    assert said in text_of(answer)
    assert token not in answer.text
    assert detail(hub, client).account.connection.adapter == "local"


def test_a_crm_that_is_away_is_saved_unasked(hub, client, operator, path, form):
    form |= {"secret.access_token": SECRET, "unasked": "true"}
    assert operator.send(path, form).status_code == 303
    assert "Saved without testing." in text_of(operator.get(path))
    assert detail(hub, client).account.connection.adapter == "hubspot"


@pytest.mark.usefixtures("on_hubspot")
def test_a_secret_that_is_left_empty_stays_and_one_can_be_removed(
    hub, client, operator, path, form
):
    form |= {"secret.access_token": "", "setting.api_version": "v3"}
    assert operator.send(path, form).status_code == 303
    found = detail(hub, client)
    assert found.account.connection.settings["api_version"] == "v3"
    assert found.secrets == ("access_token",)
    form |= {
        "removed.access_token": "true",
        "unasked": "true",
        "secret.client_id": "a",
        "secret.client_secret": "b",
        "secret.refresh_token": "c",
    }
    assert operator.send(path, form).status_code == 303
    assert detail(hub, client).secrets == ("client_id", "client_secret", "refresh_token")


def test_the_form_is_never_saved_with_the_fields_of_another_crm(hub, client, operator, path):
    """Without the script, a choice changes nothing until "Show fields" is pressed."""
    chosen = {"adapter": "hubspot", "shown": "local", "unasked": "true"}
    answer = operator.send(path, chosen)
    assert answer.status_code == 422
    assert "Fill in the fields of HubSpot first." in text_of(answer)
    assert 'name="shown" value="hubspot"' in answer.text
    assert detail(hub, client).account.connection.adapter == "local"
    shown = operator.send(f"{path}/fields", chosen, at=path)
    assert (shown.status_code, shown.location) == (303, f"/console{path}?adapter=hubspot")


@pytest.mark.parametrize(
    ("name", "changed", "text"),
    [
        ("setting.base_url", {"setting.base_url": "hubapi.com"}, "is not an address"),
        (
            "setting.base_url",
            {"setting.base_url": "http://127.0.0.1:9"},
            "Couldn't connect to http://127.0.0.1:9. Check the API address.",
        ),
        ("secret.access_token", {"secret.access_token": SECRET}, WRONG),
        ("secret.access_token", {"secret.client_id": "x"}, "Enter an access token, or all three"),
    ],
)
def test_an_error_stands_at_its_field(operator, path, form, name, changed, text):
    answer = operator.send(path, form | changed)
    assert answer.status_code == 422
    assert "Correct the marked fields" in text_of(answer)
    fault = re.search(rf'id="e-{re.escape(name)}"[^>]*>([^<]*)<', answer.text)
    assert text in html.unescape(fault[1])
    field = re.search(rf'<input[^>]* id="f-{re.escape(name)}"[^>]*>', answer.text)
    assert 'aria-invalid="true"' in field[0]
    assert f"e-{name}" in field[0]


@pytest.mark.usefixtures("on_hubspot")
def test_the_settings_of_a_former_crm_are_offered(hub, client, hubspot, operator, path):
    left = detail(hub, client).account.connection.id
    assert operator.send(path, {"adapter": "local", "shown": "local"}).status_code == 303
    page = operator.get(f"{path}?adapter=hubspot")
    assert "Use the settings of" in text_of(page)
    restored = operator.get(f"{path}?adapter=hubspot&restore={left}")
    assert f'value="{hubspot.url}"' in restored.text
    assert "Stored. Leave empty to keep it." in text_of(restored)
    assert TOKEN["access_token"] not in restored.text
    form = {"adapter": "hubspot", "shown": "hubspot", "restore": str(left)}
    answer = operator.send(path, form | {"setting.base_url": hubspot.url})
    assert answer.status_code == 303
    assert detail(hub, client).secrets == ("access_token",)


def test_what_to_do_in_the_crm_stands_beside_the_form(operator, path):
    page = operator.get(f"{path}?adapter=hubspot")
    assert "<code>crm.objects.contacts.write</code>" in page.text
    assert re.search(r'<a href="https://developers.hubspot.com/[^"]*" target="_blank"', page.text)


@pytest.mark.parametrize(
    ("theirs", "mine"),
    [
        # The page showed the hub's own records, with nothing to choose.
        (Crm("hubspot", {}, TOKEN), {"adapter": "local"}),
        (Crm("hubspot", {"api_version": "v3"}, TOKEN), None),
    ],
)
def test_what_somebody_else_saved_meanwhile_is_not_lost_unseen(
    hub, client, hubspot, operator, path, form, theirs, mine
):
    name = client.account.client_id
    if mine is None:
        set_crm.set_crm(hub, name, Crm("hubspot", {}, TOKEN), test=False, by=TESTS)
    mine = (mine or form) | {"unasked": "true", "seen": seen(operator.get(path))}
    set_crm.set_crm(hub, name, theirs, test=False, by=TESTS)
    before = detail(hub, client).account.connection
    answer = operator.send(path, mine)
    assert answer.status_code == 409
    assert "changed by somebody else meanwhile" in text_of(answer)
    assert detail(hub, client).account.connection == before
    assert operator.send(path, mine | {"seen": seen(answer)}).status_code == 303
    assert detail(hub, client).account.connection != before


@pytest.mark.parametrize("fate", ["finish", "drop"])
def test_what_is_queued_must_be_decided(hub, client, operator, path, form, fate):
    known(client, "chat-1")
    change(hub, client, "state = 'queued', finished_at = null, run_at = 9000000000000")
    assert "1 action is queued for local" in text_of(operator.get(f"{path}?adapter=hubspot"))
    undecided = operator.send(path, form)
    assert undecided.status_code == 409
    assert "say finish (there), move" in text_of(undecided)
    assert operator.send(path, form | {"queued": fate}).status_code == 303
    left = [one.queued for one in detail(hub, client).former]
    assert left == ([1] if fate == "finish" else [])


# --- what it can hold ----------------------------------------------------------------------------


def catalogue(operator, path, query=""):
    return text_of(operator.get(f"{path.removesuffix('/crm')}/properties{query}"))


@pytest.mark.usefixtures("on_hubspot")
def test_the_crm_tells_its_properties_pipelines_and_owners(operator, path):
    told = catalogue(operator, path, "?kind=deals")
    for words in ("Sales Pipeline default", "closedwon", "Deal Name dealname", "marie@example.com"):
        assert words in told
    assert "Sales Pipeline" not in catalogue(operator, path, "?kind=contacts")
    assert "The public API reads and writes these" in catalogue(operator, path, "?of=hub")


def test_the_hub_tells_what_its_own_records_can_hold(client, operator, path):
    client.post("/properties/contacts", {"name": "shoe_size", "label": "Shoe", "type": "number"})
    told = catalogue(operator, path)
    assert "Helpers and the public API read and write these." in told
    assert "Shoe shoe_size number" in catalogue(operator, path, "?q=SHOE")
    assert "No property matches" in catalogue(operator, path, "?q=shoes")
    assert "closedlost" in catalogue(operator, path, "?kind=deals")


def test_properties_come_in_pages(hub, client, operator, path):
    names = []
    for number in range(4):
        page = operator.get(f"{path.removesuffix('/crm')}/properties?page={number}")
        names += re.findall(r'data-label="Name to send"><code>([^<]*)', page.text)
        assert ("Next page" in page.text) == (number < 3)
    assert names == [prop.name for prop in hub.records.catalogue(client.account, CONTACTS)]
    assert "No property matches" in catalogue(operator, path, "?page=4")


def test_a_crm_that_cannot_tell_says_why(hub, client, hubspot, operator, path):
    crm = Crm("hubspot", {"base_url": hubspot.url}, {"access_token": SECRET})
    set_crm.set_crm(hub, client.account.client_id, crm, test=False, by=TESTS)
    told = catalogue(operator, path, "?kind=deals")
    assert told.count(f"Couldn't read from HubSpot: {WRONG}") == 3
