"""A copy of a CRM in the account's own records: loaded, kept up to date, compared, and deleted."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from typing import Any

import flask
import pytest

from crmhub import audit
from crmhub.accounts.field_maps import FieldMap, KindMap, Rule
from crmhub.adapter import Event, LacksRight
from crmhub.crm import pulling
from crmhub.crm.connection import connect as open_adapter_of
from crmhub.crm.watching import webhook_address
from crmhub.database.connection import Connection, now_ms
from crmhub.errors import Conflict, Semantic
from crmhub.hub import Hub
from crmhub.operators.accounts import change_account
from crmhub.operators.crm import copy_crm, map_fields, set_crm
from crmhub.operators.duplicates import merge_records
from crmhub.properties.kinds import COMPANIES, CONTACTS, DEALS
from crmhub.records import associations, copies, definitions, linking, pipelines
from crmhub.records.models import NewRecord, Upsert
from tests.adapter.small_adapter import SmallAdapter
from tests.adapter.small_crm import SmallCrm
from tests.api.agents.agent_calls import AgentCaller
from tests.clients import TESTS, Client
from tests.consoles import open_console
from tests.copies.copying import contacts, lead_of, load_copy, person, pull, switch, unavailable
from tests.events.receivers import subscribe


def listed(client: Client) -> list[Any]:
    found: list[Any] = client.get("/contacts?limit=100").json["results"]
    return found


def test_all_is_loaded_and_then_followed(hub: Hub, client: Client, crm: SmallCrm) -> None:
    ids = [crm.add_contact(person(n)) for n in range(5)]
    switch(hub, client, on=True)
    early = client.get("/contacts")
    assert (early.status_code, early.headers["Retry-After"]) == (503, "10")
    pull(hub, client)
    assert contacts(client).keys() == {*ids}
    listed = client.get("/contacts")
    assert listed.json["total"] == 5
    assert listed.headers["X-Record-Source"] == "copy"
    assert listed.headers["X-CRM-Synced-At"].endswith("Z")
    crm.delete_contact(ids[0])
    added = crm.add_contact(person(7, city="Rome"))
    pull(hub, client)
    assert contacts(client).keys() == {*ids[1:], added}
    found = client.post(
        "/contacts/search",
        {"filters": [{"propertyName": "city", "operator": "EQ", "value": "Rome"}]},
    )
    assert [one["properties"]["crm_id"] for one in found.json["results"]] == [added]
    one = client.get(f"/contacts/{added}?idProperty=crm_id")
    assert one.json["properties"]["email"] == "p7@example.org"
    assert client.get("/companies").status_code == 422


def test_what_comes_again_changes_nothing_and_tells_nobody(
    hub: Hub, client: Client, crm: SmallCrm
) -> None:
    crm.add_contact(person(1))
    load_copy(hub, client)
    [before] = client.get("/contacts?include=updatedAt").json["results"]
    copy_crm.load_anew(hub, client.account, by=TESTS)
    pull(hub, client)
    assert client.get("/contacts?include=updatedAt").json["results"] == [before]


def test_a_deal_is_linked_to_its_contact_also_by_a_lead_of_a_bot(
    hub: Hub, client: Client, crm: SmallCrm
) -> None:
    load_copy(hub, client)
    lead = lead_of(client).json
    [contact] = client.get("/contacts").json["results"]
    assert contact["properties"]["crm_id"] == lead["contactId"]
    deal = client.helper(
        "/crm-api-interface/createDeal/{portal}",
        {"contactId": lead["contactId"], "properties": {"dealname": "Big"}},
    ).json
    [stored] = client.get("/deals?include=associations").json["results"]
    assert stored["properties"]["crm_id"] == deal["dealId"]
    pull(hub, client)
    [stored] = client.get("/deals?include=associations").json["results"]
    linked = client.get(f"/deals/{stored['id']}/associations/contacts")
    assert linked.json["results"] == [contact["id"]]


def test_a_comparison_finds_what_was_missed(hub: Hub, client: Client, crm: SmallCrm) -> None:
    ids = [crm.add_contact(person(n)) for n in range(3)]
    load_copy(hub, client)
    # The feed of the CRM forgets a deletion and a new contact.
    told = len(crm.feed)
    crm.delete_contact(ids[0])
    added = crm.add_contact(person(9))
    crm.feed[told:] = []
    pull(hub, client)
    assert contacts(client).keys() == {*ids}
    # The walk of a comparison must see what is there.
    crm.feed.append(("contacts", int(added), ""))
    copy_crm.compare(hub, client.account, by=TESTS)
    pull(hub, client)
    pull(hub, client)
    assert contacts(client).keys() == {*ids[1:], added}
    assert state_of(hub, client, "contacts").differences


def state_of(hub: Hub, client: Client, kind: str) -> copy_crm.CopyState:
    [state] = [one for one in copy_crm.states(hub, client.account) if one.kind == kind]
    return state


def test_a_comparison_that_misses_most_archives_nothing_before_it_is_accepted(
    hub: Hub, client: Client, crm: SmallCrm
) -> None:
    ids = [crm.add_contact(person(n)) for n in range(60)]
    load_copy(hub, client)
    fed = len(crm.feed)
    for id in ids[:30]:
        crm.delete_contact(id)
    crm.feed[fed:] = []
    copy_crm.compare(hub, client.account, by=TESTS)
    pull(hub, client)
    pull(hub, client)
    assert contacts(client).keys() == {*ids}
    failure = state_of(hub, client, "contacts").failure
    assert "30 of 60 contacts missing" in failure, failure
    assert client.get("/sync").json["contacts"]["failure"] == failure
    copy_crm.compare(hub, client.account, accept=True, by=TESTS)
    pull(hub, client)
    pull(hub, client)
    assert contacts(client).keys() == {*ids[30:]}
    assert state_of(hub, client, "contacts").failure == ""
    with hub.database.reading() as db:
        lines = audit.listed(db, audit.Wanted(account_id=client.account.id), limit=10)
    compared = [one.after for one in lines if one.verb == "compare"]
    assert compared == [{"acceptDeletions": True}, {}]


@pytest.mark.databases("postgresql")
def test_a_record_named_while_a_pull_ends_is_read_at_once(
    hub: Hub, client: Client, crm: SmallCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_copy(hub, client)
    hold, named = copies.hold, list[str]()

    def hold_late(tx: Connection, row: Any, **values: Any) -> None:
        if values.get("lease", "") is None and row.kind == CONTACTS.code and not named:
            named.append(crm.add_contact(person(1)))
            copy_crm.tell(hub, client.account, [Event("contacts", *named)])
        hold(tx, row, **values)

    monkeypatch.setattr(copies, "hold", hold_late)
    pull(hub, client)
    assert contacts(client).keys() == {*named}


def events(hub: Hub, client: Client) -> list[tuple[str, Any]]:
    with hub.database.reading() as db:
        rows = db.rows(
            "select type, data from event where account_id = :account order by id",
            {"account": client.account.id},
        )
    return [(row[0], json.loads(row[1])) for row in rows]


def test_events_tell_who_made_the_change(hub: Hub, client: Client, crm: SmallCrm) -> None:
    load_copy(hub, client)
    subscribe(hub, client, "contact.created", "contact.updated")
    lead_of(client)
    theirs = crm.add_contact(person(3))
    pull(hub, client)
    told = [data for _, data in events(hub, client)]
    sources = {one["properties"]["email"]: one["source"] for one in told}
    assert sources == {"ann@example.org": "hub", "p3@example.org": "crm"}
    assert len(told) == 2, theirs


def test_a_webhook_names_what_is_read_at_once(hub: Hub, client: Client, crm: SmallCrm) -> None:
    id = crm.add_contact(person(1))
    load_copy(hub, client)
    path = webhook_address(hub, client.account).partition("SERVICE")[2]
    crm.records["contacts"][int(id)]["properties"]["city"] = "Rome"
    sent = crm.webhook("contacts", id)
    refused = client.helper(path, None, data=sent.body)
    assert refused.status_code == 401
    assert client.helper(f"{path}x", None, data=sent.body).status_code == 404
    taken = client.helper(path, None, data=sent.body, headers=dict(sent.headers))
    assert taken.status_code == 204, taken.json
    pull(hub, client)
    assert contacts(client)[id]["city"] == "Rome"


def test_what_is_named_during_a_walk_is_read_before_its_end(
    hub: Hub, client: Client, crm: SmallCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    id, *_ = [crm.add_contact(person(n)) for n in range(450)]
    load_copy(hub, client)
    towns: list[str] = []
    true = SmallAdapter.changed_since

    def town() -> str:
        answer = client.get(f"/contacts/{id}?idProperty=crm_id").json
        return str(answer["properties"].get("city"))

    def named_meanwhile(self: SmallAdapter, kind: Any, since: str, names: Any) -> Any:
        # Three pages of the load, and three of the comparison after it.
        if kind == "contacts" and len(towns) < 6:
            # A comparison reads a page before it looks.
            assert not towns or town() in towns[-2:]
            towns.append(f"Town {len(towns)}")
            crm.records["contacts"][int(id)]["properties"]["city"] = towns[-1]
            copy_crm.tell(hub, client.account, [Event("contacts", id)])
        return true(self, kind, since, names)

    copy_crm.load_anew(hub, client.account, by=TESTS)
    monkeypatch.setattr(SmallAdapter, "changed_since", named_meanwhile)
    pull(hub, client)
    assert (len(towns), town()) == (6, towns[-1])


def test_switched_off_the_copy_goes_and_the_hub_is_as_it_was(
    hub: Hub, client: Client, crm: SmallCrm
) -> None:
    before = client.get("/properties/contacts").json
    own = client.make(firstname="Own")
    client.delete(f"/contacts/{own}")
    crm.add_contact(person(1))
    gone = crm.add_contact(person(2))
    load_copy(hub, client)
    crm.delete_contact(gone)
    pull(hub, client)
    assert client.get("/contacts?archived=true").json["total"] == 2
    switch(hub, client, on=False)
    with pytest.raises(Conflict, match="being deleted"):
        copy_crm.load_anew(hub, client.account, by=TESTS)
    with pytest.raises(Conflict, match="being deleted"):
        switch(hub, client, on=True)
    pull(hub, client)
    client.account = hub.load_account(client.account.client_id)
    hub.directory.forget(client.account.id)
    assert not client.account.switches.mirror
    assert client.get("/contacts").json["total"] == 0
    archived = client.get("/contacts?archived=true").json["results"]
    assert [one["id"] for one in archived] == [own]
    assert client.get("/properties/contacts").json == before
    assert client.post("/contacts", {"properties": {"email": "a@b.org"}}).status_code == 201


def test_another_crm_gets_a_copy_of_its_own_after_the_end_of_the_former(
    hub: Hub, client: Client, crm: SmallCrm
) -> None:
    former = [crm.add_contact(person(n)) for n in range(3)]
    load_copy(hub, client)
    assert contacts(client).keys() == {*former}
    name = client.account.client_id
    with pytest.raises(Semantic, match="cannot keep a copy"):
        set_crm.set_crm(hub, name, set_crm.Crm("local", {}, {}), by=TESTS, test=False)
    with SmallCrm() as new:
        theirs = new.add_contact(person(7))
        secrets = {"refresh_token": new.refresh_token}
        other = set_crm.Crm("other", {"base_url": new.url}, secrets)
        after = set_crm.set_crm(hub, name, other, by=TESTS, test=False)
        hub.directory.forget(client.account.id)
        hub.records.copy_states._read.clear()
        assert client.get("/contacts").status_code == 503
        assert client.get("/sync").json["contacts"]["state"] == "ending"
        with pytest.raises(Conflict, match="being deleted"):
            change_account.change(hub, name, {"mirror": False}, by=TESTS)
        # As it will be.
        change_account.change(hub, name, {"mirror": True}, by=TESTS)
        pull(hub, client)
        client.account = after
        pull(hub, client)
        found = contacts(client)
        assert (found.keys(), found[theirs]["email"]) == ({theirs}, "p7@example.org")
        assert client.get("/contacts?archived=true").json["total"] == 0


def test_records_of_its_own_stand_in_the_way(hub: Hub, client: Client) -> None:
    client.post("/contacts", {"properties": {"email": "a@example.org"}})
    with pytest.raises(Conflict, match="1 contacts"):
        switch(hub, client, on=True)


@pytest.mark.databases("sqlite", "postgresql")
def test_a_process_that_has_not_heard_of_the_copy_writes_no_record_of_its_own(
    hub: Hub, client: Client, crm: SmallCrm
) -> None:
    archived = client.make(firstname="Own")
    client.delete(f"/contacts/{archived}")
    # As cached before the copy was switched on, with its catalogues.
    former = hub.load_account(client.account.client_id)
    new = NewRecord({"firstname": "Ann"})
    stale = hub.records.catalogues._cached.copy()
    switch(hub, client, on=True)
    for name, write in {
        "create": lambda: hub.records.create(former, CONTACTS, [new]),
        "create several": lambda: hub.records.create(former, CONTACTS, [new, new]),
        "upsert": lambda: hub.records.upsert(former, CONTACTS, [Upsert("email", "a@b.org", {})]),
        "define": lambda: hub.records.create(
            former, CONTACTS, [NewRecord({"new": "1"})], define_unknown=True
        ),
        "restore": lambda: merge_records.restore(hub, former, CONTACTS, archived),
        "link": lambda: linking.link(hub.records, former, CONTACTS, archived, DEALS, [1]),
        "property": lambda: definitions.delete(hub.records, former, CONTACTS, "none"),
        "pipeline": lambda: pipelines.delete(hub.records, former, DEALS, "none"),
    }.items():
        hub.records.catalogues._cached = stale.copy()
        with pytest.raises(Conflict, match="are a copy"):
            write()
        assert hub.records.counts(client.account).get(CONTACTS.code, 0) == 0, name


def test_agents_search_the_copy_and_use_the_ids_of_the_crm(
    hub: Hub, client: Client, crm: SmallCrm
) -> None:
    switch(hub, client, on=True)
    asked = {"resource": "deals"}
    agent = AgentCaller(client)
    assert "not complete" in agent.call("search_records", **asked).message
    pull(hub, client)
    lead = lead_of(client).json
    deal = {"contactId": lead["contactId"], "properties": {"dealname": "Big"}}
    deal_id = client.helper("/crm-api-interface/createDeal/{portal}", deal).json["dealId"]
    pull(hub, client)
    found = agent.ok("search_records", **asked)
    assert (found["total"], found["source"]) == (1, "copy")
    assert found["syncedAt"].endswith("Z")
    assert [one["id"] for one in found["results"]] == [deal_id]
    read = agent.ok("get_record", resource="deals", id=deal_id)
    assert (read["source"], read["syncedAt"]) == ("copy", found["syncedAt"])
    assert read["associations"]["contacts"] == [lead["contactId"]]


def test_a_worker_killed_between_pages_goes_on_where_it_was(
    hub: Hub, client: Client, crm: SmallCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [crm.add_contact(person(n)) for n in range(450)]
    switch(hub, client, on=True)
    asked: list[str] = []
    true = SmallAdapter.changed_since

    def dies_at_the_third_page(self: SmallAdapter, kind: Any, since: str, names: Any) -> Any:
        asked.append(since)
        if len([one for one in asked if one]) == 2:
            raise KeyboardInterrupt
        return true(self, kind, since, names)

    monkeypatch.setattr(SmallAdapter, "changed_since", dies_at_the_third_page)
    with pytest.raises(KeyboardInterrupt):
        pull(hub, client)
    monkeypatch.undo()
    shown = client.get("/sync").json["contacts"]
    assert (shown["state"], shown["share"]) == ("loading", round(400 / 450, 3))
    assert "400 (89%) are here" in client.get("/contacts").json["message"]
    pull(hub, client)
    assert client.get("/contacts").json["total"] == len(ids)
    assert client.get("/sync").json["contacts"]["share"] == 1


def test_an_account_says_how_often_its_crm_is_asked(hub: Hub, client: Client) -> None:
    def due_at() -> int:
        with hub.database.reading() as db:
            [at] = [row.run_at for row in copies.rows(db, client.account) if row.kind == 1]
        return int(at)

    name = client.account.client_id
    with pytest.raises(Semantic, match="from 10 to 86400"):
        change_account.change(hub, name, {"mirror_every_s": "9"}, by=TESTS)
    change_account.change(hub, name, {"mirror_every_s": 86_400}, by=TESTS)
    switch(hub, client, on=True)
    began = now_ms()
    pull(hub, client)
    assert due_at() >= began + 86_400_000
    change_account.change(hub, name, {"mirror_every_s": 10}, by=TESTS)
    assert due_at() <= now_ms()


def test_a_slow_crm_loses_no_lease(
    hub: Hub, client: Client, crm: SmallCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(hub, client, on=True)
    asked, answers = threading.Event(), threading.Event()
    true = SmallAdapter.changed_since

    def slow(self: SmallAdapter, kind: Any, since: str, names: Any) -> Any:
        asked.set()
        answers.wait()
        return true(self, kind, since, names)

    def leases() -> dict[str, int]:
        with hub.database.reading() as db:
            rows = copies.rows(db, client.account)
        return {row.lease: row.run_at for row in rows if row.lease}

    monkeypatch.setattr(SmallAdapter, "changed_since", slow)
    monkeypatch.setattr(copies, "LEASE_MS", 300)
    puller = threading.Thread(target=pull, args=(hub, client))
    puller.start()
    try:
        asked.wait()
        before = leases()
        while (now := leases()) == before:
            time.sleep(0.01)
        assert now.keys() == before.keys()
    finally:
        answers.set()
        puller.join()
    monkeypatch.undo()
    assert client.get("/contacts").json["total"] == 0


def test_a_single_record_is_read_from_the_crm_while_the_copy_is_loading(
    hub: Hub, client: Client, crm: SmallCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = crm.add_contact(person(1))
    switch(hub, client, on=True)
    path = f"/contacts/{id}?idProperty=crm_id"
    # The definitions are not known yet.
    assert client.get(path).status_code == 503
    subscribe(hub, client, "contact.created")

    monkeypatch.setattr(SmallAdapter, "changed_since", unavailable)
    pull(hub, client)
    found = client.get(path)
    assert found.status_code == 200, found.json
    assert found.json["properties"]["email"] == "p1@example.org"
    assert found.headers["X-Record-Source"] == "copy"
    assert found.headers["X-CRM-Synced-At"].endswith("Z")
    again = client.get(f"/contacts/{found.json['id']}")
    assert (again.status_code, again.json) == (200, found.json)
    assert client.get("/contacts/77?idProperty=crm_id").status_code == 404
    for incomplete in ("/contacts/77", "/contacts"):
        assert client.get(incomplete).status_code == 503, incomplete
    monkeypatch.setattr(SmallAdapter, "get_records", unavailable)
    assert client.get(path).status_code == 503
    monkeypatch.undo()
    pull(hub, client)
    [listed_now] = listed(client)
    assert listed_now["id"] == found.json["id"]
    assert events(hub, client) == []


def test_what_the_hub_cannot_hold_is_left_out_and_counted(
    hub: Hub, client: Client, crm: SmallCrm
) -> None:
    id = crm.add_contact(person(1, city="x" * 70_000))
    load_copy(hub, client)
    assert "city" not in contacts(client)[id]
    shown = client.get("/sync").json["contacts"]
    assert (shown["records"], shown["leftOut"], shown["complete"]) == (1, 1, True)
    assert client.get("/sync").json["companies"]["state"] == "absent"


def test_the_names_are_those_of_the_field_map(hub: Hub, client: Client, crm: SmallCrm) -> None:
    town = FieldMap({"contacts": KindMap({"town": Rule("city")})})
    map_fields.set_field_map(hub, client.account.client_id, town, test=False, by=TESTS)
    client.account = hub.load_account(client.account.client_id)
    id = crm.add_contact(person(1, city="Rome"))
    load_copy(hub, client)
    assert contacts(client)[id]["town"] == "Rome"


def test_a_crm_that_is_down_is_told_and_asked_again(
    hub: Hub, client: Client, crm: SmallCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(hub, client, on=True)

    monkeypatch.setattr(SmallAdapter, "changed_since", unavailable)
    pull(hub, client)
    told = {one.failure for one in copy_crm.states(hub, client.account)}
    assert told == {"The CRM is down.", "Small CRM has no companies."}
    monkeypatch.undo()
    pull(hub, client)
    assert client.get("/contacts").json["total"] == 0


def test_a_merged_contact_hands_its_deals_on(hub: Hub, client: Client, crm: SmallCrm) -> None:
    kept = crm.add_contact(person(1))
    load_copy(hub, client)
    gone = lead_of(client).json["contactId"]
    deal = {"contactId": gone, "properties": {"dealname": "Big"}}
    client.helper("/crm-api-interface/createDeal/{portal}", deal)
    pull(hub, client)
    crm.merge_contacts(gone, kept)
    subscribe(hub, client, "association.changed")
    pull(hub, client)
    [contact] = client.get("/contacts?include=associations").json["results"]
    assert (contact["properties"]["crm_id"], len(contact["associations"]["deals"])) == (kept, 1)
    told = [data["id"] for _, data in events(hub, client) if data["id"] == contact["id"]]
    assert len(told) == 1


def test_a_merge_does_not_tell_a_link_that_the_kept_record_has(
    hub: Hub, client: Client, crm: SmallCrm
) -> None:
    kept = crm.add_contact(person(1))
    load_copy(hub, client)
    gone = lead_of(client).json["contactId"]
    deal = {"contactId": gone, "properties": {"dealname": "Big"}}
    client.helper("/crm-api-interface/createDeal/{portal}", deal)
    pull(hub, client)
    ids = {one["properties"]["crm_id"]: one["id"] for one in listed(client)}
    subscribe(hub, client, "association.changed")
    [deal_id] = [one["id"] for one in client.get("/deals").json["results"]]
    links = [(ids[kept], DEALS, deal_id)]
    account = client.account
    hub.database.transact(lambda tx: associations.link(tx, account.id, CONTACTS, links))
    pulling.merge_now(hub, account, CONTACTS, {gone: kept})
    assert [data["id"] for _, data in events(hub, client)] == []


def test_a_record_that_the_crm_restores_is_the_archived_one_again(
    hub: Hub, client: Client, crm: SmallCrm
) -> None:
    load_copy(hub, client)
    id = lead_of(client).json["contactId"]
    deal = {"contactId": id, "properties": {"dealname": "Big"}}
    client.helper("/crm-api-interface/createDeal/{portal}", deal)
    pull(hub, client)
    asked = "/contacts?include=associations,createdAt"
    [before] = client.get(asked).json["results"]
    assert before["associations"]["deals"]
    held = crm.records["contacts"][int(id)]
    crm.delete_contact(id)
    pull(hub, client)
    assert client.get("/contacts").json["total"] == 0
    subscribe(hub, client, "contact.created", "association.changed")
    crm.restore_contact(id, held)
    pull(hub, client)
    page = client.get(asked).json
    assert (page["total"], page["results"]) == (1, [before])
    assert client.get("/contacts?archived=true").json["total"] == 0
    created, linked = sorted(events(hub, client), reverse=True)
    assert (created[0], created[1]["id"], created[1]["restored"]) == (
        "contact.created",
        before["id"],
        True,
    )
    assert linked[0] == "association.changed"


def test_webhooks_of_records_that_the_crm_lacks_are_dropped(
    hub: Hub, client: Client, crm: SmallCrm
) -> None:
    def hints() -> list[str]:
        with hub.database.reading() as db:
            return copies.hints(db, client.account.connection_key | {"kind": COMPANIES.code}, 9)

    switch(hub, client, on=True)
    for expected in (["7"], []):
        copy_crm.tell(hub, client.account, [Event("companies", "7")])
        assert hints() == expected
        pull(hub, client)
        assert hints() == []


def test_a_webhook_before_the_change_leaves_a_merge_a_merge(
    hub: Hub, client: Client, crm: SmallCrm
) -> None:
    kept, gone, deleted = (crm.add_contact(person(n)) for n in range(3))
    load_copy(hub, client)
    ids = {one["properties"]["crm_id"]: one["id"] for one in listed(client)}
    subscribe(hub, client, "contact.merged", "contact.archived")
    crm.merge_contacts(gone, kept)
    crm.delete_contact(deleted)
    for id in (gone, deleted):
        copy_crm.tell(hub, client.account, [Event("contacts", id)])
    pull(hub, client)
    told = {(type, data["id"], data.get("mergedId")) for type, data in events(hub, client)}
    assert told == {
        ("contact.merged", ids[kept], ids[gone]),
        ("contact.archived", ids[gone], None),
        ("contact.archived", ids[deleted], None),
    }


def test_the_console_shows_the_copy_and_the_address_for_webhooks(
    app: flask.Flask, hub: Hub, client: Client, crm: SmallCrm, quick_passwords: None
) -> None:
    crm.add_contact(person(1))
    load_copy(hub, client)
    page = open_console(app).get(f"/accounts/{client.account.client_id}/crm").text
    assert "Copy of Small CRM" in page
    assert webhook_address(hub, client.account) in page


def test_a_contact_is_read_by_its_email_and_of_several_the_oldest(
    hub: Hub, client: Client, crm: SmallCrm
) -> None:
    first, other = crm.add_contact(person(1)), crm.add_contact(person(2))
    load_copy(hub, client)
    crm.records["contacts"][int(other)]["properties"]["email"] = "p1@example.org"
    crm.feed.append(("contacts", int(other), ""))
    pull(hub, client)
    one = client.get("/contacts/P1@example.org?idProperty=email")
    assert one.status_code == 200, one.json
    assert one.json["properties"]["crm_id"] == first
    body = {"idProperty": "email", "inputs": [{"id": "p1@example.org"}, {"id": "p2@example.org"}]}
    found = client.post("/contacts/batch/read", body)
    assert [each["properties"]["crm_id"] for each in found.json] == [first]
    assert client.get("/contacts/Ann?idProperty=firstname").status_code == 400


def test_another_crm_behind_the_same_adapter_is_refused(
    hub: Hub, client: Client, crm: SmallCrm
) -> None:
    load_copy(hub, client)
    name = client.account.client_id
    with SmallCrm() as new:
        other = set_crm.Crm("small", {"base_url": new.url}, {"refresh_token": new.refresh_token})
        with pytest.raises(Conflict, match="Switch the copy off first"):
            set_crm.set_crm(hub, name, other, by=TESTS, test=False)
    crm.add_contact(person(1))
    same = set_crm.Crm("small", {"base_url": crm.url}, {"refresh_token": crm.refresh_token})
    set_crm.set_crm(hub, name, same, by=TESTS, test=False)
    [state] = [one for one in copy_crm.states(hub, client.account) if one.kind == "contacts"]
    assert (state.state, state.is_complete) == ("loading", True)


def test_a_kind_of_record_that_may_not_be_read_is_left_out(
    hub: Hub, client: Client, crm: SmallCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    crm.add_contact(person(1))
    true = SmallAdapter.describe

    def describe(self: SmallAdapter, kind: Any) -> Any:
        if kind == "deals":
            raise LacksRight("It needs the right deals.read.")
        return true(self, kind)

    monkeypatch.setattr(SmallAdapter, "describe", describe)
    load_copy(hub, client)
    assert client.get("/contacts").json["total"] == 1
    refused = client.get("/deals")
    assert (refused.status_code, "deals.read" in refused.json["message"]) == (422, True)
    monkeypatch.undo()
    copy_crm.load_anew(hub, client.account, by=TESTS)
    pull(hub, client)
    assert client.get("/deals").json["total"] == 0


def test_a_deleted_record_that_a_late_search_still_shows_is_read_again(
    hub: Hub, client: Client, crm: SmallCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = crm.add_contact(person(1))
    load_copy(hub, client)
    true = SmallAdapter.changed_since
    adapter = open_adapter_of(hub, client.account)
    shown = true(adapter, "contacts", "", ["email"]).records
    crm.delete_contact(id)

    def lagging(self: SmallAdapter, kind: Any, since: str, names: Any) -> Any:
        monkeypatch.undo()
        page = true(self, kind, since, names)
        return replace(page, records=shown) if kind == "contacts" else page

    hub.database.transact(lambda tx: copies.tell(tx, client.account, CONTACTS, [id]))
    monkeypatch.setattr(SmallAdapter, "changed_since", lagging)
    pull(hub, client)
    pull(hub, client)
    assert client.get("/contacts").json["total"] == 0
