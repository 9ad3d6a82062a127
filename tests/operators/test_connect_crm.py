"""An account is connected by OAuth once the CRM has accepted the tokens, and only then."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from crmhub.accounts import admin_tokens
from crmhub.audit import Author, Wanted, listed
from crmhub.crm.stored_connections import open_credentials
from crmhub.database import expired
from crmhub.database.connection import now_ms
from crmhub.database.rows import delete_where, upsert_row
from crmhub.database.tables import console_user
from crmhub.errors import Conflict, Forbidden, HubError, NotFound, Semantic, Unavailable
from crmhub.hub import Hub
from crmhub.operators.accounts import change_account
from crmhub.operators.crm import connect_crm, connect_requests, oauth_code, set_crm
from crmhub.operators.crm.connect_crm import Link
from crmhub.operators.crm.set_crm import Crm
from tests.adapters.hubspot.hubspot_crm import OAUTH, TOKEN, HubSpotCrm
from tests.clients import TESTS, Client

BACK = "https://hub.example.com/console/connect/callback"
APP = {name: OAUTH[name] for name in ("client_id", "client_secret")}
OPERATOR = Author("user", "ops@example.com", "user-1")


@pytest.fixture(scope="module")
def crm() -> Iterator[HubSpotCrm]:
    with HubSpotCrm() as crm:
        yield crm


@pytest.fixture(autouse=True)
def _fresh(crm: HubSpotCrm) -> None:
    crm.fake.reset()


@pytest.fixture(autouse=True)
def _operator(hub: Hub) -> None:
    """OPERATOR is a user of the console who may change all accounts."""
    set_operator(hub)


def set_operator(hub: Hub, **values: Any) -> None:
    may = {"role": "operator", "accounts": None, "disabled_at": None, **values}
    new = {"email": OPERATOR.name, "password": "none", "created_at": now_ms()}
    hub.database.transact(lambda tx: upsert_row(tx, console_user, {"id": OPERATOR.id}, may, new))


def hubspot(crm: HubSpotCrm, **more: str) -> Crm:
    return Crm("hubspot", {"base_url": crm.url} | more, APP, whole=True, guarded=True)


def start(hub: Hub, client: Client, crm: HubSpotCrm, browser: str = "cookie") -> str:
    return connect_crm.start(
        hub,
        client.account.client_id,
        hubspot(crm),
        by=OPERATOR,
        browser=browser,
        redirect_uri=BACK,
    )


def link(hub: Hub, client: Client, crm: HubSpotCrm) -> Link:
    return connect_crm.make_link(hub, client.account.client_id, hubspot(crm), by=OPERATOR)


def visit(hub: Hub, token: str) -> str:
    return connect_crm.start_by_link(hub, token, browser="cookie", redirect_uri=BACK)


def decide(address: str, decision: str = "approve") -> dict[str, str]:
    """Answer on the CRM's page; return the parameters with which the browser is sent back."""
    page, _, query = address.partition("?")
    asked = {name: values[0] for name, values in parse_qs(query).items()}
    answer = requests.post(page, asked | {"decision": decision}, timeout=30, allow_redirects=False)
    assert answer.status_code == 302, answer.text
    target = answer.headers["Location"]
    assert target.startswith(BACK)
    return {name: values[0] for name, values in parse_qs(urlsplit(target).query).items()}


def finish(
    hub: Hub, back: dict[str, str], browser: str = "cookie", user_id: str = "user-1"
) -> connect_crm.Connected:
    return connect_crm.finish(
        hub,
        back["state"],
        code=back.get("code", ""),
        error=back.get("error", ""),
        browser=browser,
        user_id=user_id,
    )


def adapter_of(hub: Hub, client: Client) -> str:
    return hub.load_account(client.account.client_id).connection.adapter


def refused(
    hub: Hub, client: Client, error: type[HubError], back: dict[str, str], **who: str
) -> str:
    with pytest.raises(error) as caught:
        finish(hub, back, **who)
    assert adapter_of(hub, client) == "local"
    assert "Nothing was changed" in caught.value.message or "Not saved" in caught.value.message
    return caught.value.message


def test_an_approval_stores_tokens_that_only_the_hub_can_read(
    hub: Hub, client: Client, crm: HubSpotCrm
) -> None:
    connected = finish(hub, decide(start(hub, client, crm)))
    assert (connected.crm, connected.by_link) == ("HubSpot", False)
    account = hub.load_account(client.account.client_id)
    assert account.connection.settings == {"base_url": crm.url}
    credentials = open_credentials(hub.vault, account)
    assert credentials.items() >= OAUTH.items()
    assert OAUTH["refresh_token"] not in account.connection.credentials


def test_an_approval_replaces_an_access_token(hub: Hub, client: Client, crm: HubSpotCrm) -> None:
    name = client.account.client_id
    old = Crm("hubspot", {"base_url": crm.url}, TOKEN)
    before = set_crm.set_crm(hub, name, old, test=False, by=TESTS)
    finish(hub, decide(start(hub, client, crm)))
    account = hub.load_account(name)
    # It is the same CRM: its ids stay.
    assert account.connection.id == before.connection.id
    assert "access_token" not in open_credentials(hub.vault, account)


def test_a_denial_changes_nothing(hub: Hub, client: Client, crm: HubSpotCrm) -> None:
    back = decide(start(hub, client, crm), "deny")
    assert "not approved in HubSpot" in refused(hub, client, Semantic, back)


def test_an_approval_counts_once(hub: Hub, client: Client, crm: HubSpotCrm) -> None:
    back = decide(start(hub, client, crm), "deny")
    refused(hub, client, Semantic, back)
    assert "used already" in refused(hub, client, Conflict, back)


@pytest.mark.parametrize("who", [{"browser": "another cookie"}, {"user_id": ""}, {"user_id": "2"}])
def test_an_approval_belongs_to_who_asked_for_it(
    hub: Hub, client: Client, crm: HubSpotCrm, who: dict[str, str]
) -> None:
    refused(hub, client, Forbidden, decide(start(hub, client, crm)), **who)


@pytest.mark.parametrize("state", ["", "x", "acme.id.9999999999999", "acme.id.9.00", "a.b.c.d.e.f"])
def test_a_forged_state_is_refused(hub: Hub, client: Client, state: str) -> None:
    refused(hub, client, Forbidden, {"state": state, "code": "c"})


def test_the_state_of_one_account_serves_no_other(
    hub: Hub, client: Client, crm: HubSpotCrm
) -> None:
    back = decide(start(hub, client, crm))
    _, rest = back["state"].split(".", 1)
    refused(hub, client, Forbidden, back | {"state": f"demo.{rest}"})


def test_an_approval_is_over_after_ten_minutes(
    hub: Hub, client: Client, crm: HubSpotCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    back = decide(start(hub, client, crm))
    now = connect_requests.now_ms
    monkeypatch.setattr(connect_requests, "now_ms", lambda: now() + 600_000)
    assert "ten minutes" in refused(hub, client, Conflict, back)


def test_a_token_endpoint_that_is_down_changes_nothing(
    hub: Hub, client: Client, crm: HubSpotCrm
) -> None:
    back = decide(start(hub, client, crm))
    crm.fake.fail(503, path="/oauth/*")
    assert "answered 503" in refused(hub, client, Unavailable, back)


def test_tokens_without_the_rights_change_nothing(
    hub: Hub, client: Client, crm: HubSpotCrm
) -> None:
    back = decide(start(hub, client, crm))
    crm.fake.tokens.scopes = frozenset({"oauth"})
    assert "crm.objects.contacts.read" in refused(hub, client, Semantic, back)


def test_a_wrong_client_secret_is_told(hub: Hub, client: Client, crm: HubSpotCrm) -> None:
    back = decide(start(hub, client, crm))
    crm.fake.tokens.client_secret = "another"
    assert "client secret" in refused(hub, client, Semantic, back)


def test_what_was_changed_meanwhile_stays(hub: Hub, client: Client, crm: HubSpotCrm) -> None:
    back = decide(start(hub, client, crm))
    theirs = Crm("hubspot", {"base_url": crm.url, "api_version": "v3"}, TOKEN)
    set_crm.set_crm(hub, client.account.client_id, theirs, test=False, by=TESTS)
    with pytest.raises(Conflict, match="meanwhile"):
        finish(hub, back)
    settings = hub.load_account(client.account.client_id).connection.settings
    assert settings["api_version"] == "v3"


def test_another_account_of_the_crm_is_refused(hub: Hub, client: Client, crm: HubSpotCrm) -> None:
    """The contact ids that the connection remembers are other people's there."""
    finish(hub, decide(start(hub, client, crm)))
    before = hub.load_account(client.account.client_id).connection
    crm.fake.portal.portal_id = 4711
    with pytest.raises(Conflict, match=r"another HubSpot account \(4711\)"):
        finish(hub, decide(start(hub, client, crm)))
    assert hub.load_account(client.account.client_id).connection == before
    # As another CRM it is welcome: no id is used again.
    name = client.account.client_id
    set_crm.set_crm(hub, name, Crm("local", {}, {}), test=False, by=TESTS)
    finish(hub, decide(start(hub, client, crm)))
    assert hub.load_account(name).connection.crm_account == "4711"


def test_the_account_of_the_crm_is_remembered_as_long_as_its_secrets(
    hub: Hub, client: Client, crm: HubSpotCrm
) -> None:
    name = client.account.client_id
    finish(hub, decide(start(hub, client, crm)))
    kept = Crm("hubspot", {"api_version": "v3"}, {})
    portal = str(crm.fake.portal.portal_id)
    assert set_crm.set_crm(hub, name, kept, test=True, by=TESTS).connection.crm_account == portal
    new = Crm("hubspot", {}, dict.fromkeys(OAUTH, "") | TOKEN)
    assert set_crm.set_crm(hub, name, new, test=True, by=TESTS).connection.crm_account == ""


def test_an_app_is_needed(hub: Hub, client: Client, crm: HubSpotCrm) -> None:
    without = Crm("hubspot", {"base_url": crm.url}, {"client_id": "x"}, whole=True, guarded=True)
    with pytest.raises(Semantic) as caught:
        connect_crm.start(
            hub, client.account.client_id, without, by=TESTS, browser="b", redirect_uri=BACK
        )
    assert [name for name, _ in caught.value.fields] == ["client_secret"]


def test_a_crm_without_oauth_is_told(hub: Hub, client: Client) -> None:
    with pytest.raises(Semantic, match="cannot be connected by OAuth"):
        connect_crm.make_link(hub, client.account.client_id, Crm("local", {}, {}), by=TESTS)


def test_a_stored_client_secret_goes_to_no_other_address(
    hub: Hub, client: Client, crm: HubSpotCrm
) -> None:
    finish(hub, decide(start(hub, client, crm)))
    elsewhere = Crm("hubspot", {"base_url": "http://127.0.0.1:9"}, {}, whole=True, guarded=True)
    with pytest.raises(Semantic, match="another address"):
        connect_crm.start(
            hub, client.account.client_id, elsewhere, by=TESTS, browser="b", redirect_uri=BACK
        )


# --- links -------------------------------------------------------------------------------------


def test_a_link_connects_one_account_once(hub: Hub, client: Client, crm: HubSpotCrm) -> None:
    token = link(hub, client, crm).token
    invitation = connect_crm.open_link(hub, token)
    assert (invitation.account_name, invitation.crm) == (client.account.name, "HubSpot")
    # Denied first: the link still works.
    with pytest.raises(Semantic, match="not approved"):
        finish(hub, decide(visit(hub, token), "deny"), user_id="")
    assert finish(hub, decide(visit(hub, token)), user_id="").by_link
    assert adapter_of(hub, client) == "hubspot"
    with pytest.raises(Conflict, match="used already"):
        visit(hub, token)
    with hub.database.reading() as db:
        entries = listed(db, Wanted(account_id=client.account.id), limit=10)
    authors = [(entry.object, entry.by.name) for entry in entries]
    assert ("connection", "ops@example.com (link)") in authors
    assert ("connectLink", "ops@example.com") in authors


def test_a_link_still_works_after_a_failure(hub: Hub, client: Client, crm: HubSpotCrm) -> None:
    token = link(hub, client, crm).token
    back = decide(visit(hub, token))
    crm.fake.fail(503, path="/oauth/*", times=1)
    with pytest.raises(Unavailable):
        finish(hub, back, user_id="")
    assert finish(hub, decide(visit(hub, token)), user_id="").by_link


def test_a_link_works_again_when_its_process_was_killed_in_the_middle(
    hub: Hub, client: Client, crm: HubSpotCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: object, **__: object) -> None:
        raise Killed

    token = link(hub, client, crm).token
    for module, name in ((oauth_code, "exchange"), (set_crm, "_test"), (set_crm, "configure")):
        back = decide(visit(hub, token))
        with monkeypatch.context() as patch:
            patch.setattr(module, name, die)
            with pytest.raises(Killed):
                finish(hub, back, user_id="")
    assert finish(hub, decide(visit(hub, token)), user_id="").by_link


@pytest.mark.databases("sqlite", "postgresql")
def test_two_visits_of_one_link_at_once_connect_once(
    hub: Hub, client: Client, crm: HubSpotCrm
) -> None:
    token = link(hub, client, crm).token
    backs = [decide(visit(hub, token)) for _ in range(2)]

    def attempt(back: dict[str, str]) -> bool:
        try:
            return finish(hub, back, user_id="").by_link
        except Conflict:
            return False

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(attempt, backs)) == [False, True]


def test_a_link_is_over_after_its_days(
    hub: Hub, client: Client, crm: HubSpotCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = link(hub, client, crm)
    monkeypatch.setattr(connect_requests, "now_ms", lambda: made.expires_at)
    with pytest.raises(Conflict, match="expired"):
        connect_crm.open_link(hub, made.token)


def test_a_link_is_over_when_the_crm_was_changed(hub: Hub, client: Client, crm: HubSpotCrm) -> None:
    token = link(hub, client, crm).token
    theirs = Crm("hubspot", {"base_url": crm.url}, TOKEN)
    set_crm.set_crm(hub, client.account.client_id, theirs, test=False, by=TESTS)
    with pytest.raises(Conflict, match="changed after this link"):
        visit(hub, token)


def test_a_link_of_a_disabled_account_is_refused(hub: Hub, client: Client, crm: HubSpotCrm) -> None:
    token = link(hub, client, crm).token
    change_account.change(hub, client.account.client_id, {}, disabled=True, by=TESTS)
    with pytest.raises(Forbidden):
        connect_crm.open_link(hub, token)


@pytest.mark.parametrize("token", ["x", "a.b.c", "acme.id.9999999999999.0"])
def test_a_text_that_is_no_link_is_not_found(hub: Hub, token: str) -> None:
    with pytest.raises(NotFound):
        connect_crm.open_link(hub, token)


def test_requests_are_deleted_a_day_after_their_end(
    hub: Hub, client: Client, crm: HubSpotCrm
) -> None:
    start(hub, client, crm)
    made = link(hub, client, crm)
    moved = {"id": client.account.id, "past": made.expires_at - 9 * 24 * 3600 * 1000}
    statement = (
        "update connect_request set expires_at = :past where account_id = :id"
        f" and expires_at < {made.expires_at}"
    )
    hub.database.transact(lambda tx: tx.run(statement, moved))
    expired.delete_expired(hub.database, expired.CONNECT_REQUESTS)
    left = "select count(*) from connect_request where account_id = :id"
    with hub.database.reading() as db:
        assert db.scalar(left, {"id": client.account.id}) == 1


@pytest.mark.parametrize(
    "lost", [{"role": "reader"}, {"disabled_at": 1}, {"accounts": "[0]"}, None], ids=str
)
def test_a_link_ends_with_the_right_of_whoever_made_it(
    hub: Hub, client: Client, crm: HubSpotCrm, lost: dict[str, Any] | None
) -> None:
    made, begun = link(hub, client, crm), decide(start(hub, client, crm))
    approved = decide(visit(hub, made.token))
    if lost:
        set_operator(hub, **lost)
    else:
        key = {"id": OPERATOR.id}
        hub.database.transact(lambda tx: delete_where(tx, console_user, key))
    for use in (visit, connect_crm.open_link):
        with pytest.raises(Forbidden, match="may not change the account"):
            use(hub, made.token)
    refused(hub, client, Forbidden, approved)
    refused(hub, client, Forbidden, begun)
    set_operator(hub)
    assert finish(hub, approved).by_link


def test_a_link_ends_with_the_admin_token_that_made_it(
    hub: Hub, client: Client, crm: HubSpotCrm
) -> None:
    issued = hub.database.transact(lambda tx: admin_tokens.create(tx, "CI"))
    by = Author("token", issued.name, issued.token_id)
    made = connect_crm.make_link(hub, client.account.client_id, hubspot(crm), by=by)
    assert connect_crm.open_link(hub, made.token).sender == ""
    hub.database.transact(lambda tx: admin_tokens.revoke(tx, issued.token_id))
    with pytest.raises(Forbidden, match="may not change the account"):
        connect_crm.open_link(hub, made.token)
