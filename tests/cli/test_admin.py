"""crmhub admin token: made, listed and ended."""

from __future__ import annotations

import re

import pytest

# The operations behind the commands are tested on each database.
pytestmark = [pytest.mark.usefixtures("quick_passwords"), pytest.mark.databases("sqlite")]


def test_a_link_for_a_new_user_is_printed_with_its_end(crmhub):
    told = crmhub.json("admin", "user", "link", "--expires", "2h", "--url", "https://hub.example/")
    assert re.fullmatch("https://hub.example/console/setup/[A-Za-z0-9]{43}", told["link"])
    printed = crmhub("admin", "user", "link").stdout
    assert printed.startswith("http://127.0.0.1:8080/console/setup/")
    assert "works once, until" in printed
    assert "at most 7 days" in crmhub("admin", "user", "link", "--expires", "8d", code=1).stderr


def test_create_prints_exactly_what_was_promised(crmhub):
    made = crmhub.json("admin", "token", "create", "ops", "--scope", "actions:read")
    assert list(made) == ["tokenId", "name", "token", "scopes", "expiresAt"]
    assert (made["name"], made["scopes"], made["expiresAt"]) == ("ops", ["actions:read"], None)
    assert re.fullmatch(r"crmhub_admin_[0-9A-Za-z]{36}", made["token"])


def test_create_refuses_what_cannot_be(crmhub):
    create = ("admin", "token", "create", "ops")
    assert "known are" in crmhub(*create, "--scope", "contacts:read", code=1).stderr
    assert "passed already" in crmhub(*create, "--expires", "2001-01-01", code=1).stderr


def test_list_tells_tokens_apart_without_showing_them(crmhub):
    made = crmhub.json("admin", "token", "create", "ops", "--scope", "actions:read")
    crmhub("admin", "token", "revoke", made["tokenId"])
    crmhub("admin", "token", "create", "night shift")
    listed = crmhub("admin", "token", "list").stdout
    assert made["token"] not in listed
    assert re.search(
        rf"{made['tokenId']} +ops +…{made['token'][-4:]} +revoked .*actions:read", listed
    )
    assert re.search(r"night shift +…\w{4} +live +never +all", listed)
    first, second = crmhub.json("admin", "token", "list")
    assert (first["name"], second["revokedAt"]) == ("ops", None)
    assert first["revokedAt"]


# --- users of the console ------------------------------------------------------------------------

CREATE = ("admin", "user", "create", "Ops@Example.com", "--password-file", "-")
ENOUGH = "correct horse battery\n"


def test_a_user_of_the_console_is_made_and_listed(crmhub):
    made = crmhub.json(*CREATE, stdin=ENOUGH)
    assert list(made)[:5] == ["userId", "email", "createdAt", "disabledAt", "lastSignInAt"]
    assert (made["email"], made["disabledAt"]) == ("ops@example.com", None)
    assert (made["role"], made["accounts"], made["secondFactor"]) == ("owner", None, False)
    assert crmhub.json("admin", "user", "list") == [made]
    listed = crmhub("admin", "user", "list").stdout
    assert re.search(rf"{made['userId']} +ops@example.com +owner +all +live +off +never", listed)


def test_a_password_comes_from_a_file(crmhub, tmp_path):
    (tmp_path / "secret").write_text(ENOUGH)
    crmhub("admin", "user", "create", "a@example.com", "--password-file", "secret")
    (tmp_path / "secret").write_text("short")
    short = crmhub(
        "admin", "user", "password", "a@example.com", "--password-file", "secret", code=1
    )
    assert "it has 5 characters; give 12" in short.stderr
    gone = ("admin", "user", "password", "a@example.com", "--password-file", "nowhere")
    assert "--password-file: nowhere cannot be read" in crmhub(*gone, code=2).stderr


def test_a_user_who_cannot_be_is_refused(crmhub):
    crmhub(*CREATE, stdin=ENOUGH)
    assert "a user ops@example.com already" in crmhub(*CREATE, stdin=ENOUGH, code=1).stderr
    wrong = ("admin", "user", "create", "ops", "--password-file", "-")
    assert "'ops' is not an email" in crmhub(*wrong, stdin=ENOUGH, code=1).stderr
    assert "no user 'x@y.z'" in crmhub("admin", "user", "disable", "x@y.z", code=1).stderr


def test_what_is_done_to_users_is_in_the_audit_log(crmhub):
    made = crmhub.json(*CREATE, "--role", "support", stdin=ENOUGH)
    for verb in ("disable", "disable", "enable"):
        crmhub("admin", "user", verb, "ops@example.com")
    crmhub("admin", "user", "password", "ops@example.com", "--password-file", "-", stdin=ENOUGH)
    entries = crmhub.json("audit", "list", "--object", "user")
    assert [(one["verb"], one["after"]) for one in reversed(entries)] == [
        ("create", {"email": "ops@example.com", "role": "support", "accounts": "all"}),
        ("change", {"disabled": True}),
        ("change", {"disabled": False}),
        ("change", {"password": "set anew"}),
    ]
    assert {one["objectId"] for one in entries} == {made["userId"]}


def test_the_last_owner_stays(crmhub):
    crmhub(*CREATE, stdin=ENOUGH)
    # An owner who has not joined yet cannot manage users.
    crmhub("admin", "user", "invite", "next@example.com", "--role", "owner")
    for command in (["disable"], ["remove", "--yes"], ["role"]):
        words = ("admin", "user", *command, "ops@example.com")
        words = (*words, "reader") if command == ["role"] else words
        assert "ops@example.com is the last owner" in crmhub(*words, code=1).stderr
    second = ("admin", "user", "create", "two@example.com", "--password-file", "-")
    crmhub(*second, stdin=ENOUGH)
    crmhub("admin", "user", "role", "ops@example.com", "reader")
    crmhub("admin", "user", "remove", "--yes", "ops@example.com")
    emails = [one["email"] for one in crmhub.json("admin", "user", "list")]
    assert emails == ["next@example.com", "two@example.com"]


def test_an_invitation_and_a_reset_print_a_link(crmhub):
    crmhub("account", "create", "Acme")
    invite = ("admin", "user", "invite", "ann@example.com", "--role", "operator")
    made = crmhub.json(*invite, "--account", "acme", "--url", "https://hub.example.com/")
    assert list(made) == ["email", "link", "expiresAt"]
    assert re.fullmatch(r"https://hub.example.com/console/join/[0-9A-Za-z]{43}", made["link"])
    (user,) = crmhub.json("admin", "user", "list")
    assert (user["role"], user["accounts"]) == ("operator", ["acme"])
    assert user["invitedUntil"] == made["expiresAt"]
    crmhub(*CREATE, stdin=ENOUGH)
    shown = crmhub("admin", "user", "reset", "ops@example.com").stdout
    assert re.search(r"Link +http://127.0.0.1:8080/console/join/\w{43}\n", shown)
