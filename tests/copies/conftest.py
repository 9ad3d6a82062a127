"""An account whose CRM, the small one, is copied into its own records."""

from __future__ import annotations

from collections.abc import Iterator

import flask
import pytest

from crmhub.hub import Hub
from tests.adapter.small_crm import HOOK_KEY, SmallCrm
from tests.clients import Client, open_client
from tests.copies.copying import OTHER, SMALL, load_copy
from tests.fakes import adapters, connect


@pytest.fixture
def crm() -> Iterator[SmallCrm]:
    with SmallCrm() as crm:
        yield crm


@pytest.fixture
def client(app: flask.Flask, crm: SmallCrm) -> Iterator[Client]:
    with adapters(app, SMALL, OTHER):
        client = open_client(app)
        kept = {"refresh_token": crm.refresh_token, "hook_key": HOOK_KEY}
        connect(app, client, "small", kept, base_url=crm.url)
        yield client


@pytest.fixture
def hub(app: flask.Flask, client: Client) -> Hub:
    hub: Hub = app.extensions["crmhub"]
    return hub


@pytest.fixture
def copied(hub: Hub, client: Client) -> Client:
    """The account with a complete copy of the empty CRM."""
    load_copy(hub, client)
    return client
