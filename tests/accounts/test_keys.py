"""API keys: scopes, ends, revocation, last use."""

from __future__ import annotations

import pytest

from crmhub.accounts import keys
from crmhub.database.connection import now_ms
from crmhub.errors import Semantic


def create(database, account, **options):
    return database.transact(lambda tx: keys.create(tx, account.id, **options))


def listed(database, account):
    with database.reading() as conn:
        return {key.key_id: key for key in keys.list_keys(conn, account.id)}


def test_a_key_without_scopes_may_do_everything(database, make_account):
    account, _ = make_account()
    issued = create(database, account)
    assert issued.scopes == keys.SCOPES
    assert len(keys.SCOPES) == 9
    assert listed(database, account)[issued.key_id].scopes == keys.SCOPES


def test_scopes_are_kept_in_the_usual_order_without_doubles(database, make_account):
    account, _ = make_account()
    issued = create(database, account, scopes=["deals:write", "contacts:read", "deals:write"])
    assert issued.scopes == ("contacts:read", "deals:write")
    assert listed(database, account)[issued.key_id].scopes == ("contacts:read", "deals:write")


@pytest.mark.parametrize("scope", ["contacts", "contacts:delete", "*", "", "Contacts:read"])
def test_unknown_scopes_are_refused_with_the_known_ones(database, make_account, scope):
    with pytest.raises(Semantic, match="known are contacts:read, contacts:write, deals:read"):
        create(database, make_account()[0], scopes=["contacts:read", scope])


def test_a_key_cannot_end_before_it_begins(database, make_account):
    with pytest.raises(Semantic, match="passed already"):
        create(database, make_account()[0], expires_at=now_ms() - 1)


def test_a_key_is_revoked_once_and_for_all(database, make_account, time_machine):
    time_machine.move_to("2030-01-01 00:00:00Z", tick=False)
    account, _ = make_account()
    issued = create(database, account)
    database.transact(lambda tx: keys.revoke(tx, account.id, issued.key_id))
    revoked_at = listed(database, account)[issued.key_id].revoked_at
    time_machine.shift(5)
    database.transact(lambda tx: keys.revoke(tx, account.id, issued.key_id))
    assert revoked_at == now_ms() - 5000
    assert listed(database, account)[issued.key_id].revoked_at == revoked_at


def test_the_last_use_never_goes_back(database, make_account):
    account, _ = make_account()
    (key_id,) = listed(database, account)
    for at in (2000, 1000):
        database.transact(lambda tx, at=at: keys.note_use(tx, {(account.id, key_id): at}))
    assert listed(database, account)[key_id].last_used_at == 2000
