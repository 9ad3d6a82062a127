"""No address that an operator's program sends makes a production hub call what is not public."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import flask
import pytest

from crmhub.app import create_app
from crmhub.settings import Settings
from tests.admin import Admin
from tests.api.helpers.helper_calls import lead
from tests.api.refusals import refused
from tests.clients import Client, open_client
from tests.egress.egress_servers import OK, Server, answering
from tests.hostile_urls import HOSTILE

# An address is judged before anything is stored: one database will do.
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def app(settings: Settings) -> Iterator[flask.Flask]:
    app = create_app(replace(settings, env="production"))
    yield app
    app.extensions["crmhub"].close()


@pytest.fixture
def canary() -> Iterator[Server]:
    with Server(answering(OK)) as server:
        yield server


def test_a_hostile_address_is_refused_and_nothing_hears_of_it(
    admin: Admin, client: Client, canary: Server
) -> None:
    path = f"/accounts/{client.account.client_id}/connection"
    # An empty address means the default one.
    forms = [form for form in HOSTILE if form.strip()]
    assert len(forms) > 49
    for form in forms:
        url = form.replace("{port}", str(canary.port))
        body = {
            "adapter": "hubspot",
            "settings": {"base_url": url},
            "secrets": {"access_token": "pat-planted"},
        }
        for answer in (
            admin.put(path, body),
            admin.post(f"{path}/check", body),
        ):
            if answer.status_code == 200:
                assert answer.get_json()["ok"] is False, url
                assert answer.get_json()["message"], url
                continue
            assert answer.status_code in (400, 422), f"{url!r}: {answer.text}"
            assert "pat-planted" not in refused(answer, answer.status_code)
    assert canary.connections == 0
    assert admin.get(path).get_json()["adapter"] == "local"


def test_what_is_saved_unasked_is_not_called_either(
    admin: Admin, app: flask.Flask, canary: Server
) -> None:
    client = open_client(app)
    path = f"/accounts/{client.account.client_id}/connection"
    body = {
        "adapter": "hubspot",
        "settings": {"base_url": f"https://127.0.0.1:{canary.port}"},
        "secrets": {"access_token": "pat-planted"},
    }
    answer = admin.put(f"{path}?check=false", body)
    assert answer.status_code == 200, answer.text
    # Kept for when it is mended; told to nobody but this hub.
    assert lead(client).status_code == 202
    assert canary.connections == 0
