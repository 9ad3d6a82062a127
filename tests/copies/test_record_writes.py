"""Writes by the public API of an account with a copy: made in the CRM, then in the copy."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NoReturn

import flask
import pytest

from crmhub.adapter import Uncertain
from crmhub.database.rows import find_row, set_where
from crmhub.database.tables import outage
from crmhub.hub import Hub
from crmhub.operators.accounts import change_account
from crmhub.operators.actions import correct_action
from crmhub.operators.crm import switch_crm
from crmhub.operators.erasure import erase_person
from crmhub.properties.kinds import CONTACTS
from crmhub.queue import outcomes
from crmhub.queue.models import Outcome
from crmhub.records import copies
from tests.adapter.small_adapter import SmallAdapter
from tests.adapter.small_crm import SmallCrm
from tests.clients import TESTS, Client, open_client
from tests.consoles import open_console
from tests.copies.copying import contacts, crm_down, person, pull, unavailable
from tests.events.receivers import events_of, subscribe
from tests.queue.working import rows, states, take_over, work_off
from tests.records.meanwhile import at_once


def create(client: Client, n: int = 1, **more: str) -> dict[str, Any]:
    made = client.post("/contacts", {"properties": person(n, **more)})
    assert made.status_code == 201, made.json
    record: dict[str, Any] = made.json
    return record


def crm_id(record: dict[str, Any]) -> str:
    id: str = record["properties"]["crm_id"]
    return id


def test_a_contact_is_made_in_the_crm_and_stands_in_the_copy(copied: Client, crm: SmallCrm) -> None:
    made = copied.post("/contacts", {"properties": person(1, city="Rome")})
    assert made.status_code == 201, made.json
    assert made.headers["X-Record-Source"] == "copy"
    id = made.json["properties"]["crm_id"]
    assert crm.contacts()[id].items() >= person(1, city="Rome").items()
    # The CRM's own value is there, too.
    assert made.json["properties"]["created"]
    assert copied.get(f"/contacts/{made.json['id']}").json == made.json
    assert copied.get(f"/contacts/{id}?idProperty=crm_id").json == made.json


def test_changes_one_after_another_are_answered_as_the_crm_has_them(
    copied: Client, crm: SmallCrm
) -> None:
    record = create(copied)
    for city in ("Rome", "Bari", ""):
        changed = copied.patch(f"/contacts/{record['id']}", {"properties": {"city": city}})
        assert changed.status_code == 200, changed.json
        assert changed.json["properties"].get("city", "") == city
        assert crm.contacts()[crm_id(record)].get("city", "") == city
    assert copied.get(f"/contacts/{record['id']}").json == changed.json


def test_if_match_protects_what_changed_meanwhile(copied: Client, crm: SmallCrm) -> None:
    record = create(copied)
    old = copied.get(f"/contacts/{record['id']}").headers["ETag"]
    path, change = f"/contacts/{record['id']}", {"properties": {"city": "Rome"}}
    assert copied.patch(path, change, headers={"If-Match": old}).status_code == 200
    again = copied.patch(path, {"properties": {"city": "Bari"}}, headers={"If-Match": old})
    assert again.status_code == 409
    assert crm.contacts()[crm_id(record)]["city"] == "Rome"


def test_an_archived_record_is_gone_from_both(copied: Client, crm: SmallCrm) -> None:
    record = create(copied)
    assert copied.delete(f"/contacts/{record['id']}").status_code == 204
    assert crm.contacts() == {}
    assert copied.get(f"/contacts/{record['id']}").status_code == 404
    assert copied.delete(f"/contacts/{record['id']}").status_code == 404
    assert copied.get("/contacts?archived=true").json["total"] == 1


def test_a_record_that_is_gone_in_the_crm_is_not_found(
    hub: Hub, copied: Client, crm: SmallCrm
) -> None:
    record = create(copied)
    crm.delete_contact(crm_id(record))
    lost = copied.patch(f"/contacts/{record['id']}", {"properties": {"city": "Rome"}})
    assert lost.status_code == 404, lost.json
    pull(hub, copied)
    assert copied.get(f"/contacts/{record['id']}").status_code == 404


def test_what_the_definitions_refuse_never_reaches_the_crm(copied: Client, crm: SmallCrm) -> None:
    cases = [
        ({"properties": {"email": "a@example.org", "shoe": "9"}}, "properties.shoe"),
        ({"properties": {"email": "a@example.org", "crm_id": "9"}}, "properties.crm_id"),
        ({"properties": {"city": "Rome"}}, "properties.email"),
        ({"properties": {"email": "a@b.org"}, "associations": {"deals": [7]}}, "associations"),
    ]
    for body, place in cases:
        refused = copied.post("/contacts", body)
        assert (refused.status_code, place in refused.json["message"]) == (422, True), refused.json
    assert crm.contacts() == {}


def test_an_unknown_property_is_to_be_defined_in_the_crm(copied: Client) -> None:
    shoe = [{"propertyName": "shoe", "operator": "EQ", "value": "9"}]
    for refused in (
        copied.post("/contacts", {"properties": person(1, shoe="9")}),
        copied.post("/contacts/search", {"filters": shoe}),
    ):
        assert refused.status_code in (400, 422)
        assert refused.json["message"].endswith("Define it in the account's CRM"), refused.json
        assert "POST" not in refused.json["message"]


def test_what_the_crm_refuses_is_told_with_the_path_of_the_property(
    copied: Client, crm: SmallCrm
) -> None:
    refused = copied.post("/contacts", {"properties": person(1, status="buyer")})
    assert refused.status_code == 422
    assert "properties.status" in refused.json["message"]
    assert crm.contacts() == {}


def test_an_email_of_another_contact_is_a_conflict_that_names_it(
    copied: Client, crm: SmallCrm
) -> None:
    record = create(copied)
    again = copied.post("/contacts", {"properties": person(1)})
    assert again.status_code == 409, again.json
    assert again.json["message"].endswith(f"Existing ID: {record['id']}")
    assert again.headers["Location"].endswith(f"/contacts/{record['id']}")
    assert len(crm.contacts()) == 1


def test_a_duplicate_that_only_the_crm_has_yet_is_named_too(
    hub: Hub, copied: Client, crm: SmallCrm
) -> None:
    subscribe(hub, copied, "contact.*")
    new = crm.add_contact(person(1))
    refused = copied.post("/contacts", {"properties": person(1)})
    assert refused.status_code == 409, refused.json
    held = copied.get(f"/contacts/{new}?idProperty=crm_id").json
    assert refused.json["message"].endswith(f"Existing ID: {held['id']}")
    assert refused.headers["Location"].endswith(f"/contacts/{held['id']}")
    assert [*crm.contacts()] == [new]
    pull(hub, copied)
    told = [(one.type, json.loads(one.data)["source"]) for one in events_of(hub, copied)]
    assert told == [("contact.created", "crm")]


def test_a_duplicate_that_cannot_be_read_now_is_a_conflict_all_the_same(
    copied: Client, crm: SmallCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = crm.add_contact(person(1))
    monkeypatch.setattr(SmallAdapter, "get_records", unavailable)
    refused = copied.post("/contacts", {"properties": person(1)})
    assert refused.status_code == 409, refused.json
    assert refused.json["message"].startswith("properties.email: ")
    assert "Location" not in refused.headers
    assert [*crm.contacts()] == [new]


def test_a_crm_that_is_away_gets_nothing_later(hub: Hub, copied: Client, crm: SmallCrm) -> None:
    with crm_down("write"):
        refused = copied.post("/contacts", {"properties": person(1)})
        assert refused.status_code == 503, refused.json
        assert refused.headers["Retry-After"] == "30"
        assert "nothing was written" in refused.json["message"]
    work_off(hub, copied)
    assert states(hub, copied) == ["refused"]
    assert crm.contacts() == {}


class Circuit:
    """The circuit breaker of the account's CRM, which is open at first."""

    def __init__(self, client: Client) -> None:
        self._database = client.hub.database
        self._here = client.account.connection_key
        away = Outcome("queued", "Unavailable", away="It is down.")
        outcomes.open_circuit(self._database, client.account, away)
        self.wait(hours=1)

    def wait(self, *, hours: int) -> None:
        """Let the next probe be due then; 0 is now."""
        with self._database.reading() as connection:
            until = connection.now_ms() + hours * 3_600_000
            set_where(connection, outage, self._here, until=until)

    @property
    def failures(self) -> int:
        with self._database.reading() as connection:
            row = find_row(connection, outage, self._here)
            return row.failures if row else 0

    @property
    def waits_ms(self) -> int:
        with self._database.reading() as connection:
            row = find_row(connection, outage, self._here)
            return int(row.until) - connection.now_ms()


def test_a_write_that_may_not_wait_finds_out_whether_the_crm_is_back(
    copied: Client, crm: SmallCrm
) -> None:
    circuit = Circuit(copied)
    assert copied.post("/contacts", {"properties": person(1)}).status_code == 503
    assert circuit.failures == 1
    circuit.wait(hours=0)
    with crm_down("write"):
        assert copied.post("/contacts", {"properties": person(1)}).status_code == 503
    assert circuit.failures == 2
    circuit.wait(hours=1)
    assert copied.post("/contacts", {"properties": person(1)}).status_code == 503
    circuit.wait(hours=0)
    create(copied)
    assert circuit.failures == 0
    assert len(crm.contacts()) == 1


def test_what_the_hub_refuses_itself_is_no_sign_of_the_crm(
    hub: Hub, copied: Client, crm: SmallCrm
) -> None:
    record = create(copied)
    etag = copied.get(f"/contacts/{record['id']}").headers["ETag"]
    told = [crm_id(record)]
    hub.database.transact(lambda tx: copies.tell(tx, copied.account, CONTACTS, told))
    circuit = Circuit(copied)
    circuit.wait(hours=0)
    path, change = f"/contacts/{record['id']}", {"properties": {"city": "Rome"}}
    with crm_down("write", "get_records", "find_contact"):
        assert copied.patch(path, change, headers={"If-Match": etag}).status_code == 409
    assert circuit.failures == 1
    assert circuit.waits_ms <= 0


def test_a_probe_that_comes_too_late_leaves_its_turn_to_the_next(
    hub: Hub, copied: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    circuit = Circuit(copied)
    circuit.wait(hours=0)
    monkeypatch.setattr(hub.slots, "took", lambda *_: True)
    assert copied.post("/contacts", {"properties": person(1)}).status_code == 503
    assert circuit.waits_ms <= 0


def test_a_caller_who_does_not_wait_gets_the_action_that_a_worker_finishes(
    hub: Hub, copied: Client, crm: SmallCrm
) -> None:
    options = {"headers": {"Prefer": "respond-async"}}
    with crm_down("write"):
        taken = copied.post("/contacts", {"properties": person(1)}, **options)
    assert taken.status_code == 202, taken.json
    assert taken.headers["Preference-Applied"] == "respond-async"
    assert rows(hub, copied, "id") == [(taken.json["actionId"],)]
    path = f"/actions/{taken.json['actionId']}"
    waits = copied.get(path).json
    assert (waits["state"], waits["resource"]) == ("queued", "contacts")
    assert (waits["id"], waits["crmId"], waits["endedAt"]) == (None, "", None)
    take_over(hub, copied)
    pull(hub, copied)
    assert [one["email"] for one in contacts(copied).values()] == ["p1@example.org"]
    done = copied.get(path).json
    assert (done["state"], [done["crmId"]]) == ("done", [*contacts(copied)])
    assert copied.get(f"/contacts/{done['id']}").json["properties"]["email"] == "p1@example.org"


def test_an_action_is_shown_to_its_account_and_to_keys_of_its_kind(
    app: flask.Flask, copied: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SmallAdapter, "write", unavailable)
    options = {"headers": {"Prefer": "respond-async"}}
    taken = copied.post("/contacts", {"properties": person(1)}, **options).json["actionId"]
    absent = copied.get(f"/actions/{taken[:-4]}0000")
    other = open_client(app).get(f"/actions/{taken}")
    assert (absent.status_code, other.status_code) == (404, 404)
    assert copied.get("/actions/act-none").status_code == 404
    statuses = {}
    for scope in ("contacts:write", "contacts:read", "deals:read"):
        key = change_account.create_key(
            app.extensions["crmhub"], copied.account.client_id, scopes=[scope], by=TESTS
        ).api_key
        answer = copied.get(f"/actions/{taken}", headers={"service-apikey": key})
        statuses[scope] = answer.status_code
    assert statuses == {"contacts:write": 200, "contacts:read": 200, "deals:read": 403}


def test_what_a_worker_writes_for_a_program_is_an_event_of_the_hub(
    hub: Hub, copied: Client
) -> None:
    subscribe(hub, copied, "contact.*")
    options = {"headers": {"Prefer": "respond-async"}}
    with crm_down("write"):
        copied.post("/contacts", {"properties": person(1)}, **options)
    take_over(hub, copied)
    pull(hub, copied)
    told = [(one.type, json.loads(one.data)["source"]) for one in events_of(hub, copied)]
    assert told == [("contact.created", "hub")]


def test_what_others_changed_before_a_write_is_an_event_of_the_crm(
    hub: Hub, copied: Client, crm: SmallCrm
) -> None:
    record = create(copied, city="Rome")
    subscribe(hub, copied, "contact.*")
    crm.records["contacts"][int(crm_id(record))]["properties"] |= {"city": "Ulm"}
    sent = {"properties": {"firstname": "Eve"}}
    assert copied.patch(f"/contacts/{record['id']}", sent).status_code == 200
    theirs, ours = [json.loads(one.data) for one in events_of(hub, copied)]
    assert (theirs["source"], theirs["previous"]) == ("crm", {"city": "Rome"})
    assert (theirs["properties"]["city"], theirs["properties"]["firstname"]) == ("Ulm", "Ann 1")
    assert (ours["source"], ours["previous"]) == ("hub", {"firstname": "Ann 1"})
    assert (ours["properties"]["city"], ours["properties"]["firstname"]) == ("Ulm", "Eve")


def test_what_the_crm_makes_of_a_write_is_no_second_event(
    hub: Hub, copied: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = create(copied, city="Rome")
    subscribe(hub, copied, "contact.*")
    true = SmallAdapter.get_records

    def computed(self: SmallAdapter, *asked: Any) -> list[Any]:
        # A read-only property, the other part of a name, and a value under a second name.
        more = {"created": "2026-01-02T00:00:00.000Z", "lastname": "Lee-Ray", "mobilephone": "+49"}
        found = true(self, *asked)
        return [replace(one, properties={**one.properties, **more}) for one in found]

    monkeypatch.setattr(SmallAdapter, "get_records", computed)
    sent = {"properties": {"firstname": "Eve", "phone": "+49"}}
    assert copied.patch(f"/contacts/{record['id']}", sent).status_code == 200
    [told] = [json.loads(one.data) for one in events_of(hub, copied)]
    assert told["source"] == "hub"
    assert {"created", "firstname", "lastname"} <= {*told["changed"]}


def test_an_answer_that_got_lost_makes_no_second_contact(
    hub: Hub, copied: Client, crm: SmallCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = SmallAdapter.write

    def loses(self: SmallAdapter, *write: Any, mark: str = "") -> NoReturn:
        true(self, *write, mark=mark)
        raise Uncertain("No answer.")

    nameless = {"properties": {"firstname": "Ann", "lastname": "Lee"}}
    with monkeypatch.context() as patched:
        patched.setattr(SmallAdapter, "write", loses)
        patched.setattr(SmallAdapter, "find_marked", unavailable)
        taken = copied.post("/contacts", nameless)
    # The caller must not send it again: it may have been written.
    assert taken.status_code == 202, taken.json
    take_over(hub, copied)
    pull(hub, copied)
    assert (len(crm.contacts()), states(hub, copied)) == (1, ["done"])
    assert len(contacts(copied)) == 1


def test_a_repeated_key_repeats_the_answer_and_writes_once(copied: Client, crm: SmallCrm) -> None:
    options = {"headers": {"Idempotency-Key": "k"}}
    first = copied.post("/contacts", {"properties": person(1)}, **options)
    again = copied.post("/contacts", {"properties": person(1)}, **options)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json == again.json
    assert (first.headers.get("Idempotent-Replayed"), again.headers["Idempotent-Replayed"]) == (
        None,
        "true",
    )
    other = copied.post("/contacts", {"properties": person(2)}, **options)
    assert other.status_code == 422
    assert len(crm.contacts()) == 1


def test_what_the_crm_does_not_tell_in_time_a_worker_copies(
    hub: Hub, copied: Client, crm: SmallCrm
) -> None:
    record = create(copied)
    with crm_down("get_records"):
        made = copied.post("/contacts", {"properties": person(2, city="Rome")})
        changed = copied.patch(f"/contacts/{record['id']}", {"properties": {"city": "Bari"}})
    assert (made.status_code, changed.status_code) == (202, 202)
    assert states(hub, copied) == ["done"] * 3
    pull(hub, copied)
    assert sorted(one["city"] for one in contacts(copied).values()) == ["Bari", "Rome"]


def test_a_deal_is_linked_and_unlinked_in_the_crm(copied: Client, crm: SmallCrm) -> None:
    contact = create(copied)
    body = {"properties": {"dealname": "Big"}, "associations": {"contacts": [contact["id"]]}}
    made = copied.post("/deals", body)
    assert made.status_code == 201, made.json
    assert made.json["associations"]["contacts"] == [contact["id"]]
    assert list(crm.linked("deals", crm_id(contact))) == [crm_id(made.json)]
    path = f"/deals/{made.json['id']}/associations/contacts/{contact['id']}"
    assert copied.delete(path).status_code == 204
    assert crm.linked("deals", crm_id(contact)) == {}
    assert copied.get(f"/contacts/{contact['id']}").json["associations"]["deals"] == []
    backwards = f"/contacts/{contact['id']}/associations/deals/{made.json['id']}"
    assert copied.put(backwards).status_code == 204
    assert list(crm.linked("deals", crm_id(contact))) == [crm_id(made.json)]
    assert copied.get(f"/deals/{made.json['id']}").json["associations"]["contacts"] == [
        contact["id"]
    ]


def test_a_batch_is_checked_as_a_whole_and_then_written_in_order(
    copied: Client, crm: SmallCrm
) -> None:
    good = [{"properties": person(n)} for n in range(3)]
    refused = copied.post("/contacts/batch/create", {"inputs": [*good, {"properties": {}}]})
    assert refused.status_code == 422
    assert crm.contacts() == {}
    made = copied.post("/contacts/batch/create", {"inputs": good})
    assert [one["properties"]["email"] for one in made.json] == [
        f"p{n}@example.org" for n in range(3)
    ]
    twice = [{"properties": person(n)} for n in (4, 1, 5)]
    known = copied.post("/contacts/batch/create", {"inputs": twice})
    assert known.status_code == 409
    assert known.json["message"].startswith("inputs[1].properties.email")
    assert known.json["message"].endswith(f"Existing ID: {made.json[1]['id']}")
    assert len(crm.contacts()) == 3
    # Of this one the copy does not know.
    crm.add_contact(person(6))
    met = [{"properties": person(n)} for n in (4, 6, 5)]
    stopped = copied.post("/contacts/batch/create", {"inputs": met})
    assert stopped.status_code == 409
    assert "inputs before inputs[1] are accepted" in stopped.json["message"]
    assert len(crm.contacts()) == 5
    some = copied.post("/contacts/batch/create?partial=true", {"inputs": twice})
    assert some.status_code == 207
    assert [each["index"] for each in some.json["errors"]] == [0, 1]
    assert len(crm.contacts()) == 6
    ids = [one["id"] for one in made.json]
    changes = [{"id": id, "properties": {"city": "Rome"}} for id in ids]
    changed = copied.post("/contacts/batch/update", {"inputs": changes})
    assert {one["properties"]["city"] for one in changed.json} == {"Rome"}
    gone = copied.post("/contacts/batch/archive", {"inputs": [{"id": id} for id in ids]})
    assert (gone.status_code, len(crm.contacts())) == (204, 3)


@pytest.mark.parametrize("prefer", ["", "respond-async"])
def test_a_batch_that_was_interrupted_is_completed_under_its_key(
    hub: Hub, copied: Client, crm: SmallCrm, monkeypatch: pytest.MonkeyPatch, prefer: str
) -> None:
    write, calls = SmallAdapter.write, iter([False, True])

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        return unavailable() if next(calls, True) else write(*args, **kwargs)

    body = {"inputs": [{"properties": person(n)} for n in (1, 2)]}
    headers = {"Idempotency-Key": "k", "Prefer": prefer}
    with monkeypatch.context() as patched:
        patched.setattr(SmallAdapter, "write", interrupted)
        first = copied.post("/contacts/batch/create", body, headers=headers)
    assert first.status_code == (202 if prefer else 503), first.json
    take_over(hub, copied)
    pull(hub, copied)
    again = copied.post("/contacts/batch/create", body, headers=headers)
    assert again.status_code == 201, again.json
    assert len(crm.contacts()) == 2


def test_an_email_twice_in_a_batch_is_refused_before_anything_is_written(
    copied: Client, crm: SmallCrm
) -> None:
    inputs = [{"properties": person(n)} for n in (1, 2, 3)]
    inputs[2]["properties"]["email"] = "P1@example.org"
    refused = copied.post("/contacts/batch/create", {"inputs": inputs})
    assert refused.status_code == 409, refused.json
    assert refused.json["message"].startswith("inputs[2].properties.email: ")
    assert "inputs[0].properties.email" in refused.json["message"]
    assert crm.contacts() == {}
    some = copied.post("/contacts/batch/create?partial=true", {"inputs": inputs})
    assert [each["index"] for each in some.json["errors"]] == [2]
    held = crm.contacts()
    assert len(held) == 2
    ids = [one["id"] for one in copied.get("/contacts").json["results"]]
    changes = [{"id": id, "properties": {"email": "same@example.org"}} for id in ids]
    refused = copied.post("/contacts/batch/update", {"inputs": changes})
    assert refused.status_code == 409, refused.json
    assert refused.json["message"].startswith("inputs[1].properties.email: ")
    assert crm.contacts() == held


def test_an_upsert_finds_contacts_by_email_or_by_the_id_of_the_crm(
    copied: Client, crm: SmallCrm
) -> None:
    id = crm.add_contact(person(1))
    inputs = [
        {"idProperty": "email", "id": f"P{n}@example.org", "properties": {"city": "Rome"}}
        for n in (1, 2)
    ]
    done = copied.post("/contacts/batch/upsert", {"inputs": inputs})
    assert [one["new"] for one in done.json] == [False, True], done.json
    assert crm_id(done.json[0]) == id
    by_id = {"idProperty": "crm_id", "id": id, "properties": {"city": "Bari"}}
    [again] = copied.post("/contacts/batch/upsert", {"inputs": [by_id]}).json
    assert (again["new"], again["properties"]["city"]) == (False, "Bari")
    unknown = copied.post("/contacts/batch/upsert", {"inputs": [{**by_id, "id": "99"}]})
    assert (unknown.status_code, len(crm.contacts())) == (422, 2)


def test_an_upsert_that_names_a_contact_by_email_and_by_id_writes_nothing(
    copied: Client, crm: SmallCrm
) -> None:
    id = crm_id(create(copied))
    inputs = [
        {"idProperty": "crm_id", "id": id, "properties": {"city": "Rome"}},
        {"idProperty": "email", "id": "p1@example.org", "properties": {"city": "Bari"}},
    ]
    refused = copied.post("/contacts/batch/upsert", {"inputs": inputs})
    assert refused.status_code == 400, refused.json
    assert "inputs[1].id: the same record as inputs[0].id" in refused.json["message"]
    assert "city" not in crm.contacts()[id]


def test_parallel_changes_of_one_record_are_all_made(copied: Client, crm: SmallCrm) -> None:
    record = create(copied)
    path = f"/contacts/{record['id']}"
    sent = [{name: f"New {name}"} for name in ("city", "firstname", "lastname")]
    answers = at_once(*(lambda one=one: copied.patch(path, {"properties": one}) for one in sent))
    assert [answer.status_code for answer in answers] == [200] * 3, [a.json for a in answers]
    for one, answer in zip(sent, answers, strict=True):
        assert answer.json["properties"].items() >= one.items()
    all_sent = {name: value for one in sent for name, value in one.items()}
    assert crm.contacts()[crm_id(record)].items() >= all_sent.items()
    assert copied.get(path).json["properties"].items() >= all_sent.items()


def test_a_bot_and_a_program_make_one_contact_of_one_email(
    hub: Hub, copied: Client, crm: SmallCrm
) -> None:
    lead = {"name": "Ann Lee", "email": "p1@example.org", "contactToken": "a"}
    answers = at_once(
        lambda: copied.helper("/chatbot/createLead/{generated}", lead),
        lambda: copied.post("/contacts", {"properties": person(1)}),
    )
    assert (len(crm.contacts()), len(contacts(copied))) == (1, 1), [a.json for a in answers]
    [id] = crm.contacts()
    assert copied.helper("/chatbot/createLead/{generated}", lead).json["contactId"] == id


def test_a_process_that_dies_during_a_write_leaves_it_to_a_worker(
    hub: Hub, copied: Client, crm: SmallCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = SmallAdapter.write

    def dies(self: SmallAdapter, *write: Any, mark: str = "") -> NoReturn:
        true(self, *write, mark=mark)
        raise KeyboardInterrupt

    key = {"headers": {"Idempotency-Key": "k"}}
    with monkeypatch.context() as patched:
        patched.setattr(SmallAdapter, "write", dies)
        # The interrupted request leaves its thread bound to the account.
        with ThreadPoolExecutor() as pool, pytest.raises(KeyboardInterrupt):
            pool.submit(copied.post, "/contacts", {"properties": person(1)}, **key).result()
    assert states(hub, copied) == ["running"]
    take_over(hub, copied)
    again = copied.post("/contacts", {"properties": person(1)}, **key)
    assert (again.status_code, len(crm.contacts())) == (201, 1), again.json


def test_the_journal_shows_and_corrects_a_write_that_failed(
    app: flask.Flask,
    hub: Hub,
    copied: Client,
    crm: SmallCrm,
    quick_passwords: None,
) -> None:
    options = {"headers": {"Prefer": "respond-async"}}
    with crm_down("write"):
        deal = {"properties": {"dealname": "Big", "dealstage": "open"}}
        action_id = copied.post("/deals", deal, **options).json["actionId"]
    crm.unique_titles = True
    crm.pipelines = {"sales": ("new", "won")}
    take_over(hub, copied)
    assert states(hub, copied) == ["dead"]
    page = open_console(app).get(f"/activity/{action_id}")
    assert page.status_code == 200
    assert "writeDeal" in page.text
    correct_action.correct(hub, action_id, {"dealstage": "won"}, by=TESTS)
    work_off(hub, copied)
    pull(hub, copied)
    [stored] = copied.get("/deals").json["results"]
    assert stored["properties"]["dealstage"] == "won"


def test_what_no_crm_can_do_is_refused(copied: Client) -> None:
    record = create(copied)
    copied.delete(f"/contacts/{record['id']}")
    for refused in (
        copied.post(f"/contacts/{record['id']}/restore", None),
        copied.post("/properties/contacts", {"name": "x", "label": "X", "type": "string"}),
    ):
        assert refused.status_code == 409, refused.json
        assert "CRM" in refused.json["message"]
    assert "change properties and pipelines there" in refused.json["message"]


def test_two_contacts_are_merged_in_the_crm(copied: Client, crm: SmallCrm) -> None:
    kept, other = create(copied, 1), create(copied, 2)
    merged = copied.post("/contacts/merge", {"keep": kept["id"], "merge": other["id"]})
    assert merged.status_code == 200, merged.json
    assert (merged.json["id"], list(crm.contacts())) == (kept["id"], [crm_id(kept)])
    assert copied.get(f"/contacts/{other['id']}").status_code == 404


# --- what must not happen ----------------------------------------------------------------------


def test_a_deal_that_is_made_and_not_linked_yet_is_not_made_again(
    hub: Hub, copied: Client, crm: SmallCrm
) -> None:
    contact = create(copied)
    deal = {"properties": {"dealname": "Big"}, "associations": {"contacts": [contact["id"]]}}
    with crm_down("link"):
        taken = copied.post("/deals", deal)
    assert taken.status_code == 202, taken.json
    take_over(hub, copied)
    assert (crm.count("deals"), states(hub, copied)) == (1, ["done"] * 2)


def test_a_batch_goes_on_with_what_a_worker_writes(hub: Hub, copied: Client, crm: SmallCrm) -> None:
    inputs = {"inputs": [{"properties": person(n)} for n in range(3)]}
    options = {"headers": {"Prefer": "respond-async"}}
    with crm_down("write"):
        taken = copied.post("/contacts/batch/create", inputs, **options)
        some = copied.post("/contacts/batch/create?partial=true", inputs)
    assert (taken.status_code, len(taken.json["actionIds"])) == (202, 3)
    assert {each["category"] for each in some.json["errors"]} == {"InternalError"}
    take_over(hub, copied)
    assert len(crm.contacts()) == 3


def test_of_two_changes_with_one_etag_one_is_refused(copied: Client, crm: SmallCrm) -> None:
    record = create(copied)
    path = f"/contacts/{record['id']}"
    options = {"headers": {"If-Match": copied.get(path).headers["ETag"]}}
    answers = at_once(
        lambda: copied.patch(path, {"properties": {"city": "Rome"}}, **options),
        lambda: copied.patch(path, {"properties": {"city": "Bari"}}, **options),
    )
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    [changed] = [answer.json for answer in answers if answer.status_code == 200]
    assert crm.contacts()[crm_id(record)]["city"] == changed["properties"]["city"]


def test_an_association_that_is_refused_leaves_the_values_as_they_are(
    copied: Client, crm: SmallCrm
) -> None:
    one, other = create(copied, 1), create(copied, 2)
    deal = {"properties": {"dealname": "Big"}, "associations": {"contacts": [one["id"]]}}
    made = copied.post("/deals", deal).json
    change = {"properties": {"dealname": "Huge"}, "associations": {"contacts": [other["id"]]}}
    refused = copied.patch(f"/deals/{made['id']}", change)
    assert refused.status_code == 409, refused.json
    assert crm.linked("deals", crm_id(one))[crm_id(made)]["dealname"] == "Big"


def test_a_new_contact_does_not_take_a_conversation_of_another(
    copied: Client, crm: SmallCrm
) -> None:
    lead = {"name": "Ann Lee", "email": "p1@example.org", "contactToken": "a"}
    first = copied.helper("/chatbot/createLead/{generated}", lead).json["contactId"]
    crm.records["contacts"][int(first)]["properties"]["email"] = "new@example.org"
    create(copied, 1)
    city = {"contactToken": "a", "props": {"city": "Rome"}}
    done = copied.helper("/chatbot/setProperties/{generated}", city).json
    assert done["contactId"] == first
    assert [id for id, one in crm.contacts().items() if one.get("city")] == [first]


def test_an_erased_person_is_gone_from_the_writes_of_programs_too(
    hub: Hub, copied: Client, crm: SmallCrm
) -> None:
    loaded = crm.add_contact(person(1))
    pull(hub, copied)
    [shown] = copied.get("/contacts").json["results"]
    copied.patch(f"/contacts/{shown['id']}", {"properties": {"city": "Rome"}})
    deal = {"properties": {"dealname": "Ann's"}, "associations": {"contacts": [shown["id"]]}}
    assert copied.post("/deals", deal).status_code == 201
    with crm_down("write"):
        called = {"properties": {"firstname": "Ben", "phone": "+493012345678"}}
        assert copied.post("/contacts", called).status_code == 503
    for name in ("p1@example.org", "+493012345678"):
        found, _ = erase_person.find(hub, copied.account, name)
        assert found
        erase_person.erase(hub, copied.account, found, by=TESTS, with_linked=True)
    assert rows(hub, copied, "request") == []
    assert loaded in crm.contacts()


def test_a_copy_that_ends_during_a_write_leaves_the_answer_to_a_worker(
    hub: Hub, copied: Client, crm: SmallCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = create(copied)
    true = SmallAdapter.write

    def ends(self: SmallAdapter, *write: Any, mark: str = "") -> Any:
        saved = true(self, *write, mark=mark)
        change_account.change(hub, copied.account.client_id, {"mirror": False}, by=TESTS)
        pull(hub, copied)
        return saved

    with monkeypatch.context() as patched:
        patched.setattr(SmallAdapter, "write", ends)
        change = {"properties": {"city": "Rome"}}
        answer = copied.patch(f"/contacts/{record['id']}", change)
    assert answer.status_code == 202, answer.json
    assert crm.contacts()[crm_id(record)]["city"] == "Rome"


def test_people_with_writes_for_the_former_crm_stay_there(
    hub: Hub, copied: Client, crm: SmallCrm
) -> None:
    lead = {"name": "Ann Lee", "email": "p1@example.org", "contactToken": "a"}
    options = {"headers": {"Prefer": "respond-async"}}
    with crm_down("write", "create_contact"):
        assert copied.post("/contacts", {"properties": person(1)}, **options).status_code == 202
        assert copied.helper("/chatbot/createLead/{generated}", lead).status_code == 202
    before = hub.load_account(copied.account.client_id)
    after = replace(before, connection=replace(before.connection, id=before.connection.id + 1))
    assert switch_crm.move(hub.database, before, after) == 0


def test_a_refusal_that_a_worker_got_is_told_as_one_that_came_at_once(
    hub: Hub, copied: Client, crm: SmallCrm
) -> None:
    options = {"headers": {"Prefer": "respond-async", "Idempotency-Key": "k"}}
    with crm_down("write"):
        assert copied.post("/contacts", {"properties": person(1)}, **options).status_code == 202
    crm.add_contact(person(1))
    pull(hub, copied)
    [held] = copied.get("/contacts").json["results"]
    take_over(hub, copied)
    assert states(hub, copied) == ["dead"]
    for _ in range(2):
        again = copied.post("/contacts", {"properties": person(1)}, **options)
        assert again.status_code == 409, again.json
        assert again.json["message"].endswith(f"Existing ID: {held['id']}")
        assert again.headers["Location"].endswith(f"/contacts/{held['id']}")
        # Nothing is left for an operator to decide.
        assert states(hub, copied) == ["refused"]
