"""Privacy of a copy: what is left out, or sensitive, is never asked of the CRM.

Through the whole life of a copy, at the wire of a HubSpot-like CRM.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import flask
import pytest

from adapters.hubspot import HubSpotAdapter
from crmhub.adapter import Unavailable
from crmhub.errors import Semantic
from crmhub.hub import Hub
from crmhub.operators.accounts import change_account
from crmhub.operators.crm import copy_crm, copy_plan, set_crm
from crmhub.operators.crm.set_crm import Crm
from crmhub.properties.kinds import CONTACTS
from tests.adapters.hubspot.hubspot_crm import TOKEN, HubSpotCrm
from tests.clients import TESTS, Client, open_client
from tests.copies.copying import lead_of, pull

LEFT_OUT, SENSITIVE = "shoe_size", "illness"


@pytest.fixture
def crm() -> Iterator[HubSpotCrm]:
    with HubSpotCrm() as crm:
        crm.fake.define("contacts", LEFT_OUT)
        crm.fake.define("contacts", SENSITIVE, sensitivity="sensitive")
        yield crm


@pytest.fixture
def client(app: flask.Flask, crm: HubSpotCrm) -> Client:
    client = open_client(app)
    hubspot = Crm("hubspot", {"base_url": crm.url}, TOKEN)
    hub: Hub = app.extensions["crmhub"]
    set_crm.set_crm(hub, client.account.client_id, hubspot, test=False, by=TESTS)
    return client


def _begin(hub: Hub, client: Client, chosen: str) -> None:
    values = {"mirror": True, "mirror_properties": chosen}
    change_account.change(hub, client.account.client_id, values, by=TESTS)
    client.account = hub.load_account(client.account.client_id)
    hub.directory.forget(client.account.id)


def _live(hub: Hub, client: Client, crm: HubSpotCrm) -> list[str]:
    """Load, follow, be told of records, compare and load again; return what the CRM was asked."""
    private = {LEFT_OUT: "47", SENSITIVE: "flu"}
    ann = crm.fake.add_contact(email="p1@example.org", city="Rome", **private)
    crm.fake.add("companies", {"name": "Acme"}, contacts=[ann])
    # Contacts wait for the definitions of companies.
    pull(hub, client)
    pull(hub, client)
    crm.fake.set("contacts", ann, shoe_size="48", city="Ulm")
    crm.fake.add("deals", {"dealname": "Big"}, contacts=[ann])
    pull(hub, client)
    assert lead_of(client).status_code == 200
    pull(hub, client)
    for begin in (copy_crm.compare, copy_crm.load_anew):
        begin(hub, client.account, by=TESTS)
        pull(hub, client)
    return [f"{one.query} {one.body.decode()}" for one in crm.fake.take_requests()]


def test_an_unknown_property_is_refused_with_similar_names(
    hub: Hub, client: Client, crm: HubSpotCrm
) -> None:
    for chosen, words in (("city,shoe_sise", "did you mean shoe_size?"), (SENSITIVE, "sync plan")):
        with pytest.raises(Semantic, match="mirror_properties: HubSpot has no property") as refused:
            _begin(hub, client, chosen)
        assert words in refused.value.message
    assert not hub.load_account(client.account.client_id).switches.mirror
    _begin(hub, client, "city,dealname,amount")


def test_an_unknown_property_is_named_later_if_the_crm_does_not_answer(
    hub: Hub, client: Client, crm: HubSpotCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as away:
        away.setattr(HubSpotAdapter, "describe", _unavailable)
        _begin(hub, client, "city,shoe_sise")
    for _ in range(3):
        pull(hub, client)
    [warning] = copy_crm.warnings(hub, client.account)
    assert "mirror_properties: the CRM has no property shoe_sise" in warning
    # A known name can be added beside it.
    values = {"mirror_properties": "city,shoe_sise,shoe_size"}
    change_account.change(hub, client.account.client_id, values, by=TESTS)


def _unavailable(*args: Any) -> NoReturn:
    raise Unavailable("HubSpot is down.")


def test_values_that_are_left_out_are_never_asked_for(
    hub: Hub, client: Client, crm: HubSpotCrm
) -> None:
    _begin(hub, client, "city")
    asked = _live(hub, client, crm)
    # The spy sees what is asked for.
    assert any("city" in one for one in asked)
    assert not [one for one in asked if LEFT_OUT in one or SENSITIVE in one]
    [ann] = client.get("/contacts?limit=1&sort=createdAt&order=asc").json["results"]
    assert ann["properties"]["city"] == "Ulm"
    names = {one["name"] for one in client.get("/properties/contacts").json["results"]}
    assert names & {"city", "email", LEFT_OUT, SENSITIVE, "jobtitle"} == {"city", "email"}


def test_a_property_that_is_left_out_later_goes_with_the_next_pull(
    hub: Hub, client: Client, crm: HubSpotCrm
) -> None:
    _begin(hub, client, "")
    _live(hub, client, crm)
    _begin(hub, client, "city")
    pull(hub, client)
    assert hub.records.catalogue(client.account, CONTACTS).get(LEFT_OUT) is None
    assert LEFT_OUT not in client.get("/contacts").text
    crm.fake.take_requests()
    copy_crm.load_anew(hub, client.account, by=TESTS)
    pull(hub, client)
    assert not [one for one in crm.fake.take_requests() if LEFT_OUT in f"{one.query} {one.body!r}"]


def test_sensitive_values_are_no_part_of_a_copy_of_everything(
    hub: Hub, client: Client, crm: HubSpotCrm
) -> None:
    _begin(hub, client, "")
    asked = _live(hub, client, crm)
    assert any(LEFT_OUT in one for one in asked)
    assert not [one for one in asked if SENSITIVE in one]
    assert hub.records.catalogue(client.account, CONTACTS).get(SENSITIVE) is None


def test_a_plan_reads_definitions_and_no_record(hub: Hub, client: Client, crm: HubSpotCrm) -> None:
    crm.fake.add_contact(email="p1@example.org")
    crm.fake.take_requests()
    client.account = hub.load_account(client.account.client_id)
    planned = {one.kind: one for one in copy_plan.plan(hub, client.account).kinds}
    named = {one.name for one in planned["contacts"].properties}
    assert named & {LEFT_OUT, SENSITIVE} == {LEFT_OUT}
    assert not [one.path for one in crm.fake.take_requests() if "/objects/" in one.path]


def test_a_kind_that_the_token_may_not_read_is_named_in_the_plan(
    hub: Hub, client: Client, crm: HubSpotCrm
) -> None:
    crm.fake.tokens.scopes -= {"tickets"}
    client.account = hub.load_account(client.account.client_id)
    planned = {one.kind: one for one in copy_plan.plan(hub, client.account).kinds}
    assert planned["contacts"].properties
    assert "tickets" in planned["tickets"].obstacle
