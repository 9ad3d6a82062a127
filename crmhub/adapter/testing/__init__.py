"""Conformance tests for adapters: an adapter that passes them fulfils the contract.

    class TestMine(HttpAdapterTests):
        adapter_class = MyAdapter
        settings = {"base_url": "{url}"}
        credentials = {"access_token": "a secret of the tests"}

        @pytest.fixture
        def crm(self):
            with MyFakeCrm() as crm:
                yield crm

The fixture `crm` returns a fake of the CRM, which the tests read and change through the interface
`Crm`. Further attributes with which a test class describes its CRM are those of `Base`. To exclude
a standard test that cannot pass, override it and mark it `@pytest.mark.xfail(reason=…)`.
"""

from pkgutil import iter_modules

import pytest

# Before the first of them is imported: a failed assert then shows its values.
pytest.register_assert_rewrite(*(f"{__name__}.{one.name}" for one in iter_modules(__path__)))

from crmhub.adapter.testing.behaviour import AdapterTests  # noqa: E402
from crmhub.adapter.testing.connection import Connection  # noqa: E402
from crmhub.adapter.testing.crm import (  # noqa: E402
    Crm,
    ExtendedCrm,
    HostedCrm,
    HttpCrm,
    LaggingCrm,
    MeteredCrm,
)
from crmhub.adapter.testing.http import HttpAdapterTests, SignInTests  # noqa: E402
from crmhub.adapter.testing.proxy import FaultProxy  # noqa: E402

__all__ = [
    "AdapterTests",
    "Connection",
    "Crm",
    "ExtendedCrm",
    "FaultProxy",
    "HostedCrm",
    "HttpAdapterTests",
    "HttpCrm",
    "LaggingCrm",
    "MeteredCrm",
    "SignInTests",
]
