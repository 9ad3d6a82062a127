"""crmhub key: made, listed and ended."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

# The operations behind the commands are tested on each database.
pytestmark = pytest.mark.databases("sqlite")


def test_create_prints_exactly_what_was_promised(acme):
    made = acme.json("key", "create", "acme", "--scope", "deals:write", "--scope", "contacts:read")
    assert list(made) == ["keyId", "apiKey", "scopes", "expiresAt"]
    assert made["scopes"] == ["contacts:read", "deals:write"]
    assert made["expiresAt"] is None
    assert re.fullmatch(r"crmhub_\w{36}", made["apiKey"])
    told = acme("key", "create", "acme", "--scope", "deals:write", "--scope", "deals:read").stdout
    assert re.match(r"API key  crmhub_\w{36}\nKey id   key_", told)
    assert "Scopes   deals:read, deals:write\nExpires  never\n" in told


def test_a_key_has_a_name(acme):
    acme("key", "create", "acme", "--name", " Import  job ")
    assert "Import job" in acme("key", "list", "acme").stdout
    assert acme.json("key", "list", "acme")[-1]["name"] == "Import job"
    too_long = ("key", "create", "acme", "--name", "n" * 101)
    assert "at most 100" in acme(*too_long, code=1).stderr


def test_the_end_is_a_date_or_a_time_from_now(acme):
    for text, expected in (
        ("2031-12-31", "2031-12-31T00:00:00.000Z"),
        ("2031-12-31T12:30+02:00", "2031-12-31T10:30:00.000Z"),
    ):
        assert acme.json("key", "create", "acme", "--expires", text)["expiresAt"] == expected
    ends = datetime.fromisoformat(
        acme.json("key", "create", "acme", "--expires", "90d")["expiresAt"]
    )
    assert abs(ends - datetime.now(UTC) - timedelta(days=90)) < timedelta(minutes=1)


def test_create_refuses_what_cannot_be(acme):
    for option, value, code, words in (
        ("--scope", "contacts", 1, "known are contacts:read"),
        ("--expires", "2001-01-01", 1, "passed already"),
        ("--expires", "soon", 2, "'soon' is not a time"),
        ("--expires", "2031-13-01", 2, "is not a time"),
    ):
        assert words in acme("key", "create", "acme", option, value, code=code).stderr


def test_list_tells_keys_apart_without_showing_them(acme):
    made = acme.json("key", "create", "acme", "--scope", "deals:read", "--expires", "2031-12-31")
    acme("key", "revoke", "acme", made["keyId"])
    listed = acme("key", "list", "acme").stdout
    assert made["apiKey"] not in listed
    assert f"…{made['apiKey'][-4:]}" in listed
    assert re.search(rf"{made['keyId']} .* revoked 20\d\d-.* never +deals:read\n", listed)
    first, second = acme.json("key", "list", "acme")
    assert len(first["scopes"]) == 9
    assert second["revokedAt"] is not None
