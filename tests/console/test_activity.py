"""Activity: what became of each call, of each person, and what operators decide."""

from __future__ import annotations

import re

import pytest

from crmhub import audit
from crmhub.adapter.registry import Registry
from crmhub.audit import Wanted
from crmhub.database.connection import now_ms
from crmhub.operators.accounts.open_account import open_account
from crmhub.operators.actions import action_queries, attention, discard_action
from crmhub.operators.alerts import alerts
from crmhub.operators.alerts.queue_statistics import QueueGauges
from crmhub.queue import accepting
from crmhub.queue.models import New
from tests.adapter.small_crm import HOOK_KEY, SmallCrm
from tests.api.helpers.helper_calls import (
    ADD_NOTE,
    CREATE_DEAL,
    CREATE_TASK,
    SET_PROPERTIES,
    known,
)
from tests.clients import TESTS
from tests.console.past import give_cause
from tests.console.test_roles import signed_in
from tests.consoles import fault_of, text_of
from tests.copies.copying import SMALL
from tests.fakes import adapters, connect
from tests.queue.outcomes import open_circuit
from tests.queue.working import change, rows, states, work_off

HOSTILE = "<script>alert(1)</script>\u202e🦊" + "x" * 65_000


def of(client, **more):
    return {"account": client.account.client_id, **more}


def newest(hub, client):
    return rows(hub, client, "id")[-1][0]


def queue(hub, client, person="p", request=None):
    """Accept an action that is to wait, and return its id."""
    new = New("createLead", person, person, request or {"contact_token": "t"})
    options = {"lease_s": 30, "wait_s": 600}
    return accepting.accept(
        hub.database, client.account, lambda _tx: new, now=False, **options
    ).action_id


def end(hub, client, id, state, **more):
    what = "".join(f", {name} = :{name}" for name in more)
    change(
        hub, client, f"state = '{state}', finished_at = :now{what} where id = :it",
        now=now_ms(), it=id, **more,
    )  # fmt: skip


# --- the list ----------------------------------------------------------------------------------


def test_actions_of_a_helper_are_looked_for_in_an_index(hub):
    """One that nobody calls would else be looked for in every row there is."""
    with hub.database.reading() as db:
        postgresql = db.dialect == "postgresql"
        if postgresql:
            db.run("set enable_seqscan = off; set enable_bitmapscan = off")
        explain = "explain" if postgresql else "explain query plan"
        plan = db.rows(f"{explain} select id from action where kind = 'createTicket' order by id")
        if postgresql:
            db.run("reset enable_seqscan; reset enable_bitmapscan")
    told = " ".join(str(row[-1]) for row in plan)
    assert ("Index Only Scan using", "COVERING INDEX")[not postgresql] + " action_id" in told


def test_the_list_shows_what_became_of_each_call(client, hub, operator):
    known(client, "chat-1")
    end(hub, client, queue(hub, client), "dead", reason="no such stage")
    page = text_of(operator.get("/activity", query_string=of(client)))
    assert "createLead failed no such stage" in page
    assert "Ann Lee ann@x.org createLead done" in page


def test_actions_of_one_contact_share_a_row_with_each_state(client, hub, operator):
    known(client, "chat-1")
    client.helper(SET_PROPERTIES, {"contactToken": "chat-1", "props": {"city": "Rome"}})
    known(client, "chat-2", email="bob@x.org", name="Bob")
    page = operator.get("/activity", query_string=of(client))
    assert page.text.count('class="person"') == 2
    assert "Ann Lee ann@x.org createLead done setProperties done" in text_of(page)


def test_writes_that_belong_to_no_contact_have_a_row_each(client, hub, operator):
    for person in ("deals:1", "deals:2"):
        new = New("writeDeal", person, "", {"record": "deals"})
        accepting.accept(
            hub.database,
            client.account,
            lambda _tx, new=new: new,
            now=False,
            lease_s=30,
            wait_s=600,
        )
    page = operator.get("/activity", query_string=of(client)).text
    assert page.count('data-label="Person"') == 2
    assert "contact=&" not in page
    assert 'contact="' not in page


def test_the_list_is_narrowed(client, hub, operator):
    known(client, "chat-1", phone="+12025550134")
    client.helper(SET_PROPERTIES, {"contactToken": "chat-1", "props": {"city": "Rome"}})
    end(hub, client, queue(hub, client), "dead", reason="no such stage")
    for given, count in (
        ({}, 3),
        ({"state": "done"}, 2),
        ({"state": "dead,parked"}, 1),
        ({"helper": "setProperties"}, 1),
        ({"contactToken": "chat-1"}, 2),
        ({"phone": "+1 (202) 555-0134"}, 2),
        ({"q": "0134"}, 2),
        ({"reason": "NO SUCH"}, 1),
        ({"newerThan": "1h"}, 3),
        ({"olderThan": "1h"}, 0),
        ({"when": "24h"}, 3),
        ({"from": "2000-01-01"}, 3),
        ({"to": "2000-01-01"}, 0),
        ({"contact": "nobody"}, 0),
        ({"state": "done", "reason": "no such"}, 0),
    ):
        answer = operator.get("/activity", query_string=of(client, **given))
        assert answer.text.count('<li class="act">') == count, given
        assert ("No action matches" in answer.text) is (count == 0), given


def test_a_role_without_data_finds_a_whole_email_and_does_not_see_it(app, client):
    known(client, "chat-1", name="Ann Lee", email="ann@x.org")
    support = signed_in(app, "support")
    for email, count in (("Ann@x.org", 1), ("ann@x.or", 0), ("ann", 0)):
        page = support.get("/activity", query_string=of(client, email=email))
        assert page.text.count('<li class="act">') == count, email
        assert "Ann Lee" not in page.text
        assert "ann@x.org" not in page.text
    assert 'name="q"' not in page.text
    assert 'name="email"' in page.text


def test_several_states_are_chosen_by_repeating_the_name(client, hub, operator):
    end(hub, client, queue(hub, client, "p1"), "dead", reason="no such stage")
    end(hub, client, queue(hub, client, "p2"), "refused", reason="no such stage")
    queue(hub, client, "p3")
    page = operator.get("/activity", query_string=of(client, state=["dead", "refused"])).text
    assert page.count('<li class="act">') == 2
    assert re.findall(r'name="state" value="(\w+)" checked', page) == ["refused", "dead"]


def test_a_cause_is_chosen_from_those_of_the_account(client, hub, operator):
    chosen, other = queue(hub, client, "p1"), queue(hub, client, "p2")
    for id, name in ((chosen, "dealstage"), (other, "amount")):
        end(hub, client, id, "dead", reason=f"{name}: invalid")
    key = give_cause(hub, client.account, chosen)
    page = operator.get("/activity", query_string=of(client, cause=key)).text
    assert f'<option value="{key}" selected>dealstage' in page
    assert chosen in page
    assert other not in page


def test_of_many_accounts_a_part_of_the_name_is_enough(client, hub, operator, monkeypatch):
    monkeypatch.setattr("crmhub.console.list_filters._MOST_LISTED", 0)
    unique = client.account.client_id
    queue(hub, client)
    first, _ = open_account(hub, name=f"Bakery {unique} one", by=TESTS)
    one = operator.get("/activity", query_string={"account": f"{unique} ONE"})
    assert one.status_code == 200
    second, _ = open_account(hub, name=f"Bakery {unique} two", by=TESTS)
    several = operator.get("/activity", query_string={"account": f"bakery {unique}"})
    assert several.status_code == 404
    assert "2 accounts match" in fault_of(several, "account")
    offered = re.findall(r'<option value="([\w-]+)">Bakery', several.text)
    assert offered == [first.client_id, second.client_id]


def test_the_error_of_a_filter_stands_at_its_field(operator):
    for name, value, words in (
        ("account", "nobody", "nobody"),
        ("state", "lost", "'lost' is not known; use running, queued"),
        ("helper", "x,createLead", "'x' is not known; use createLead"),
        ("olderThan", "soon", "'soon' is not a number and s, m, h, d or w"),
        ("when", "soon", "'soon' is not a period. Use today, yesterday"),
        ("from", "soon", "one of them is not a date"),
        ("to", "0001-01-01", "one of them is not a date"),
    ):
        answer = operator.get("/activity", query_string={name: value})
        assert answer.status_code in (400, 404)
        assert words in fault_of(answer, name)
        assert answer.text.count(" autofocus") == 1
        assert 'name="reason"' in answer.text


def test_pages_of_the_list_hold_everything_once(client, hub, operator, monkeypatch):
    monkeypatch.setattr("crmhub.console.activity._PAGE_SIZE", 2)
    ids = [queue(hub, client, f"p{i}") for i in range(5)]
    seen, path = [], f"/activity?account={client.account.client_id}&state=queued"
    while path:
        page = operator.get(path).text
        seen += [id for id in ids if f"/console/activity/{id}" in page]
        after = page.partition('rel="next"')[0].rpartition('href="/console')[2]
        path = after.partition('"')[0].replace("&amp;", "&") if 'rel="next"' in page else ""
    assert (sorted(seen), len(seen)) == (sorted(ids), 5)


def test_what_no_database_takes_is_looked_for_and_not_found(client, operator):
    for query in ("reason=%00", "contact=a%00b", "after=%00", "phone=%ED%A0%80", "reason=%FF"):
        assert operator.get(f"/activity?{query}").status_code == 200, query


# --- one ---------------------------------------------------------------------------------------


def test_an_action_tells_what_was_sent_how_it_was_mapped_and_each_try(client, hub, operator):
    contact_id = known(client, "chat-1", name="Ann Lee", email="ann@x.org")
    page = operator.get(f"/activity/{newest(hub, client)}")
    words = text_of(page)
    assert "What was sent" in words
    assert "contactToken chat-1" in words
    assert "firstname Ann lastname Lee" in words.partition("How it was mapped")[2]
    assert "1 attempt" in words
    assert "took" in words
    assert f'href="/console/records/{client.account.client_id}/contacts/{contact_id}"' in page.text


def test_a_deal_leads_to_the_deal_and_its_contact(client, hub, operator):
    contact_id = known(client)
    body = {"contactId": contact_id, "properties": {"dealname": "Big"}}
    client.helper(CREATE_DEAL, body)
    (deal,) = client.get("/deals").json["results"]
    page = operator.get(f"/activity/{newest(hub, client)}")
    for kind, id in (("deals", deal["id"]), ("contacts", contact_id)):
        path = f"/console/records/{client.account.client_id}/{kind}/{id}"
        assert f'href="{path}"' in page.text
        assert operator.get(path.removeprefix("/console")).status_code == 200


def test_an_action_tells_what_it_waits_for(client, hub, operator):
    first, second = queue(hub, client), queue(hub, client)
    page = operator.get(f"/activity/{second}")
    assert "Queued behind an earlier action of the same person" in text_of(page)
    assert f'href="/console/activity/{first}"' in page.text


def test_an_action_tells_what_it_blocks_and_what_blocks_it(client, hub, operator):
    first, *others = [queue(hub, client) for _ in range(3)]
    end(hub, client, first, "dead")
    for id in others:
        end(hub, client, id, "parked", behind=first)
        page = operator.get(f"/activity/{id}")
        assert "Blocked: the createLead of its contact failed." in text_of(page)
        assert f'href="/console/activity/{first}"' in page.text
    page = operator.get(f"/activity/{first}")
    words = text_of(page)
    assert "Failed permanently. Fix the cause and retry, or discard it." in words
    assert "2 actions blocked behind it" in words
    assert "2 actions blocked behind it are discarded, too." in words
    assert all(f'href="/console/activity/{id}"' in page.text for id in others)


def test_an_action_tells_that_its_crm_is_away(client, hub, operator):
    id = queue(hub, client)
    open_circuit(hub, client.account, "The CRM answers 503.")
    words = text_of(operator.get(f"/activity/{id}"))
    assert "is unreachable. Next attempt in" in words
    assert "The CRM answers 503." in words


def test_an_action_that_is_not_there_is_404(operator):
    for id in ("act-0", "x" * 3000, "..", "é"):
        assert operator.get(f"/activity/{id}").status_code == 404, id[:9]


def test_hostile_values_stay_text_and_in_their_place(client, hub, operator):
    id = queue(hub, client, request={"properties": {"note": HOSTILE}, HOSTILE[:40]: "1"})
    end(hub, client, id, "dead", reason=HOSTILE[:400])
    for path in (f"/activity/{id}", "/activity", "/activity/contact"):
        answer = operator.get(path, query_string=of(client, contact="p"))
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text, path
        assert "&lt;script&gt;alert" in answer.text, path
    assert "<bdi>" in answer.text


def test_a_link_of_a_crm_is_followed_over_the_web_alone(client, hub, operator, monkeypatch):
    monkeypatch.setattr(Registry, "is_remote", lambda self, name: True)
    known(client)
    id = newest(hub, client)
    for url, shown in (("https://crm.example/1", 1), ("javascript:alert(1)", 0)):
        result = f'{{"contact_id": "7", "record_id": "", "url": "{url}", "refused": []}}'
        change(hub, client, "result = :result", result=result)
        assert operator.get(f"/activity/{id}").text.count(f'href="{url}"') == shown


# --- of one person -----------------------------------------------------------------------------


def test_a_timeline_holds_what_one_person_sent_and_no_other(client, hub, operator):
    contact_id = known(client, "chat-1")
    known(client, "chat-2", email="bob@x.org", name="Bob")
    client.helper(SET_PROPERTIES, {"contactToken": "chat-1", "props": {"city": "Rome"}})
    (hub_id,) = rows(hub, client, "hub_id")[0]
    for contact in (contact_id, hub_id):
        answer = operator.get("/activity/contact", query_string=of(client, contact=contact))
        words = text_of(answer)
        assert words.index("setProperties done") < words.index("createLead done")
        assert "Rome" in words
        assert "Bob" not in words
        listed = operator.get("/activity", query_string=of(client, contact=contact))
        assert listed.text.count('<li class="act">') == 2


def test_a_timeline_shows_nothing_of_other_accounts(client, other, hub, operator):
    contact_id = known(client, "chat-1")
    answer = operator.get("/activity/contact", query_string=of(other, contact=contact_id))
    assert "Nothing was sent for this contact" in answer.text


def test_a_timeline_of_nobody_in_particular_is_400(client, operator):
    for given in ({}, of(client), {"contact": "1"}):
        assert operator.get("/activity/contact", query_string=given).status_code == 400


# --- retry -------------------------------------------------------------------------------------


def test_an_action_is_tried_again_from_its_page(client, hub, operator):
    known(client)
    id = newest(hub, client)
    end(hub, client, id, "dead", reason="no such stage")
    answer = operator.send(f"/activity/{id}/retry", at=f"/activity/{id}")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/console/activity/{id}")
    assert "This action will be retried now." in text_of(operator.get(f"/activity/{id}"))
    work_off(hub, client)
    assert states(hub, client) == ["done"]
    with hub.database.reading() as db:
        (entry, *_) = audit.listed(db, Wanted(verb="retry", by=operator.email), limit=2)
    assert (entry.object, entry.object_id) == ("actions", id)


def test_many_are_tried_again_after_the_page_has_said_how_many(client, other, hub, operator):
    ids = [queue(hub, client, f"p{i}") for i in range(3)]
    for id in (*ids[:2], queue(hub, other)):
        end(hub, client, id, "dead", reason="no such stage")
        end(hub, other, id, "dead", reason="no such stage")
    path = f"/activity/retry?account={client.account.client_id}&reason=such"
    page = text_of(operator.get(path))
    assert "Retry 2 actions : 2 failed" in page
    wanted = dict(zip(ids, ["dead", "dead", "queued"], strict=True))
    assert dict(rows(hub, client, "id, state")) == wanted
    assert operator.send(path).status_code == 303
    assert "2 actions will be retried now." in text_of(operator.get("/activity"))
    assert states(hub, client) == ["queued"] * 3
    assert states(hub, other) == ["dead"]


def test_where_nothing_is_dead_there_is_nothing_to_confirm(client, operator):
    known(client)
    answer = operator.get("/activity/retry", query_string=of(client))
    assert "No failed action matches." in answer.text
    assert "<button" not in answer.text.partition("<main")[2]


# --- correct and discard -----------------------------------------------------------------------


def typed(page, **values):
    """Return the form of a correction as a browser sends it, with some values changed."""
    names, was = (
        re.findall(f'name="{part}" value="([^"]*)"', page.text) for part in ("name", "was")
    )
    value = [values.pop(name, old) for name, old in zip(names, was, strict=True)]
    seen = re.search(r'name="seen" value="(\d+)"', page.text)[1]
    return {"name": names, "was": was, "value": value, "seen": seen, **values}


def failed(client, hub):
    known(client)
    id = newest(hub, client)
    end(hub, client, id, "dead", reason="no such stage")
    return id


def test_values_are_corrected_on_the_page_and_both_versions_stay(client, hub, operator):
    id = failed(client, hub)
    form = typed(operator.get(f"/activity/{id}"), name="Bea Poe")
    answer = operator.send(f"/activity/{id}/edit", form, at=f"/activity/{id}")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/console/activity/{id}")
    words = text_of(operator.get(f"/activity/{id}"))
    assert "Corrected: this action will be retried now." in words
    assert f"when {operator.email} corrected it" in words
    sent = words.partition("What was sent")[2]
    assert sent.index("Bea Poe") < sent.index("Ann Lee")
    work_off(hub, client)
    assert states(hub, client) == ["done"]


def test_another_property_is_added_to_a_deal(client, hub, operator):
    body = {"contactId": known(client), "properties": {"dealname": "a\nb"}}
    client.helper(CREATE_DEAL, body)
    id = newest(hub, client)
    end(hub, client, id, "dead")
    page = operator.get(f"/activity/{id}")
    assert "<textarea" in page.text
    # As a browser sends line breaks.
    form = {**typed(page), "new_name": " amount ", "new_value": "17"}
    form["was"] = form["value"] = [text.replace("\n", "\r\n") for text in form["was"]]
    assert operator.send(f"/activity/{id}/edit", form, at=f"/activity/{id}").status_code == 303
    found = action_queries.shown(hub.database, id)
    assert found.request["properties"] == {"dealname": "a\nb", "amount": "17"}
    assert [*found.corrected] == ["amount"]


@pytest.mark.parametrize(
    ("changed", "status", "words"),
    [
        ({}, 422, "No value differs"),
        ({"email": "<b>nobody</b>"}, 422, "Correct the marked fields."),
        ({"name": "Bea", "seen": "7"}, 409, "somebody else"),
    ],
)
def test_a_correction_that_cannot_be_keeps_what_was_typed(
    client, hub, operator, changed, status, words
):
    id = failed(client, hub)
    form = typed(operator.get(f"/activity/{id}"), **changed)
    answer = operator.send(f"/activity/{id}/edit", form, at=f"/activity/{id}")
    assert answer.status_code == status
    assert words in text_of(answer)
    if "email" in changed:
        assert 'value="&lt;b&gt;nobody&lt;/b&gt;"' in answer.text
        assert fault_of(answer, "value-2")
    assert states(hub, client) == ["dead"]


def test_an_action_is_discarded_with_a_reason(client, hub, operator):
    id = failed(client, hub)
    page = f"/activity/{id}"
    for reason, status in (("", 422), ("x" * 501, 422), ("sent by mistake", 303)):
        answer = operator.send(f"{page}/discard", {"reason": reason}, at=page)
        assert answer.status_code == status
    words = text_of(operator.get(page))
    assert "This action was discarded." in words
    assert "Reason sent by mistake" in words
    assert "Retry now" not in words
    assert "Discard" not in words.partition("Outcome")[2].partition("Reason")[2]
    assert operator.send(f"{page}/discard", {"reason": "x"}, at="/accounts/new").status_code == 409


def test_many_are_discarded_after_the_page_has_said_how_many(client, other, hub, operator):
    ids = [queue(hub, client, f"p{i}") for i in range(3)]
    for id in ids[:2]:
        end(hub, client, id, "dead", reason="no such stage")
    end(hub, client, ids[2], "parked", behind=ids[0])
    end(hub, other, queue(hub, other), "dead", reason="no such stage")
    path = f"/activity/discard?account={client.account.client_id}&reason=such"
    page = text_of(operator.get(path))
    assert "3 actions : 2 failed , 1 blocked behind them" in page
    assert operator.send(path, {"reason": "a\tb"}, at=path).status_code == 422
    assert operator.send(path, {"reason": "test data"}, at=path).status_code == 303
    assert "3 actions were discarded." in text_of(operator.get("/activity"))
    assert states(hub, client) == ["discarded"] * 3
    assert states(hub, other) == ["dead"]
    assert "Nothing to discard" in text_of(operator.get(path))


def test_a_state_may_have_its_word_in_the_url(client, hub, operator):
    failed(client, hub)
    for given, chosen in (("failed", "dead"), ("failed,blocked", "dead,parked")):
        page = operator.get("/activity", query_string=of(client, state=given)).text
        assert "/console/activity/act-" in page
        assert re.findall(r'name="state" value="(\w+)" checked', page) == chosen.split(",")
    assert (
        "/console/activity/act-"
        not in operator.get("/activity", query_string=of(client, state="blocked")).text
    )


def test_buttons_stand_where_there_is_something_to_decide(client, hub, operator):
    failed(client, hub)
    for state, retry, discard in (
        ("", True, True),
        ("dead,parked", True, True),
        ("refused", True, False),
        ("done", False, False),
    ):
        wire = state.partition(",")[0] or "dead"
        change(hub, client, f"state = '{wire}', finished_at = created_at")
        page = operator.get("/activity", query_string=of(client, state=state)).text
        assert ("/console/activity/retry?" in page) is retry, state
        assert ("/console/activity/discard?" in page) is discard, state


# --- one number --------------------------------------------------------------------------------


def test_the_same_number_of_actions_needs_attention_everywhere(
    app, client, hub, operator, monkeypatch
):
    # Other tests have left blocked actions without the failed one that blocks them.
    with hub.database.reading() as db:
        db.run("delete from action where state in ('dead', 'parked')")
    lead, deal, *blocked = [queue(hub, client, f"p{i}") for i in range(5)]
    for id in (lead, deal):
        end(hub, client, id, "dead")
    for id in blocked:
        end(hub, client, id, "parked", behind=lead)
    name = client.account.client_id
    for path in (f"/accounts?q={name}", f"/accounts/{name}", f"/activity?account={name}"):
        assert "2 failed, 3 blocked" in text_of(operator.get(path)), path
    with hub.database.reading() as db:
        everything = attention.of_all(db)
        mine = [one for one in alerts.current(db, old_ms=10**12) if one.client_id == name]
    assert [(one.kind, one.count, one.blocked) for one in mine] == [("dead", 2, 3)]
    assert "2 failed, 3 blocked" in mine[0].in_words()
    app.extensions["crmhub.console.banner"].forget()
    assert f"need attention: {everything}" in text_of(operator.get("/accounts/new"))
    gauges = {one.name: one.values for one in QueueGauges(hub.database).gauges()}["actions"]
    assert (gauges["dead"], gauges["parked"]) == (everything.failed, everything.blocked)
    discard_action.discard(
        hub.database, action_queries.Wanted(account=client.account), reason="x", by=TESTS
    )
    for path in (f"/accounts?q={name}", f"/accounts/{name}", f"/activity?account={name}"):
        # The banner tells of others.
        below = operator.get(path).text.partition("</section>")[2]
        assert not re.search(r"\d (failed|blocked)", below), path


# --- notes and tasks of a contact ----------------------------------------------------------------


def test_a_contact_shows_its_notes_and_tasks_to_who_may_see_data(app, client, operator):
    contact = known(client, "t")
    client.helper(ADD_NOTE, {"contactToken": "t", "text": "<b>Calls</b>\nback", "author": "Bob"})
    task = {"contactId": contact, "properties": {"subject": "Call Ann", "notes": "At noon"}}
    assert client.helper(CREATE_TASK, task).status_code == 200
    page = operator.get("/activity/contact", query_string=of(client, contact=contact))
    shown = page.text.partition("Notes and tasks")[2].partition("What bots sent")[0]
    for text in ("&lt;b&gt;Calls&lt;/b&gt;\nback", "Bob", "Call Ann", "At noon"):
        assert text in shown, text
    links = set(re.findall(r"/records/[^/]+/contacts/([0-9]+)", page.text))
    assert links == {contact}
    hidden = signed_in(app, "support")
    page = hidden.get("/activity/contact", query_string=of(client, contact=contact))
    assert page.status_code == 200
    assert "Notes and tasks" not in page.text


def test_a_contact_of_a_remote_crm_shows_what_the_hub_sent(app, client, operator):
    with SmallCrm() as crm, adapters(app, SMALL):
        kept = {"refresh_token": crm.refresh_token, "hook_key": HOOK_KEY}
        connect(app, client, "small", kept, base_url=crm.url)
        contact = known(client, "t")
        note = {"contactToken": "t", "text": "Sent to the CRM"}
        assert client.helper(ADD_NOTE, note).status_code == 200
        page = operator.get("/activity/contact", query_string=of(client, contact=contact))
        shown = page.text.partition("Notes and tasks")[2].partition("What bots sent")[0]
        assert "Sent to the CRM" in shown
