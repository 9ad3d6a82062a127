"""Fixtures of the tests of Odoo's adapter: a fake of each interface, and adapters for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from adapters.fakes.odoo import FakeOdoo
from crmhub.adapter import Adapter
from crmhub.adapter.testing import Connection
from tests.adapters.odoo.odoo_crm import OdooCrm, connected


@pytest.fixture(params=[17, 19], ids=["json-rpc", "json-2"])
def crm(request: pytest.FixtureRequest) -> Iterator[OdooCrm]:
    with OdooCrm(version=request.param) as crm:
        yield crm


@pytest.fixture
def fake(crm: OdooCrm) -> FakeOdoo:
    return crm.fake


@pytest.fixture
def connection(fake: FakeOdoo) -> Iterator[Connection]:
    connection = connected(fake)
    yield connection
    connection.outgoing.close()


@pytest.fixture
def adapter(connection: Connection) -> Adapter:
    return connection.adapter()
