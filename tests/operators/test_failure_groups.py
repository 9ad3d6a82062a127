"""Groups of actions that failed for one cause, and corrections, retries, discards of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import flask
import pytest

from adapters.fakes.hubspot.fake import FakeHubSpot
from crmhub import audit
from crmhub.database.rows import set_where
from crmhub.database.tables import group_fix
from crmhub.errors import Conflict, HubError, NotFound, Semantic
from crmhub.hub import Hub
from crmhub.operators.actions import action_queries
from crmhub.operators.actions.action_queries import Wanted
from crmhub.operators.failures import fix_group, groups
from crmhub.operators.failures.forecast import NewValues, forecast, options, values_in
from crmhub.operators.failures.groups import Group
from tests.api.helpers.helper_calls import CREATE_DEAL, known, lead
from tests.clients import TESTS, Client
from tests.fakes import hubspot_client
from tests.queue.working import change, finish_all, rows, states, work_off

pytestmark = pytest.mark.databases("sqlite", "postgresql")
LONG = 60.0
WON = NewValues("dealstage", {}, "closedwon")


@pytest.fixture
def hubspot() -> Iterator[FakeHubSpot]:
    with FakeHubSpot() as crm:
        yield crm


def fail_deals(
    app: flask.Flask, hubspot: FakeHubSpot, *stages: str, client: Client | None = None
) -> Client:
    """Let an account have a failed deal for each of these stages, which its CRM has not."""
    hub: Hub = app.extensions["crmhub"]
    client = client or hubspot_client(app, hubspot)
    contact_id = known(client, email=f"ann@{client.account.client_id}.example")
    down = hubspot.fail(503, times=None)
    for number, stage in enumerate(stages):
        body = {"dealname": f"Deal {number}", "dealstage": stage}
        answer = client.helper(CREATE_DEAL, {"contactId": contact_id, "properties": body})
        assert answer.status_code == 202, answer.text
    hubspot.faults.waiting.remove(down)
    finish_all(hub, client)
    assert states(hub, client) == ["done", *["dead"] * len(stages)]
    return client


def group_of(hub: Hub, *clients: Client) -> Group:
    ids = {one.account.id for one in clients}
    ((listed,), _) = groups.groups(hub.database, account_ids=ids)
    group = groups.group(hub.database, listed.key, account_ids=ids)
    assert replace(group, accounts={}, client_ids=listed.client_ids) == listed
    return group


def fix(hub: Hub, group: Group, verb: fix_group.Verb = "correct", **choice: object) -> str:
    id = fix_group.start(hub, group, verb, by=TESTS, **choice)  # type: ignore[arg-type]
    fix_group.run(hub, id, seconds=LONG)
    return id


# --- groups ------------------------------------------------------------------------------------


def test_deals_with_wrong_stages_in_several_accounts_are_one_group(
    app: flask.Flask, hub: Hub, hubspot: FakeHubSpot
) -> None:
    clients = [fail_deals(app, hubspot, "wrong", f"other {n}") for n in range(3)]
    group = group_of(hub, *clients)
    assert group.counts == {"failed": 6}
    assert group.accounts == {one.account.id: 2 for one in clients}
    assert group.said == "dealstage: the CRM has no such stage"
    cause = group.cause
    assert (cause.adapter, cause.kind, cause.word) == ("hubspot", "createDeal", "Rejected")
    assert set(group.client_ids) == {one.account.client_id for one in clients}
    assert values_in(hub.database, group)["wrong"] == 3
    ids = {one.account.id for one in clients}
    wanted = Wanted(cause=group.key, states=("dead",), account_ids=ids)
    assert len(action_queries.listed(hub.database, wanted)) == 6
    (newest,) = action_queries.listed(hub.database, wanted, limit=1)
    assert group.example == (newest.account_id, newest.id)


def test_a_group_of_other_accounts_is_not_seen(
    app: flask.Flask, hub: Hub, hubspot: FakeHubSpot, other: Client
) -> None:
    group = group_of(hub, fail_deals(app, hubspot, "wrong"))
    with pytest.raises(NotFound):
        groups.group(hub.database, group.key, account_ids={other.account.id})
    assert groups.groups(hub.database, account=other.account) == ([], 0)


def test_a_group_is_found_by_when_it_failed(
    app: flask.Flask, hub: Hub, hubspot: FakeHubSpot
) -> None:
    client = fail_deals(app, hubspot, "wrong", "gone")
    change(hub, client, "finished_at = 1000 where state = 'dead'")
    account = client.account
    ((early,), _) = groups.groups(hub.database, account=account, ended=(1_000, 1_001))
    assert (early.since, early.last, early.failed) == (1_000, 1_000, 2)
    assert groups.groups(hub.database, account=account, ended=(1_001, 0)) == ([], 0)
    assert groups.groups(hub.database, account=account, ended=(0, 1_000)) == ([], 0)


# --- options and forecast ----------------------------------------------------------------------


def test_the_stages_of_the_crm_can_be_chosen(
    app: flask.Flask, hub: Hub, hubspot: FakeHubSpot
) -> None:
    clients = [fail_deals(app, hubspot, "wrong") for _ in range(2)]
    found = options(hub, group_of(hub, *clients))
    assert "closedwon" in dict(found.choices)
    assert not found.unknown


def test_a_forecast_tells_what_a_correction_will_do_and_writes_nothing(
    app: flask.Flask, hub: Hub, hubspot: FakeHubSpot
) -> None:
    client = fail_deals(app, hubspot, "wrong", "wrong", "gone")
    group = group_of(hub, client)
    before = len(hubspot.requests)
    good = forecast(hub, group, WON)
    assert good.said == "3 of 3 will succeed."
    some = forecast(hub, group, NewValues("dealstage", {"wrong": "closedwon", "gone": "no"}))
    assert (some.good, some.bad) == (2, {"dealstage: the CRM has no such stage": 1})
    part = forecast(hub, group, NewValues("dealstage", {"gone": "closedwon"}))
    assert part.said == "1 of 1 will succeed; 2 stay as they are."
    assert forecast(hub, group, None).good == 0
    assert {one.method for one in hubspot.requests[before:]} == {"GET"}
    assert states(hub, client) == ["done", "dead", "dead", "dead"]


def test_a_forecast_says_that_the_crm_cannot_be_asked(
    app: flask.Flask, hub: Hub, hubspot: FakeHubSpot
) -> None:
    group = group_of(hub, fail_deals(app, hubspot, "wrong"))
    hubspot.fail(503, times=None)
    told = forecast(hub, group, WON)
    assert (told.good, told.unknown.total()) == (0, 1)
    assert told.said == "0 of 1 will succeed; 1 cannot be checked."
    assert options(hub, group).unknown


# --- fixes -------------------------------------------------------------------------------------


def test_a_group_of_several_accounts_is_corrected_and_stored(
    app: flask.Flask, hub: Hub, hubspot: FakeHubSpot
) -> None:
    clients = [fail_deals(app, hubspot, *["wrong"] * 2) for _ in range(2)]
    id = fix(hub, group_of(hub, *clients), values=WON)
    found = fix_group.progress(hub.database, id)
    assert (found.state, found.total, found.changed, found.waiting) == ("done", 4, 4, 4)
    for client in clients:
        work_off(hub, client)
        assert states(hub, client) == ["done"] * 3
        for request, versions in rows(hub, client, "request, versions")[1:]:
            assert ('"closedwon"' in request, '"wrong"' in versions) == (True, True)
        with hub.database.reading() as db:
            wanted = audit.Wanted(account_id=client.account.id, verb="edit")
            entries = audit.listed(db, wanted, limit=10)
        assert [one.after["values"] for one in entries] == [["dealstage"]] * 2
    assert fix_group.progress(hub.database, id).done == 4
    of_all = {one.account.id for one in clients}
    assert groups.groups(hub.database, account_ids=of_all) == ([], 0)


def test_each_bad_value_gets_its_own(app: flask.Flask, hub: Hub, hubspot: FakeHubSpot) -> None:
    client = fail_deals(app, hubspot, "wrong", "gone", "left")
    by_value = {"wrong": "closedwon", "gone": "closedlost"}
    id = fix(hub, group_of(hub, client), values=NewValues("dealstage", by_value))
    found = fix_group.progress(hub.database, id)
    assert (found.changed, dict(found.skipped)) == (
        2,
        {"It has another value, which was to stay.": 1},
    )
    work_off(hub, client)
    assert states(hub, client) == ["done", "done", "done", "dead"]


def test_a_correction_that_fails_again_is_told_and_ends(
    app: flask.Flask, hub: Hub, hubspot: FakeHubSpot
) -> None:
    client = fail_deals(app, hubspot, "wrong", "gone")
    id = fix(hub, group_of(hub, client), values=NewValues("dealstage", {}, "no such"))
    work_off(hub, client)
    found = fix_group.progress(hub.database, id)
    assert (found.state, found.failed, found.done) == ("done", 2, 0)
    assert group_of(hub, client).failed == 2
    assert len(action_queries.listed(hub.database, Wanted(fix=id))) == 2


def test_a_group_is_retried_after_the_crm_was_fixed(
    app: flask.Flask, hub: Hub, hubspot: FakeHubSpot
) -> None:
    client = fail_deals(app, hubspot, "wrong", "wrong")
    id = fix(hub, group_of(hub, client), "retry")
    assert group_of(hub, client).counts == {"retrying": 2}
    work_off(hub, client)
    assert fix_group.progress(hub.database, id).failed == 2


def test_a_group_is_discarded_for_a_reason(
    app: flask.Flask, hub: Hub, hubspot: FakeHubSpot
) -> None:
    client = fail_deals(app, hubspot, "wrong", "wrong")
    with pytest.raises(Semantic):
        fix_group.start(hub, group_of(hub, client), "discard", by=TESTS, reason=" ")
    id = fix(hub, group_of(hub, client), "discard", reason="of a test")
    assert states(hub, client) == ["done", "discarded", "discarded"]
    assert fix_group.progress(hub.database, id).changed == 2
    assert groups.groups(hub.database, account=client.account) == ([], 0)


def test_what_a_lead_blocks_goes_with_it(app: flask.Flask, hub: Hub, hubspot: FakeHubSpot) -> None:
    client = hubspot_client(app, hubspot)
    hubspot.fail(503, times=None)
    assert lead(client, email="ann@example.com").status_code == 202
    change(hub, client, "state = 'dead', finished_at = 1")
    ((hub_id,),) = rows(hub, client, "hub_id")
    body = {"contactId": hub_id, "properties": {"dealname": "A"}}
    assert client.helper(CREATE_DEAL, body).status_code == 202
    group = group_of(hub, client)
    assert group.counts == {"failed": 1, "blocked": 1}
    fix(hub, group, "retry")
    assert states(hub, client) == ["queued", "queued"]


@pytest.mark.parametrize(
    ("values", "error"),
    [(None, Semantic), (NewValues("dealstage"), Semantic), (NewValues("other", {}, "x"), Semantic)],
)
def test_a_correction_needs_a_value_of_its_property(
    app: flask.Flask, hub: Hub, hubspot: FakeHubSpot, values: NewValues, error: type[HubError]
) -> None:
    group = group_of(hub, fail_deals(app, hubspot, "wrong"))
    with pytest.raises(error):
        fix_group.start(hub, group, "correct", by=TESTS, values=values)


def test_nothing_is_started_for_a_group_that_is_gone(
    app: flask.Flask, hub: Hub, hubspot: FakeHubSpot
) -> None:
    client = fail_deals(app, hubspot, "wrong")
    group = group_of(hub, client)
    fix(hub, group, "retry")
    with pytest.raises(Conflict):
        fix_group.start(hub, group_of(hub, client), "correct", by=TESTS, values=WON)


# --- a part at a time ---------------------------------------------------------------------------


def test_a_worker_continues_where_a_killed_process_stopped(
    app: flask.Flask, hub: Hub, hubspot: FakeHubSpot, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = fail_deals(app, hubspot, *["wrong"] * 5)
    id = fix_group.start(hub, group_of(hub, client), "correct", by=TESTS, values=WON)
    applied = fix_group._apply
    done: list[str] = []

    def die_at_third(work, correction, action_id, tx):  # type: ignore[no-untyped-def]
        if len(done) == 2:
            raise KeyboardInterrupt
        applied(work, correction, action_id, tx)
        done.append(action_id)

    monkeypatch.setattr(fix_group, "_apply", die_at_third)
    with pytest.raises(KeyboardInterrupt):
        fix_group.run(hub, id, seconds=LONG)
    monkeypatch.undo()
    found = fix_group.progress(hub.database, id)
    assert (found.state, found.changed) == ("running", 2)
    # While the lease holds, nobody else works on it.
    fix_group.run(hub, id, seconds=LONG)
    assert fix_group.progress(hub.database, id).changed == 2
    change(hub, client, "lease_until = 1", "group_fix")
    assert (client.account.id, id) in fix_group.due(hub.database)
    fix_group.run(hub, id, seconds=LONG)
    found = fix_group.progress(hub.database, id)
    assert (found.state, found.changed, found.total) == ("done", 5, 5)
    versions = [action_queries.shown(hub.database, one, client.account).versions for one in done]
    assert [len(one) for one in versions] == [1, 1]


def test_a_fix_is_done_in_parts_and_the_values_are_deleted_in_the_end(
    app: flask.Flask, hub: Hub, hubspot: FakeHubSpot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fix_group, "_PART", 1)
    client = fail_deals(app, hubspot, *["wrong"] * 3)
    id = fix_group.start(hub, group_of(hub, client), "correct", by=TESTS, values=WON)
    for count in (1, 2, 3):
        fix_group._run_row(hub, client.account.id, id, 0)
        found = fix_group.progress(hub.database, id)
        assert (found.changed, found.state) == (count, "queued")
    assert "closedwon" in rows(hub, client, "choice", "group_fix")[0][0]
    fix_group.run(hub, id, seconds=LONG)
    assert fix_group.progress(hub.database, id).state == "done"
    assert rows(hub, client, "choice, lease", "group_fix") == [("{}", None)]


def test_a_stopped_fix_changes_nothing_more(
    app: flask.Flask, hub: Hub, hubspot: FakeHubSpot
) -> None:
    client = fail_deals(app, hubspot, "wrong")
    id = fix_group.start(hub, group_of(hub, client), "correct", by=TESTS, values=WON)
    fix_group.stop(hub.database, id)
    fix_group.run(hub, id, seconds=LONG)
    assert fix_group.progress(hub.database, id).state == "stopped"
    assert states(hub, client) == ["done", "dead"]


def test_a_fix_that_a_worker_begins_meanwhile_is_stopped(
    app: flask.Flask, hub: Hub, hubspot: FakeHubSpot, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = fail_deals(app, hubspot, "presentation")
    id = fix_group.start(hub, group_of(hub, client), "correct", by=TESTS, values=WON)
    read = fix_group.rows_of_several

    def begin(tx: Any, *of: Any) -> Any:
        found = read(tx, *of)
        key = {"account_id": client.account.id, "id": id}
        set_where(tx, group_fix, key, state="running", lease="a worker")
        return found

    with monkeypatch.context() as patched:
        patched.setattr(fix_group, "progress", lambda *_: None)
        patched.setattr(fix_group, "rows_of_several", begin)
        fix_group.stop(hub.database, id)
    assert fix_group.progress(hub.database, id).state == "stopped"


def test_a_running_worker_does_what_was_started(
    app: flask.Flask, hub: Hub, hubspot: FakeHubSpot
) -> None:
    client = fail_deals(app, hubspot, *["wrong"] * 3)
    id = fix_group.start(hub, group_of(hub, client), "correct", by=TESTS, values=WON)
    from tests.queue.working import soon, working

    with working(hub):
        soon(lambda: states(hub, client) == ["done"] * 4)
    assert fix_group.progress(hub.database, id).done == 3
