"""The records of an account, looked at."""

from __future__ import annotations

import re

import pytest

from crmhub.console.records import OPERATOR_CHOICES
from crmhub.records.search.filters import OPERATORS
from tests.consoles import fault_of, text_of

pytestmark = pytest.mark.databases("postgresql")

HOSTILE = "<img src=x onerror=alert(1)>\u202e🦊"


def path(client, rest="contacts"):
    return f"/records/{client.account.client_id}/{rest}"


def rows(answer):
    """Return the ids that a list shows, in its order."""
    return [int(id) for id in re.findall(r'data-label="Id"><a href="[^"]*/(\d+)"', answer.text)]


def asked(*filters, **more):
    """Return a query of filters: property, operator and value of each."""
    names = zip(*filters, strict=True) if filters else ((), (), ())
    return {**dict(zip(("property", "operator", "value"), names, strict=True)), **more}


def test_the_tab_leads_to_the_contacts(client, operator):
    overview = operator.get(f"/accounts/{client.account.client_id}")
    assert f'href="/console/records/{client.account.client_id}"' in overview.text
    answer = operator.get(path(client, "")[:-1])
    assert answer.headers["Location"].endswith("/contacts")
    assert "No contacts yet" in operator.get(path(client)).text


def test_the_list_shows_the_last_changed_first_with_the_total(client, operator):
    ids = [client.make(firstname=f"Ada {i}", email=f"a{i}@x.org") for i in range(3)]
    answer = operator.get(path(client))
    assert rows(answer) == ids[::-1]
    assert "3 contacts" in text_of(answer)
    assert "a1@x.org" in answer.text
    oldest = operator.get(path(client), query_string={"sort": "created_at asc"})
    assert rows(oldest) == ids


@pytest.mark.parametrize(("used", "shown"), [(0, 3), (2, 3), (3, 4), (5, 5), (7, 5)])
def test_the_form_has_a_row_to_spare_for_another_filter(client, operator, used, shown):
    query = asked(*[("firstname", "EQ", f"Ann {i}") for i in range(used)])
    page = operator.get(path(client), query_string=query)
    assert page.text.count('name="property"') == shown


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ([("firstname", "EQ", "Ann")], "a"),
        ([("firstname", "NEQ", "Ann")], "bc"),
        ([("firstname", "IN", "Ann; Bob")], "ab"),
        ([("city", "HAS_PROPERTY", "ignored")], "ac"),
        ([("city", "NOT_HAS_PROPERTY", "")], "b"),
        ([("city", "CONTAINS_TOKEN", "OM")], "a"),
        ([("city", "HAS_PROPERTY", ""), ("firstname", "NEQ", "Ann")], "c"),
        ([("createdAt", "GT", "2020-01-01")], "abc"),
        ([("", "EQ", "x"), ("firstname", "EQ", "Bob")], "b"),
    ],
)
def test_the_list_is_narrowed_as_the_api_does(client, operator, filters, found):
    made = {
        "a": client.make(firstname="Ann", city="Rome"),
        "b": client.make(firstname="Bob"),
        "c": client.make(firstname="Cid", city="Bern"),
    }
    answer = operator.get(path(client), query_string=asked(*filters))
    assert sorted(rows(answer)) == sorted(made[name] for name in found)


@pytest.mark.parametrize(
    ("filters", "field"),
    [
        ([("firstname", "EQ", "A"), ("nope", "EQ", "x")], "property-2"),
        ([("firstname", "LIKE", "x")], "operator-1"),
        ([("createdAt", "GT", "soon")], "value-1"),
    ],
)
def test_the_error_of_a_filter_stands_at_its_field(client, operator, filters, field):
    answer = operator.get(path(client), query_string=asked(*filters))
    assert answer.status_code in (400, 422)
    assert fault_of(answer, field)
    assert f'<option value="{filters[0][0]}" selected>' in answer.text


def test_pages_of_the_list_hold_everything_once(client, operator, monkeypatch):
    monkeypatch.setattr("crmhub.console.records._PAGE_SIZE", 2)
    ids = [client.make(firstname="Ann") for _ in range(5)]
    client.make(firstname="Bob")
    at, seen = path(client), []
    query = asked(("firstname", "EQ", "Ann"))
    while at:
        answer = operator.get(at, query_string=query)
        seen += rows(answer)
        assert "5 contacts" in text_of(answer)
        after = answer.text.partition('rel="next"')[0].rpartition('href="/console')[2]
        at = after.partition('"')[0].replace("&amp;", "&") if 'rel="next"' in answer.text else ""
        query = None
    assert (sorted(seen), len(seen)) == (ids, 5)


def test_a_cursor_of_another_list_is_refused(client, operator):
    assert operator.get(path(client), query_string={"cursor": "x"}).status_code == 400


def test_a_record_shows_its_values_and_what_it_is_associated_with(client, operator):
    contact = client.make(firstname="Ann", lastname="Lee")
    deal = client.make("deals", dealname="Big", dealstage="appointmentscheduled")
    client.put(f"/deals/{deal}/associations/contacts/{contact}")
    page = operator.get(path(client, f"deals/{deal}"))
    assert f'href="/console/records/{client.account.client_id}/contacts/{contact}"' in page.text
    assert "appointmentscheduled" in page.text
    back = text_of(operator.get(path(client, f"contacts/{contact}")))
    assert "Ann Lee" in back
    assert "1 deal" in back


def test_hostile_values_stay_text(client, operator):
    id = client.make(firstname=HOSTILE, lastname="x" * 60_000)
    for rest in ("contacts", f"contacts/{id}"):
        answer = operator.get(path(client, rest))
        assert answer.status_code == 200
        assert "<img src=x" not in answer.text
        assert "&lt;img src=x" in answer.text


def test_a_record_shows_its_notes_as_text_the_newest_first(client, operator):
    id = client.make()
    for day, text in (("01", "first"), ("02", f"{HOSTILE}\nsecond line")):
        note = {"text": text, "author": "Bob", "at": f"2026-11-{day}T10:00:00Z"}
        assert client.post(f"/contacts/{id}/notes", note).status_code == 201
    page = operator.get(path(client, f"contacts/{id}"))
    shown = page.text.partition("Notes and tasks")[2]
    assert "<img src=x" not in shown
    assert "&lt;img src=x" in shown
    assert shown.index("\nsecond line") < shown.index("first</bdi>")
    assert "Bob" in shown
    assert "2026-11-02 10:00:00" in shown
    bare = operator.get(path(client, f"contacts/{client.make()}"))
    assert "Notes and tasks" not in bare.text


def test_what_is_not_there_is_404(client, other, operator):
    theirs = other.make()
    for rest in (f"contacts/{theirs}", "contacts/999999999999999999999", "people", "people/1"):
        assert operator.get(path(client, rest)).status_code == 404, rest
    assert operator.get("/records/nobody/contacts").status_code == 404
    assert operator.get(path(client, "contacts/x")).status_code == 400


def test_every_operator_of_the_api_can_be_chosen():
    assert {operator for operator, _ in OPERATOR_CHOICES} == set(OPERATORS)
