"""Fixtures of the tests of Odoo's adapter: a fake of each interface, and adapters for it.

`make test` runs them over JSON-RPC alone; the conformance tests run over JSON-2.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from adapters.fakes.odoo import FakeOdoo
from crmhub.adapter import Adapter
from crmhub.adapter.testing import Connection
from tests.adapters.odoo.odoo_crm import OdooCrm, connected
from tests.depth import ALL

_VERSIONS = {17: "json-rpc", 19: "json-2"} if ALL else {17: "json-rpc"}


@pytest.fixture(params=_VERSIONS, ids=_VERSIONS.get)
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
