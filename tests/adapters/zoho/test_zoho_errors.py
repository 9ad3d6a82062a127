"""What Zoho's own answers mean to the adapter."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.fakes.zoho.schema import Column
from crmhub.adapter import (
    BadConfig,
    Conflict,
    Denied,
    LacksRight,
    NotFound,
    NotYet,
    Rejected,
    Throttled,
    Uncertain,
    Unsupported,
)
from crmhub.adapter.upserts import upsert_contact
from tests.adapters.leads import person
from tests.adapters.zoho.zoho_crm import SECRETS, ZohoCrm, adapted, calls, connected
from tests.loops import for_each

EMAIL = "ada@example.com"
LOVELACE = {"email": EMAIL, "lastname": "Lovelace"}


def test_a_missing_scope_renews_no_token() -> None:
    with ZohoCrm() as crm:
        adapter = adapted(crm.fake)
        adapter.describe("contacts")
        crm.fake.tokens.scopes -= {"ZohoCRM.modules.contacts.CREATE"}
        calls(crm.fake)
        with pytest.raises(LacksRight, match="scope"):
            adapter.create_contact({"lastname": "Lovelace"})
        assert calls(crm.fake) == ["POST /crm/v8/Contacts"]


def test_the_check_names_every_missing_scope() -> None:
    with ZohoCrm() as crm:
        adapter = adapted(crm.fake)
        adapter.check()
        gone = {
            "ZohoCRM.modules.deals.READ",
            "ZohoCRM.modules.contacts.UPDATE",
            "ZohoCRM.users.READ",
        }
        crm.fake.tokens.scopes -= gone
        with pytest.raises(LacksRight) as caught:
            adapter.check()
        assert all(scope in caught.value.message for scope in gone)
        assert not crm.fake.records("contacts")


@for_each("where", ["Contacts", "Cases"])
def test_the_check_names_a_module_without_the_mark_field(where: str) -> None:
    with ZohoCrm(mark="crmhub_mark") as crm:
        adapted(crm.fake, mark_field="crmhub_mark").check()
        del crm.fake.columns[where]["crmhub_mark"]
        with pytest.raises(BadConfig, match=f"{where} have no text field crmhub_mark") as caught:
            adapted(crm.fake, mark_field="crmhub_mark").check()
        assert [problem.name for problem in caught.value.problems] == ["mark_field"]


def test_the_check_refuses_encrypted_emails() -> None:
    with ZohoCrm(encrypted_email=True) as crm, pytest.raises(BadConfig, match="encrypts"):
        adapted(crm.fake).check()


def test_more_than_ten_tokens_are_throttled_and_not_denied() -> None:
    with ZohoCrm() as crm:
        crm.fake.token_requests.change(10, 600.0)
        for _ in range(10):
            connected(crm.fake).adapter().describe("contacts")
        with pytest.raises(Throttled) as caught:
            connected(crm.fake).adapter().describe("contacts")
        assert caught.value.retry_after == 600.0


def test_a_client_of_another_data_centre_is_told_so() -> None:
    with ZohoCrm() as crm:
        connection = connected(crm.fake)
        connection.credentials = {**SECRETS, "client_id": "1000.ELSEWHERE", "access_grant": ""}
        with pytest.raises(Denied, match="data centre"):
            connection.adapter().describe("contacts")


def test_the_refresh_token_stays() -> None:
    with ZohoCrm() as crm:
        connection = connected(crm.fake)
        adapter = connection.adapter()
        adapter.describe("contacts")
        crm.fake.expire_tokens()
        assert adapter.find_contact(email=EMAIL) is None
        assert calls(crm.fake).count("POST /oauth/v2/token") == 2
        assert connection.credentials["refresh_token"] == SECRETS["refresh_token"]


def test_used_up_credits_pause_the_quota() -> None:
    with ZohoCrm(limit="3/86400s") as crm:
        connection = connected(crm.fake)
        adapter = connection.adapter()
        for _ in range(2):
            adapter.find_contact(email=EMAIL)
        with pytest.raises(Throttled) as caught:
            adapter.find_contact(email=EMAIL)
        assert caught.value.scope == "quota"
        assert connection.budgets["credits"].paused == [900.0]


def test_an_email_that_is_taken_names_its_contact() -> None:
    with ZohoCrm(unique_email=True) as crm:
        adapter = adapted(crm.fake)
        made = adapter.create_contact(LOVELACE)
        with pytest.raises(Conflict) as caught:
            adapter.create_contact({"email": "ADA@example.com", "lastname": "King"})
        assert (caught.value.existing_id, caught.value.name) == (made.id, "email")


def test_an_email_of_a_lead_names_no_contact() -> None:
    with ZohoCrm(unique_email=True) as crm:
        crm.fake.leads[EMAIL] = "5725767000000009999"
        with pytest.raises(Conflict, match="Leads") as caught:
            upsert_contact(adapted(crm.fake), person(**LOVELACE))
        assert (caught.value.existing_id, caught.value.name) == ("", "email")
        assert not crm.fake.records("contacts")


def test_a_duplicate_among_several_errors_is_found() -> None:
    with ZohoCrm(unique_email=True) as crm:
        adapter = adapted(crm.fake)
        made = adapter.create_contact(LOVELACE)
        wrong = {**LOVELACE, "Account_Name": "5725767000000000404"}
        with pytest.raises(Conflict) as caught:
            adapter.create_contact(wrong)
        assert caught.value.existing_id == made.id


def test_a_missing_right_is_told_before_a_duplicate() -> None:
    with ZohoCrm() as crm:
        adapter = adapted(crm.fake)
        adapter.describe("contacts")
        errors = [_error("DUPLICATE_DATA", id="5725767000000009999"), _error("NO_PERMISSION")]
        several = _error("MULTIPLE_OR_MULTI_ERRORS", errors=errors)
        crm.fake.fail(400, body={"data": [several]}, method="POST", path="*/Contacts")
        with pytest.raises(LacksRight):
            adapter.create_contact(LOVELACE)


def test_a_field_of_a_contact_may_be_named_status() -> None:
    with ZohoCrm() as crm:
        crm.fake.columns["Contacts"]["status"] = Column("text", custom=True)
        crm.fake.add("contacts", {"Last_Name": "Lee", "Email": EMAIL, "status": "error"})
        found = adapted(crm.fake).find_contact(email=EMAIL, names=["status"])
        assert found is not None
        assert found.properties == {"status": "error"}


def test_several_refused_values_are_all_named() -> None:
    with ZohoCrm() as crm, pytest.raises(Rejected) as caught:
        adapted(crm.fake).create_contact(
            {"email": "no mail", "lastname": "L", "hubspot_owner_id": "5725767000000000404"}
        )
    assert {problem.name for problem in caught.value.problems} == {"email", "hubspot_owner_id"}


@for_each("is_204", [False, True])
def test_a_record_that_does_not_exist_is_not_found(is_204: bool) -> None:
    with ZohoCrm(absent_is_204=is_204) as crm:
        adapter = adapted(crm.fake)
        for call in (adapter.get_contact, adapter.update_contact):
            with pytest.raises(NotFound):
                call("5725767000000000404", {"lastname": "L"})  # type: ignore[operator]
        with pytest.raises(NotFound):
            adapter.create_for_contact("deals", "5725767000000000404", {"dealname": "D"})


def test_a_locked_record_waits() -> None:
    with ZohoCrm() as crm:
        adapter = adapted(crm.fake)
        made = adapter.create_contact(LOVELACE)
        crm.fake.locked.add(made.id)
        with pytest.raises(NotYet) as caught:
            adapter.update_contact(made.id, {"lastname": "King"})
        assert caught.value.retry_after == 600.0


def _error(code: str, **details: Any) -> dict[str, Any]:
    return {"code": code, "message": "invalid", "details": details, "status": "error"}


REFUSED = _error("INVALID_DATA")


@for_each(
    "fault",
    [{"kind": "empty", "status": 204}, {"status": 207, "body": {"data": [REFUSED, REFUSED]}}],
)
def test_a_write_whose_answer_tells_of_no_record_is_uncertain(fault: dict[str, Any]) -> None:
    with ZohoCrm() as crm:
        adapter = adapted(crm.fake)
        adapter.describe("contacts")
        crm.fake.fail(**fault, method="POST", path="*/Contacts")
        with pytest.raises(Uncertain):
            adapter.create_contact({"lastname": "Lovelace"})


def test_an_edition_without_cases_has_no_tickets() -> None:
    with ZohoCrm(has_cases=False) as crm:
        adapter = adapted(crm.fake)
        made = adapter.create_contact(LOVELACE)
        adapter.check()
        with pytest.raises(Unsupported, match="no cases"):
            adapter.create_for_contact("tickets", made.id, {"subject": "Help"})


@for_each("run", ["", "true", "false"])
def test_workflows_run_unless_the_setting_says_no(run: str) -> None:
    with ZohoCrm() as crm:
        adapter = adapted(crm.fake, run_workflows=run)
        made = adapter.create_contact({"lastname": "Lovelace"})
        created: Any = crm.fake.requests[-1].body
        adapter.archive("contacts", made.id)
        deleted = crm.fake.requests[-1]
        found = b'"trigger": []' in created, deleted.query == "wf_trigger=false"
        assert found == ((True, True) if run == "false" else (False, False))


def test_a_search_that_zoho_refuses_is_an_error_and_no_missing_contact() -> None:
    with ZohoCrm() as crm:
        adapter = adapted(crm.fake)
        adapter.create_contact(LOVELACE)
        crm.fake.fail(400, body=_error("INVALID_QUERY"), path="*/coql", times=None)
        with pytest.raises(Rejected, match="INVALID_QUERY"):
            adapter.find_contact(email=EMAIL)
