"""The names that every account knows work on a copy of each CRM, whatever the CRM calls them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import flask
import pytest

from adapters.fakes.odoo import fake as odoo
from adapters.fakes.pipedrive import fake as pipedrive
from adapters.fakes.zoho import fake as zoho
from crmhub.operators.crm import set_crm
from crmhub.operators.crm.set_crm import Crm
from tests.clients import TESTS, open_client
from tests.copies.copying import pull, switch


@contextmanager
def _pipedrive() -> Iterator[Crm]:
    with pipedrive.FakePipedrive(pipedrive.Options()) as fake:
        yield Crm("pipedrive", {"base_url": fake.url}, {"api_token": fake.options.token})


@contextmanager
def _zoho() -> Iterator[Crm]:
    with zoho.FakeZoho(zoho.Options()) as fake:
        names = ("client_id", "client_secret", "refresh_token")
        secrets = {name: str(getattr(fake.tokens, name)) for name in names}
        yield Crm("zoho", {"accounts_url": fake.url}, secrets)


@contextmanager
def _odoo() -> Iterator[Crm]:
    with odoo.FakeOdoo(odoo.Options(version=19)) as fake:
        yield Crm("odoo", {"base_url": fake.url}, {"api_key": fake.options.api_key})


@pytest.mark.parametrize("serving", [_pipedrive, _zoho, _odoo])
def test_contacts_are_made_read_and_found_by_the_canonical_names(
    app: flask.Flask, serving: object
) -> None:
    sent = {
        "firstname": "Ann",
        "lastname": "Lee",
        "email": "ann@example.org",
        "phone": "+4930123456",
    }
    hub, client = app.extensions["crmhub"], open_client(app)
    with serving() as crm:  # type: ignore[operator]
        set_crm.set_crm(hub, client.account.client_id, crm, test=False, by=TESTS)
        switch(hub, client, on=True)
        for _ in range(3):
            pull(hub, client)
        made = client.post("/contacts", {"properties": sent})
        assert made.status_code == 201, made.json
        assert made.json["properties"].items() >= sent.items()
        for name, value in sent.items():
            asked = {"filters": [{"propertyName": name, "operator": "EQ", "value": value}]}
            found = client.post("/contacts/search", asked)
            assert found.status_code == 200, found.json
            assert [one["id"] for one in found.json["results"]] == [made.json["id"]], name
        [listed] = [
            one["properties"]
            for one in client.get(f"/contacts?limit=100&properties={','.join(sent)}").json[
                "results"
            ]
            if one["id"] == made.json["id"]
        ]
        assert listed == sent
        changed = client.patch(f"/contacts/{made.json['id']}", {"properties": {"firstname": "Eve"}})
        assert changed.status_code == 200, changed.json
        expected = {**sent, "firstname": "Eve"}
        assert changed.json["properties"].items() >= expected.items()
