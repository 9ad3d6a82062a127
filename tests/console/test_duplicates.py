"""Possible duplicates of an account: listed, previewed, merged, unmerged and dismissed by forms."""

from __future__ import annotations

import re

import pytest

from crmhub.hub import Hub
from tests.api.helpers.helper_calls import known as create_lead
from tests.consoles import open_console, text_of
from tests.duplicates import PHONE, dismiss, listed_pair, merge, pair_of, two_contacts
from tests.fakes import FAKE, FakeAdapter, adapters, fake_client
from tests.queue.outcomes import open_circuit

pytestmark = pytest.mark.databases("postgresql")

HOSTILE = "<img src=x onerror=alert(1)>\u202e🦊"


def path(client, *parts):
    return "/".join((f"/accounts/{client.account.client_id}/duplicates", *parts))


def hidden(answer, name):
    """Return the value of a hidden field of the page's form."""
    found = re.search(rf'type="hidden" name="{name}" value="([^"]*)"', answer.text)
    assert found is not None, name
    return found[1]


def chosen(answer):
    """Return which contact's value each choice of the page is set to."""
    radios = re.findall(r'name="take\.(\w+)" value="(\d+)"[^>]* checked', answer.text)
    return dict(radios)


def send(operator, client, one, other, verb, form=None):
    at = path(client, one, other)
    return operator.send(f"{at}/{verb}", form, at=at)


def test_the_tab_counts_what_is_to_be_decided(hub, client, operator):
    overview = f"/accounts/{client.account.client_id}"
    assert "Possible duplicates (" not in text_of(operator.get(overview))
    ids = two_contacts(hub, client)
    for page in (overview, f"/records/{client.account.client_id}/contacts", path(client)):
        assert "Possible duplicates (1)" in text_of(operator.get(page))
    dismiss(hub, client, *ids)
    assert "Possible duplicates (" not in text_of(operator.get(overview))


def test_the_list_shows_each_state_with_the_contacts_names(hub, client, operator):
    empty = text_of(operator.get(path(client)))
    assert "No possible duplicates" in empty
    ids = two_contacts(hub, client)
    listed = text_of(operator.get(path(client)))
    assert all(word in listed for word in (*ids, "Ann", "Anne Lee", "phone"))
    assert "No merged pairs" in text_of(operator.get(path(client) + "?state=merged"))
    merge(hub, client, *ids)
    merged = text_of(operator.get(path(client) + "?state=merged"))
    assert f"by tests, kept {ids[0]}" in merged
    assert ids[1] in merged
    assert "No possible duplicates" in text_of(operator.get(path(client) + "?state=nonsense"))


def test_pages_of_the_list_hold_every_pair_once(hub, client, operator, monkeypatch):
    monkeypatch.setattr("crmhub.console.duplicates._PAGE_SIZE", 2)
    for n in range(5):
        listed_pair(hub, client, f"1{n}", "99")
    seen, at = [], path(client)
    while at:
        page = operator.get(at).text
        seen += re.findall(r"duplicates/(\d+)/99", page)
        before = page.partition('rel="next"')[0].rpartition('href="/console')[2]
        at = before.partition('"')[0].replace("&amp;", "&") if 'rel="next"' in page else ""
    assert sorted(seen) == [f"1{n}" for n in range(5)]
    assert operator.get(path(client) + "?after=soon&one=x").status_code == 200


def test_a_pair_is_merged_as_chosen_and_unmerged(hub, client, operator):
    older, newer = two_contacts(hub, client, city="Rome")
    page = operator.get(path(client, newer, older))
    assert chosen(page) == {
        "firstname": older, "lastname": newer, "email": older, "city": newer,
    }  # fmt: skip
    assert f"Contact {older} is kept" in text_of(page)
    other_way = operator.get(path(client, newer, older) + f"?keep={newer}")
    assert hidden(other_way, "keep") == newer
    form = {"keep": older, "version": hidden(page, "version")}
    form |= {f"take.{name}": id for name, id in chosen(page).items()} | {"take.firstname": newer}
    answer = send(operator, client, newer, older, "merge", form)
    assert (answer.status_code, answer.location) == (303, f"/console{path(client, newer, older)}")
    merged = text_of(operator.get(path(client, newer, older)))
    assert f"Contact {newer} is merged into contact {older}." in merged
    assert f"by {operator.email}" in merged
    kept = client.get(f"/contacts/{older}").json["properties"]
    assert kept == {
        "firstname": "Anne", "lastname": "Lee", "email": "ann@x.org", "city": "Rome",
        "phone": PHONE,
    }  # fmt: skip
    answer = send(operator, client, newer, older, "unmerge")
    assert answer.status_code == 303
    assert "Both contacts exist again" in text_of(operator.get(path(client, older, newer)))
    assert client.get(f"/contacts/{older}").json["properties"]["firstname"] == "Ann"
    assert client.get(f"/contacts/{newer}").json["properties"]["city"] == "Rome"


def test_a_stale_page_merges_nothing_and_is_shown_anew_with_what_was_chosen(hub, client, operator):
    older, newer = two_contacts(hub, client, city="Rome")
    version = hidden(operator.get(path(client, older, newer)), "version")
    client.patch(f"/contacts/{newer}", {"properties": {"lastname": "Li"}})
    form = {"keep": newer, "version": version, "take.firstname": older}
    answer = send(operator, client, older, newer, "merge", form)
    assert answer.status_code == 409
    assert "Nothing was merged" in text_of(answer)
    assert (hidden(answer, "keep"), chosen(answer)["firstname"]) == (newer, older)
    assert "Li" in text_of(answer)
    assert hidden(answer, "version") != version
    assert client.get("/contacts").json["total"] == 2
    form["version"] = hidden(answer, "version")
    assert send(operator, client, older, newer, "merge", form).status_code == 303


def test_a_pair_is_dismissed(hub, client, operator):
    older, newer = two_contacts(hub, client)
    answer = send(operator, client, older, newer, "dismiss", {"reason": "different"})
    assert answer.location == f"/console{path(client)}"
    listed = text_of(operator.get(path(client)))
    assert "are different people" in listed
    closed = pair_of(hub, client, older, newer)
    assert (closed.state, closed.decided_by) == ("dismissed", operator.email)


def test_hostile_values_stay_text(hub, client, operator):
    ids = two_contacts(hub, client, lastname=HOSTILE)
    for page in (operator.get(path(client)), operator.get(path(client, *ids))):
        assert page.status_code == 200
        assert "<img src=x" not in page.text
        assert "&lt;img src=x" in page.text


def test_what_is_not_there_is_404(hub, client, other, operator):
    theirs = two_contacts(hub, other)
    assert operator.get(path(client, *theirs)).status_code == 404
    assert operator.get(path(client, "1", "2")).status_code == 404
    ids = two_contacts(hub, client)
    assert operator.get(path(client, *ids) + "?keep=1").status_code == 422
    at = path(client, *ids)
    for verb in ("merge", "unmerge", "dismiss"):
        answer = operator.send(path(client, *theirs, verb), at=at)
        assert answer.status_code == 404, verb


@pytest.fixture
def elsewhere(app):
    """An operator, and a client with a pair of contacts in another CRM."""
    with adapters(app, FAKE):
        hub: Hub = app.extensions["crmhub"]
        client, crm = fake_client(app)
        crm.contacts |= {"c-1": {"firstname": "Ann", "phone": PHONE}, "c-2": {"email": "b@x.org"}}
        listed_pair(hub, client, "c-1", "c-2")
        yield open_console(app), client, hub


def test_contacts_of_another_crm_lead_to_their_pages(elsewhere):
    operator, client, hub = elsewhere
    assert "Merge two that are one person in Fake" in text_of(operator.get(path(client)))
    page = operator.get(path(client, "c-1", "c-2"))
    for id in ("c-1", "c-2"):
        assert f'href="https://crm.example.test/{id}"' in page.text
    assert "These contacts are in Fake. Merge them there." in text_of(page)
    assert "/merge" not in page.text
    answer = send(operator, client, "c-1", "c-2", "dismiss", {"reason": "merged"})
    assert answer.status_code == 303
    assert pair_of(hub, client, "c-1", "c-2").state == "merged"
    assert "merged" in text_of(operator.get(path(client, "c-1", "c-2")))


def test_contacts_of_another_crm_are_listed_by_name(elsewhere):
    operator, client, hub = elsewhere
    hub_id = create_lead(client, "t-1", name="Bea Berg", email="bea@example.com")
    listed_pair(hub, client, "c-1", hub_id)
    page = text_of(operator.get(path(client)))
    # The hub knows the lead's name; the CRM tells the others'.
    assert f"Bea Berg, bea@example.com {hub_id}" in page
    assert "Ann c-1" in page
    assert "b@x.org c-2" in page
    pair = text_of(operator.get(path(client, "c-1", "c-2")))
    assert "Ann c-1 and b@x.org c-2" in pair
    # Without an answer of the CRM, the ids remain.
    open_circuit(hub, client.account, "It answered 503.")
    page = text_of(operator.get(path(client)))
    assert "Bea Berg" in page
    assert "Ann" not in page
    assert "c-1" in page


def test_a_crm_that_is_away_and_one_that_has_merged_them_are_told(elsewhere, monkeypatch):
    operator, client, hub = elsewhere
    open_circuit(hub, client.account, "Its key is <refused>.")
    page = operator.get(path(client, "c-1", "c-2"))
    assert "Fake cannot show the contacts now: Its key is <refused>." in text_of(page)
    hub.database.transact(
        lambda tx: tx.run("delete from outage where account_id = :id", {"id": client.account.id})
    )
    get = FakeAdapter.get_contact
    monkeypatch.setattr(FakeAdapter, "get_contact", lambda self, id, names: get(self, "c-2", names))
    page = text_of(operator.get(path(client, "c-1", "c-2")))
    assert "by Fake" in page
    assert "No possible duplicates" in text_of(operator.get(path(client)))
