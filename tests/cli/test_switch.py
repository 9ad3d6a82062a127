"""What is queued for a CRM that an account leaves is decided on by command, too."""

from __future__ import annotations

import pytest

from crmhub.hub import Hub
from crmhub.queue.models import New
from crmhub.settings import Settings

# The operations behind the commands are tested on each database.
pytestmark = pytest.mark.databases("sqlite")

TO_HUBSPOT = ("account", "adapter", "acme", "hubspot", "--secret", "access_token=@token")
FILE = """
[acme.connection]
adapter = "hubspot"
secrets = { access_token = { file = "token" } }
"""


@pytest.fixture
def acme(crmhub):
    """An account with an action that is queued for its CRM."""
    crmhub("account", "create", "Acme")
    (crmhub.root / "token").write_text("pat-1\n")
    (crmhub.root / "accounts.toml").write_text(FILE)
    hub = Hub.open(Settings.load(crmhub.env, crmhub.root))
    new = New("createLead", "p", "hub-1", {"token": "t"})
    account = hub.load_account("acme")
    hub.journal.accept(account, lambda _tx: new, lease_s=30, wait_s=600, now=False)
    hub.close()
    return crmhub


@pytest.mark.parametrize(
    ("decision", "told", "state"),
    [
        ("finish", "To be finished in local: 1 action.\n", "queued"),
        # Nobody the hub has named: an id of the former CRM means nothing to another one.
        ("move", "To be finished in local: 1 action.\n", "queued"),
        ("drop", "", "refused"),
    ],
)
def test_a_change_of_crm_wants_a_decision(acme, decision, told, state):
    refused = acme(*TO_HUBSPOT, code=1).stderr
    assert "queued: 1 action is queued for local; say finish (there), move" in refused
    assert acme.json("account", "show", "acme")["adapter"] == "local"
    done = acme(*TO_HUBSPOT, "--queued", decision).stdout
    assert done == f"acme uses hubspot. `crmhub account check acme` tests the connection.\n{told}"
    assert [one["state"] for one in acme.json("actions", "list")] == [state]
    (entry,) = acme.json("audit", "list", "--object", "connection")
    assert entry["after"]["queued"] == {decision: 1}


def test_a_file_wants_a_decision_too(acme):
    apply = ("account", "apply", "accounts.toml", "--yes")
    refused = acme(*apply, code=2).stderr
    assert refused.startswith("crmhub: accounts.toml: [acme] queued: 1 action is queued for local")
    dropping = acme(*apply, "--queued", "drop", "--dry-run").stdout
    assert "connection.adapter: local -> hubspot" in dropping
    assert [one["state"] for one in acme.json("actions", "list")] == ["queued"]
    acme(*apply, "--queued", "drop")
    assert [one["state"] for one in acme.json("actions", "list")] == ["refused"]
    assert acme.json("account", "show", "acme")["adapter"] == "hubspot"
