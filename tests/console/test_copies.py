"""The copy of a CRM in the console: the offer, the choice of properties, its state and its end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_network

import pytest

from crmhub.database.connection import now_ms
from crmhub.database.rows import set_where
from crmhub.database.tables import crm_copy
from crmhub.operators.accounts import change_account
from crmhub.operators.crm import copy_crm, copy_plan, set_crm
from crmhub.operators.crm.set_crm import Crm
from crmhub.properties.kinds import CONTACTS, DEALS
from crmhub.records import copies
from crmhub.settings import Settings
from tests.adapters.hubspot.hubspot_crm import TOKEN, HubSpotCrm
from tests.clients import TESTS
from tests.console.test_roles import signed_in
from tests.consoles import fault_of, text_of

pytestmark = pytest.mark.databases("postgresql")

OFFER = "Copy HubSpot into the hub"


@pytest.fixture(scope="session")
def settings(settings: Settings) -> Settings:
    return replace(settings, egress_allow=(ip_network("127.0.0.0/8"),))


@pytest.fixture(scope="module")
def hubspot() -> Iterator[HubSpotCrm]:
    with HubSpotCrm() as crm:
        crm.fake.define("contacts", "illness", sensitivity="sensitive")
        yield crm


@pytest.fixture
def path(client):
    return f"/accounts/{client.account.client_id}/crm"


@pytest.fixture
def on_hubspot(hub, client, hubspot):
    """The client's account with HubSpot as its CRM."""
    crm = Crm("hubspot", {"base_url": hubspot.url}, TOKEN)
    set_crm.set_crm(hub, client.account.client_id, crm, test=False, by=TESTS)
    client.account = hub.load_account(client.account.client_id)
    return client


@pytest.fixture
def copied(hub, on_hubspot):
    """The account with a copy that no worker has begun to load."""
    client_id = on_hubspot.account.client_id
    on_hubspot.account = change_account.change(hub, client_id, {"mirror": True}, by=TESTS)
    return on_hubspot


def _store(hub, client, **values):
    """Let the copy of the contacts have these values."""
    of = client.account.connection_key | {"kind": CONTACTS.code}
    hub.database.transact(lambda tx: set_where(tx, crm_copy, of, **values))


def _contacts(hub, client):
    """Return the row of the copy of the contacts."""
    with hub.database.reading() as db:
        [row] = [one for one in copies.rows(db, client.account) if one.kind == CONTACTS.code]
    return row


def _form(page):
    """Return what a browser sends of the form, if nothing is changed in it."""
    boxes = re.findall(r'<input class="form-check-input" [^>]*value="(\w+)"[^>]* checked>', page)
    hidden = re.findall(r'<input type="hidden" name="property" value="(\w+)">', page)
    [offered] = re.findall(r'name="offered" value="(\d+)"', page)
    return {"property": [*hidden, *boxes], "offered": offered}


def test_a_copy_is_offered_while_there_is_none(operator, on_hubspot, path, client):
    shown = text_of(operator.get(path))
    assert f"have the hub's own records, which are not HubSpot's. {OFFER}" in shown
    assert OFFER not in text_of(operator.get(f"{path}?adapter=local"))
    account = text_of(operator.get(path.removesuffix("/crm")))
    assert "Copy in the hub none: the public API has the hub's own records" in account


def test_no_copy_is_offered_without_an_external_crm(operator, path, client):
    assert "into the hub" not in text_of(operator.get(path))


def test_an_adapter_that_cannot_keep_a_copy_says_so(operator, on_hubspot, path, monkeypatch):
    monkeypatch.setattr(copy_crm, "NEEDED_FOR_COPY", frozenset({"changed_since", "fly"}))
    assert "A copy of HubSpot is not possible: the adapter for HubSpot cannot" in text_of(
        operator.get(path)
    )
    shown = text_of(operator.get(f"{path}/copy"))
    assert "The adapter for HubSpot cannot keep a copy; it lacks fly." in shown


def test_the_properties_are_chosen_before_the_load(operator, hub, on_hubspot, path):
    page = operator.get(f"{path}/copy")
    shown = text_of(page)
    for words in ("Not known before the load", "About 1 minute for 10,000 records", "kB"):
        assert words in shown
    assert "illness" not in shown
    form = _form(page.text)
    assert {"email", "city", "jobtitle"} <= {*form["property"]}
    left = [name for name in form["property"] if name != "city"]
    answer = operator.send(f"{path}/copy", form | {"property": left})
    assert answer.headers["Location"].endswith(path)
    switches = hub.load_account(on_hubspot.account.client_id).switches
    assert switches.mirror
    assert switches.copied_properties == {*left}


def test_a_form_that_leaves_nothing_out_also_copies_later_properties(
    operator, hub, on_hubspot, path
):
    operator.send(f"{path}/copy", _form(operator.get(f"{path}/copy").text))
    switches = hub.load_account(on_hubspot.account.client_id).switches
    assert (switches.mirror, switches.mirror_properties) == (True, "")


def test_no_property_at_all_is_refused(operator, hub, on_hubspot, path):
    answer = operator.send(f"{path}/copy", {"offered": "74"})
    assert answer.status_code == 422
    assert "Choose at least one property." in text_of(answer)
    assert not hub.load_account(on_hubspot.account.client_id).switches.mirror


def test_records_of_its_own_are_told_before_the_load(operator, on_hubspot, path):
    on_hubspot.make(firstname="Own")
    page = operator.get(f"{path}/copy")
    assert "The copy cannot begin yet: the account has records of its own" in text_of(page)
    assert 'name="offered"' not in page.text


def test_a_crm_that_is_down_is_told_and_can_be_asked_again(operator, on_hubspot, hubspot, path):
    hubspot.fake.fail(503, times=50)
    try:
        answer = operator.get(f"{path}/copy")
    finally:
        hubspot.fake.faults.clear()
    assert answer.status_code == 200
    assert "(hubspot) is unavailable" in text_of(answer)


def test_the_crm_page_shows_the_state_in_words(operator, hub, copied, path):
    assert "loading 0 so far" in text_of(operator.get(path))
    now = now_ms()
    done = {"state": "following", "complete_at": now, "synced_at": now, "left_out": 3}
    _store(hub, copied, **done, compared_at=now, differences=2)
    shown = text_of(operator.get(path))
    assert "follows the CRM" in shown
    assert "2 differences" in shown
    failed = {"failures": 1, "failure": "HubSpot refuses the search."}
    late = now - 20 * 60_000
    _store(hub, copied, synced_at=late, progress_at=late, **failed)
    words = "The copy of the contacts is 20 minutes behind: HubSpot refuses the search."
    for page in (path, path.removesuffix("/crm")):
        assert words in text_of(operator.get(page))
    _store(hub, copied, state="loading", loaded=5, failures=0, failure="")
    assert "loading again 5 read" in text_of(operator.get(path))


def test_the_buttons_load_again_and_compare(operator, hub, copied, path):
    _store(hub, copied, state="following", since="5", complete_at=1, loaded=9)
    operator.send(f"{path}/copy/compare", at=path)
    operator.send(f"{path}/copy/load", at=path)
    row = _contacts(hub, copied)
    assert (row.compare_since, row.state, row.since, row.loaded) == ("", "loading", "", 0)


def test_the_properties_of_a_copy_are_changed(operator, hub, copied, path):
    shown = operator.get(path)
    assert f'href="/console{path}/copy"' in shown.text
    page = operator.get(f"{path}/copy")
    assert "Not known before the load" not in text_of(page)
    form = _form(page.text)
    [seen] = re.findall(r'name="seen" value="(\w+)"', page.text)
    left = [name for name in form["property"] if name != "city"]
    _store(hub, copied, state="following", defined_at=now_ms(), complete_at=1)
    answer = operator.send(f"{path}/copy", form | {"property": left, "seen": seen})
    assert answer.status_code == 303
    assert hub.load_account(copied.account.client_id).switches.copied_properties == {*left}
    assert _contacts(hub, copied).defined_at is None
    assert "city" not in _form(operator.get(f"{path}/copy").text)["property"]
    older = operator.send(f"{path}/copy", form | {"seen": seen})
    assert older.status_code == 409
    assert "changed by somebody else meanwhile" in text_of(older)


def test_a_change_keeps_the_choice_for_a_kind_that_cannot_be_read(
    operator, hub, copied, path, monkeypatch
):
    client_id = copied.account.client_id
    chosen = {"mirror_properties": "city,amount"}
    change_account.change(hub, client_id, chosen, by=TESTS)
    planned = copy_plan._plan_kind

    def without_deals(hub, account, kind):
        if kind is DEALS:
            return copy_plan.PlannedKind("deals", (), "The token lacks a right.")
        return planned(hub, account, kind)

    monkeypatch.setattr(copy_plan, "_plan_kind", without_deals)
    page = operator.get(f"{path}/copy")
    assert "The properties of deals cannot be changed now: The token lacks a right." in text_of(
        page
    )
    operator.send(f"{path}/copy", _form(page.text))
    assert {"city", "amount"} <= hub.load_account(client_id).switches.copied_properties
    change_account.change(hub, client_id, {"mirror_properties": ""}, by=TESTS)
    assert "the deals keep only those that" in text_of(operator.get(f"{path}/copy"))


def test_the_time_between_two_rounds_is_changed(operator, hub, copied, path):
    client_id = copied.account.client_id
    page = operator.get(path)
    assert "HubSpot is asked for changes every 60 s" in text_of(page)
    [seen] = re.findall(r'name="seen" value="(\w+)">\s*<div', page.text)
    form = {"mirror_every_s": "900", "seen": seen}
    assert operator.send(f"{path}/copy/every", form, at=path).status_code == 303
    assert hub.load_account(client_id).switches.mirror_every_s == 900
    assert operator.send(f"{path}/copy/every", form, at=path).status_code == 409
    for wrong in ("9", "86401", "", "soon"):
        answer = operator.send(f"{path}/copy/every", {"mirror_every_s": wrong}, at=path)
        assert answer.status_code == 422
        assert "is not a whole number of seconds" in fault_of(answer, "mirror_every_s")
        assert f'name="mirror_every_s" type="text" value="{wrong}"' in answer.text
    assert hub.load_account(client_id).switches.mirror_every_s == 900


def test_missing_records_are_archived_after_a_confirmation(operator, hub, copied, path):
    words = "The missing records are deleted in HubSpot: archive them"
    assert words not in text_of(operator.get(path))
    _store(hub, copied, state="following", complete_at=1, synced_at=now_ms(), missing=1060)
    shown = text_of(operator.get(path))
    assert words in shown
    assert "did not find 1,060 contacts in HubSpot" in shown
    older = operator.send(f"{path}/copy/accept", {"missing": "contacts 60"}, at=path)
    assert older.status_code == 409
    assert "Nothing was archived: another comparison has run" in text_of(older)
    assert _contacts(hub, copied).accepted is None
    form = {"missing": "contacts 1060"}
    assert operator.send(f"{path}/copy/accept", form, at=path).status_code == 303
    row = _contacts(hub, copied)
    assert (row.compare_since, row.accepted) == ("", 1060)


def test_the_end_of_a_copy_says_what_is_deleted(operator, hub, copied, path):
    shown = text_of(operator.get(path))
    assert "0 records of the hub's copy are deleted" in shown
    assert "Nothing is deleted in HubSpot." in shown
    operator.send(f"{path}/copy/off", at=path)
    assert "The copy is being deleted: 0 records are left." in text_of(operator.get(path))
    answer = operator.send(f"{path}/copy/load", at=path)
    assert answer.status_code == 409
    assert "is being deleted; wait for its end" in text_of(answer)
    assert hub.load_account(copied.account.client_id).connection.settings["base_url"] in answer.text


def test_who_may_not_change_an_account_sees_the_state_and_no_button(app, copied, path):
    reader = signed_in(app, "reader")
    shown = reader.get(path)
    assert "loading 0 so far" in text_of(shown)
    assert "/copy" not in shown.text
    for name in ("every", "accept"):
        assert reader.send(f"{path}/copy/{name}", at=path).status_code == 403
    assert reader.get(f"{path}/copy").status_code == 403


def test_support_sees_no_personal_data_in_a_failure(app, hub, copied, path):
    failed = {"failures": 1, "failure": '"Zoe Quill" is no name.'}
    _store(hub, copied, state="following", synced_at=1, progress_at=1, **failed)
    overview = path.removesuffix("/crm")
    assert "Zoe Quill" in text_of(signed_in(app, "reader").get(overview))
    shown = text_of(signed_in(app, "support").get(overview))
    assert "The copy of the contacts is" in shown
    assert "Zoe" not in shown


def test_the_records_page_says_where_records_are_from(operator, hub, on_hubspot):
    records = f"/records/{on_hubspot.account.client_id}/contacts"
    id = on_hubspot.make(firstname="Own")
    words = "These are the hub's own contacts, not those in HubSpot."
    for page in (records, f"{records}/{id}"):
        assert words in text_of(operator.get(page))
    on_hubspot.delete(f"/contacts/{id}")
    change_account.change(hub, on_hubspot.account.client_id, {"mirror": True}, by=TESTS)
    assert "The copy of contacts in HubSpot: loading" in text_of(operator.get(records))


def test_a_late_copy_is_in_the_banner_and_on_the_overview(operator, app, hub, copied, path):
    _store(hub, copied, state="following", synced_at=1, complete_at=1, run_at=1)
    app.extensions["crmhub.console.banner"].forget()
    # Other tests leave late copies, too.
    said = r"The copy of 1 CRM is behind:|The copies of \d+ CRMs are behind:"
    assert re.search(said, text_of(operator.get("/accounts")))
    assert "The copy of HubSpot is behind" in text_of(operator.get("/"))
