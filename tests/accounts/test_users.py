"""Console users in the database: the last owner, links and codes that are used once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyotp
import pytest

from crmhub import audit
from crmhub.audit import Author
from crmhub.database.connection import Database, now_ms
from crmhub.errors import Conflict, HubError, Semantic
from crmhub.hub import Hub
from crmhub.operators.actions import attention
from crmhub.operators.actions.history import SPANS, history
from crmhub.secrets import EncryptionKey, Vault
from crmhub.users import second_factors, user_links, users
from tests.api.helpers.helper_calls import known
from tests.consoles import unused_email
from tests.own_databases import empty, url_fixture
from tests.queue.working import change

BY = Author("user", "ops@example.com", "usr_1")
VAULT = Vault([EncryptionKey("k1", b"k" * 32)])


# In which nobody else is an owner.
own_url = url_fixture("module")


@pytest.fixture
def database(own_url: str, tmp_path: Path) -> Iterator[Database]:
    empty(own_url)
    database = Database(own_url)
    yield database
    database.close()


@pytest.fixture
def elsewhere(own_url: str) -> Iterator[Database]:
    """The same database, as another process has it."""
    database = Database(own_url)
    yield database
    database.close()


def create(database: Database, role: str = "owner", **more) -> users.User:
    return database.transact(lambda tx: users.create(tx, unused_email(), "none", role=role, **more))


def at_once(*works: Callable[[], object]) -> list[object]:
    """Call all at the same time; return what each returned, or its error."""
    ready, results = threading.Barrier(len(works)), {}

    def run(place: int, work: Callable[[], object]) -> None:
        ready.wait()
        try:
            results[place] = work()
        except HubError as exc:
            results[place] = exc

    threads = [threading.Thread(target=run, args=each) for each in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[place] for place in range(len(works))]


@pytest.mark.parametrize("how", ["disable", "demote", "remove"])
def test_of_two_owners_who_leave_at_once_one_stays(database, elsewhere, how):
    leave = {
        "disable": lambda tx, user: users.set_disabled(tx, user, True),
        "demote": lambda tx, user: users.set_role(tx, user, "reader"),
        "remove": users.remove,
    }[how]
    for _ in range(3):
        database.transact(lambda tx: tx.run("delete from console_user"))
        one, other = create(database), create(database)
        results = at_once(
            lambda user=one: database.transact(lambda tx: leave(tx, user)),
            lambda user=other: elsewhere.transact(lambda tx: leave(tx, user)),
        )
        assert sum(isinstance(each, Conflict) for each in results) == 1
        with database.reading() as db:
            owners = [user for user in users.list_users(db) if user.role == "owner"]
            assert [user.disabled_at for user in owners].count(None) == 1


def test_an_owner_who_cannot_sign_in_does_not_count(database):
    owner = create(database)
    create(database, invited_until=now_ms() + 60_000)
    disabled = create(database)
    database.transact(lambda tx: users.set_disabled(tx, disabled, True))
    with pytest.raises(Conflict, match="is the last owner"):
        database.transact(lambda tx: users.remove(tx, owner))
    # Who is no active owner may always go.
    database.transact(lambda tx: users.remove(tx, disabled))


def test_an_owner_sees_all_accounts(database):
    with pytest.raises(Semantic, match="An owner sees all accounts"):
        create(database, accounts=[1])
    limited = create(database, "reader", accounts=[3, 1])
    assert limited.accounts == {1, 3}


def test_a_link_is_used_once_by_whoever_is_first(database, elsewhere):
    user = create(database)
    ends_at = user_links.expiry("reset")
    link = database.transact(lambda tx: user_links.create(tx, user.user_id, "reset", ends_at))
    results = at_once(
        lambda: database.transact(lambda tx: user_links.use(tx, link)),
        lambda: elsewhere.transact(lambda tx: user_links.use(tx, link)),
    )
    assert sorted(results) == [False, True]


def test_a_link_ends_and_a_new_one_replaces_it(database):
    user = create(database)

    def link(ends_at: int) -> str:
        return database.transact(
            lambda tx: user_links.create(tx, user.user_id, "invitation", ends_at)
        )

    def found(token: str) -> bool:
        with database.reading() as db:
            return user_links.find(db, token) is not None

    first = link(user_links.expiry("invitation"))
    assert found(first)
    second = link(user_links.expiry("invitation"))
    assert (found(first), found(second)) == (False, True)
    assert not found(link(now_ms() - 1))
    with database.reading() as db:
        rows = db.rows("select * from console_link")
    assert len(rows) == 1
    assert second not in repr(rows)


def test_a_code_is_accepted_once_in_all_processes(database, elsewhere):
    user, secret = create(database), second_factors.new_secret()
    step = second_factors.matching_step(secret, pyotp.TOTP(secret).now())
    codes = database.transact(
        lambda tx: second_factors.turn_on(tx, VAULT, user.user_id, secret, step - 1)
    )
    with database.reading() as db:
        sealed = users.login_by_id(db, user.user_id).totp
    assert secret not in sealed
    for code in (pyotp.TOTP(secret).generate_otp(step), codes[0], codes[1].upper()):
        results = at_once(
            *[
                lambda each=each, code=code: each.transact(
                    lambda tx: second_factors.accept(tx, VAULT, user.user_id, sealed, code)
                )
                for each in (database, elsewhere)
            ]
        )
        assert sorted(results) == [False, True]
    with database.reading() as db:
        assert second_factors.count_recovery_codes(db, user.user_id) == 8
        assert codes[5].replace("-", "") not in repr(db.rows("select * from console_recovery_code"))


def test_an_older_code_is_not_accepted_after_a_newer_one(database):
    user, secret = create(database), second_factors.new_secret()
    codes = pyotp.TOTP(secret)
    step = second_factors.matching_step(secret, codes.now())

    def accepted(at: int) -> bool:
        with database.reading() as db:
            sealed = users.login_by_id(db, user.user_id).totp
        code = codes.generate_otp(at)
        return database.transact(
            lambda tx: second_factors.accept(tx, VAULT, user.user_id, sealed, code)
        )

    database.transact(lambda tx: second_factors.turn_on(tx, VAULT, user.user_id, secret, step - 2))
    assert accepted(step)
    assert not accepted(step - 1)
    assert not accepted(step + 3)


# --- what a limited user sees ------------------------------------------------------------------


def test_numbers_and_entries_are_of_the_named_accounts(hub: Hub, client, other):
    for one in (client, other):
        known(one)
        change(hub, one, "state = 'dead', finished_at = :at", at=now_ms())
        hub.database.transact(
            lambda tx, one=one: audit.note(
                tx, BY, "open", "account", "x", account_id=one.account.id, after={"name": "x"}
            )
        )
    ids = [client.account.id, other.account.id]
    with hub.database.reading() as db:
        assert attention.of_all(db, [ids[0]]).failed == 1
        assert attention.of_all(db, ids).failed == 2
        assert attention.of_all(db, []).failed == 0
        for several in (ids, ids[:1], []):
            wanted = audit.Wanted(account_ids=several, by="ops@example.com")
            assert len(audit.listed(db, wanted, limit=9)) == len(several)
        hidden = audit.Wanted(account_ids=ids, by="ops@example.com", without=("account",))
        assert audit.listed(db, hidden, limit=9) == []
    for several in (ids, ids[:1], []):
        parts = history(hub.database, SPANS["24h"], account_ids=several)
        assert sum(part.accepted for part in parts) == len(several)
