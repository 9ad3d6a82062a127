"""What operators can map, and what a map that is held against a CRM costs."""

from __future__ import annotations

import flask

from adapters.fakes.hubspot.fake import FakeHubSpot
from crmhub.adapter import Contact
from crmhub.adapter.translated import Translated
from crmhub.crm.connection import connect
from crmhub.hub import Hub
from crmhub.operators.crm import field_map_reading, map_fields
from crmhub.operators.crm.mappable_properties import Mappable, mappable
from tests.clients import Client
from tests.clocks import in_no_time
from tests.fakes import FAKE, adapters, fake_client, hubspot_client


def by_kind(hub: Hub, client: Client) -> dict[str, Mappable]:
    return {one.kind: one for one in mappable(hub, client.account)}


def test_both_sides_are_told_with_what_each_takes(app: flask.Flask, hub: Hub) -> None:
    with FakeHubSpot() as fake:
        found = by_kind(hub, hubspot_client(app, fake))
    assert list(found) == ["contacts", "deals", "tickets"]
    contacts = found["contacts"]
    assert {"name", "firstname", "jobtitle"} <= set(contacts.ours)
    theirs = {one.name: one for one in contacts.theirs}
    assert "lead" in [option.value for option in theirs["lifecyclestage"].options]
    assert not {"email", "phone"} & {*theirs, *contacts.ours}, "these have no rule"
    assert "hs_object_id" not in theirs, "the CRM writes it itself"
    deals = {one.name: one for one in found["deals"].theirs}
    assert "closedwon" in [option.value for option in deals["dealstage"].options]


def test_a_crm_that_cannot_tell_says_why(app: flask.Flask) -> None:
    with adapters(app, FAKE):
        hub: Hub = app.extensions["crmhub"]
        found = by_kind(hub, fake_client(app)[0])
    assert found["contacts"].theirs == ()
    assert found["contacts"].unknown == "The Fake adapter cannot list properties."
    assert "firstname" in found["contacts"].ours


def test_without_a_map_nothing_stands_before_the_adapter(hub: Hub, client: Client) -> None:
    assert not isinstance(connect(hub, client.account), Translated)


def test_who_has_a_phone_is_told_by_the_adapter_behind_the_map(app: flask.Flask, hub: Hub) -> None:
    with FakeHubSpot() as fake:
        inner = connect(hub, hubspot_client(app, fake).account)
    mapped = Translated(inner, field_map_reading.read({"contacts": {"town": "city"}}))
    assert mapped.has_phone(Contact("1", {"phone": "(202) 555-0100"}), "+12025550100")


def test_a_map_of_any_size_is_held_against_the_crm_in_no_time(hub: Hub, client: Client) -> None:
    values = {f"value {n}": f"v{n}" for n in range(1_000)}
    rules = {f"of_bots_{n}": {"to": f"of_crm_{n}", "values": values} for n in range(40)}
    rules |= {f"further_{n}": {"to": f"unknown_{n}"} for n in range(460)}
    with in_no_time():
        checked = map_fields.check(hub, client.account, field_map_reading.read({"contacts": rules}))
    assert len(checked.faults) == len(checked.notes) == 500


def test_an_unavailable_crm_is_asked_about_one_kind_alone(app: flask.Flask) -> None:
    """Otherwise a page would wait for it once for each kind."""
    with FakeHubSpot() as fake:
        client = hubspot_client(app, fake)
        fake.fail(503, times=1_000)
        found = by_kind(app.extensions["crmhub"], client)
        paths = {request.path for request in fake.requests}
    assert [one.theirs for one in found.values()] == [(), (), ()]
    assert len({one.unknown for one in found.values()}) == 1
    assert not [path for path in paths if "deals" in path or "tickets" in path]
