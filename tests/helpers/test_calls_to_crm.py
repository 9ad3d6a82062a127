"""How many calls to HubSpot the helpers cost, once the definitions are known."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crmhub.accounts.accounts import Account
from crmhub.helpers.attempts import Done
from crmhub.helpers.create_lead import create_lead
from crmhub.hub import Hub
from crmhub.operators.crm import set_crm
from crmhub.operators.crm.set_crm import Crm
from tests.adapters.hubspot.hubspot_crm import TOKEN, HubSpotCrm, calls
from tests.clients import TESTS, Client


@pytest.fixture(scope="module")
def crm() -> Iterator[HubSpotCrm]:
    with HubSpotCrm() as crm:
        yield crm


@pytest.fixture
def account(hub: Hub, client: Client, crm: HubSpotCrm) -> Account:
    """An account on HubSpot whose definitions are known."""
    crm.fake.reset()
    name = client.account.client_id
    set_crm.set_crm(hub, name, Crm("hubspot", {"base_url": crm.url}, TOKEN), test=False, by=TESTS)
    account = hub.load_account(name)
    lead(hub, account, "first")
    calls(crm.fake)
    return account


def lead(hub: Hub, account: Account, name: str, phone: str = "", token: str = "") -> Done:
    return create_lead(
        hub,
        account,
        contact_token=token or name,
        name=f"{name} Smith",
        email=f"{token or name}@x.org",
        phone=phone,
    ).lead


@pytest.mark.parametrize("phone", ["", "+4915112345678"])
def test_a_new_lead_costs_two_calls_and_a_known_one_less(
    hub: Hub, account: Account, crm: HubSpotCrm, phone: str
) -> None:
    outcomes = []
    for name in ("ann", "ann", "anna"):
        done = lead(hub, account, name, phone, token="ann")
        outcomes.append((done.status, len(calls(crm.fake))))
    assert outcomes == [("created", 2), ("unchanged", 1), ("updated", 2)]
