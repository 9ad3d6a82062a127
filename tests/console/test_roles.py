"""What each role may open, and that a user sees nothing of accounts that are not theirs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import flask
import pytest

from crmhub.console.sessions import access_of
from crmhub.database.connection import now_ms
from crmhub.errors import Unavailable
from crmhub.hub import Hub
from crmhub.operators.accounts import change_account
from crmhub.operators.actions import action_queries
from crmhub.operators.events import event_subscriptions
from crmhub.operators.failures import fix_group, groups
from crmhub.operators.teams import change_team
from crmhub.operators.users.console_users import create_link, set_disabled, set_role
from crmhub.users import user_sessions, users
from crmhub.users.roles import RIGHTS_OF, ROLES
from tests.api.helpers.helper_calls import known
from tests.clients import TESTS, Client
from tests.console.past import give_cause
from tests.consoles import Operator, new_user, text_of, unused_email
from tests.events.receivers import HOOK, subscribe
from tests.queue.working import change

pytestmark = pytest.mark.databases("sqlite")

NAME, EMAIL, PHONE = "Zebedee Quill", "zebedee.quill@example.com", "+4930998877665"


@pytest.fixture(autouse=True)
def _each_page_has_its_own_banner(app, monkeypatch):
    monkeypatch.setattr("crmhub.console.banner._CACHE_S", 0.0)
    monkeypatch.setattr("crmhub.console.banner._MAX_ACCOUNTS", 10_000)
    app.extensions["crmhub.console.banner"].forget()


def signed_in(app: flask.Flask, role: str, *clients: Client) -> Operator:
    """Return the browser of a user with a role, limited to the accounts of `clients` if any."""
    hub: Hub = app.extensions["crmhub"]
    operator = Operator(app, unused_email())
    accounts = {client.account.id for client in clients} or None

    def work(tx):
        user = users.create(tx, operator.email, "none", role=role, accounts=accounts)
        return user_sessions.start_session(tx, user.user_id, "none")

    session = hub.database.transact(work)
    operator.http.set_cookie("crmhub_console", session, path="/console")
    return operator


def console_routes(app: flask.Flask) -> Iterator[tuple[str, str, set[str]]]:
    """Yield the endpoint, the rule and the methods of each route of the console."""
    for rule in app.url_map.iter_rules():
        if rule.endpoint.startswith("console.") and rule.endpoint != "console.static":
            yield rule.endpoint, rule.rule, rule.methods - {"HEAD", "OPTIONS"}


def test_every_route_declares_what_it_needs(app):
    with app.app_context():
        undeclared = [rule for endpoint, rule, _ in console_routes(app) if not access_of(endpoint)]
    assert undeclared == []


def test_every_route_that_changes_data_needs_a_right_that_readers_lack(app):
    # What users do to their own profile, views and session, and what anybody does with a link.
    own = re.compile(r"/console/(profile|views|sign-in|sign-out|join|setup|connect/link)\b")
    with app.app_context():
        for endpoint, rule, methods in console_routes(app):
            if "POST" in methods and not own.match(rule):
                assert access_of(endpoint).right not in (None, *RIGHTS_OF["reader"]), rule


def test_a_route_that_declares_nothing_is_refused(app, operator, monkeypatch):
    monkeypatch.setattr("crmhub.console.sessions.access_of", lambda _: None)
    assert operator.get("/accounts").status_code == 403


def path_values(hub: Hub, client: Client, action_id: str, contact: str) -> dict[str, str]:
    """Return things of an account by the names that they have in paths."""
    with hub.database.reading() as db:
        user_id = users.list_users(db)[0].user_id
    subscribed = event_subscriptions.listed(hub, client.account.client_id)
    client_id = client.account.client_id
    change_team.set_team(hub, client_id, "Sales", members=["ana@example.com"], by=TESTS)
    values = {
        "team": "Sales",
        "subscription_id": subscribed[0].id,
        "client_id": client.account.client_id,
        "action_id": action_id,
        "kind": "contacts",
        "id": contact,
        "one": contact,
        "other": contact,
        "user_id": user_id,
        "token": "x" * 43,
        "token_id": "tok_x",
        "key_id": "key_x",
        "view": "x",
        "page": "activity",
        "cause": give_cause(hub, client.account, action_id, kind="createLead"),
    }
    seen = {client.account.id}
    group = groups.group(hub.database, values["cause"], account_ids=seen)
    values["fix"] = fix_group.start(hub, group, "retry", by=TESTS)
    return values


def path_of(rule: str, values: Mapping[str, str]) -> str:
    """KeyError: a new route needs a value in `path_values`, so that it is tested, too."""
    path = re.sub(r"<(?:\w+:)?(\w+)>", lambda part: values[part[1]], rule)
    return path.removeprefix("/console")


def paths_of(app: flask.Flask, hub: Hub, client: Client, action_id: str, contact: str) -> list[str]:
    """Return the path of every page that a GET opens, with things of an account in it."""
    values = path_values(hub, client, action_id, contact)
    paths = []
    for _, rule, methods in console_routes(app):
        if "GET" in methods:
            paths.append(path_of(rule, values))
    listed = f"/activity/contact?account={client.account.client_id}&contact={contact}"
    return [path for path in paths if path != "/activity/contact"] + [listed]


@pytest.fixture
def failed(client, hub):
    """A lead of a person that has failed with a message about the person; its ids."""
    subscribe(hub, client, "contact.created", url=f"{HOOK}zebedee")
    contact = known(client, "token-of-zebedee", name=NAME, email=EMAIL, phone=PHONE)
    reason = f'CRM: "{NAME}" is known already as zebedee.quill@example.com ({PHONE}).'
    change(hub, client, "state = 'dead', finished_at = :at, reason = :reason", at=now_ms(),
           reason=reason)  # fmt: skip
    with hub.database.reading() as db:
        action_id = db.scalar(
            "select id from action where account_id = :id", {"id": client.account.id}
        )

    def work(tx):
        key = {"account": client.account.id, "id": action_id, "message": reason}
        tx.run(
            "update action_try set message = :message where account_id = :account"
            " and action_id = :id",
            key,
        )

    hub.database.transact(work)
    return action_id, contact


def test_support_sees_no_personal_data_on_any_page(app, hub, client, failed):
    support, owner = signed_in(app, "support"), signed_in(app, "owner")
    seen_by_owner, opened = "", []
    for path in paths_of(app, hub, client, *failed):
        answer = support.get(path)
        assert answer.status_code in (200, 303, 401, 403, 404), path
        opened += [path] * (answer.status_code == 200)
        for personal in ("zebedee", "quill", "998877665", "token-of"):
            assert personal not in answer.text.lower(), (path, personal)
        seen_by_owner += owner.get(path).text
    assert f"/activity/{failed[0]}" in opened
    assert any(path.startswith("/activity/causes/") for path in opened)
    # The walk leads to pages that have all of it.
    for personal in (NAME, EMAIL, "998877665", "token-of"):
        assert personal in seen_by_owner


def test_support_reads_no_value_in_what_a_crm_says_of_its_owners(app, hub, client, monkeypatch):
    client_id = client.account.client_id
    change_team.set_team(hub, client_id, "Sales", members=["ana@example.com"], by=TESTS)

    def refuse(*_):
        raise Unavailable(f'CRM: "{NAME}" ({EMAIL}) blocks the list of owners.')

    monkeypatch.setattr(change_team, "owners_of", refuse)
    path = f"/accounts/{client_id}/teams/Sales"
    assert NAME in text_of(signed_in(app, "owner").get(path))
    shown = text_of(signed_in(app, "support").get(path))
    assert "blocks the list of owners" in shown
    assert NAME not in shown
    assert EMAIL not in shown


def test_support_retries_and_discards_and_changes_nothing_else(app, client, failed):
    support = signed_in(app, "support")
    page = f"/activity/{failed[0]}"
    shown = text_of(support.get(page))
    assert "Retry now" in shown
    assert "Correct and retry" not in shown
    correct = support.send(f"{page}/edit", {"name": "name", "value": "X"}, at=page)
    assert correct.status_code == 403
    assert support.send(f"{page}/retry", at=page).status_code == 303
    other = f"/accounts/{client.account.client_id}"
    assert support.send(f"{other}/disabled", {"disabled": "true"}, at=page).status_code == 403
    for path in ("/records", "/keys", "/bots", "/crm", "/field-map"):
        assert support.get(f"{other}{path}").status_code in (403, 404)
    # Whoever may search for parts of a reason can find out its text.
    assert support.get("/activity?reason=zebedee").status_code == 403
    assert support.get("/activity?q=zebedee").status_code == 403
    assert failed[0] not in support.get(f"/activity?email={EMAIL[:-1]}").text
    # Other tests send leads of this person to accounts of their own.
    here = f"account={client.account.client_id}"
    answer = support.get(f"/activity?{here}&email={EMAIL.upper()}")
    assert answer.text.count('<li class="act">') == 1
    assert NAME not in answer.text
    assert "Reason contains" not in text_of(support.get("/activity"))


def test_a_reader_opens_pages_and_sends_no_form_but_their_own(app, client, failed):
    reader = signed_in(app, "reader")
    account = f"/accounts/{client.account.client_id}"
    for path in (account, f"{account}/keys", f"{account}/crm", f"{account}/field-map", "/audit"):
        page = reader.get(path)
        assert page.status_code == 200
        forms = re.findall(r'<form[^>]*method="post".*?</form>', page.text, re.DOTALL)
        for form in forms:
            assert "/sign-out" in form or "<fieldset disabled>" in form, path
    assert EMAIL in reader.get(f"/activity/{failed[0]}").text
    for path, form in (
        (account, {"name": "Renamed"}),
        (f"{account}/keys", {"name": "mine"}),
        (f"/activity/{failed[0]}/retry", {}),
        (f"/activity/{failed[0]}/discard", {"reason": "no"}),
        ("/accounts/new", {"name": "Opened by a reader"}),
    ):
        assert reader.send(path, form, at="/accounts").status_code == 403, path


@pytest.mark.parametrize("role", ["operator", "support", "reader"])
def test_users_and_tokens_are_for_owners_alone(app, hub, role):
    new_user(hub)
    user = signed_in(app, role)
    for path in ("/users", "/tokens"):
        assert user.get(path).status_code == 403
        form = {"name": "x", "email": "x@example.com", "role": "owner"}
        assert user.send(path, form, at="/accounts").status_code == 403
    assert "Users" not in text_of(user.get("/accounts")).split()
    entries = user.get("/audit?object=user").text
    assert '<ol class="timeline"' not in entries


# --- accounts of a user ------------------------------------------------------------------------


@pytest.fixture
def foreign(other, hub):
    """An account whose name, id and numbers a user of another account must not see."""
    change_account.change(hub, other.account.client_id, {"name": "Wolpertinger AG"}, by=TESTS)
    contact = known(other, "t1", name="Foreign Person", email="foreign@example.com")
    change(hub, other, "state = 'dead', finished_at = :at, reason = 'foreign reason'", at=now_ms())
    with hub.database.reading() as db:
        action_id = db.scalar(
            "select id from action where account_id = :id", {"id": other.account.id}
        )
    return other, action_id, contact


@pytest.mark.parametrize("role", [role for role in ROLES if role != "owner"])
def test_no_page_names_an_account_that_is_not_the_users(app, hub, client, failed, foreign, role):
    other, action_id, _ = foreign
    user = signed_in(app, role, client)
    opened = 0
    for path in [*paths_of(app, hub, client, *failed), "/audit", "/accounts?q=wolpertinger"]:
        answer = user.get(path)
        opened += answer.status_code == 200
        for secret in (other.account.client_id, "Wolpertinger AG", "oreign", action_id):
            assert secret not in answer.text, (path, secret)
    assert opened > 6


def test_what_is_of_another_account_is_not_found_as_if_it_did_not_exist(
    app, client, failed, foreign
):
    other, action_id, contact = foreign
    user = signed_in(app, "operator", client)
    theirs = other.account.client_id
    for path in (
        f"/accounts/{theirs}",
        f"/accounts/{theirs}/keys",
        f"/records/{theirs}/contacts/{contact}",
        f"/activity?account={theirs}",
        f"/activity/charts?account={theirs}",
        f"/audit?account={theirs}",
    ):
        answer = user.get(path)
        unknown = user.get(path.replace(theirs, "nobody-at-all"))
        assert answer.status_code == unknown.status_code == 404, path
        assert text_of(answer).replace(theirs, "nobody-at-all") == text_of(unknown)
    assert user.get(f"/activity/{action_id}").status_code == 404
    for path in (f"/activity/{action_id}/retry", f"/accounts/{theirs}/disabled"):
        assert user.send(path, at="/accounts").status_code == 404
    assert user.get("/accounts/new").status_code == 403
    assert user.get(f"/activity/{failed[0]}").status_code == 200


def test_counts_and_retries_are_of_the_users_accounts_alone(app, hub, client, failed, foreign):
    other, action_id, _ = foreign
    user = signed_in(app, "operator", client)
    # One failed action, in the banner and above the list.
    assert len(re.findall(r"\b1 failed\b", text_of(user.get("/activity")))) == 2
    confirm = text_of(user.get("/activity/retry"))
    assert "1 action" in confirm
    answer = user.send("/activity/retry", at="/activity/retry")
    assert answer.status_code == 303
    with hub.database.reading() as db:
        states = {
            id: state
            for one in (client, other)
            for id, state in db.rows(
                "select id, state from action where account_id = :id", {"id": one.account.id}
            )
        }
    assert (states[failed[0]], states[action_id]) == ("queued", "dead")


def test_a_user_with_several_accounts_sees_these(app, client, failed, foreign):
    other, action_id, _ = foreign
    user = signed_in(app, "reader", client, other)
    shown = user.get("/activity").text
    assert failed[0] in shown
    assert action_id in shown
    assert "2 failed" in text_of(user.get("/activity"))
    assert user.get("/activity/charts").status_code == 200


# --- the end of sessions -----------------------------------------------------------------------


def test_a_session_ends_when_role_accounts_or_password_change(app, hub, client):
    changes = (
        lambda email: set_role(hub, email, "reader", None, by=TESTS),
        lambda email: set_role(hub, email, "operator", [client.account.client_id], by=TESTS),
        lambda email: create_link(hub, email, by=TESTS),
        lambda email: set_disabled(hub, email, True, by=TESTS),
    )
    for one in changes:
        user = signed_in(app, "operator")
        assert user.get("/accounts").status_code == 200
        one(user.email)
        assert user.get("/accounts").status_code == 303


def test_nothing_changes_with_the_same_role_and_accounts(app, hub, client):
    user = signed_in(app, "reader", client)
    set_role(hub, user.email, "reader", [client.account.client_id], by=TESTS)
    assert user.get("/accounts").status_code == 200


def test_checkboxes_reach_no_action_of_another_account(app, hub, client, other, failed):
    limited = signed_in(app, "operator", other)
    chosen = f"selected=1&id={failed[0]}"
    limited.send(f"/activity/retry?{chosen}", at="/activity")
    limited.send(f"/activity/discard?{chosen}", {"reason": "none of theirs"}, at="/activity")
    assert action_queries.shown(hub.database, failed[0]).summary.state == "dead"
    owner = signed_in(app, "owner")
    owner.send(f"/activity/discard?{chosen}", {"reason": "a test"}, at="/activity")
    assert action_queries.shown(hub.database, failed[0]).summary.state == "discarded"
