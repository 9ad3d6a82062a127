"""Values on a HubSpot-like CRM: as its definitions take them, or refused by name."""

from __future__ import annotations

import time

import pytest

from adapters.fakes.hubspot import FakeHubSpot
from adapters.fakes.hubspot.portal import Rules
from crmhub.adapter import LacksRight, Linked, Rejected, Unsupported
from crmhub.adapter.batch_upserts import upsert_contacts
from crmhub.adapter.upserts import upsert_contact
from tests.adapters.hubspot.hubspot_crm import adapted, calls
from tests.adapters.leads import person
from tests.loops import for_each

MARIE = "41629779"


@pytest.fixture
def fake(fake: FakeHubSpot) -> FakeHubSpot:
    types = {"score": "number", "vip": "bool", "born": "date", "seen": "datetime"}
    for name, type_ in types.items():
        fake.define("contacts", name, type_)
    options = (("r", "Red"), ("g", "Green"))
    fake.define("contacts", "colours", "enumeration", field_type="checkbox", options=options)
    return fake


@for_each(
    ("name", "sent", "stored"),
    [
        ("score", "1,200.50", "1200.5"),
        ("vip", "Yes", "true"),
        ("vip", "0", "false"),
        ("born", "1990-02-28", "1990-02-28"),
        ("seen", "2026-11-21T10:00:00+01:00", "2026-11-21T09:00:00.000Z"),
        ("hs_lead_status", "Open Deal", "OPEN_DEAL"),
        ("colours", "green; RED", "g;r"),
        ("hubspot_owner_id", MARIE, MARIE),
        ("hubspot_owner_id", "Marie@Example.com", MARIE),
        ("hubspot_owner_id", "marie curie", MARIE),
    ],
)
def test_a_value_is_brought_into_the_form_of_its_definition(
    fake: FakeHubSpot, name: str, sent: str, stored: str
) -> None:
    email = f"ann{len(fake.contacts)}@x.org"
    saved = adapted(fake).create_contact({"email": email, name: sent})
    assert fake.contacts[saved.id][name] == stored


@for_each(
    ("name", "sent"),
    [
        ("score", "many"),
        ("score", "1,234"),
        ("vip", "perhaps"),
        ("born", "yesterday"),
        ("hs_lead_status", "Nothing"),
        ("colours", "Red;Blue"),
        ("hubspot_owner_id", "nobody@example.com"),
        ("hubspot_owner_id", "9586504"),
        ("no_such_property", "x"),
        ("createdate", "2026-01-01"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_before_it_is_sent(
    fake: FakeHubSpot, name: str, sent: str
) -> None:
    with pytest.raises(Rejected) as caught:
        adapted(fake).create_contact({"email": "ann@x.org", name: sent})
    assert [one.name for one in caught.value.problems] == [name]
    assert fake.count("POST") == 0


def test_every_fault_is_told_at_once(fake: FakeHubSpot) -> None:
    id = fake.add_contact(email="ann@x.org")
    wrong = {"dealname": "A", "amount": "x", "dealtype": "y", "dealstage": "z", "nothing": "1"}
    with pytest.raises(Rejected) as caught:
        adapted(fake).create_for_contact("deals", id, wrong)
    named = {one.name: one.options for one in caught.value.problems}
    assert named.keys() == {"amount", "dealtype", "dealstage", "nothing"}
    assert named["dealtype"] == ("newbusiness", "existingbusiness")
    assert "closedwon" in named["dealstage"]


@for_each(
    ("kind", "sent", "place"),
    [
        ("deals", {}, ("default", "appointmentscheduled")),
        ("deals", {"dealstage": "Closed Won"}, ("default", "closedwon")),
        ("deals", {"pipeline": "sales pipeline"}, ("default", "appointmentscheduled")),
        ("tickets", {"hs_pipeline_stage": "waiting on us"}, ("0", "3")),
        ("tickets", {"hs_pipeline": "0", "hs_pipeline_stage": "4"}, ("0", "4")),
    ],
)
def test_a_place_is_named_by_id_or_label(
    fake: FakeHubSpot, kind: Linked, sent: dict[str, str], place: tuple[str, str]
) -> None:
    id = fake.add_contact(lastname="Lee")
    title = {"dealname": "A"} if kind == "deals" else {"subject": "A"}
    saved = adapted(fake).create_for_contact(kind, id, title | sent)
    names = ("pipeline", "dealstage") if kind == "deals" else ("hs_pipeline", "hs_pipeline_stage")
    record = fake.records(kind)[saved.id]
    assert tuple(record[name] for name in names) == place


def test_a_property_defined_since_is_taken(
    fake: FakeHubSpot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crmhub.adapter.definitions.Definitions.stale_s", 0.0)
    adapter = adapted(fake)
    adapter.describe("contacts")
    fake.define("contacts", "shoe_size", "number")
    saved = adapter.create_contact({"email": "ann@x.org", "shoe_size": "38"})
    assert fake.contacts[saved.id]["shoe_size"] == "38"


def test_an_owner_who_came_since_is_taken(
    fake: FakeHubSpot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crmhub.adapter.definitions.Definitions.stale_s", 0.0)
    adapter = adapted(fake)
    adapter.owners()
    fake.portal.owners.append({**fake.portal.owners[0], "id": "777", "email": "new@example.com"})
    saved = adapter.create_contact({"email": "a@x.org", "hubspot_owner_id": "new@example.com"})
    assert fake.contacts[saved.id]["hubspot_owner_id"] == "777"


def test_a_stage_that_came_since_is_taken(
    fake: FakeHubSpot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crmhub.adapter.definitions.Definitions.stale_s", 0.0)
    id, adapter = fake.add_contact(email="ann@x.org"), adapted(fake)
    adapter.pipelines("deals")
    stages = fake.portal.pipelines["deals"]["default"]["stages"]
    stages.append({**stages[0], "id": "4711", "label": "Brand new"})
    deal = adapter.create_for_contact("deals", id, {"dealname": "A", "dealstage": "brand new"})
    assert fake.deals[deal.id]["dealstage"] == "4711"


def test_an_option_that_got_another_value_is_sent_anew(
    fake: FakeHubSpot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crmhub.adapter.definitions.Definitions.stale_s", 0.0)
    adapter = adapted(fake)
    adapter.create_contact({"email": "ann@x.org", "hs_lead_status": "New"})
    option = fake.portal.definitions["contacts"]["hs_lead_status"]["options"][0]
    option["value"] = "BRAND_NEW"
    saved = adapter.create_contact({"email": "bob@x.org", "hs_lead_status": "New"})
    assert fake.contacts[saved.id]["hs_lead_status"] == "BRAND_NEW"


def test_a_property_that_is_gone_is_named_and_not_sent_again(
    fake: FakeHubSpot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crmhub.adapter.definitions.Definitions.stale_s", 0.0)
    adapter = adapted(fake)
    adapter.describe("contacts")
    del fake.portal.definitions["contacts"]["score"]
    for _ in range(2):
        with pytest.raises(Rejected) as caught:
            adapter.create_contact({"email": "ann@x.org", "score": "1"})
        assert [one.name for one in caught.value.problems] == ["score"]
    assert fake.count("POST", "*/contacts") == 1


def test_what_the_account_requires_is_handed_on_by_name(fake: FakeHubSpot) -> None:
    fake.require("contacts", "company", "jobtitle")
    with pytest.raises(Rejected) as caught:
        upsert_contact(adapted(fake), person(email="ann@x.org"))
    assert {one.name for one in caught.value.problems} == {"company", "jobtitle"}


def test_what_the_account_requires_in_a_case_is_handed_on_by_name(fake: FakeHubSpot) -> None:
    fake.portal.rules["tickets"] = Rules(conditional=(("hs_pipeline_stage", "4", ("content",)),))
    id = fake.add_contact(email="ann@x.org")
    sent = {"subject": "A", "hs_pipeline_stage": "Closed"}
    with pytest.raises(Rejected) as caught:
        adapted(fake).create_for_contact("tickets", id, sent)
    assert [one.name for one in caught.value.problems] == ["content"]
    assert fake.tickets == {}


def test_what_hubspot_keeps_itself_can_be_read(fake: FakeHubSpot) -> None:
    id = fake.add_contact(email="ann@x.org")
    names = ["hs_object_id", "createdate", "lastmodifieddate", "email", "city", "unknown"]
    got = adapted(fake).get_contact(id, names).properties
    assert got.keys() == {*names} - {"unknown"}
    assert (got["hs_object_id"], got["email"], got["city"]) == (id, "ann@x.org", "")
    assert got["createdate"].endswith("Z")


def test_plain_values_need_no_definitions(fake: FakeHubSpot) -> None:
    adapted(fake).update_contact(fake.add_contact(email="ann@x.org"), {"city": "Rome"})
    assert not [one for one in calls(fake) if "/properties/" in one]


def test_properties_are_described_with_types_and_options(fake: FakeHubSpot) -> None:
    described = {one.name: one for one in adapted(fake).describe("contacts")}
    types = {name: one.type for name, one in described.items()}
    assert [types[n] for n in ("email", "phone", "message", "score", "vip", "born", "seen")] == [
        "email",
        "phone",
        "text",
        "number",
        "bool",
        "date",
        "datetime",
    ]
    assert (types["hs_lead_status"], types["colours"]) == ("enumeration", "multi_enumeration")
    assert described["createdate"].read_only
    assert not described["email"].read_only
    assert [one.value for one in described["colours"].options] == ["r", "g"]
    owners = {one.value: one.label for one in described["hubspot_owner_id"].options}
    assert owners[MARIE] == "Marie Curie"


@for_each(
    ("kind", "pipeline", "stage", "first"),
    [
        ("deals", "pipeline", "dealstage", "appointmentscheduled"),
        ("tickets", "hs_pipeline", "hs_pipeline_stage", "1"),
    ],
)
def test_places_are_described_and_listed(
    fake: FakeHubSpot, kind: Linked, pipeline: str, stage: str, first: str
) -> None:
    described = {one.name: one for one in adapted(fake).describe(kind)}
    listed = adapted(fake).pipelines(kind)
    assert [one.value for one in described[pipeline].options] == [one.id for one in listed]
    assert described[stage].options == listed[0].stages
    assert listed[0].stages[0].value == first


def test_owners_have_their_email_and_name(fake: FakeHubSpot) -> None:
    owners = {one.id: (one.email, one.name) for one in adapted(fake).owners()}
    assert owners[MARIE] == ("marie@example.com", "Marie Curie")
    assert "60158113" not in owners, "an owner who has left"


def test_without_the_right_to_see_owners_hubspot_decides(fake: FakeHubSpot) -> None:
    fake.tokens.scopes -= {"crm.objects.owners.read"}
    saved = adapted(fake).create_contact({"email": "ann@x.org", "hubspot_owner_id": MARIE})
    assert fake.contacts[saved.id]["hubspot_owner_id"] == MARIE


def test_an_unknown_name_costs_one_reading_at_most_every_half_minute(
    fake: FakeHubSpot, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter, later, clock = adapted(fake), 0.0, time.monotonic
    monkeypatch.setattr("crmhub.adapter.remembered.time.monotonic", lambda: clock() + later)
    readings = []
    for seconds in (0.0, 20.0, 40.0, 60.0, 80.0, 700.0):
        later = seconds
        with pytest.raises(Rejected):
            adapter.create_contact({"email": "ann@x.org", "no_such": "1"})
        readings.append(len(calls(fake)))
    # The lists of sensitive properties, which few accounts have, are read every ten minutes.
    assert readings == [3, 0, 1, 0, 1, 3]


SENSITIVE = {"crm.objects.contacts.sensitive.read.v2", "crm.objects.contacts.sensitive.write.v2"}


@pytest.fixture
def passports(fake: FakeHubSpot) -> FakeHubSpot:
    """An account that keeps the numbers of passports as sensitive data."""
    fake.define("contacts", "passport_no", sensitivity="sensitive")
    return fake


def test_sensitive_data_is_written_and_read_with_its_scopes(passports: FakeHubSpot) -> None:
    passports.tokens.scopes |= SENSITIVE
    adapter = adapted(passports)
    saved = upsert_contact(adapter, person(email="ann@x.org", passport_no="C01X"))
    assert passports.contacts[saved.id]["passport_no"] == "C01X"
    assert adapter.get_contact(saved.id, ["passport_no"]).properties == {"passport_no": "C01X"}
    assert "passport_no" in {one.name for one in adapter.describe("contacts")}


@pytest.mark.parametrize("granted", [set(), {"crm.objects.contacts.sensitive.read.v2"}])
def test_without_its_scopes_sensitive_data_is_refused_by_name(
    passports: FakeHubSpot, granted: set[str]
) -> None:
    passports.tokens.scopes |= granted
    adapter, id = adapted(passports), passports.add_contact(email="ann@x.org")
    values = {"city": "Rome", "passport_no": "C01X"}
    calls = [
        lambda: upsert_contact(adapter, person(email="ann@x.org", **values)),
        lambda: adapter.create_contact({"email": "bob@x.org", **values}),
        lambda: adapter.update_contact(id, values),
    ]
    if not granted:
        calls.append(lambda: adapter.get_contact(id, [*values]))
    for call in calls:
        with pytest.raises(Rejected) as caught:
            call()
        [problem] = caught.value.problems
        assert problem.name == "passport_no"
        assert all(scope in problem.reason for scope in SENSITIVE)
    assert len(passports.contacts) == 1


@pytest.mark.parametrize("granted", [set(), {"crm.objects.contacts.sensitive.read.v2"}])
def test_sensitive_data_of_one_lead_stops_no_other(
    passports: FakeHubSpot, granted: set[str]
) -> None:
    passports.tokens.scopes |= granted
    leads = [person(email="ann@x.org", passport_no="C01X"), person(email="bob@x.org", city="Rome")]
    refused, saved = upsert_contacts(adapted(passports), leads)
    assert isinstance(refused, Rejected)
    assert [one.name for one in refused.problems] == ["passport_no"]
    assert getattr(saved, "outcome", saved) == "created"


def test_who_lacks_every_right_is_not_told_of_sensitive_data(fake: FakeHubSpot) -> None:
    fake.tokens.scopes -= {"crm.objects.contacts.write"}
    with pytest.raises(LacksRight):
        adapted(fake).create_contact({"email": "ann@x.org", "vip": "yes"})


def test_sensitive_data_that_is_not_sent_is_not_blamed(passports: FakeHubSpot) -> None:
    passports.tokens.scopes -= {"crm.objects.contacts.write", "crm.objects.contacts.read"}
    adapter = adapted(passports)
    with pytest.raises(LacksRight):
        adapter.create_contact({"email": "ann@x.org", "passport_no": ""})
    with pytest.raises(LacksRight):
        adapter.find_contact(phone="+4915112345678", names=["passport_no"])


@pytest.fixture
def vast(fake: FakeHubSpot) -> FakeHubSpot:
    """An account whose list of contact properties is larger than an answer may be."""
    fake.define("contacts", "branch", "enumeration", options=(("a", "x" * (9 << 20)),))
    return fake


def test_definitions_too_many_to_be_listed_are_read_by_name(vast: FakeHubSpot) -> None:
    adapter = adapted(vast)
    for name in ("ann", "bob"):
        saved = adapter.create_contact({"email": f"{name}@x.org", "vip": "Yes", "score": "1,200.5"})
        assert vast.contacts[saved.id]["vip"] == "true"
        assert vast.contacts[saved.id]["score"] == "1200.5"
    read = [one for one in calls(vast) if "/properties/" in one and "crmhub_mark" not in one]
    path = "/crm/properties/2026-09/contacts"
    assert read == [f"GET {path}", f"POST {path}/batch/read"]


def test_of_too_many_definitions_what_there_is_not_is_refused(vast: FakeHubSpot) -> None:
    vast.define("contacts", "passport_no", sensitivity="sensitive")
    with pytest.raises(Rejected) as caught:
        adapted(vast).create_contact({"email": "a@x.org", "nonsense": "1", "createdate": "2026"})
    assert {one.name for one in caught.value.problems} == {"nonsense", "createdate"}
    vast.tokens.scopes |= SENSITIVE
    assert adapted(vast).create_contact({"email": "a@x.org", "passport_no": "1"})


def test_a_list_that_is_too_large_is_not_told(vast: FakeHubSpot) -> None:
    with pytest.raises(Unsupported):
        adapted(vast).describe("contacts")
    assert adapted(vast).describe("deals")
