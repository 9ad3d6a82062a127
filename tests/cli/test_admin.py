"""crmhub admin token: made, listed and ended."""

from __future__ import annotations

import re


def test_create_prints_exactly_what_was_promised(crmhub):
    made = crmhub.json("admin", "token", "create", "ops", "--scope", "actions:read")
    assert list(made) == ["tokenId", "name", "token", "scopes", "expiresAt"]
    assert (made["name"], made["scopes"], made["expiresAt"]) == ("ops", ["actions:read"], None)
    assert re.fullmatch(r"crmhub_admin_[0-9A-Za-z]{36}", made["token"])


def test_without_scopes_a_token_may_do_everything(crmhub):
    made = crmhub.json("admin", "token", "create", "ops", "--expires", "2031-12-31")
    assert len(made["scopes"]) >= 4
    assert made["expiresAt"] == "2031-12-31T00:00:00.000Z"


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


def test_revoke_names_a_token_that_is_not_there(crmhub):
    assert "no admin token 'adm_x'" in crmhub("admin", "token", "revoke", "adm_x", code=1).stderr
