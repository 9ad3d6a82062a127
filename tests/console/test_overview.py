"""The landing page: what needs attention, the state of each CRM, and the latest leads."""

from __future__ import annotations

import re

import pytest

from crmhub.adapter import Denied
from crmhub.database.connection import Connection, now_ms
from crmhub.operators.actions import lead_counts
from crmhub.operators.crm import crm_states, set_crm
from crmhub.operators.crm.set_crm import Crm
from tests.api.helpers.helper_calls import known, lead
from tests.clients import TESTS, open_client
from tests.console.past import HOUR, put
from tests.console.test_roles import signed_in
from tests.consoles import open_console, text_of
from tests.fakes import CHECKABLE, FAKE, adapters, fake_client
from tests.queue.outcomes import open_circuit
from tests.queue.working import change

# The queries behind the pages are tested on each database.
pytestmark = pytest.mark.databases("sqlite")


@pytest.fixture
def faked(app):
    """The app's hub, a caller whose CRM is a fake that nobody has tested, and that CRM."""
    with adapters(app, CHECKABLE):
        client, crm = fake_client(app, "checkable")
        yield app.extensions["crmhub"], client, crm


def states(hub, client):
    """Return the states of the account's CRMs, the present one first."""
    account = hub.load_account(client.account.client_id)
    with hub.database.reading() as db:
        return crm_states.states_of(hub, db, [account])[account.id]


def word(hub, client):
    return states(hub, client)[0].word


def test_a_crm_is_connected_once_something_has_succeeded(faked):
    hub, client, _ = faked
    assert word(hub, client) == "untested"
    known(client)
    state = states(hub, client)[0]
    assert state.word == "connected"
    assert abs(state.since - now_ms()) < HOUR


def test_a_test_counts_until_the_settings_change(faked):
    hub, client, crm = faked
    name = hub.load_account(client.account.client_id).connection.settings["crm"]
    for test, expected in ((True, "connected"), (False, "untested")):
        given = Crm("checkable", {"crm": name}, {"access_token": f"secret-{test}"})
        set_crm.set_crm(hub, client.account.client_id, given, by=TESTS, test=test)
        assert word(hub, client) == expected
    crm.failure = Denied("the token is revoked")
    assert set_crm.check_crm(hub, client.account.client_id)
    state = states(hub, client)[0]
    assert (state.word, state.reason) == ("test failed", "the token is revoked")
    crm.failure = None
    assert set_crm.check_crm(hub, client.account.client_id) is None
    assert word(hub, client) == "connected"


def test_an_adapter_that_cannot_test_is_not_tested(app):
    with adapters(app, FAKE):
        client, _ = fake_client(app)
        hub = app.extensions["crmhub"]
        fault = set_crm.check_crm(hub, client.account.client_id)
        assert fault is not None
        assert "cannot check" in fault.message
        assert word(hub, client) == "untested"


def test_a_test_of_other_settings_says_nothing_of_the_stored_ones(faked):
    hub, client, _ = faked
    given = Crm("checkable", {"crm": "other"}, {"access_token": "secret-1"}, whole=True)
    set_crm.check_crm(hub, client.account.client_id, given)
    assert word(hub, client) == "untested"


def test_an_account_whose_crm_is_down_never_shines_green(app, faked):
    hub, client, crm = faked
    known(client)
    crm.failure = Denied("the token is revoked")
    assert lead(client, "t2", email="bo@x.org").status_code == 202
    state = states(hub, client)[0]
    assert (state.word, state.reason, state.queued) == ("refused", "the token is revoked", 1)
    operator = open_console(app)
    client_id = client.account.client_id
    for path in ("/accounts?q=" + client_id, f"/accounts/{client_id}"):
        page = operator.get(path)
        assert "credentials refused" in page.text
        assert "state-good" not in page.text
    with hub.database.reading() as db:
        [down] = [one for one in crm_states.down(hub, db) if one.client_id == client_id]
    assert (down.refused, down.former, down.title) == (True, False, "Fake")


def test_a_former_crm_with_work_left_is_shown_with_its_state(faked):
    hub, client, _ = faked
    (waits,) = put(hub, client.account, (HOUR, None, "queued"))
    account = hub.load_account(client.account.client_id)
    change(hub, client, "connection_id = :it", it=account.connection.id)
    open_circuit(hub, account, "It answers 503.")
    set_crm.set_crm(
        hub, client.account.client_id, Crm("local", {}, {}), by=TESTS, test=False, queued="finish"
    )
    present, former = states(hub, client)
    assert (present.word, present.former) == ("own", False)
    assert (former.word, former.former, former.queued) == ("failing", True, 1)
    with hub.database.reading() as db:
        down = crm_states.down(hub, db)
    assert [one.former for one in down if one.client_id == client.account.client_id] == [True]
    change(hub, client, "state = 'done', finished_at = 1 where id = :it", it=waits)
    with hub.database.reading() as db:
        down = crm_states.down(hub, db)
    assert client.account.client_id not in [one.client_id for one in down]


def test_a_crm_with_an_old_queue_is_behind(faked):
    hub, client, _ = faked
    known(client)
    put(hub, hub.load_account(client.account.client_id), (HOUR, None, "queued"))
    assert word(hub, client) == "behind"


def test_leads_are_counted_by_hour(hub, client, other):
    hour = 3_600_000
    into = now_ms() % hour
    put(hub, client.account, *[(into + hour // 2, 0, "done")] * 3)
    put(hub, client.account, (22 * hour + into, 0, "done"), (24 * hour + into, 0, "done"))
    known(client)
    known(other)
    with hub.database.reading() as db:
        counts = lead_counts.of_accounts(db, [client.account.id, other.account.id])
        everywhere = lead_counts.of_all(db)
    mine = counts[client.account.id]
    assert (sum(mine), mine[-1], mine[-2], mine[1]) == (5, 1, 3, 1)
    assert sum(counts[other.account.id]) == 1
    assert all(a >= b for a, b in zip(everywhere, mine, strict=True))


def test_the_landing_page_shows_problems_and_leads(app, faked, monkeypatch):
    # Other tests leave accounts with problems, too.
    monkeypatch.setattr("crmhub.console.overview._MAX_PROBLEMS", 10_000)
    _, client, crm = faked
    crm.failure = Denied("the token is <revoked>")
    lead(client)
    operator = open_console(app)
    page = operator.get("")
    words = text_of(page)
    assert page.status_code == 200
    assert "Fake cannot be used" in words
    assert "the token is <revoked>" in words
    assert re.search(r'aria-label="[\d,]+ leads? in the last 24 hours', page.text)
    assert 'aria-label="What is the matter"' not in page.text


def test_of_many_problems_the_oldest_are_shown_and_the_others_counted(app, hub, monkeypatch):
    monkeypatch.setattr("crmhub.console.overview._MAX_PROBLEMS", 2)
    clients = [open_client(app) for _ in range(3)]
    for hours, client in enumerate(clients, 1):
        put(hub, client.account, (hours * HOUR, hours * HOUR, "dead"))
    app.extensions["crmhub.console.banner"].forget()
    page = signed_in(app, "operator", *clients).get("")
    shown = re.findall(r'class="problem-bad">.*?href="/console/accounts/([^"]+)"', page.text, re.S)
    assert shown == [client.account.client_id for client in clients[:0:-1]]
    assert "And 1 other:" in text_of(page)


def test_the_landing_page_runs_as_many_statements_for_many_accounts(app, hub, monkeypatch):
    """No account costs a statement of its own."""
    sent: list[str] = []
    real = Connection._send

    def send(connection, sql, *args):
        sent.append(sql)
        return real(connection, sql, *args)

    open_client(app)
    open_client(app)
    operator = open_console(app)
    monkeypatch.setattr(Connection, "_send", send)
    counts = []
    for size in (1, 2):
        monkeypatch.setattr("crmhub.console.overview._PAGE_SIZE", size)
        # What the banner says is read again from time to time.
        numbers = []
        for _ in range(4):
            sent.clear()
            operator.get("")
            numbers.append(len(sent))
        counts.append(min(numbers))
    assert counts[0] == counts[1] > 5
