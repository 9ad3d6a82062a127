"""What Tryton's adapter writes and reads: values of each type, contact mechanisms, stages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from adapters.tryton_rpc import CODECS, failure
from crmhub.adapter import (
    Adapter,
    BadConfig,
    Denied,
    LacksRight,
    NotFound,
    Problem,
    Rejected,
    Saved,
    Uncertain,
    Unsupported,
)
from crmhub.adapter.http import Answer
from crmhub.adapter.testing import Connection, FaultProxy
from crmhub.adapter.testing.faults import answers, reset_after, reset_before
from crmhub.adapter.testing.proxy import Fault
from tests.adapters.tryton.tryton_crm import TrytonCrm, connected
from tests.tryton.server import OTHER_PROJECT, POWERLESS, PROJECT, TASKS

MARK = "crmhub-00000000000000000001"


@pytest.fixture
def connection(tryton_crm: TrytonCrm) -> Iterator[Connection]:
    connection = connected(tryton_crm)
    yield connection
    connection.outgoing.close()


@pytest.fixture
def adapter(connection: Connection) -> Adapter:
    return connection.adapter()


@pytest.fixture
def ann(tryton_crm: TrytonCrm) -> str:
    return tryton_crm.add_contact({"email": "ann@example.org", "lastname": "Lee"})


def _deal(adapter: Adapter, contact_id: str, **properties: str) -> Saved:
    sent = {"dealname": "A deal", **properties}
    return adapter.create_for_contact("deals", contact_id, sent, mark=MARK)


def test_values_of_a_deal_have_the_types_of_tryton(
    adapter: Adapter, tryton_crm: TrytonCrm, ann: str
) -> None:
    _deal(adapter, ann, amount="1 250.5", closedate="2027-01-31", comment="Why")
    held = tryton_crm.rpc.call(
        "sale.opportunity", "search_read", [], 0, None, None, ["amount", "end_date", "comment"]
    )[0]
    assert held["amount"] == {"__class__": "Decimal", "decimal": "1250.5"}
    assert held["end_date"] == {"__class__": "date", "year": 2027, "month": 1, "day": 31}
    assert held["comment"] == f"Why\n\ncrmhub: {MARK}"


def test_options_of_a_field_for_several_are_a_list() -> None:
    """Tryton's own contacts, deals and tickets have no such field; a customer's module may."""
    codec = CODECS["multiselection"]
    assert (codec.write("a;b"), codec.read(["a", "b"])) == (["a", "b"], "a;b")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("amount", "12.505"),
        ("conversion_probability", "7"),
        ("currency", "99999"),
        ("payment_term", "1.5"),
        ("dealstage", "won"),
        ("hubspot_owner_id", "99999"),
    ],
)
def test_a_value_that_tryton_refuses_is_named(
    adapter: Adapter, tryton_crm: TrytonCrm, ann: str, name: str, value: str
) -> None:
    with pytest.raises(Rejected) as caught:
        _deal(adapter, ann, **{name: value})
    assert [problem.name for problem in caught.value.problems] == [name]
    assert tryton_crm.count("deals") == 0


@pytest.mark.parametrize("stage", ["lead", "opportunity", "lost", "cancelled"])
@pytest.mark.parametrize("fault", [reset_before, reset_after], ids=["not written", "written"])
def test_a_deal_that_lost_an_answer_is_made_once_and_gets_its_stage(
    tryton_crm: TrytonCrm, ann: str, stage: str, fault: Fault
) -> None:
    with FaultProxy(tryton_crm.url) as proxy:
        adapter = connected(tryton_crm, base_url=proxy.url).adapter()
        sent = {"dealname": "A deal", "dealstage": stage}
        for made, nth in enumerate((1, 2) if stage != "lead" else (1,), 1):
            adapter.describe("deals")
            adapter.pipelines("deals")
            mark = f"{MARK}{made}"
            proxy.inject(fault, skip=nth)
            with pytest.raises(Uncertain):
                adapter.create_for_contact("deals", ann, sent, mark=mark)
            proxy.clear()
            found = adapter.find_marked("deals", ann, mark, sent=sent, since_ms=0)
            found or adapter.create_for_contact("deals", ann, sent, mark=mark)
            held = tryton_crm.linked("deals", ann)
            assert [one["dealstage"] for one in held.values()] == [stage] * made


def test_a_create_whose_answer_names_no_record_is_uncertain(tryton_crm: TrytonCrm) -> None:
    with FaultProxy(tryton_crm.url) as proxy:
        adapter = connected(tryton_crm, base_url=proxy.url).adapter()
        adapter.describe("contacts")
        proxy.inject(answers(200, {"id": 1, "result": []}))
        with pytest.raises(Uncertain, match="names no id"):
            adapter.create_contact({"lastname": "Lee"})


def test_a_second_email_and_phone_are_the_contacts_too(
    adapter: Adapter, tryton_crm: TrytonCrm, ann: str
) -> None:
    more = [("email", "ann.lee@example.org"), ("phone", "+493012345678"), ("phone", "+493011111")]
    mechanisms = [{"party": int(ann), "type": one, "value": value} for one, value in more]
    tryton_crm.rpc.call("party.contact_mechanism", "create", mechanisms)
    found = adapter.find_contact(email="ann.lee@example.org", names=["email", "emails"])
    assert found is not None
    assert found.id == ann
    assert adapter.has_email(found, "ann.lee@example.org")
    by_phone = adapter.find_contact(phone="+493011111")
    assert by_phone is not None
    assert by_phone.id == ann
    assert adapter.update_contact(ann, {"phone": "+493011111"}).outcome == "unchanged"
    assert adapter.get_contact(ann, ["phone"]).properties == {"phone": "+493012345678"}


def test_a_deactivated_email_is_nobodys(adapter: Adapter, tryton_crm: TrytonCrm, ann: str) -> None:
    of_ann = tryton_crm.rpc.call(
        "party.contact_mechanism", "search", [["party", "=", int(ann)]], 0, None, None
    )
    tryton_crm.rpc.call("party.contact_mechanism", "write", of_ann, {"active": False})
    assert adapter.find_contact(email="ann@example.org") is None
    assert adapter.get_contact(ann, ["email"]).properties == {"email": ""}


def test_a_merged_contact_is_the_one_that_it_became(
    adapter: Adapter, tryton_crm: TrytonCrm, ann: str
) -> None:
    kept = tryton_crm.add_contact({"email": "ann@work.example.org"})
    party = "update party_party set active = false, replaced_by = %s where id = %s"
    tryton_crm.sql.execute(party, (int(kept), int(ann)))
    assert adapter.get_contact(ann, []).id == kept
    assert adapter.update_contact(ann, {"name": "Ann"}).id == kept
    assert _deal(adapter, ann).id in tryton_crm.linked("deals", kept)


def test_a_contact_that_was_deactivated_is_gone(
    adapter: Adapter, tryton_crm: TrytonCrm, ann: str
) -> None:
    tryton_crm.rpc.call("party.party", "write", [int(ann)], {"active": False})
    assert adapter.find_contact(email="ann@example.org") is None
    with pytest.raises(NotFound):
        adapter.get_contact(ann, [])


def test_a_ticket_goes_to_the_project_and_status_that_it_names(
    tryton_crm: TrytonCrm, ann: str
) -> None:
    adapter = connected(tryton_crm, projects=f"{PROJECT}; {OTHER_PROJECT}").adapter()
    for pipeline, stage in (("", ""), (OTHER_PROJECT, "Done")):
        sent = {"subject": "It broke", "hs_pipeline": pipeline, "hs_pipeline_stage": stage}
        adapter.create_for_contact("tickets", ann, sent)
    pipelines = {one.id: one.label for one in adapter.pipelines("tickets")}
    held = tryton_crm.linked("tickets", ann).values()
    assert [pipelines[one["hs_pipeline"]] for one in held] == [PROJECT, OTHER_PROJECT]


def test_owners_are_the_employees(adapter: Adapter) -> None:
    assert [(one.name, one.email) for one in adapter.owners()] == [("Erin", "erin@example.org")]


# What it tells an operator.


def test_what_keeps_the_connection_from_working_is_told(tryton_crm: TrytonCrm) -> None:
    wrong: list[tuple[dict[str, str], type[Exception], str]] = [
        ({"user": POWERLESS}, LacksRight, "Sale Opportunity"),
        ({"projects": "Nowhere"}, BadConfig, "Nowhere"),
        ({"tasks": "Nothing"}, BadConfig, "Nothing"),
    ]
    for settings, error, words in wrong:
        with pytest.raises(error, match=words):
            connected(tryton_crm, **settings).adapter().check()


def test_without_projects_there_are_no_tickets(tryton_crm: TrytonCrm, ann: str) -> None:
    adapter = connected(tryton_crm, projects="").adapter()
    adapter.check()
    with pytest.raises(Unsupported, match="Projects for tickets"):
        adapter.create_for_contact("tickets", ann, {"subject": "It broke"})


def test_a_task_needs_a_project_that_has_no_tickets(
    adapter: Adapter, tryton_crm: TrytonCrm, ann: str
) -> None:
    for task_project in ("", "Nowhere"):
        without = connected(tryton_crm, tasks=task_project).adapter()
        with pytest.raises(Unsupported, match=task_project or "Project for tasks"):
            without.create_task(ann, {"subject": "Call"})
    own = dict(adapter.context.settings)
    assert not adapter.clash(own, {})
    found = adapter.clash(own | {"projects": f"A; {TASKS}"}, {})
    assert isinstance(found, Problem)
    assert found.name == "tasks"


@pytest.mark.parametrize(
    ("status", "body", "error", "words"),
    [
        (200, {"id": 1, "error": ["'sale.opportunity'", ""]}, Unsupported, "sale.opportunity"),
        (404, None, BadConfig, "no such database"),
        (200, {"id": 1, "error": ["UserWarning", ["n", "Sure?", ""]]}, Rejected, "Sure"),
        (200, {"id": 1, "error": ["KeyError", ""]}, Uncertain, "KeyError"),
        (200, {"id": 1, "error": ["LoginException", ["code", "", "char"]]}, Denied, "password"),
    ],
    ids=["a module is missing", "no database", "a warning", "a breakdown", "a second factor"],
)
def test_what_tryton_answers_is_told(
    status: int, body: object, error: type[Exception], words: str
) -> None:
    told = failure(Answer("Tryton", status, {}, body, reads=False))
    assert isinstance(told, error)
    assert words in str(told)
