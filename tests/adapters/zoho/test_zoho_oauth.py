"""Zoho is connected by OAuth in its data centre; the address of the API comes with the token."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
import requests

from adapters.fakes.zoho import FakeZoho
from adapters.zoho import ZohoAdapter, connecting
from adapters.zoho.connecting import CENTRES, SCOPES
from crmhub.adapter import BadConfig, OAuth, configured
from crmhub.egress import Egress
from crmhub.operators.crm import oauth_code
from tests.adapters.zoho.zoho_crm import SECRETS, adapted
from tests.loops import for_each

BACK, VERIFIER = "http://127.0.0.1:9/callback", "v" * 64


def oauth(**settings: str) -> OAuth:
    complete, _ = configured(ZohoAdapter, settings, SECRETS)
    found = ZohoAdapter.oauth(complete)
    assert found is not None
    return found


@for_each("centre", CENTRES)
def test_each_data_centre_has_its_login_server(centre: str) -> None:
    found = oauth(data_centre=centre)
    host = "accounts.zohocloud.ca" if centre == "ca" else f"accounts.zoho.{centre}"
    assert found.authorize_url == f"https://{host}/oauth/v2/auth"
    assert found.token_url == f"https://{host}/oauth/v2/token"


def test_a_person_connects_an_account(fake: FakeZoho) -> None:
    found = oauth(accounts_url=f"{fake.url}/")
    address = oauth_code.authorize_url(
        found,
        client_id=SECRETS["client_id"],
        redirect_uri=BACK,
        state="s-1",
        verifier=VERIFIER,
    )
    page = requests.get(address, timeout=30)
    assert page.status_code == 200
    assert "<li>ZohoCRM.coql.READ</li>" in page.text
    asked = dict(parse_qsl(urlsplit(address).query))
    assert (asked["access_type"], asked["prompt"]) == ("offline", "consent")
    back = requests.post(
        found.authorize_url, {**asked, "decision": "approve"}, timeout=30, allow_redirects=False
    )
    [code] = parse_qs(urlsplit(back.headers["Location"]).query)["code"]
    refresh_token, _ = oauth_code.exchange(
        Egress(allow=(), development=True),
        found,
        SECRETS,
        code=code,
        redirect_uri=BACK,
        verifier=VERIFIER,
        crm="Zoho CRM",
    )
    assert refresh_token == SECRETS["refresh_token"]


def test_the_address_of_the_token_is_called_and_kept(fake: FakeZoho) -> None:
    adapter = adapted(fake, data_centre="jp")
    assert adapter.find_contact(email="ada@example.com") is None
    assert fake.count("POST", "/crm/v8/coql") == 1


def test_pages_lead_to_the_data_centre(fake: FakeZoho) -> None:
    adapter = adapted(fake, data_centre="ca")
    contact = adapter.create_contact({"lastname": "Lovelace"})
    assert contact.url == f"https://crm.zohocloud.ca/crm/tab/Contacts/{contact.id}"
    deal = adapter.create_for_contact("deals", contact.id, {"dealname": "Engine"})
    assert deal.url == f"https://crm.zohocloud.ca/crm/tab/Potentials/{deal.id}"


def test_a_login_address_names_a_data_centre_that_is_not_in_the_list() -> None:
    settings = {"accounts_url": "https://accounts.zoho.ae/", "data_centre": "com"}
    assert oauth(**settings).token_url == "https://accounts.zoho.ae/oauth/v2/token"
    assert connecting.api_url(settings) == "https://www.zohoapis.ae"
    page = connecting.page_url(settings, "Contacts", "7")
    assert page == "https://crm.zoho.ae/crm/tab/Contacts/7"
    listed = {"accounts_url": "", "data_centre": "uk"}
    assert connecting.api_url(listed) == "https://www.zohoapis.uk"
    for address in ("accounts.zoho.ae", "ftp://accounts.zoho.ae"):
        with pytest.raises(BadConfig, match="accounts_url"):
            configured(ZohoAdapter, {**settings, "accounts_url": address}, SECRETS)


def test_the_page_of_zoho_names_every_scope_and_setting() -> None:
    page = Path(__file__).parents[3] / "docs" / "crms" / "zoho.md"
    text = page.read_text()
    for scope in SCOPES:
        assert f"| `{scope}` |" in text, scope
    for setting in ZohoAdapter.settings:
        assert setting.kept or f"`{setting.name}`" in text, setting.name
