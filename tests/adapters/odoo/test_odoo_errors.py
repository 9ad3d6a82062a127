"""What Odoo's adapter makes of Odoo's errors, and what its check tells an operator."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.fakes.odoo import FakeOdoo
from adapters.fakes.odoo.errors import OdooError, missing_error
from adapters.odoo import OdooAdapter
from crmhub.adapter import (
    Adapter,
    AdapterError,
    BadConfig,
    ContactWrite,
    Denied,
    LacksRight,
    NotYet,
    Rejected,
    Saved,
    Unavailable,
    Uncertain,
    configured,
)
from crmhub.adapter.batch_upserts import upsert_contacts
from crmhub.adapter.testing import Connection
from tests.adapters.leads import person
from tests.adapters.odoo.odoo_crm import JSON_RPC, KEY, OdooCrm, connected
from tests.loops import for_each

EMAIL = "ann@example.org"
BUSY = {"type": "error", "message": "could not serialize access due to concurrent update\n"}


def raised(adapter: Adapter, **lead: str) -> AdapterError:
    with pytest.raises(AdapterError) as caught:
        adapter.create_contact(lead or {"lastname": "Lee"}, mark="m")
    return caught.value


def loaded(fake: FakeOdoo, *messages: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a `load` with these messages, in the form of the fake's interface."""
    result = {"ids": False, "messages": list(messages), "nextrow": 0}
    return result if fake.options.version >= 19 else {"jsonrpc": "2.0", "id": 1, "result": result}


def only_loads(fake: FakeOdoo) -> str:
    return "*/load" if fake.options.version >= 19 else "/jsonrpc"


# Rights.


def test_a_missing_right_is_told_although_load_tells_it_in_words(
    adapter: Adapter, crm: OdooCrm, fake: FakeOdoo
) -> None:
    contact = crm.add_contact({"lastname": "Lee"} | {"email": "ann@example.org"})
    fake.data.denied |= {
        ("res.partner", "create"),
        ("res.partner", "write"),
        ("crm.lead", "create"),
    }
    assert isinstance(raised(adapter), LacksRight)
    with pytest.raises(LacksRight, match=r"write res\.partner"):
        adapter.update_contact(contact, {"lastname": "Ross"})
    with pytest.raises(LacksRight, match=r"create crm\.lead"):
        adapter.create_for_contact("deals", contact, {"dealname": "A roof"}, mark="m")
    with pytest.raises(LacksRight) as caught:
        adapter.check()
    for right in ("create res.partner", "write res.partner", "create crm.lead"):
        assert right in caught.value.message


def test_a_refusal_in_words_is_no_missing_right(adapter: Adapter, fake: FakeOdoo) -> None:
    adapter.describe("contacts")
    message = {"type": "error", "message": "The VAT number is wrong", "record": 0}
    fake.fail(200, body=loaded(fake, message), path=only_loads(fake))
    error = raised(adapter)
    assert isinstance(error, Rejected)
    assert (error.problems, "VAT number" in error.message) == ((), True)


# Locks.


def test_a_lock_is_tried_again(adapter: Adapter, crm: OdooCrm, fake: FakeOdoo) -> None:
    adapter.describe("contacts")
    fake.fail(200, body=loaded(fake, BUSY), path=only_loads(fake))
    assert adapter.create_contact({"lastname": "Lee"}, mark="m").outcome == "created"
    fake.fail(200, body=loaded(fake, BUSY), path=only_loads(fake), times=None)
    assert isinstance(raised(adapter, lastname="Ross"), NotYet)
    assert len(crm.contacts()) == 1


def test_updates_of_one_contact_wait_for_each_other(
    adapter: Adapter, connection: Connection, crm: OdooCrm, fake: FakeOdoo
) -> None:
    first, second = (crm.add_contact({"lastname": name, "email": EMAIL}) for name in ("A", "B"))
    adapter.describe("contacts")
    fake.take_requests()
    with connection.leases.hold(f"contact {first}", 60.0):
        with connection.within(0.1), pytest.raises(NotYet):
            adapter.update_contact(first, {"comment": "Roofer"})
        assert not fake.take_requests()
        adapter.update_contact(second, {"comment": "Roofer"})
    adapter.update_contact(first, {"comment": "Roofer"})
    assert [one["comment"] for one in crm.contacts().values()] == ["Roofer", "Roofer"]


def test_a_page_of_a_proxy_leaves_doubt(adapter: Adapter, crm: OdooCrm, fake: FakeOdoo) -> None:
    adapter.describe("contacts")
    fake.fail(502, path=only_loads(fake), written=True)
    assert isinstance(raised(adapter), Uncertain)
    assert len(crm.contacts()) == 1
    assert adapter.create_contact({"lastname": "Lee"}, mark="m").id in crm.contacts()
    assert len(crm.contacts()) == 1


def test_no_traceback_and_no_key_is_in_a_message(fake: FakeOdoo) -> None:
    fake.options.api_key = "another-key-than-that-of-the-account"
    connection = connected(fake)
    with pytest.raises(Denied) as caught:
        connection.adapter().find_contact(email="ann@example.org")
    connection.outgoing.close()
    assert "Traceback" not in caught.value.message
    assert not [key for key in (*KEY.values(), fake.options.api_key) if key in str(caught.value)]


# Logins.


@pytest.fixture
def odoo17() -> Any:
    with OdooCrm(version=17) as crm:
        yield crm.fake


def test_a_refused_login_is_denied_each_time(odoo17: FakeOdoo) -> None:
    """Odoo puts no pause on logins of its API: an operator who tests a key sees the reason."""
    connection = connected(odoo17, user="nobody@acme.example")
    for _ in range(6):
        with pytest.raises(Denied, match="user or API key"):
            connection.adapter().check()
    connection.outgoing.close()


def test_a_process_logs_in_once(odoo17: FakeOdoo) -> None:
    connection = connected(odoo17)
    adapter = connection.adapter()
    for _ in range(3):
        adapter.check()
    logins = [seen for seen in odoo17.requests if b'"authenticate"' in seen.body]
    assert (len(logins), connection.saved) == (1, [])
    connection.outgoing.close()


def test_a_user_that_was_deleted_is_denied(odoo17: FakeOdoo) -> None:
    connection = connected(odoo17)
    adapter = connection.adapter()
    adapter.check()
    odoo17.uid += 1
    with pytest.raises(Denied):
        adapter.get_contact("1", ["email"])
    connection.outgoing.close()


def test_a_database_that_starts_up_is_no_wrong_setting(
    odoo17: FakeOdoo, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = "connection failed: FATAL:  the database system is starting up"
    data = OdooError("psycopg2.OperationalError", message).data()
    odoo17.fail(200, body={"jsonrpc": "2.0", "error": {"data": data}}, times=None)
    connection = connected(odoo17)
    monkeypatch.setattr("time.sleep", connection.sleep)
    with pytest.raises(Unavailable):
        connection.adapter().check()
    connection.outgoing.close()


# Settings.


@for_each(
    ("version", "settings", "words"),
    [
        (17, {"interface": "json-2"}, "json-rpc for 17 and 18"),
        (17, {"db": "elsewhere"}, "no such database"),
        (19, {"db": "elsewhere"}, "several databases"),
        (19, {"interface": "json-rpc"}, "another version"),
        (19, {"language": "fr_FR"}, "fr_FR"),
    ],
)
def test_a_wrong_setting_is_told(version: int, settings: dict[str, str], words: str) -> None:
    with OdooCrm(version=version) as crm:
        connection = connected(crm.fake, **{**JSON_RPC, "interface": _usual(version), **settings})
        with pytest.raises(AdapterError) as caught:
            connection.adapter().check()
        connection.outgoing.close()
    assert words in caught.value.message


def _usual(version: int) -> str:
    return "json-2" if version >= 19 else "json-rpc"


def test_a_database_must_be_named_where_there_are_several() -> None:
    with OdooCrm(version=19, databases=2) as crm:
        connection = connected(crm.fake)
        with pytest.raises(BadConfig, match="several databases"):
            connection.adapter().check()
        named = connected(crm.fake, db=crm.fake.options.database)
        named.adapter().check()
        for one in (connection, named):
            one.outgoing.close()


@pytest.mark.parametrize("model", ["crm.lead", "helpdesk.ticket"])
def test_a_missing_app_is_told(adapter: Adapter, fake: FakeOdoo, model: str) -> None:
    del fake.data.models[model]
    with pytest.raises(BadConfig, match=model):
        adapter.check()


def test_a_missing_project_is_told() -> None:
    with OdooCrm(version=19, tickets="project.task") as crm:
        connection = connected(crm.fake, project="999")
        with pytest.raises(BadConfig, match=r"project\.project"):
            connection.adapter().check()
        connection.outgoing.close()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"interface": "json-rpc", "user": "u"}, "db"),
        ({"interface": "json-rpc", "db": "acme"}, "user"),
        ({"tickets": "project.task", "project": "Inbox"}, "project"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(settings: dict[str, str], name: str) -> None:
    given = {"base_url": "https://acme.example", **settings}
    with pytest.raises(BadConfig) as caught:
        configured(OdooAdapter, given, KEY)
    assert [problem.name for problem in caught.value.problems] == [name]


# The older form of JSON-2's errors.


def test_errors_without_a_class_are_read_by_their_status() -> None:
    with OdooCrm(version=19, plain_errors=True) as crm:
        connection = connected(crm.fake)
        adapter = connection.adapter()
        adapter.check()
        crm.fake.data.denied.add(("res.partner", "read"))
        with pytest.raises(LacksRight):
            adapter.find_contact(email="ann@example.org")
        crm.fake.data.denied.clear()
        crm.fake.fail(409, body='"busy"', path="*/load", times=None)
        assert isinstance(raised(adapter), NotYet)
        connection.outgoing.close()


# Batches.


def test_bad_rows_of_a_batch_are_left_out_and_told_by_name(
    adapter: Adapter, crm: OdooCrm, fake: FakeOdoo
) -> None:
    people = [
        {"email": f"ann{i}@example.org", "lastname": f"Lee {i}", "country_id": country}
        for i, country in enumerate(("1", "999", "2", "998"))
    ]
    outcomes = upsert_contacts(adapter, [person(mark=f"m{i}", **p) for i, p in enumerate(people)])
    assert [isinstance(one, Saved) for one in outcomes] == [True, False, True, False]
    for outcome in outcomes:
        if not isinstance(outcome, Saved):
            assert isinstance(outcome, Rejected)
            assert [problem.name for problem in outcome.problems] == ["country_id"]
    assert sorted(one["lastname"] for one in crm.contacts().values()) == ["Lee 0", "Lee 2"]


def test_an_id_that_odoo_never_issues_spoils_no_batch(adapter: Adapter, crm: OdooCrm) -> None:
    known = crm.add_contact({"lastname": "Lee", "email": "ann@example.org"})
    writes = [ContactWrite(id, {"comment": "Roofer"}) for id in ("../1", known, str(2**31))]
    outcomes = adapter.write_contacts(writes)
    assert [one and isinstance(one, Saved) for one in outcomes] == [None, True, None]
    assert crm.contacts()[known]["comment"] == "Roofer"


def test_a_locked_row_of_a_batch_holds_up_no_other(
    adapter: Adapter, crm: OdooCrm, fake: FakeOdoo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    ids = [crm.add_contact({"lastname": "Lee", "email": f"ann{i}@example.org"}) for i in range(2)]
    adapter.describe("contacts")
    fake.fail(200, body=loaded(fake, BUSY | {"record": 0}), path=only_loads(fake), times=3)
    outcomes = adapter.write_contacts([ContactWrite(id, {"comment": "Roofer"}) for id in ids])
    assert outcomes == [None, None]


def test_a_contact_that_vanishes_in_a_batch_is_told_of_no_other(
    adapter: Adapter, crm: OdooCrm, fake: FakeOdoo
) -> None:
    id = crm.add_contact({"lastname": "Lee", "email": "ann@example.org"})
    adapter.describe("contacts")
    gone = missing_error("res.partner", 999).data()
    body = gone if fake.options.version >= 19 else {"jsonrpc": "2.0", "error": {"data": gone}}
    status = 404 if fake.options.version >= 19 else 200
    fake.fail(status, body=body, path=only_loads(fake))
    writes = [ContactWrite(one, {"comment": "Roofer"}) for one in (id, "999")]
    assert adapter.write_contacts(writes) == [None, None]


def test_an_answer_that_lists_no_fields_is_not_taken_for_a_crm_without_stages(
    connection: Connection, fake: FakeOdoo
) -> None:
    adapter = connection.adapter()
    adapter.find_contact(email=EMAIL)
    else_ = {"status": "something else"}
    if fake.options.version >= 19:
        fake.fail(200, body=else_, path="*/fields_get")
    else:
        # After the teams.
        fake.fail(200, body={"jsonrpc": "2.0", "id": 1, "result": else_}, path="/jsonrpc", skip=1)
    with pytest.raises(Unavailable):
        adapter.pipelines("tickets")
    assert connection.adapter().pipelines("tickets")[0].stages


def test_an_error_that_no_row_can_cause_is_told_of_each(
    adapter: Adapter, crm: OdooCrm, fake: FakeOdoo
) -> None:
    ids = [crm.add_contact({"lastname": "Lee", "email": f"ann{i}@example.org"}) for i in range(2)]
    adapter.describe("contacts")
    fake.fail(kind="reset", path=only_loads(fake), written=True)
    outcomes = adapter.write_contacts([ContactWrite(id, {"comment": "Roofer"}) for id in ids])
    assert [type(one) for one in outcomes] == [Uncertain] * 2


def test_a_lost_answer_to_a_batch_is_uncertain_for_each_and_makes_none_twice(
    adapter: Adapter, crm: OdooCrm, fake: FakeOdoo
) -> None:
    leads = [person(mark=f"m{i}", email=f"ann{i}@example.org", lastname="Lee") for i in range(3)]
    adapter.describe("contacts")
    path = only_loads(fake)
    # Before the `load` come the lookups, each of them one call.
    skip = 0 if path == "*/load" else 2
    fake.fail(kind="reset", path=path, written=True, skip=skip)
    assert [type(one) for one in upsert_contacts(adapter, leads)] == [Uncertain] * 3
    again = upsert_contacts(adapter, leads)
    assert [one.outcome for one in again if isinstance(one, Saved)] == ["unchanged"] * 3
    assert len(crm.contacts()) == 3
