from __future__ import annotations

from crmhub.adapter.testing.extended import ExtendedTests
from crmhub.adapter.testing.finding import FindingTests
from crmhub.adapter.testing.leads import LeadTests
from crmhub.adapter.testing.linking import LinkingTests
from crmhub.adapter.testing.marks import MarkTests
from crmhub.adapter.testing.several_leads import SeveralLeadsTests
from crmhub.adapter.testing.telling import TellingTests
from crmhub.adapter.testing.writing import WritingTests


class AdapterTests(
    TellingTests,
    FindingTests,
    WritingTests,
    LinkingTests,
    LeadTests,
    SeveralLeadsTests,
    MarkTests,
    ExtendedTests,
):
    """The conformance tests for every adapter, whether it uses HTTP or not.

    A subclass defines the fixture `crm`.
    """
