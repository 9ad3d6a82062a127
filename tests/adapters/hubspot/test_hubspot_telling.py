"""What HubSpot's adapter tells operators, and what it never tells anybody."""

from __future__ import annotations

import logging
from collections.abc import Callable
from urllib.parse import quote

import pytest

from adapters.fakes.hubspot import FakeHubSpot
from adapters.hubspot import HubSpotAdapter
from crmhub.adapter import AdapterError, Denied
from crmhub.adapter.testing.base import texts_of
from tests.adapters.hubspot.hubspot_crm import OAUTH, TOKEN, adapted, connected
from tests.loops import for_each

EMAIL = "ann.secret@person.example"


def said(check: Callable[[], None]) -> str:
    with pytest.raises(AdapterError) as caught:
        check()
    return caught.value.message


@for_each("credentials", [TOKEN, OAUTH], fresh="fake")
@for_each("version", ["2026-09", "2026-03", "v3"], fresh="fake")
def test_a_connection_that_works_is_said_to_work(
    fake: FakeHubSpot, credentials: dict[str, str], version: str
) -> None:
    adapted(fake, credentials, api_version=version).check()
    assert fake.contacts == fake.deals == fake.tickets == {}


@for_each(
    "lacking",
    [
        {"tickets"},
        {"crm.objects.contacts.write"},
        {"crm.objects.deals.write", "crm.objects.owners.read", "tickets"},
    ],
    fresh="fake",
)
def test_missing_rights_are_all_named_at_once(fake: FakeHubSpot, lacking: set[str]) -> None:
    fake.tokens.scopes -= lacking
    message = said(adapted(fake).check)
    assert set(message.rpartition("scopes ")[2].rstrip(".").split(", ")) == lacking


def test_an_address_that_is_not_hubspots_is_told(fake: FakeHubSpot) -> None:
    adapter = adapted(fake, base_url=f"{fake.url}/elsewhere")
    assert "address" in said(adapter.check)


def test_a_version_that_is_not_there_is_told(fake: FakeHubSpot) -> None:
    fake.fail(404, times=None, body={"message": "resource not found"})
    assert "api_version" in said(adapted(fake).check)


def test_nothing_answers(fake: FakeHubSpot) -> None:
    url = fake.url
    fake.stop()
    assert "127.0.0.1" in said(adapted(fake, base_url=url).check)


def test_a_token_that_was_got_does_not_show_either(
    fake: FakeHubSpot, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "crmhub")
    connection = connected(fake, OAUTH)
    adapter = connection.adapter()
    adapter.find_contact(email=EMAIL)
    (token,) = fake.tokens.issued
    fake.fail(400, times=None, body={"message": f"{token} {quote(token)}"})
    with pytest.raises(AdapterError) as caught:
        adapter.update_contact("7", {"city": "Rome"})
    assert token not in texts_of(caught.value) + caplog.text
    assert isinstance(adapter, HubSpotAdapter)
    assert token not in repr(adapter.context)


def test_a_refused_token_is_no_fault_of_a_record(fake: FakeHubSpot) -> None:
    fake.fail(401, path="*/properties/*", times=None)
    with pytest.raises(Denied):
        adapted(fake).describe("contacts")


def test_field_and_hint_tell_the_type_more_exactly(fake: FakeHubSpot) -> None:
    fake.define("contacts", "budget", "number", hint="currency")
    fake.define("contacts", "share", "number", hint="percentage")
    fake.define("contacts", "work_email", hint="email")
    fake.define("contacts", "hotline", hint="phone_number")
    fake.define("contacts", "remarks", field_type="textarea")
    fake.define("contacts", "nickname")
    told = {one.name: one.type for one in adapted(fake).describe("contacts")}
    expected = {
        "budget": "currency",
        "share": "number",
        "work_email": "email",
        "hotline": "phone",
        "remarks": "text",
        "nickname": "string",
    }
    assert {name: told[name] for name in expected} == expected


@for_each("version", ["2026-09", "v3"], fresh="fake")
def test_the_properties_that_the_account_requires_are_described_as_required(
    fake: FakeHubSpot, version: str
) -> None:
    fake.require("deals", "amount", "dealtype")
    adapter = adapted(fake, api_version=version)
    assert [one.name for one in adapter.describe("deals") if one.required] == ["amount", "dealtype"]
    assert not any(one.required for one in adapter.describe("contacts"))
    fake.tokens.scopes -= {"crm.schemas.deals.read"}
    assert not any(one.required for one in adapted(fake, api_version=version).describe("deals"))
