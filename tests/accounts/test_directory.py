"""Who is calling, and how soon a change is seen in other processes."""

from __future__ import annotations

import threading
import time

import pytest

from crmhub.accounts import changes, keys, webhook_ids
from crmhub.accounts.directory import Directory, LastUse
from crmhub.accounts.plans import BUILT_IN
from crmhub.database import connection
from crmhub.database.connection import now_ms
from crmhub.errors import Unavailable
from crmhub.secrets import new_api_key, new_secret, new_webhook_id
from tests.queue.working import soon


@pytest.fixture
def other_process(own_url):
    """A directory with a memory and connections of its own, as another process has."""
    database = connection.Database(own_url)
    directory = Directory(database, BUILT_IN)
    yield directory
    directory.close()
    database.close()


def refused(directory, key):
    return directory.by_api_key(key) is None


def test_a_key_finds_its_account_and_its_scopes(database, make_account, directory):
    account, _ = make_account()
    issued = database.transact(lambda tx: keys.create(tx, account.id, scopes=["deals:read"]))
    caller = directory.by_api_key(issued.api_key)
    assert (caller.account, caller.key_id) == (account, issued.key_id)
    assert caller.scopes == {"deals:read"}


def test_what_is_no_live_key_finds_nobody(database, make_account, directory):
    account, issued = make_account("One")
    disabled, disabled_ids = make_account("Gone")
    expired = database.transact(
        lambda tx: keys.create(tx, account.id, expires_at=now_ms() + 60_000)
    )
    revoked = database.transact(lambda tx: keys.create(tx, account.id))
    database.transact(lambda tx: keys.revoke(tx, account.id, revoked.key_id))
    database.transact(
        lambda tx: tx.run(
            "update api_key set expires_at = 1 where id = :id", {"id": expired.key_id}
        )
    )
    database.transact(lambda tx: changes.set_disabled(tx, disabled.id, True))
    for key in [
        new_api_key(),
        "",
        "nonsense",
        issued.api_key[:-1] + "\x00",
        "\ud800",
        expired.api_key,
        revoked.api_key,
        disabled_ids.api_key,
    ]:
        assert refused(directory, key)


def test_a_revoked_key_ends_in_other_processes_within_a_second(
    database, make_account, other_process, clock
):
    account, issued = make_account()
    caller = other_process.by_api_key(issued.api_key)
    database.transact(lambda tx: keys.revoke(tx, account.id, caller.key_id))
    clock.forward(1)
    assert refused(other_process, issued.api_key)


def test_a_key_in_steady_use_ends_as_soon(database, make_account, other_process):
    account, issued = make_account()
    caller = other_process.by_api_key(issued.api_key)
    stop = threading.Event()

    def use():
        while not stop.is_set() and not refused(other_process, issued.api_key):
            pass

    users = [threading.Thread(target=use) for _ in range(4)]
    for user in users:
        user.start()
    database.transact(lambda tx: keys.revoke(tx, account.id, caller.key_id))
    time.sleep(0.9)
    ended = refused(other_process, issued.api_key)
    stop.set()
    for user in users:
        user.join()
    assert ended


def test_a_disabled_account_ends_everywhere_and_comes_back(
    database, make_account, other_process, clock
):
    account, issued = make_account()
    assert other_process.by_webhook_id(issued.generated_id)
    assert other_process.by_secret(issued.webhook_secret)
    database.transact(lambda tx: changes.set_disabled(tx, account.id, True))
    clock.forward(1)
    assert other_process.by_webhook_id(issued.generated_id) is None
    assert other_process.by_secret(issued.webhook_secret) is None
    assert refused(other_process, issued.api_key)
    assert other_process.only_account() is None
    assert other_process.by_client_id("acme").disabled
    database.transact(lambda tx: changes.set_disabled(tx, account.id, False))
    assert other_process.by_api_key(issued.api_key).account == account


def test_a_key_made_after_a_miss_works_at_once(database, make_account, directory):
    account, _ = make_account()
    missed = new_api_key()
    assert directory.by_api_key(missed) is None
    issued = database.transact(lambda tx: keys.create(tx, account.id))
    assert directory.by_api_key(issued.api_key) is not None


def test_an_expiring_key_ends_to_the_moment(database, make_account, clock):
    account, _ = make_account()
    directory = Directory(database, BUILT_IN, ttl=3600)
    ends_at = now_ms() + 600_000
    issued = database.transact(lambda tx: keys.create(tx, account.id, expires_at=ends_at))
    assert directory.by_api_key(issued.api_key) is not None
    clock.forward(600)
    assert directory.by_api_key(issued.api_key) is None
    directory.close()


def test_an_own_change_is_seen_at_once(database, make_account):
    account, issued = make_account()
    directory = Directory(database, BUILT_IN, ttl=60)
    directory.by_api_key(issued.api_key)
    directory.only_account()
    database.transact(lambda tx: changes.set_switches(tx, account.id, {"strict": True}, BUILT_IN))
    assert not directory.by_api_key(issued.api_key).account.switches.strict
    directory.forget(account.id)
    assert directory.by_api_key(issued.api_key).account.switches.strict
    assert directory.only_account().switches.strict
    directory.close()


def test_what_was_read_before_a_change_is_not_remembered_after_it(database, make_account):
    """A query that was under way while `forget` was called must not bring the old state back."""
    account, issued = make_account()
    directory = Directory(database, BUILT_IN, ttl=60)
    read = directory._routed

    def slow(*args):
        found = read(*args)
        database.transact(
            lambda tx: changes.set_switches(tx, account.id, {"strict": True}, BUILT_IN)
        )
        directory.forget(account.id)
        return found

    directory._routed = slow
    directory.by_webhook_id(issued.portal_id)
    directory._routed = read
    assert directory.by_webhook_id(issued.portal_id)[0].switches.strict
    directory.close()


def test_memory_is_bounded(database, make_account, monkeypatch):
    monkeypatch.setattr("crmhub.accounts.directory._SIZE", 3)
    account, _ = make_account()
    directory = Directory(database, BUILT_IN, ttl=60)
    made = [database.transact(lambda tx: keys.create(tx, account.id)).api_key for _ in range(5)]
    for key in made:
        directory.by_api_key(key)
    assert len(directory._remembered) == 3
    assert all(directory.by_api_key(key) for key in made)
    directory.close()


def test_webhook_ids_find_their_account_in_any_case(make_account, directory):
    account, issued = make_account()
    assert directory.by_webhook_id(issued.generated_id) == (account, "generated")
    assert directory.by_webhook_id(issued.portal_id) == (account, "portal")
    assert directory.by_webhook_id(issued.portal_id.upper()) == (account, "portal")


@pytest.mark.parametrize("value", ["", "x", "a\x00b", "\ud800", "ä", "x" * 100_000, "a/b"])
def test_what_is_no_webhook_id_finds_nobody(make_account, directory, value):
    make_account()
    assert directory.by_webhook_id(value) is None
    assert directory.by_webhook_id(new_webhook_id()) is None
    assert directory.by_client_id(value) is None
    assert directory.by_secret(value) is None


def test_a_secret_or_its_digest_is_no_webhook_id(make_account, directory):
    from crmhub.secrets import digest

    _, issued = make_account()
    assert directory.by_webhook_id(issued.webhook_secret) is None
    assert directory.by_webhook_id(digest(issued.webhook_secret)) is None
    assert directory.by_secret(digest(issued.webhook_secret)) is None


def test_an_alias_is_told_from_an_issued_id(database, make_account, directory):
    account, _ = make_account()
    changed = database.transact(
        lambda tx: changes.set_switches(tx, account.id, {"portal_alias": "Hub-123"}, BUILT_IN)
    )
    assert directory.by_webhook_id("Hub-123") == (changed, "alias")
    assert directory.by_webhook_id("hub-123") is None


def test_old_and_new_secret_work_until_the_old_one_ends(database, make_account, directory, clock):
    account, issued = make_account()
    new = database.transact(
        lambda tx: webhook_ids.rotate(tx, account.id, "secret", keep_ms=600_000)
    )
    assert directory.by_secret(issued.webhook_secret) == account
    assert directory.by_secret(new) == account
    clock.forward(600)
    assert directory.by_secret(issued.webhook_secret) is None
    assert directory.by_secret(new) == account
    assert directory.by_secret(new_secret()) is None


def test_the_only_account_is_found_until_there_is_another(database, make_account, directory, clock):
    assert directory.only_account() is None
    account, _ = make_account("One")
    assert directory.only_account() == account
    second, _ = make_account("Two")
    database.transact(lambda tx: changes.set_disabled(tx, second.id, True))
    clock.forward(1)
    assert directory.only_account() is None


def test_the_last_use_is_written(database, make_account, directory):
    account, issued = make_account()
    before = now_ms()
    directory.by_api_key(issued.api_key)
    directory.close()
    with database.reading() as conn:
        (key,) = keys.list_keys(conn, account.id)
    assert before <= key.last_used_at <= now_ms()


def test_the_last_use_is_written_meanwhile_and_waits_for_the_database(database, make_account):
    refused = threading.Event()

    class Flaky:
        away = True

        def transact(self, work):
            if self.away:
                refused.set()
                raise Unavailable("away")
            return database.transact(work)

    account, _ = make_account()
    with database.reading() as conn:
        (key,) = keys.list_keys(conn, account.id)
    flaky = Flaky()
    last_use = LastUse(flaky, keys.note_use, every=0.02)
    last_use.note((account.id, key.key_id))
    assert refused.wait(60)
    flaky.away = False

    def written():
        with database.reading() as conn:
            return keys.list_keys(conn, account.id)[0].last_used_at is not None

    soon(written)
    last_use.close()


def test_a_database_that_is_away_is_said_so(tmp_path):
    database = connection.Database("postgresql+psycopg://root@127.0.0.1:1/none")
    directory = Directory(database, BUILT_IN)
    with pytest.raises(Unavailable):
        directory.by_api_key(new_api_key())
    directory.close()
    database.close()
