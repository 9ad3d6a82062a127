"""The field map as a form: rules go in and come out as they were, faults keep what was typed."""

from __future__ import annotations

import html
import re

import pytest

from adapters.fakes.hubspot.fake import FakeHubSpot
from crmhub.console.map_rows import Draft, pairs
from crmhub.operators.crm import field_map_reading, map_fields, set_crm
from crmhub.operators.crm.set_crm import Crm
from tests.api.helpers.helper_calls import lead
from tests.clients import TESTS
from tests.consoles import fault_of, open_console, text_of
from tests.fakes import hubspot_client

pytestmark = pytest.mark.databases("sqlite")

HOSTILE = """</textarea><script>alert("1")</script>' & {{ 7 * 7 }}"""
EVERY_KIND = {
    "contacts": {
        "name": {"to": "full_name"},
        "role": {"to": "jobtitle", "values": {"a = b": "c = d", "x;y": "p;q", '"q"': '"'}},
        "colour": {"to": "colour", "constant": "a = b; c", "set": "empty"},
    },
    "deals": {
        "dealstage": {
            "to": "stage",
            "values": {" blanks ": " kept ", "two\nlines": "one\r\ntwo\ttabs", "ü": "ß\u2028"},
        },
        "=x": {"to": "of.values.it", "constant": '"quoted', "set": "always"},
        HOSTILE: {"to": HOSTILE + "!", "values": {HOSTILE: HOSTILE}, "constant": HOSTILE},
    },
    "tickets": {"hs.to": {"to": "hs", "constant": " \n "[1:] + "x", "set": "always"}},
}


@pytest.fixture
def path(client):
    return f"/accounts/{client.account.client_id}/field-map"


def fields(page):
    """Return what a browser would send of the form with the rules."""
    form = re.search(r'<form id="rules".*?</form>', page.text, re.DOTALL)[0]
    sent = {}
    for tag in re.findall(r"<input [^>]*>", form):
        name, value = re.search(r' name="([^"]*)"', tag), re.search(r' value="([^"]*)"', tag)
        if name and ("checkbox" not in tag or " checked" in tag):
            sent[name[1]] = html.unescape(value[1])
    for name, text in re.findall(
        r'<textarea [^>]*?name="([^"]*)"[^>]*>\n?(.*?)</textarea>', form, re.DOTALL
    ):
        # Browsers end lines so, however they came.
        sent[name] = "\r\n".join(html.unescape(text).replace("\r\n", "\n").split("\n"))
    for name, inside in re.findall(
        r'<select [^>]*?name="([^"]*)"[^>]*>(.*?)</select>', form, re.DOTALL
    ):
        options = re.findall(r'value="([^"]*)"( selected)?', inside)
        sent[name] = next((value for value, on in options if on), options[0][0])
    return sent


def stored(hub, client):
    return hub.load_account(client.account.client_id).connection.field_map


def set_map(hub, client, rules):
    map_fields.set_field_map(
        hub, client.account.client_id, field_map_reading.read(rules), by=TESTS, test=False
    )


def rule(kind="contacts", number=0, **parts):
    return {f"{kind}.{number}.{part}": value for part, value in parts.items()}


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_rule_comes_out_of_the_form_as_it_went_in(kind):
    given = field_map_reading.read({kind: EVERY_KIND[kind]})
    rows = Draft.of(given).rows[kind]
    parts = ("name", "to", "values", "constant", "set", "json")
    form = {
        f"{kind}.{n}.{part}": getattr(row, part) for n, row in enumerate(rows) for part in parts
    }
    assert Draft.typed(form).field_map() == given


def test_what_the_page_shows_is_saved_again_as_it_was(hub, client, operator, path):
    set_map(hub, client, EVERY_KIND)
    before = stored(hub, client)
    assert "{{ 7 * 7 }}" in html.unescape(operator.get(path).text)
    assert "<script>alert" not in operator.get(path).text
    answer = operator.send(path, {**fields(operator.get(path)), "unchecked": "true"})
    assert answer.status_code == 303
    assert stored(hub, client) == before


def test_an_account_without_a_map_says_what_one_is_for(operator, path):
    page = operator.get(path)
    assert "The bot sends stage = won → crmhub gets dealstage = closedwon" in text_of(page)
    assert '<option value="firstname">First name</option>' in page.text
    assert not [name for name in fields(page) if name.startswith(("contacts", "deals", "tickets"))]
    # No CRM is asked, so none can be unreachable.
    assert "Save without testing" not in page.text


def test_a_rule_is_typed_saved_and_shown(hub, client, operator, path):
    form = rule(
        name=" position ", to="jobtitle", values="boss = CEO\r\n\r\ncook=chef", set="always"
    )
    assert operator.send(path, {**fields(operator.get(path)), **form}).status_code == 303
    page = operator.get(path)
    assert "Saved, and checked against the CRM. 1 note below." in text_of(page)
    assert "the account's contacts have no such property" in text_of(page)
    assert stored(hub, client) == field_map_reading.read(
        {"contacts": {"position": {"to": "jobtitle", "values": {"boss": "CEO", "cook": "chef"}}}}
    )
    assert "No rules yet" not in text_of(page)


def test_a_rule_is_removed_by_its_box_or_by_clearing_it(hub, client, operator, path):
    set_map(hub, client, {"contacts": {"a": "city", "b": "jobtitle"}, "deals": {"c": "dealname"}})
    form = fields(operator.get(path)) | rule(remove="true") | rule(number=1, name="", to="")
    assert operator.send(path, form).status_code == 303
    assert stored(hub, client) == field_map_reading.read({"deals": {"c": "dealname"}})


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"to": "city"}, "enter a name"),
        ({"name": "x"}, "the rule is empty; give to, values or constant"),
        ({"name": "x", "to": "nonesuch"}, "contacts have no property nonesuch in the CRM"),
        ({"name": "x", "to": "city", "values": "no sign"}, "line 1: write the bot's value, ="),
        ({"name": "x", "to": "city", "values": "a=1\na=2"}, "line 2: a is there twice"),
        ({"name": "x", "to": "city", "values": "a ="}, "a: the value is blank; give one"),
        ({"name": "x", "to": "city", "values": "= a"}, "a bot's value is blank"),
        ({"name": "x", "json": '{"to": '}, "this is not JSON"),
        (
            {"name": "x", "json": '{"to": "nonesuch"}'},
            "contacts have no property nonesuch in the CRM",
        ),
        ({"name": "x", "to": "city", "set": "empty"}, "set needs a constant"),
        ({"name": "email", "to": "city"}, "email identifies contacts"),
        ({"name": HOSTILE, "to": HOSTILE}, "contacts have no property </textarea><script>"),
    ],
)
def test_a_fault_stands_with_its_rule_and_keeps_what_was_typed(
    hub, client, operator, path, parts, said
):
    kept = rule("deals", 3, name="other", to="dealname", values="1 = 2", constant="c", set="empty")
    sent = {**rule(**{"set": "always", **parts}), **kept}
    answer = operator.send(path, sent)
    assert answer.status_code == 422
    feedback = re.findall(r'<div class="invalid-feedback.*?</div>', answer.text, re.DOTALL)
    assert any(said in html.unescape(one) for one in feedback), feedback
    assert "Nothing was saved. Correct 1 error:" in text_of(answer)
    shown = fields(answer)
    assert rule(**parts).items() <= {k: v.replace("\r\n", "\n") for k, v in shown.items()}.items()
    assert {k.replace("3", "0"): v for k, v in kept.items()}.items() <= shown.items()
    assert "<script>alert" not in answer.text
    assert not stored(hub, client)


def test_two_rules_of_one_name_are_a_fault_of_the_second(operator, path):
    twice = rule(name="x", to="city") | rule(number=1, name="x", to="jobtitle")
    answer = operator.send(path, twice)
    assert "Contacts, rule 2, Bot's property : two rules have this name" in text_of(answer)
    assert fault_of(answer, "contacts.1.name") == "two rules have this name; remove one"
    assert answer.text.count(" autofocus") == 1


def test_names_that_look_like_paths_are_told_apart(hub, client):
    draft = Draft.of(
        field_map_reading.read(
            {"deals": {"a": "x", "a.to": "y", "a.values.b": {"values": {"c": "d"}}}}
        )
    )
    faults = [("deals.a.values.b.values.c", "wrong"), ("deals.a.values.q", "not so")]
    draft.place_faults(faults, "HubSpot")
    assert [row.wrong for row in draft.rows["deals"]] == [
        {"values": ["q: not so"]},
        {},
        {"values": ["c: wrong"]},
    ]


def test_a_set_that_no_form_offers_is_refused(operator, path):
    answer = operator.send(path, rule(name="x", to="city", constant="c", set="never"))
    assert answer.status_code == 400
    assert "contacts.x.set: must be one of always, empty" in text_of(answer)


def test_further_rows_keep_what_was_typed(operator, path):
    form = rule(name="half", values="a = b", remove="true")
    page = operator.send(f"{path}/rows", {**form, "more": "contacts"}, at=path)
    assert page.status_code == 200
    assert form.items() <= fields(page).items()
    assert [name for name in fields(page) if name.endswith(".to")] == [
        "contacts.0.to",
        "contacts.1.to",
    ]
    again = operator.send(f"{path}/rows", {**fields(page), "more": "contacts"}, at=path)
    assert "contacts.2.to" in fields(again)
    assert again.text.count(" autofocus") == 1


def test_a_map_is_edited_as_json(hub, client, operator, path):
    wrong = operator.send(path, {"json": '{"contacts": {"x": "nonesuch"}, "deals": {}}'})
    assert wrong.status_code == 422
    assert "contacts.x.to : contacts have no property nonesuch" in text_of(wrong)
    assert "nonesuch&#34;}, &#34;deals&#34;: {}}</textarea>" in wrong.text
    broken = operator.send(path, {"json": HOSTILE})
    assert broken.status_code == 400
    assert "This is not JSON" in text_of(broken)
    for given, said in (("[]", "must be an object"), ('{"leads": {}}', "known are contacts")):
        assert said in text_of(operator.send(path, {"json": given}))
    assert operator.send(path, {"json": '{"contacts": {"x": "city"}}'}).status_code == 303
    assert stored(hub, client) == field_map_reading.read({"contacts": {"x": "city"}})


def test_a_crm_that_is_away_keeps_the_form_and_is_saved_unchecked(hub, client, operator, path):
    crm = Crm("hubspot", {"base_url": "http://127.0.0.1:9"}, {"access_token": "pat-1"})
    set_crm.set_crm(hub, client.account.client_id, crm, test=False, by=TESTS)
    form = rule(name="x", to="y", set="always")
    answer = operator.send(path, form)
    assert answer.status_code == 422
    assert "You can save without testing." in text_of(answer)
    assert answer.text.count('name="unchecked"') == 2
    assert "The property names of HubSpot are not available:" in text_of(answer)
    assert form.items() <= fields(answer).items()
    assert operator.send(path, {**form, "unchecked": "true"}).status_code == 303
    assert "Saved without testing." in text_of(operator.get(path))
    assert stored(hub, client) == field_map_reading.read({"contacts": {"x": "y"}})


def test_what_somebody_else_saved_meanwhile_is_not_lost_unseen(hub, client, operator, path):
    form = fields(operator.get(path)) | rule(name="mine", to="city")
    set_map(hub, client, {"contacts": {"theirs": "jobtitle"}})
    answer = operator.send(path, form)
    assert answer.status_code == 409
    assert "changed by somebody else meanwhile" in text_of(answer)
    assert "theirs" in stored(hub, client).of("contacts").rules
    assert operator.send(path, fields(answer)).status_code == 303
    assert list(stored(hub, client).of("contacts").rules) == ["mine"]


def test_a_preview_goes_by_what_was_typed_and_saves_nothing(hub, client, operator, path):
    form = rule("deals", name="topic", to="dealname", values="a = b=c\r\n", set="always")
    form |= rule("deals", 1, name="source", to="description", constant="bot", set="always")
    form |= {"helper": "createDeal", "by": "typed", "call": "sample"}
    form["sample"] = "topic = a\r\nnonesuch = 1\r\ncreatedate = 2"
    answer = operator.send(f"{path}/preview", form, at=path)
    assert answer.status_code == 200
    said = text_of(answer)
    assert "dealname b=c topic a bot" in said
    assert "description bot source bot constant" in said
    assert form.items() <= {**fields(answer)}.items()
    assert not stored(hub, client)
    by_stored = operator.send(f"{path}/preview", {**form, "by": "stored"}, at=path)
    assert "topic a topic a bot" in text_of(by_stored)


def test_a_preview_of_the_newest_call(client, operator, path):
    form = {"helper": "createLead", "by": "stored", "call": "newest"}
    none = operator.send(f"{path}/preview", form, at=path)
    assert none.status_code == 404
    assert "No bot has called createLead yet" in text_of(none)
    lead(client, name="Ada Lovelace", email="ada@example.com")
    shown = operator.send(f"{path}/preview", form, at=path)
    assert "firstname Ada firstname Ada bot" in text_of(shown)


@pytest.mark.parametrize(
    ("form", "status", "said"),
    [
        ({"helper": "getRandomInt"}, 400, "Must be one of createLead"),
        ({"sample": "city"}, 422, "Line 1: write"),
        ({"sample": "city = 1"}, 422, "createLead takes name, email, phone"),
        ({**rule(name="x", to="email")}, 422, "email already goes to the CRM's email"),
    ],
)
def test_a_preview_says_what_it_cannot_do(operator, path, form, status, said):
    answer = operator.send(f"{path}/preview", {"helper": "createLead", **form}, at=path)
    assert answer.status_code == status
    assert said in text_of(answer)


def test_values_of_the_crm_are_listed(app):
    with FakeHubSpot() as fake:
        client = hubspot_client(app, fake)
        page = open_console(app).get(f"/accounts/{client.account.client_id}/field-map")
    assert "<code>appointmentscheduled</code>" in page.text
    assert '<option value="lifecyclestage">' in page.text


def test_a_large_map_is_shown_and_saved(hub, client, operator, path):
    values = {f"value {n}": f"v{n}" for n in range(100)}
    rules = {f"of_bots_{n}": {"to": f"of_crm_{n}", "values": values} for n in range(450)}
    set_map(hub, client, {"contacts": rules})
    form = fields(operator.get(path))
    assert operator.send(path, {**form, "unchecked": "true"}).status_code == 303
    assert stored(hub, client) == field_map_reading.read({"contacts": rules})


def test_a_form_that_is_too_large_says_so(operator, path):
    answer = operator.send(path, rule(name="x", to="y", constant="c" * 1_100_000))
    assert answer.status_code == 413
    assert "larger than 1 MiB" in text_of(answer)


def test_more_rows_than_a_map_may_have_are_not_shown_again(operator, path):
    rows = {f"deals.{n}.name": "x" for n in range(1_001)}
    answer = operator.send(path, rows)
    assert answer.status_code == 400
    assert "deals: 1001 rows; send at most 1000." in text_of(answer)


def test_a_line_is_split_at_its_first_sign():
    assert pairs("a = b\r\n\r\n  c=d=e") == ({"a": "b", "c": "d=e"}, [])
