"""Tokens of the admin API: scopes, ends, revocation, last use."""

from __future__ import annotations

import pytest

from crmhub.accounts import admin_tokens
from crmhub.accounts.directory import Directory
from crmhub.accounts.plans import BUILT_IN
from crmhub.database import connection
from crmhub.database.connection import now_ms
from crmhub.errors import NotFound, Semantic
from crmhub.secrets import looks_like_admin_token, looks_like_api_key, new_api_key


def create(database, name="ops", **options):
    return database.transact(lambda tx: admin_tokens.create(tx, name, **options))


def listed(database):
    with database.reading() as conn:
        return {token.token_id: token for token in admin_tokens.list_tokens(conn)}


def test_a_token_without_scopes_may_do_everything(database):
    issued = create(database)
    assert issued.scopes == listed(database)[issued.token_id].scopes == admin_tokens.SCOPES
    assert set(admin_tokens.SCOPES) >= {"accounts:read", "actions:read", "actions:write"}


def test_a_token_is_known_by_its_form_and_is_no_api_key(database):
    token = create(database).token
    assert looks_like_admin_token(token)
    assert not looks_like_api_key(token)
    assert not looks_like_admin_token(new_api_key())
    assert not looks_like_admin_token(token[:-1] + ("a" if token[-1] != "a" else "b"))


def test_only_a_digest_is_stored(database):
    issued = create(database, "night shift")
    with database.reading() as conn:
        stored = repr(conn.rows("select * from admin_token"))
    assert "night shift" in stored
    assert issued.token not in stored + repr(issued) + repr(listed(database))


@pytest.mark.parametrize("scope", ["contacts:read", "actions", "*", "", "Actions:read"])
def test_unknown_scopes_are_refused_with_the_known_ones(database, scope):
    with pytest.raises(Semantic, match="known are accounts:read"):
        create(database, scopes=["actions:read", scope])


@pytest.mark.parametrize("name", ["", " ", "a\x00b", "x" * 101])
def test_a_name_is_printable_and_short(database, name):
    with pytest.raises(Semantic, match="1 to 100 printable characters"):
        create(database, name)


def test_a_token_cannot_end_before_it_begins(database):
    with pytest.raises(Semantic, match="passed already"):
        create(database, expires_at=now_ms() - 1)


def test_a_token_finds_its_scopes_until_it_ends(database, directory):
    issued = create(database, scopes=["actions:read"], expires_at=now_ms() + 60_000)
    assert directory.by_admin_token(issued.token).scopes == {"actions:read"}
    ended = create(database, expires_at=now_ms() + 60_000)
    database.transact(
        lambda tx: tx.run(
            "update admin_token set expires_at = 1 where id = :id", {"id": ended.token_id}
        )
    )
    for wrong in (ended.token, issued.token[:-1], "", "\ud800", new_api_key()):
        assert directory.by_admin_token(wrong) is None


def test_a_revoked_token_ends_in_other_processes_within_a_second(database, own_url, clock):
    other = connection.Database(own_url)
    directory = Directory(other, BUILT_IN)
    issued = create(database)
    assert directory.by_admin_token(issued.token)
    database.transact(lambda tx: admin_tokens.revoke(tx, issued.token_id))
    clock.forward(1)
    assert directory.by_admin_token(issued.token) is None
    directory.close()
    other.close()


def test_a_token_that_is_not_there_cannot_be_revoked(database):
    with pytest.raises(NotFound, match="no admin token 'adm_x'"):
        database.transact(lambda tx: admin_tokens.revoke(tx, "adm_x"))


def test_the_last_use_is_written_and_never_goes_back(database, directory):
    issued = create(database)
    assert listed(database)[issued.token_id].last_used_at is None
    directory.by_admin_token(issued.token)
    directory.close()
    written = listed(database)[issued.token_id].last_used_at
    assert written is not None
    database.transact(lambda tx: admin_tokens.note_use(tx, {(issued.token_id,): written - 1}))
    assert listed(database)[issued.token_id].last_used_at == written
