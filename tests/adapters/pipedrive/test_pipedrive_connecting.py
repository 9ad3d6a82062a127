"""How an account is connected to Pipedrive: settings, OAuth, and what the check says."""

from __future__ import annotations

from typing import Any

from adapters.pipedrive import PipedriveAdapter
from crmhub.adapter import BadConfig, Denied, LacksRight, NotFound, Unsupported, configured
from crmhub.adapter.testing.base import either
from tests.adapters.pipedrive.pipedrive_crm import OAUTH, TOKEN, PipedriveCrm, calls, connected
from tests.loops import for_each

SITE = {"base_url": "https://acme.pipedrive.com"}


@for_each(
    ("settings", "secrets", "named"),
    [
        (SITE, {}, "api_token"),
        (SITE, {**TOKEN, **OAUTH}, "api_token"),
        (SITE, {"client_id": "x"}, "api_token"),
        ({}, TOKEN, "base_url"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    settings: dict[str, str], secrets: dict[str, str], named: str
) -> None:
    refused = either(BadConfig, lambda: configured(PipedriveAdapter, settings, secrets))
    assert isinstance(refused, BadConfig)
    assert [problem.name for problem in refused.problems] == [named]


def test_an_account_by_oauth_needs_no_address() -> None:
    configured(PipedriveAdapter, {}, OAUTH)
    oauth = PipedriveAdapter.oauth({"oauth_url": "https://oauth.pipedrive.com/"})
    assert oauth is not None
    assert oauth.authorize_url == "https://oauth.pipedrive.com/oauth/authorize"
    assert (oauth.token_url, oauth.client_auth) == (
        "https://oauth.pipedrive.com/oauth/token",
        "basic",
    )


def test_the_address_of_the_company_comes_with_the_token(crm: PipedriveCrm) -> None:
    connection = connected(crm.fake, OAUTH, base_url="")
    saved = connection.adapter().create_contact({"email": "ann@x.org"})
    assert saved.url == f"{crm.url}/person/{saved.id}"
    assert crm.fake.tokens.refreshes == 1
    assert calls(crm.fake)[0] == "POST /oauth/token"


def test_a_missing_scope_is_named_and_no_token_is_renewed(crm: PipedriveCrm) -> None:
    crm.fake.tokens.scopes = frozenset({"base", "contacts:full"})
    connection = connected(crm.fake, OAUTH)
    adapter = connection.adapter()
    error = either(LacksRight, adapter.check)
    assert isinstance(error, LacksRight)
    assert "deals:full, users:read" in error.message
    assert "contacts:full" not in error.message
    assert isinstance(either(LacksRight, adapter.owners), LacksRight)
    assert crm.fake.tokens.refreshes == 1


def test_a_refused_client_is_denied(crm: PipedriveCrm) -> None:
    adapter = connected(crm.fake, {**OAUTH, "client_secret": "another one"}).adapter()
    assert isinstance(either(Denied, adapter.check), Denied)


def test_a_company_that_has_not_paid_is_denied(crm: PipedriveCrm) -> None:
    crm.fake.closed = True
    error = either(Denied, connected(crm.fake).adapter().check)
    assert isinstance(error, Denied)
    assert not isinstance(error, LacksRight)


@for_each(
    ("settings", "named"),
    [
        ({"mark_field": "crmhub mark"}, ["mark_field", "mark_field"]),
        ({"mark_field": "Score"}, ["mark_field", "mark_field"]),
        ({"mark_field": "Remarks"}, ["mark_field"]),
        ({"support_pipeline": "Complaints"}, ["support_pipeline"]),
        (
            {"mark_field": "x", "support_pipeline": "9"},
            ["mark_field", "mark_field", "support_pipeline"],
        ),
    ],
)
def test_the_check_names_every_setting_that_fits_nothing(
    crm: PipedriveCrm, settings: dict[str, str], named: list[str]
) -> None:
    error = either(BadConfig, connected(crm.fake, **settings).adapter().check)
    assert isinstance(error, BadConfig)
    assert [problem.name for problem in error.problems] == named


def test_the_check_reads_the_pipelines_again(crm: PipedriveCrm) -> None:
    adapter = connected(crm.fake).adapter()
    [support] = adapter.pipelines("tickets")
    next(one for one in crm.fake.pipelines if str(one["id"]) == support.id)["name"] = "Help"
    error = either(BadConfig, adapter.check)
    assert isinstance(error, BadConfig)
    assert [problem.name for problem in error.problems] == ["support_pipeline"]


def test_the_check_costs_what_the_page_says(crm: PipedriveCrm) -> None:
    crm.fake.define("contacts", "crmhub mark")
    crm.fake.define("deals", "crmhub mark")
    connected(crm.fake, mark_field="crmhub mark").adapter().check()
    assert crm.spent == 42


def test_tickets_are_deals_of_the_support_pipeline_and_of_no_other(crm: PipedriveCrm) -> None:
    adapter = connected(crm.fake, support_pipeline="support").adapter()
    [support] = adapter.pipelines("tickets")
    assert support.label == "Support"
    assert [one.label for one in adapter.pipelines("deals")] == ["Partners", "Sales"]
    assert {"subject", "hs_pipeline_stage"} <= {one.name for one in adapter.describe("tickets")}


def test_without_that_setting_there_are_no_tickets(crm: PipedriveCrm) -> None:
    adapter = connected(crm.fake, support_pipeline="").adapter()
    id = crm.add_contact({"email": "ann@x.org"})
    made: list[Any] = [
        lambda: adapter.create_for_contact("tickets", id, {"subject": "T"}),
        lambda: adapter.pipelines("tickets"),
        lambda: adapter.describe("tickets"),
    ]
    assert all(isinstance(either(Unsupported, one), Unsupported) for one in made)
    assert [one.label for one in adapter.pipelines("deals")] == ["Partners", "Sales", "Support"]


@for_each("deleted", ["flagged", "gone"])
def test_a_deleted_person_is_not_found(deleted: str) -> None:
    with PipedriveCrm(deleted=deleted) as crm:
        adapter = connected(crm.fake).adapter()
        id = crm.add_contact({"email": "ann@x.org"})
        crm.delete_contact(id)
        for call in (
            lambda: adapter.get_contact(id, []),
            lambda: adapter.update_contact(id, {"lastname": "Lee"}),
            lambda: adapter.create_for_contact("deals", id, {"dealname": "T"}),
        ):
            assert isinstance(either(NotFound, call), NotFound)
        assert not crm.fake.records("deals")


def test_owners_are_the_active_users(crm: PipedriveCrm) -> None:
    owners = connected(crm.fake).adapter().owners()
    assert [one.email for one in owners] == ["me@acme.example", "tom@acme.example"]
