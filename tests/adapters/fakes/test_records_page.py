"""The page at the address of each fake: the records that a test call has written."""

from __future__ import annotations

import html
import re

import requests

from adapters.fakes import records_page
from adapters.fakes.fake import Fake
from adapters.fakes.hubspot import FakeHubSpot, Options
from adapters.fakes.odoo.fake import FakeOdoo
from adapters.fakes.pipedrive.fake import FakePipedrive
from adapters.fakes.zoho.fake import FakeZoho
from tests.adapters.fakes.tiny_crm import TinyCrm

_HOSTILE = "<script>alert(1)</script> \"'&"


def _page(fake: Fake) -> str:
    answer = requests.get(f"{fake.url}/", timeout=30)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/html;charset=utf-8"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "//" not in answer.text.replace("://www.w3.org", ""), "the page names a host"
    return answer.text


def test_the_page_shows_the_lead_with_its_properties_links_and_mark() -> None:
    with FakeHubSpot(Options(marks=True)) as fake:
        lead = {"firstname": "Ada", "lastname": "Lovelace", "email": "ada@example.com"}
        contact = fake.add("contacts", {**lead, "crmhub_mark": "act-17"})
        deal = fake.add("deals", {"dealname": "A first order"}, contacts=[contact])
        page = _page(fake)
    assert "<h3>Ada Lovelace</h3>" in page
    assert '<th scope="row">email</th><td>ada@example.com</td>' in page
    assert '<tr class="own"><th scope="row">crmhub_mark</th><td>act-17</td>' in page
    for kind, id_ in (("contacts", contact), ("deals", deal)):
        assert f'<article id="{kind}-{id_}">' in page
        assert f'<a href="#{kind}-{id_}">{id_}</a>' in page
    assert "None yet." in page


def test_the_page_escapes_every_value_and_name() -> None:
    with FakeHubSpot() as fake:
        fake.add("contacts", {"firstname": _HOSTILE, "email": "ada@example.com"})
        text = _page(fake)
    assert html.escape(_HOSTILE) in text
    assert "<script" not in text


def test_every_fake_has_the_page_and_needs_no_token_for_it() -> None:
    for fake, contact, deal in (
        (FakeOdoo(), {"name": "Ada Lovelace"}, {"name": "An order"}),
        (FakePipedrive(), {"name": "Ada Lovelace"}, {"title": "An order"}),
        (FakeZoho(), {"Last_Name": "Ada Lovelace"}, {"Deal_Name": "An order", "Stage": "Proposal"}),
    ):
        with fake:
            id_ = fake.add("contacts", contact)
            fake.add("deals", deal, contacts=[id_])
            page = _page(fake)
            assert "<h3>Ada Lovelace</h3>" in page
            assert "<h3>An order</h3>" in page
            assert f'<th scope="row">linked contacts</th><td><a href="#contacts-{id_}"' in page
            assert fake.requests == [], "the page counts as no call of the API"


def test_odoo_shows_the_external_id_of_a_lead() -> None:
    with FakeOdoo() as fake:
        id_ = fake.add("contacts", {"name": "Ada"})
        fake.data.external["crmhub.act-17"] = ("res.partner", int(id_), False)
        assert re.search(
            r'class="own"><th[^>]*>external id[^<]*</th><td>crmhub\.act-17', _page(fake)
        )


def test_pipedrive_shows_custom_fields_by_their_names() -> None:
    with FakePipedrive() as fake:
        key = fake.define("contacts", "crmhub mark")
        fake.add("contacts", {"name": "Ada", "custom_fields": {key: "act-17"}})
        assert '<th scope="row">crmhub mark</th><td>act-17</td>' in _page(fake)


def test_the_page_shows_the_newest_records_and_counts_all(crm: TinyCrm) -> None:
    more = 5
    for number in range(records_page.MOST + more):
        crm.add("contacts", {"name": f"Person {number}"})
    page = _page(crm)
    assert page.count("<article") == records_page.MOST
    assert f"{records_page.MOST + more} contacts" in page
    assert f"{more} older ones are left out." in page
