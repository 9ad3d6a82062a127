"""Two contacts merged: later calls follow the kept one; unmerged, both are as they were."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import flask
import pytest

from crmhub.audit import Wanted, listed
from crmhub.crm.own_records import OwnRecords
from crmhub.database import expired
from crmhub.database.connection import now_ms
from crmhub.errors import Conflict
from crmhub.helpers import enrolments
from crmhub.helpers.attempts import attempt
from crmhub.helpers.contact_properties import SetProperties
from crmhub.hub import Hub
from crmhub.identity import bindings, possible_duplicates, resolution
from crmhub.operators.erasure import erase_person
from crmhub.worker import Worker
from tests.api.helpers.helper_calls import (
    CREATE_DEAL,
    CREATE_TICKET,
    GET_PROPERTIES,
    GET_RANDOM_INT,
    GET_TYPE,
    SET_PROPERTIES,
    known,
    lead,
    stored,
    switch,
)
from tests.clients import TESTS, Client
from tests.duplicates import (
    PHONE,
    dismiss,
    listed_pair,
    merge,
    pair_of,
    pairs,
    two_contacts,
    unmerge,
)
from tests.operators.traces import left
from tests.pages import total
from tests.queue.outcomes import open_circuit
from tests.queue.working import accept, change, rows, work_off
from tests.records.meanwhile import at_once
from tests.records.test_merging import links, sound

DAY = 86_400_000


def two_people(hub: Hub, client: Client) -> tuple[str, str]:
    """Let two conversations, `a` and `b`, make two contacts that are listed; `a` the older."""
    first = known(client, "a", name="Ann", email="ann@x.org")
    second = known(client, "b", name="Anne Lee", email="lee@x.org")
    assert int(second) != int(first)
    listed_pair(hub, client, first, second)
    return first, second


def deal(client: Client, contact_id: str, name: str = "A deal") -> Any:
    body = {"contactId": contact_id, "properties": {"dealname": name}}
    answer = client.helper(CREATE_DEAL, body)
    assert answer.status_code == 200, answer.text
    return answer.json


def hub_id_of(hub: Hub, client: Client, token: str) -> str:
    with hub.database.reading() as db:
        bound = bindings.of_token(db, client.account, token)
    assert bound is not None
    return bound.hub_id


def everything(hub: Hub, client: Client, *but: str) -> dict[str, Any]:
    """Return the account's rows of what a merge moves."""
    columns = {
        "binding": "hub_id, person, contact_token, crm_id, email, phone",
        "enrolment": "contact_id, workflow_id, enrolled_at",
        "action": "id, person, hub_id, state",
        "association": "from_kind, from_id, to_kind, to_id",
        "unique_value": "value, record_id",
        "records": "kind, id, created_at, cast(properties as text)",
    }
    return {
        table: sorted(map(str, rows(hub, client, names, table)))
        for table, names in columns.items()
        if table not in but
    }


# --- later calls -------------------------------------------------------------------------------


def test_later_calls_with_the_other_id_follow_the_kept_contact(hub: Hub, client: Client) -> None:
    kept, other = two_people(hub, client)
    before = deal(client, other, "Before")["dealId"]
    hub_id = hub_id_of(hub, client, "b")
    merge(hub, client, kept, other)
    assert client.get(f"/contacts/{other}").status_code == 404
    answers = [deal(client, id, f"For {id}") for id in (other, hub_id, kept)]
    assert {answer["contactId"] for answer in answers} == {kept}
    deals = sorted(int(id) for id in (before, *(answer["dealId"] for answer in answers)))
    assert links(client, int(kept)) == {"deals": deals}
    body = {"contactId": other, "properties": {"subject": "A ticket"}}
    assert client.helper(CREATE_TICKET, body).json["contactId"] == kept  # type: ignore[index]
    body = {"contactToken": "b", "props": {"city": "Rome"}}
    assert client.helper(SET_PROPERTIES, body).json["contactId"] == kept  # type: ignore[index]
    body = {"contactToken": "b", "props": ["email", "city"]}
    read = client.helper(GET_PROPERTIES, body).json
    assert read is not None
    assert (read["email"], read["city"]) == ("ann@x.org", "Rome")
    sound(hub, client)


def test_the_same_deal_by_either_id_is_made_once(hub: Hub, client: Client) -> None:
    kept, other = two_people(hub, client)
    merge(hub, client, kept, other)
    first = deal(client, other)
    assert deal(client, kept) == {**first, "status": "unchanged"}


def test_an_id_that_no_bot_has_used_follows_too(hub: Hub, client: Client) -> None:
    older, newer = two_contacts(hub, client)
    merge(hub, client, older, newer)
    assert deal(client, newer)["contactId"] == older
    assert rows(hub, client, "crm_id, person", "binding") == [(older, older)]


def test_a_lead_with_the_email_that_lost_means_the_kept_contact(hub: Hub, client: Client) -> None:
    kept, other = two_people(hub, client)
    merge(hub, client, kept, other)
    for token in ("b", "a new conversation"):
        assert known(client, token, name="Anne", email="lee@x.org", phone=PHONE) == kept
    assert stored(client, kept)["email"] == "ann@x.org"
    assert stored(client, kept)["phone"] == PHONE
    assert total(client) == 1
    # Whoever has that email by now is meant.
    third = client.make(email="lee@x.org")
    assert known(client, "c", email="lee@x.org") == str(third)


def test_an_email_leads_nowhere_once_the_merge_is_undone_or_the_contact_deleted(
    hub: Hub, client: Client
) -> None:
    kept, other = two_people(hub, client)
    merge(hub, client, kept, other)
    unmerge(hub, client, kept, other)
    assert known(client, "c", email="lee@x.org") == other
    merge(hub, client, kept, other)
    client.delete(f"/contacts/{kept}")
    assert known(client, "d", email="lee@x.org") not in (kept, other)


def test_actions_of_both_keep_their_order(hub: Hub, client: Client) -> None:
    kept, other = two_people(hub, client)
    open_circuit(hub, client.account, "away")
    for token, city in (("b", "Rome"), ("a", "Bari"), ("b", "Oslo")):
        body = {"contactToken": token, "props": {"city": city}}
        assert client.helper(SET_PROPERTIES, body).status_code == 202
        # Two people's actions of one millisecond have no order.
        accepted = now_ms()
        while now_ms() == accepted:
            pass
    body = {"contactId": other, "properties": {"dealname": "Queued"}}
    assert client.helper(CREATE_DEAL, body).status_code == 202
    merge(hub, client, kept, other)
    assert len({person for (person,) in rows(hub, client, "person")}) == 1
    change(hub, client, "until = 1", "outage")
    work_off(hub, client)
    assert {state for (state,) in rows(hub, client)} == {"done"}
    assert stored(client, kept)["city"] == "Oslo"
    assert len(links(client, int(kept))["deals"]) == 1
    ended = rows(hub, client, "finished_at, id")
    assert sorted(ended) == sorted(ended, key=lambda one: one[1])


@pytest.mark.databases("sqlite", "postgresql")
def test_a_call_that_is_under_way_ends_at_the_kept_contact(
    hub: Hub, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, other = two_people(hub, client)
    meant: list[str] = []
    record = OwnRecords._record

    def merged_behind_it(self: OwnRecords, contact_id: str) -> Any:
        found = record(self, contact_id)
        if not meant:
            # Behind the look, before the write.
            meant.append(contact_id)
            with ThreadPoolExecutor(1) as pool:
                pool.submit(merge, hub, client, kept, other).result()
        return found

    monkeypatch.setattr(OwnRecords, "_record", merged_behind_it)
    made = deal(client, other)
    assert meant == [other]
    assert links(client, int(kept)) == {"deals": [int(made["dealId"])]}
    meant.clear()
    monkeypatch.undo()
    unmerge(hub, client, kept, other)
    monkeypatch.setattr(OwnRecords, "_record", merged_behind_it)
    body = {"contactToken": "b", "props": {"city": "Rome"}}
    assert client.helper(SET_PROPERTIES, body).status_code == 200
    assert meant == [other]
    assert stored(client, kept)["city"] == "Rome"
    assert {crm_id for (crm_id,) in rows(hub, client, "crm_id", "binding")} == {kept}
    sound(hub, client)


def test_an_outcome_that_is_written_down_after_a_merge_leads_to_the_kept_contact(
    hub: Hub, client: Client
) -> None:
    kept, other = two_people(hub, client)
    action = SetProperties("b", {"city": "Rome"})
    entry = accept(hub, client, action, now=True).entry
    assert entry is not None
    merge(hub, client, kept, other)
    tried = attempt(hub, client.account, entry, action, action.mapped(client.account), waits=False)
    assert tried is not None
    assert tried.contact_id == kept
    # As if the CRM had answered before the merge.
    hub.database.transact(
        lambda tx: resolution.set_contact(
            tx, client.account, hub_id_of(hub, client, "b"), crm_id=other, values={}
        )
    )
    hub.database.transact(lambda tx: resolution.get_or_create(tx, client.account, other))
    assert {crm_id for (crm_id,) in rows(hub, client, "crm_id", "binding")} == {kept}


def test_enrolments_and_sticky_numbers_follow(app: flask.Flask, hub: Hub, client: Client) -> None:
    switch(app, client, rotation="round_robin+sticky")
    kept, other = two_people(hub, client)
    of_other = client.helper(GET_RANDOM_INT, {"min": 1, "max": 900, "contactToken": "b"}).json
    before = [(other, "w1", 20), (kept, "w1", 10), (other, "w2", 20), (other, "w3", 20)]
    before.append((kept, "w3", 30))
    for contact_id, workflow, at in before:
        enrolments.enrol(hub, client.account, workflow_id=workflow, contact_id=contact_id)
        change(
            hub,
            client,
            "enrolled_at = :at where contact_id = :contact and workflow_id = :workflow",
            "enrolment",
            at=at,
            contact=contact_id,
            workflow=workflow,
        )
    merge(hub, client, kept, other)
    assert sorted(rows(hub, client, "contact_id, workflow_id, enrolled_at", "enrolment")) == [
        (kept, "w1", 20),
        (kept, "w2", 20),
        (kept, "w3", 30),
    ]
    for name, value in (("contactToken", "a"), ("contactToken", "b"), ("contactId", other)):
        body = {"min": 1, "max": 900, name: value}
        assert client.helper(GET_RANDOM_INT, body).json["value"] == of_other["value"]  # type: ignore[index]
    unmerge(hub, client, kept, other)
    after = rows(hub, client, "contact_id, workflow_id, enrolled_at", "enrolment")
    assert sorted(after) == sorted(before)


def test_an_integrator_enrols_and_unenrols_by_either_id(hub: Hub, client: Client) -> None:
    kept, other = two_people(hub, client)
    merge(hub, client, kept, other)
    assert client.put(f"/workflows/w1/enrolments/{other}").status_code == 204
    assert rows(hub, client, "contact_id", "enrolment") == [(kept,)]
    assert client.delete(f"/workflows/w1/enrolments/{other}").status_code == 204
    assert rows(hub, client, "contact_id", "enrolment") == []


def test_a_phone_leads_to_the_kept_contact(hub: Hub, client: Client) -> None:
    kept, other = two_people(hub, client)
    lead(client, "b", name="Anne", email="lee@x.org", phone=PHONE)
    enrolments.enrol(hub, client.account, workflow_id="w2", contact_id=other)
    merge(hub, client, kept, other)
    body = {"contactnumber": PHONE, "interval": 1, "lastChatInterval": 0}
    assert client.helper(GET_TYPE, body).json["workflowId"] == "w2"  # type: ignore[index]


# --- back again --------------------------------------------------------------------------------


def test_an_unmerge_brings_back_what_was(hub: Hub, client: Client) -> None:
    kept, other = two_people(hub, client)
    deal(client, other)
    deal(client, kept, "Another")
    enrolments.enrol(hub, client.account, workflow_id="w1", contact_id=other)
    before = everything(hub, client)
    merged = merge(hub, client, kept, other)
    assert merged.unmerge_until > now_ms() + 29 * DAY
    assert pairs(hub, client, "merged") == [{kept, other}]
    assert everything(hub, client) != before
    opened = unmerge(hub, client, kept, other)
    assert (opened.state, opened.kept_id, opened.unmerge_until) == ("open", "", 0)
    assert everything(hub, client) == before
    assert deal(client, other, "Later")["contactId"] == other
    sound(hub, client)


def test_what_bots_did_since_stays_where_it_was_done(hub: Hub, client: Client) -> None:
    kept, other = two_people(hub, client)
    merge(hub, client, kept, other)
    made = deal(client, other)["dealId"]
    client.helper(SET_PROPERTIES, {"contactToken": "b", "props": {"city": "Rome"}})
    unmerge(hub, client, kept, other)
    assert links(client, int(kept)) == {"deals": [int(made)]}
    assert links(client, int(other)) == {}
    assert stored(client, kept)["city"] == "Rome"
    # The conversation is about its former contact again.
    assert deal(client, hub_id_of(hub, client, "b"), "Now")["contactId"] == other
    sound(hub, client)


def test_a_merge_can_be_undone_for_thirty_days(hub: Hub, client: Client) -> None:
    kept, other = two_people(hub, client)
    merge(hub, client, kept, other)
    change(hub, client, "decided_at = decided_at - :days", "possible_duplicate", days=30 * DAY)
    with pytest.raises(Conflict) as refused:
        unmerge(hub, client, kept, other)
    assert "older than 30 days" in refused.value.message
    assert pair_of(hub, client, kept, other).unmerge_until == 0
    ((undo,),) = rows(hub, client, "undo", "possible_duplicate")
    assert "Lee" in undo
    assert Worker(hub, threads=1)._delete_expired() is False
    assert rows(hub, client, "undo", "possible_duplicate") == [(None,)]
    # Its id leads to the kept contact for good.
    assert deal(client, other)["contactId"] == kept


def test_a_younger_merge_is_not_forgotten(hub: Hub, client: Client) -> None:
    kept, other = two_people(hub, client)
    merge(hub, client, kept, other)
    change(hub, client, "decided_at = decided_at - :days", "possible_duplicate", days=29 * DAY)
    assert expired.delete_expired(hub.database, expired.UNDO_OF_MERGES) == 0
    assert unmerge(hub, client, kept, other).state == "open"


def test_an_email_that_somebody_has_by_now_stops_an_unmerge(hub: Hub, client: Client) -> None:
    kept, other = two_people(hub, client)
    merge(hub, client, kept, other)
    taker = client.make(email="lee@x.org")
    with pytest.raises(Conflict) as refused:
        unmerge(hub, client, kept, other)
    assert refused.value.message.startswith(f"Contact {taker} has the same email by now.")
    assert pair_of(hub, client, kept, other).state == "merged"


def test_what_is_not_merged_is_not_unmerged_and_what_is_merged_not_merged(
    hub: Hub, client: Client
) -> None:
    kept, other = two_people(hub, client)
    with pytest.raises(Conflict):
        unmerge(hub, client, kept, other)
    merge(hub, client, kept, other)
    for again in (merge, dismiss):
        with pytest.raises(Conflict):
            again(hub, client, kept, other)
    assert pair_of(hub, client, kept, other).state == "merged"


def test_a_dismissed_pair_can_be_merged_all_the_same(hub: Hub, client: Client) -> None:
    kept, other = two_people(hub, client)
    dismiss(hub, client, kept, other)
    assert merge(hub, client, kept, other).state == "merged"


# --- three contacts ----------------------------------------------------------------------------


def three(hub: Hub, client: Client) -> list[str]:
    """Make three contacts with a deal each, all of which may be one person; the oldest first."""
    ids = []
    for name in "abc":
        id = client.make(firstname=name, email=f"{name}@x.org", phone=PHONE)
        client.put(f"/deals/{client.make('deals')}/associations/contacts/{id}")
        ids.append(str(id))
    for one, other in ((0, 1), (0, 2), (1, 2)):
        listed_pair(hub, client, ids[one], ids[other])
    return ids


def test_a_pair_of_the_merged_contact_becomes_one_of_the_kept(hub: Hub, client: Client) -> None:
    a, b, c = three(hub, client)
    listed_pair(hub, client, b, c, "name")
    merge(hub, client, a, b)
    assert pairs(hub, client) == [{a, c}]
    assert pair_of(hub, client, a, c).shares == ("name", "phone")
    # A lead that knows the merged one by its id lists the kept one.
    assert listed_pair(hub, client, a, c).state == "open"
    hub.database.transact(
        lambda tx: possible_duplicates.note(tx, client.account, b, c, shares=["phone"])
    )
    assert pairs(hub, client) == [{a, c}]
    unmerge(hub, client, a, b)
    assert sorted(map(sorted, pairs(hub, client))) == sorted(map(sorted, ([a, b], [a, c], [b, c])))


def test_a_pair_that_was_dismissed_stays_so_for_the_kept_contact(hub: Hub, client: Client) -> None:
    a, b, c = three(hub, client)
    dismiss(hub, client, b, c)
    hub.database.transact(
        lambda tx: tx.run(
            "delete from possible_duplicate where account_id = :id and one in (:a, :c)"
            " and other in (:a, :c)",
            {"id": client.account.id, "a": a, "c": c},
        )
    )
    merge(hub, client, a, b)
    assert pairs(hub, client, "dismissed") == [{a, c}]
    unmerge(hub, client, a, b)
    assert pairs(hub, client, "dismissed") == [{b, c}]
    assert pairs(hub, client) == [{a, b}]


def test_merges_in_a_row_lead_to_the_last_contact(hub: Hub, client: Client) -> None:
    a, b, c = three(hub, client)
    before = everything(hub, client)
    merge(hub, client, b, c)
    merge(hub, client, a, b)
    assert {deal(client, id)["contactId"] for id in (a, b, c)} == {a}
    assert known(client, "t", email="c@x.org") == a
    assert len(links(client, int(a))["deals"]) == 4
    with pytest.raises(Conflict) as refused:
        unmerge(hub, client, b, c)
    assert f"Contact {b} was merged into contact {a} since" in refused.value.message
    unmerge(hub, client, a, b)
    assert {deal(client, id, id)["contactId"] for id in (b, c)} == {b}
    unmerge(hub, client, b, c)
    assert deal(client, c, "Last")["contactId"] == c
    sound(hub, client)
    assert everything(hub, client)["unique_value"] == before["unique_value"]


@pytest.mark.parametrize("first", [1, 2])
def test_merges_into_one_contact_are_undone_in_any_order(
    hub: Hub, client: Client, first: int
) -> None:
    ids = three(hub, client)
    shared = client.make("deals")
    for id in ids[1:]:
        client.put(f"/deals/{shared}/associations/contacts/{id}")
    before = everything(hub, client)
    for id in ids[1:]:
        merge(hub, client, ids[0], id)
    unmerge(hub, client, ids[0], ids[first])
    # The other one that is still merged had this deal, too.
    assert shared in links(client, int(ids[0]))["deals"]
    sound(hub, client)
    unmerge(hub, client, ids[0], ids[3 - first])
    assert everything(hub, client) == before
    sound(hub, client)


# --- at once -----------------------------------------------------------------------------------


@pytest.mark.databases("sqlite", "postgresql")
def test_of_several_merges_at_once_one_is_done(hub: Hub, client: Client) -> None:
    kept, other = two_people(hub, client)

    def once(keep: str) -> int:
        try:
            merge(hub, client, kept, other, keep=keep)
        except Conflict:
            return 0
        return 1

    assert sum(at_once(*(partial(once, keep) for keep in (kept, other) * 3))) == 1
    assert total(client) == 1
    sound(hub, client)


@pytest.mark.databases("sqlite", "postgresql")
def test_bots_go_on_while_contacts_are_merged_and_unmerged(
    app: flask.Flask, hub: Hub, client: Client
) -> None:
    kept, other = two_people(hub, client)
    made: list[Any] = []
    done = []

    def call(n: int) -> None:
        caller = Client(app, client.account, client.ids)
        for i in range(8):
            for id in (kept, other):
                body = {"contactId": id, "properties": {"dealname": f"{n} {i} {id}"}}
                made.append(caller.helper(CREATE_DEAL, body))
            body = {"contactToken": "ab"[n % 2], "props": {"city": f"{n} {i}"}}
            made.append(caller.helper(SET_PROPERTIES, body))

    def merge_and_unmerge() -> None:
        for _ in range(8):
            for change_one in (merge, unmerge):
                # A bot may have changed a contact since the preview.
                with suppress(Conflict):
                    change_one(hub, client, kept, other)
                    done.append(change_one)

    at_once(*(partial(call, n) for n in range(3)), merge_and_unmerge)
    assert {answer.status_code for answer in made} <= {200, 202}
    work_off(hub, client)
    assert {state for (state,) in rows(hub, client)} == {"done"}
    assert done
    if pair_of(hub, client, kept, other).state == "merged":
        unmerge(hub, client, kept, other)
    deals = [id for contact in (kept, other) for id in links(client, int(contact)).get("deals", ())]
    assert len(set(deals)) == 48 == total(client, "deals")
    sound(hub, client)


# --- erasing, and the audit log ----------------------------------------------------------------


@pytest.mark.parametrize("named", ["kept", "other", "email", "lost email", "token"])
def test_a_merged_person_is_erased_as_one(hub: Hub, client: Client, named: str) -> None:
    kept, other = two_people(hub, client)
    third = client.make(firstname="Zoe", email="zoe@x.org", phone=PHONE)
    listed_pair(hub, client, other, third)
    merge(hub, client, kept, other)
    planted = ["ann@x.org", "lee@x.org", "Anne"]
    assert f"possible_duplicate.email: {planted[1]}" in left(hub, planted, client.account.id)
    assert "possible_duplicate.undo: Lee" in left(hub, ["Lee"], client.account.id)
    text = {
        "kept": kept,
        "other": other,
        "email": planted[0],
        "lost email": planted[1],
        "token": "b",
    }
    person, _ = erase_person.find(hub, client.account, text[named])
    assert person is not None
    erased = erase_person.erase(hub, client.account, person, by=TESTS)
    assert (erased.contacts, erased.archived) == ((int(kept),), (int(other),))
    assert erased.duplicates == 2
    assert left(hub, planted, client.account.id) == []
    assert rows(hub, client, "one", "possible_duplicate") == []
    assert client.get(f"/contacts/{third}").status_code == 200
    sound(hub, client)


def test_the_email_of_a_merge_finds_the_person_when_the_contacts_are_gone(
    hub: Hub, client: Client
) -> None:
    older, newer = two_contacts(hub, client)
    merge(hub, client, older, newer)
    client.delete(f"/contacts/{older}")
    change(hub, client, "archived_at = 1", "archived_record")
    assert expired.delete_expired(hub.database, expired.ARCHIVED) == 2
    person, _ = erase_person.find(hub, client.account, "lee@x.org")
    assert person is not None
    assert erase_person.erase(hub, client.account, person, by=TESTS).duplicates == 1
    assert left(hub, ["lee@x.org"], client.account.id) == []


def test_the_audit_log_tells_who_decided_and_nothing_of_the_persons(
    hub: Hub, client: Client
) -> None:
    kept, other = two_contacts(hub, client, city="Rome")
    dismiss(hub, client, kept, other)
    merge(hub, client, kept, other, take={"city": kept})
    unmerge(hub, client, kept, other)
    with hub.database.reading() as db:
        entries = listed(db, Wanted(client.account.id, object="duplicate"), limit=9)
    assert [entry.verb for entry in entries] == ["unmerge", "merge", "dismiss"]
    assert entries[1].after == {
        "shares": ["phone"],
        "taken": ["lastname"],
        "moved": {"conversations": 0, "enrolments": 0},
    }
    told = json.dumps([[entry.object_id, entry.before, entry.after] for entry in entries])
    assert not [text for text in (kept, other, "Ann", "Rome", PHONE) if text in told]
