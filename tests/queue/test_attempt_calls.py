"""The HTTP calls of an attempt are stored with it, for a single lead and for a batch."""

from __future__ import annotations

import pytest

from crmhub.adapter import Rejected
from crmhub.adapter.calls import record
from crmhub.operators.actions.action_queries import Wanted, listed_whole
from crmhub.queue.models import New
from tests.api.helpers.helper_calls import known, lead
from tests.consoles import open_console, text_of
from tests.fakes import BATCHING, FAKE, adapters, fake_client
from tests.queue.working import work_off


@pytest.fixture(params=["fake", "batching"])
def calling(app, request):
    """A caller whose CRM is called over HTTP, as far as the hub can see; and that CRM."""
    with adapters(app, FAKE, BATCHING):
        client, crm = fake_client(app, request.param)
        crm.during = lambda call: record("POST", f"https://crm.example/{call}?q=ann", 200, 7, "r-1")
        yield client, crm


def paths_of(hub, client):
    """Return the paths of the calls of each attempt, by action, the oldest action first."""
    found = listed_whole(hub.database, Wanted(account=client.account))
    return [[[call.path for call in one.calls] for one in each.tries] for each in reversed(found)]


def test_calls_are_stored_with_their_attempt_and_shown(calling, app, hub):
    client, crm = calling
    known(client)
    assert paths_of(hub, client) == [[[f"/{call}?q=…" for call in crm.calls]]]
    [action] = listed_whole(hub.database, Wanted(account=client.account))
    words = text_of(open_console(app).get(f"/activity/{action.summary.id}"))
    assert f"{len(crm.calls)} HTTP calls" in words
    assert "POST /create_contact?q=… 200 7 ms r-1" in words


def test_calls_of_a_refused_attempt_are_stored(calling, hub):
    client, crm = calling
    crm.failure = Rejected([], "no")
    assert lead(client).status_code == 422
    assert paths_of(hub, client) == [[[f"/{call}?q=…" for call in crm.calls]]]


def test_each_lead_of_a_batch_has_the_calls_of_the_batch(calling, app, hub):
    client, crm = calling
    for i in range(2):
        request = {"contact_token": f"t{i}", "name": "Ann", "email": f"a{i}@x.org", "phone": ""}
        new = New("createLead", f"hub-p{i}", f"hub-p{i}", request)
        hub.journal.accept(client.account, lambda _tx, new=new: new, lease_s=30, now=False)
    work_off(app.extensions["crmhub"], client)
    first, second = (attempts[-1] for attempts in paths_of(hub, client))
    assert (first == second == [f"/{call}?q=…" for call in crm.calls]) == (
        "find_contacts" in crm.calls
    )
    assert first
    assert second
