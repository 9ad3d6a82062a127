"""crmhub workflow: enrolments that getType finds."""

from __future__ import annotations

import pytest

from crmhub.hub import Hub
from crmhub.operators.accounts.open_account import open_account
from crmhub.properties.kinds import CONTACTS
from crmhub.records.models import NewRecord
from crmhub.settings import Settings
from tests.clients import TESTS

# The operations behind the commands are tested on each database.
pytestmark = pytest.mark.databases("sqlite")


@pytest.fixture
def contact(crmhub):
    """The id of a contact of the account acme."""
    hub = Hub.open(Settings.load(crmhub.env, crmhub.root))
    account, _ = open_account(hub, name="Acme", by=TESTS)
    (made,) = hub.records.create(account, CONTACTS, [NewRecord({"firstname": "Ada"})])
    hub.close()
    return str(made.id)


def test_enrol_and_unenrol(crmhub, contact):
    told = crmhub("workflow", "enrol", "acme", "welcome", contact).stdout
    assert told == f"Contact {contact} is in workflow welcome.\n"
    crmhub("workflow", "unenrol", "acme", "welcome", contact)
    assert (
        "not enrolled" in crmhub("workflow", "unenrol", "acme", "welcome", contact, code=1).stderr
    )


def test_enrol_wants_a_contact_that_exists(crmhub, contact):
    assert crmhub("workflow", "enrol", "acme", "welcome", "1", code=1).stderr.count("\n") == 1
