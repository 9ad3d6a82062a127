"""Saved views: a filter of Activity or of the audit log under a name."""

from __future__ import annotations

import re

import pytest

from crmhub.operators.accounts.open_account import open_account
from crmhub.users import user_sessions, users
from tests.clients import TESTS
from tests.consoles import Operator, text_of, unused_email

FAILED = {"state": "dead,parked", "when": "yesterday"}


@pytest.fixture
def person(app, hub):
    """Return a function that signs in a user with a role, who sees some accounts or all."""

    def sign_in(role, accounts=None):
        operator = Operator(app, unused_email())

        def store(tx):
            user = users.create(tx, operator.email, "none", role=role, accounts=accounts)
            return user_sessions.start_session(tx, user.user_id, "none")

        operator.http.set_cookie("crmhub_console", hub.database.transact(store), path="/console")
        return operator

    return sign_in


def save(operator, name, filters=FAILED, *, page="activity", **form):
    at = f"/{page}?newerThan=1d"
    return operator.send(f"/views/of/{page}", {"name": name, **filters, **form}, at=at)


def views(operator, page="activity"):
    """Return the address of each view at the top of a list, by its name."""
    shown = operator.get(f"/{page}").text
    return {
        name: address.replace("&amp;", "&")
        for address, name in re.findall(
            r'<a class="btn btn-outline-secondary btn-sm" href="([^"]*)"[^>]*><bdi>([^<]*)</bdi>',
            shown,
        )
    }


def id_of(operator, name):
    shown = operator.get("/views").text
    row = next(row for row in shown.split("<tr>") if f"<bdi>{name}</bdi>" in row)
    return re.search(r'/views/(\w+)(?:/deleted)?"', row)[1]


def test_a_filter_is_saved_and_opened_by_one_click(operator):
    assert save(operator, " Failed   yesterday ").status_code == 303
    address = views(operator)["Failed yesterday"]
    page = operator.get(address.removeprefix("/console")).text
    assert re.findall(r'name="state" value="(\w+)" checked', page) == ["dead", "parked"]
    assert '<option value="yesterday" selected>' in page
    assert "Failed yesterday" not in views(operator, "audit")


def test_the_same_name_replaces_the_filter(operator):
    save(operator, "Mine")
    save(operator, "Mine", {"state": "done"})
    assert views(operator)["Mine"] == "/console/activity?state=done"


def test_a_view_is_renamed_and_deleted(operator):
    save(operator, "Old")
    save(operator, "Other")
    id = id_of(operator, "Old")
    taken = operator.send(f"/views/{id}", {"name": "Other"}, at="/views")
    assert taken.status_code == 409
    operator.send(f"/views/{id}", {"name": "New"}, at="/views")
    assert set(views(operator)) >= {"New", "Other"}
    operator.send(f"/views/{id}/deleted", at="/views")
    assert "New" not in views(operator)


def test_a_view_is_seen_by_others_only_if_it_is_shared(operator, person):
    save(operator, "Private")
    save(operator, "Of the team", shared="true")
    other = person("operator")
    assert "Of the team" in views(other)
    assert "Private" not in views(other)
    for name in ("Private", "Of the team"):
        id = id_of(operator, name)
        save(other, "Own")
        assert other.send(f"/views/{id}", {"name": "x"}, at="/views").status_code == 404
        assert other.send(f"/views/{id}/deleted", at="/views").status_code == 404
    assert {"Private", "Of the team"} <= set(views(operator))


def test_an_owner_deletes_the_shared_view_of_another(operator, person):
    author = person("operator")
    save(author, "Left behind", shared="true")
    id = id_of(author, "Left behind")
    assert operator.send(f"/views/{id}/deleted", at="/views").status_code == 303
    assert "Left behind" not in views(author)


def test_a_reader_saves_but_does_not_share(person):
    reader = person("reader")
    assert save(reader, "Mine").status_code == 303
    assert save(reader, "Ours", shared="true").status_code == 403
    assert "Share with the team" not in reader.get("/activity?state=done").text
    assert set(views(reader)) >= {"Mine"}


def test_a_shared_view_of_the_audit_log_is_hidden_from_roles_without_it(operator, person):
    save(operator, "Keys", {"object": "key"}, page="audit", shared="true")
    assert "Keys" in views(operator, "audit")
    support = person("support")
    assert "Keys" not in support.get("/views").text
    form = {"name": "Keys", "object": "key"}
    at = "/activity?state=done"
    assert support.send("/views/of/audit", form, at=at).status_code == 404


def test_a_shared_view_of_an_account_is_hidden_from_users_without_it(client, hub, operator, person):
    hidden, _ = open_account(hub, name="Hidden", by=TESTS)
    save(operator, "Of hidden", {"account": hidden.client_id}, shared="true")
    save(operator, "Of mine", {"account": client.account.client_id}, shared="true")
    shown = views(person("operator", [client.account.id]))
    assert "Of mine" in shown
    assert "Of hidden" not in shown


@pytest.mark.parametrize("name", ["q", "contact", "contactToken", "phone", "reason"])
def test_a_view_names_no_person(operator, name):
    answer = save(operator, "Ann", {name: "ann@example.com"})
    assert answer.status_code == 422
    assert "A view cannot name one person" in text_of(answer)
    assert "Ann" not in views(operator)


@pytest.mark.parametrize(
    ("name", "filters"),
    [
        ("", FAILED),
        ("x" * 61, FAILED),
        ("x", {}),
        ("x", {"message": "y", "_external": "y"}),
        ("x", dict.fromkeys(("cause", "fix", "helper", "state", "when"), "y" * 500)),
    ],
)
def test_a_view_that_cannot_be_saved_says_why(operator, name, filters):
    assert save(operator, name, filters).status_code == 422


def test_views_of_a_user_are_bounded(operator, monkeypatch):
    monkeypatch.setattr("crmhub.operators.users.saved_views.MOST", 2)
    assert [save(operator, name).status_code for name in ("a", "b", "c", "a")] == [
        303,
        303,
        409,
        303,
    ]
