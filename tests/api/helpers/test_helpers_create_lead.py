"""createLead: whose contact it is, what is stored, and what is told of the rest."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import flask
import pytest

from tests.api.helpers.helper_calls import (
    BODIES,
    CREATE_DEAL,
    CREATE_LEAD,
    CREATE_TICKET,
    OWN,
    known,
    lead,
    stored,
    switch,
)
from tests.clients import Client, open_client
from tests.fakes import LOCKING, adapters, fake_client
from tests.pages import total
from tests.queue.working import finish_all


def test_a_new_lead_becomes_a_contact(client: Client) -> None:
    answer = lead(client, phone="+1 202 555 0100")
    assert answer.status_code == 200
    assert answer.mimetype == "application/json"
    assert list(answer.json) == [*OWN, "contactId"]  # type: ignore[arg-type]
    contact_id, action_id = answer.json["contactId"], answer.json["actionId"]  # type: ignore[index]
    assert isinstance(contact_id, str)
    assert answer.json == {
        "status": "created",
        "message": "",
        "actionId": action_id,
        "stale": "",
        "refused": "",
        "contactId": contact_id,
    }
    assert stored(client, contact_id) == {
        "firstname": "Ann",
        "lastname": "Lee",
        "email": "ann@x.org",
        "phone": "+12025550100",
    }


def test_the_same_again_is_unchanged_and_something_new_an_update(client: Client) -> None:
    first = lead(client).json
    again, changed = lead(client).json, lead(client, "another", name="Ann Smith").json
    for answer, status in ((again, "unchanged"), (changed, "updated")):
        assert answer == first | {"status": status, "actionId": answer["actionId"]}  # type: ignore[operator, index]
    assert total(client) == 1


def test_one_word_leaves_the_last_name_as_it_is(client: Client) -> None:
    known(client, name="Ann Lee")
    assert stored(client, known(client, name="Anna"))["lastname"] == "Lee"


@pytest.mark.parametrize("blank", ["", "  ", None])
def test_a_blank_phone_clears_nothing(client: Client, blank: Any) -> None:
    known(client, phone="+12025550100")
    answer = client.helper(
        CREATE_LEAD,
        {"contactToken": "t", "name": "Ann Lee", "email": "ann@x.org", "phone": blank},
    )
    assert answer.json["status"] == "unchanged"  # type: ignore[index]
    assert stored(client, answer.json["contactId"])["phone"] == "+12025550100"  # type: ignore[index]


def test_an_email_is_the_same_in_any_case(client: Client) -> None:
    assert known(client) == known(client, "another", email=" ANN@X.org ")


def test_an_email_wins_over_the_conversation_and_the_token_is_bound_anew(client: Client) -> None:
    ann = known(client, "t", email="ann@x.org")
    ben = known(client, "other", email="ben@x.org")
    assert known(client, "t", email="ben@x.org") == ben != ann
    answer = client.helper(
        "/chatbot/getProperties/{generated}", {"contactToken": "t", "props": ["email"]}
    )
    assert answer.json["email"] == "ben@x.org"  # type: ignore[index]
    assert stored(client, ann)["email"] == "ann@x.org"


def test_a_former_email_of_a_contact_is_free_for_somebody_else(client: Client) -> None:
    anne = known(client, email="ann@x.org")
    assert known(client, email="anne@x.org") == anne
    ann = known(client, "another", email="ann@x.org")
    assert ann != anne
    assert stored(client, anne)["email"] == "anne@x.org"
    assert stored(client, ann)["email"] == "ann@x.org"


def test_an_archived_contact_of_the_conversation_is_made_anew(client: Client) -> None:
    contact_id = known(client)
    client.delete(f"/contacts/{contact_id}")
    answer = lead(client).json
    assert answer["status"] == "created"  # type: ignore[index]
    assert answer["contactId"] != contact_id  # type: ignore[index]


@pytest.mark.parametrize("key", ["contactToken", "name", "email"])
def test_a_missing_key_is_400_and_a_blank_one_422(client: Client, key: str) -> None:
    body = {"contactToken": "t", "name": "Ann Lee", "email": "ann@x.org"}
    missing = client.helper(CREATE_LEAD, {k: v for k, v in body.items() if k != key})
    assert (missing.status_code, key in missing.json["message"]) == (400, True)  # type: ignore[index]
    for blank in ("", "  ", None):
        answer = client.helper(CREATE_LEAD, body | {key: blank})
        assert (answer.status_code, key in answer.json["message"]) == (422, True)  # type: ignore[index]
    assert total(client) == 0


@pytest.mark.parametrize("phone", [[], {}, False, ["+12025550100"]])
def test_a_phone_that_is_no_text_does_not_sink_a_lead(client: Client, phone: Any) -> None:
    answer = lead(client, phone=phone).json
    assert (answer["status"], answer["refused"]) == ("created", "phone")  # type: ignore[index]
    assert answer["message"].startswith("phone: ")  # type: ignore[index]
    assert "phone" not in stored(client, answer["contactId"])  # type: ignore[index]


@pytest.mark.parametrize("text", ["12025550100.0", "1.20255501e10"])
def test_a_phone_may_be_any_number_of_json(app: flask.Flask, client: Client, text: str) -> None:
    switch(app, client, region="US")
    body = f'{{"contactToken": "t", "name": "Ann", "email": "ann@x.org", "phone": {text}}}'
    answer = client.helper(CREATE_LEAD, None, data=body, content_type="application/json")
    assert stored(client, answer.json["contactId"])["phone"] == "+12025550100"  # type: ignore[index]


@pytest.mark.parametrize("text", ["mailto:ANN@x.org", "Ann <ann@x.org>", "ann@x.org."])
def test_an_email_is_read_as_people_write_it(client: Client, text: str) -> None:
    known = lead(client, email="ann@x.org").json
    answer = lead(client, contactToken="another", email=text).json
    assert answer["contactId"] == known["contactId"]  # type: ignore[index]
    assert answer["status"] == "unchanged"  # type: ignore[index]


def test_an_email_that_is_none_does_not_sink_a_lead_with_a_phone(client: Client) -> None:
    answer = lead(client, email="ann at home", phone="+12025550100").json
    assert (answer["status"], answer["refused"]) == ("created", "email")  # type: ignore[index]
    assert "not an email address" in answer["message"]  # type: ignore[index]
    assert stored(client, answer["contactId"]) == {  # type: ignore[index]
        "firstname": "Ann",
        "lastname": "Lee",
        "phone": "+12025550100",
    }


def test_nobody_could_tell_whose_name_it_is_without_email_and_phone(client: Client) -> None:
    answer = lead(client, email="ann at home", phone="none")
    assert answer.status_code == 422
    assert {"email:", "phone:"} <= set(answer.json["message"].split())  # type: ignore[index]
    assert total(client) == 0


def test_a_strict_account_stores_all_or_nothing(app: flask.Flask, client: Client) -> None:
    switch(app, client, strict="true")
    client.make(phone="+12025550100")
    for fields in (
        {"email": "ann at home", "phone": "+12025550199"},
        {"phone": "{{phone}}"},
    ):
        assert lead(client, **fields).status_code == 422
    known(client, phone="+12025550199")
    answer = lead(client, name="Anna Lee", phone="+12025550100")
    assert (answer.status_code, "phone:" in answer.json["message"]) == (422, True)  # type: ignore[index]
    assert total(client) == 2


def test_an_account_may_take_a_phone_alone(app: flask.Flask, client: Client) -> None:
    assert lead(client, email=None, phone="+12025550100").status_code == 400
    switch(app, client, lead_requires="email_or_phone")
    contact_id = known(client, email=None, phone="+12025550100")
    assert known(client, "u", name=None, email="", phone="+1 202 555 0100") == contact_id
    assert lead(client, email="", phone="").status_code == 422
    assert lead(client, email="{{email}}", phone="+12025550100").status_code == 422


def test_what_an_account_demands_of_records_turns_no_bot_away(client: Client) -> None:
    for kind in ("contacts", "deals", "tickets"):
        body = {"name": "vat_id", "label": "VAT", "type": "string", "required": True}
        assert client.post(f"/properties/{kind}", body).status_code == 201
    contact_id = known(client)
    for path in (CREATE_DEAL, CREATE_TICKET):
        answer = client.helper(path, {**BODIES[path], "contactId": contact_id})
        assert answer.status_code == 200, answer.text
    assert "vat_id" not in stored(client, contact_id)
    assert (
        client.helper(CREATE_TICKET, {"properties": {}, "contactId": contact_id}).status_code > 399
    )


def test_an_adapter_may_lease_what_the_hub_does(app: flask.Flask) -> None:
    """The hub holds a lease of a phone that is all there is; an adapter's is another one."""
    with adapters(app, LOCKING):
        client, _ = fake_client(app, "locking")
        switch(app, client, lead_requires="email_or_phone")
        assert lead(client, email=None, phone="+12025550100").status_code == 200


def test_a_number_serves_for_its_text_where_ids_and_phones_are(client: Client) -> None:
    contact_id = known(client, 5215, phone=12025550100)  # type: ignore[arg-type]
    assert stored(client, contact_id)["phone"] == "12025550100"
    answer = client.helper(
        "/chatbot/getProperties/{generated}", {"contactToken": "5215", "props": ["name"]}
    )
    assert answer.json["name"] == "Ann Lee"  # type: ignore[index]


def test_a_lead_beyond_the_plan_waits_for_room(app: flask.Flask) -> None:
    client = open_client(app, plan="free")
    hub = app.extensions["crmhub"]
    hub.database.transact(
        lambda tx: tx.run(
            "update record_count set n = 1000 where account_id = :id and kind = 1",
            {"id": client.account.id},
        )
    )
    answer = lead(client)
    assert (answer.status_code, answer.json["status"]) == (202, "queued")  # type: ignore[index]
    assert answer.json["contactId"].startswith("hub-")  # type: ignore[index]
    assert "plan is full" in answer.json["message"]  # type: ignore[index]
    hub.database.transact(
        lambda tx: tx.run(
            "update record_count set n = 0 where account_id = :id and kind = 1",
            {"id": client.account.id},
        )
    )
    finish_all(hub, client)
    assert total(client) == 1


@pytest.mark.databases("sqlite", "postgresql")
@pytest.mark.parametrize("by", ["email", "phone"])
def test_calls_at_once_make_one_contact(app: flask.Flask, client: Client, by: str) -> None:
    switch(app, client, lead_requires="email_or_phone")
    fields = {"email": None, "phone": "+12025550100"} if by == "phone" else {}
    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(lambda i: known(client, f"t{i}", **fields), range(24)))
    assert len(ids) == 1
    assert total(client) == 1


@pytest.mark.databases("sqlite", "postgresql")
def test_calls_at_once_in_one_conversation_bind_it_once(client: Client) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: lead(client, email=f"a{i % 3}@x.org"), range(24)))
    assert {answer.status_code for answer in answers} == {200}
