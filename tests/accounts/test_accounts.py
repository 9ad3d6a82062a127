"""Accounts: opening, switches, connections, rotation of what they are called by."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pytest

from crmhub.accounts import accounts, changes, webhook_ids
from crmhub.accounts.accounts import Unreadable
from crmhub.accounts.changes import RESERVED
from crmhub.accounts.plans import BUILT_IN, Plan
from crmhub.accounts.switches import READERS, Switches
from crmhub.crm import stored_connections as connections
from crmhub.errors import NotFound, Semantic


def test_a_new_account_is_found_with_its_defaults(database, make_account):
    account, _ = make_account("Acme GmbH")
    with database.reading() as conn:
        loaded = accounts.load(conn, "acme-gmbh", BUILT_IN)
    assert loaded == account
    assert loaded.switches == Switches()
    assert (loaded.plan.name, loaded.connection.adapter, loaded.connection.id) == (
        "default",
        "local",
        1,
    )
    assert not loaded.disabled
    assert not loaded.pipelines_edited


def test_nothing_secret_is_stored_or_shown(database, make_account):
    _, issued = make_account()
    with database.reading() as conn:
        stored = repr(
            [conn.rows(f"select * from {table}") for table in ("account", "api_key", "webhook_id")]
        )
    assert issued.api_key not in stored
    assert issued.webhook_secret not in stored
    assert issued.api_key not in repr(issued)
    assert issued.webhook_secret not in repr(issued)


def test_client_ids_are_made_from_names(make_account):
    for name, client_id in [
        ("Café Zürich AG", "cafe-zurich-ag"),
        ("  Two   words ", "two-words"),
        ("日本", "account"),
        ("Admin", "admin-2"),
        ("x" * 200, "x" * 50),
    ]:
        assert make_account(name)[0].client_id == client_id


def test_the_same_name_gets_another_client_id(make_account):
    assert [make_account("Acme")[0].client_id for _ in range(3)] == ["acme", "acme-2", "acme-3"]


@pytest.mark.parametrize(
    "spoil",
    [
        "update account set switches = '{' where id = :id",
        "update connection set settings = '[]' where account_id = :id",
        "update connection set field_map = '' where account_id = :id",
    ],
)
def test_an_account_that_cannot_be_read_is_missing_from_lists_alone(database, make_account, spoil):
    made = [make_account(f"Acme {number}")[0] for number in range(5)]
    for spoilt in made[1:3]:
        database.transact(lambda tx, id=spoilt.id: tx.run(spoil, {"id": id}))
    with database.reading() as db:
        assert accounts.list_accounts(db, BUILT_IN) == [made[0], *made[3:]]
        assert accounts.list_accounts(db, BUILT_IN, limit=2) == [made[0], made[3]]
        assert accounts.search_accounts(db, BUILT_IN, "acme", limit=2) == [made[0], made[3]]
        with pytest.raises(Unreadable, match="account acme-1 cannot be read; `crmhub doctor`"):
            accounts.load(db, "acme-1", BUILT_IN)


def test_accounts_opened_side_by_side_all_come_to_be(make_account):
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: make_account("Acme")[0].client_id, range(8)))
    assert sorted(made) == sorted({"acme", *(f"acme-{n}" for n in range(2, 9))})


def test_paths_of_the_service_are_no_client_ids(make_account):
    for client_id in sorted(RESERVED):
        with pytest.raises(Semantic, match="path of the service"):
            make_account("Acme", client_id=client_id)


def test_client_ids_have_a_form(make_account):
    for client_id in ["", "Acme", "-a", "_a", "a b", "a/b", "ä", "a" * 64, "a\n"]:
        with pytest.raises(Semantic, match="is not a client id"):
            make_account("Acme", client_id=client_id)


@pytest.mark.parametrize("name", ["", "   ", "a\x00b", "n" * 201])
def test_names_have_a_form(make_account, name):
    with pytest.raises(Semantic, match="cannot be the name"):
        make_account(name)


@pytest.mark.parametrize("client_id", ["nobody", "no\x00body", "\ud800", "x" * 5000])
def test_an_unknown_account_is_not_found(database, client_id):
    with database.reading() as conn, pytest.raises(NotFound):
        accounts.load(conn, client_id, BUILT_IN)


def test_an_account_whose_plan_is_gone_goes_on_under_default(database, make_account):
    make_account("Acme", plan="gold", plans={**BUILT_IN, "gold": Plan("gold", rate_limit=None)})
    with database.reading() as conn:
        assert accounts.load(conn, "acme", BUILT_IN).plan == BUILT_IN["default"]
        assert accounts.count_by_plan(conn) == {"gold": 1}


# Switches.


def change(database, account, **values):
    return database.transact(lambda tx: changes.set_switches(tx, account.id, values, BUILT_IN))


def test_switches_are_set_from_texts_and_stay(database, make_account):
    account, _ = make_account()
    change(database, account, strict="yes", deadline_s="4.5", region="de")
    changed = change(database, account, soft_errors="true", lead_requires="email_or_phone")
    assert changed.switches == Switches(
        strict=True,
        deadline_s=4.5,
        region="DE",
        soft_errors=True,
        lead_requires="email_or_phone",
    )
    assert change(database, account, region="", strict="off").switches == Switches(
        deadline_s=4.5, soft_errors=True, lead_requires="email_or_phone"
    )


def test_switches_take_json_values_too(database, make_account):
    account, _ = make_account()
    changed = change(database, account, require_secret=True, bare_tokens=False, deadline_s=25)
    assert changed.switches == Switches(require_secret=True, bare_tokens=False, deadline_s=25.0)


def test_deadlines_lie_between_1_and_25_seconds(database, make_account):
    for value in ["0", "0.9", "25.1", "nan", "inf", "-3", "", "3s", "１０x"]:
        with pytest.raises(Semantic, match="deadline_s"):
            change(database, make_account()[0], deadline_s=value)


def test_switches_of_a_newer_version_are_passed_over():
    assert Switches.from_json('{"strict": true, "invented_later": 1}') == Switches(strict=True)


def test_changes_side_by_side_all_stay(database, make_account):
    account, _ = make_account()
    changes = [
        {"strict": True},
        {"soft_errors": True},
        {"require_secret": True},
        {"bare_tokens": False},
        {"auto_define_properties": True},
    ]
    with ThreadPoolExecutor(5) as pool:
        list(pool.map(lambda values: change(database, account, **values), changes))
    with database.reading() as conn:
        assert accounts.load(conn, "acme", BUILT_IN).switches == Switches(
            strict=True,
            soft_errors=True,
            require_secret=True,
            bare_tokens=False,
            auto_define_properties=True,
        )


# Connections.


def connect(database, account, adapter, **settings):
    return database.transact(
        lambda tx: connections.set_adapter(
            tx,
            account.id,
            adapter=adapter,
            settings=settings,
            credentials="",
            crm_account="",
            plans=BUILT_IN,
        )
    ).connection


def test_another_adapter_is_another_connection_and_the_same_is_not(database, make_account):
    account, _ = make_account()
    first = connect(database, account, "other", url="a")
    again = connect(database, account, "other", url="b")
    back = connect(database, account, "local")
    assert (first.id, again.id, back.id) == (2, 2, 3)
    assert again.settings == {"url": "b"}


# What an account is called by.


def rotate(database, account, kind, **options):
    return database.transact(lambda tx: webhook_ids.rotate(tx, account.id, kind, **options))


def valid(database, account, purpose):
    with database.reading() as conn:
        ids = webhook_ids.webhook_ids(conn, account.id)
    return [one.value for one in ids if one.purpose == purpose]


@pytest.mark.parametrize("kind", ["generated", "portal"])
def test_a_rotated_id_stays_valid_beside_the_new_one(database, make_account, kind):
    account, issued = make_account()
    new = rotate(database, account, kind)
    old = issued.generated_id if kind == "generated" else issued.portal_id
    assert valid(database, account, kind) == [new, old]


def test_rotation_at_once_ends_all_older_ids(database, make_account):
    account, _ = make_account()
    rotate(database, account, "generated")
    rotate(database, account, "generated")
    newest = rotate(database, account, "generated", keep_ms=0)
    assert valid(database, account, "generated") == [newest]


def test_rotation_never_makes_an_older_id_live_longer(database, make_account, time_machine):
    time_machine.move_to("2030-01-01 00:00:00Z", tick=False)
    account, issued = make_account()
    second = rotate(database, account, "portal", keep_ms=1000)
    third = rotate(database, account, "portal", keep_ms=60_000)
    time_machine.shift(2)
    assert valid(database, account, "portal") == [third, second]
    assert issued.portal_id not in valid(database, account, "portal")


def test_what_cannot_be_rotated_is_refused(database, make_account):
    with pytest.raises(Semantic, match="generated, portal, secret"):
        rotate(database, make_account()[0], "alias")


def test_the_alias_is_set_replaced_and_removed(database, make_account):
    account, _ = make_account()
    change(database, account, portal_alias="12345")
    assert valid(database, account, "alias") == ["12345"]
    change(database, account, portal_alias="67890")
    assert valid(database, account, "alias") == ["67890"]
    change(database, account, portal_alias="")
    assert valid(database, account, "alias") == []


def test_the_page_of_settings_lists_each_with_its_default():
    page = Path("docs/operator/account-settings.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| .*? \| (.*?) \| ", page, re.MULTILINE))
    assert list(rows)[: len(READERS)] == list(READERS)
    for name, default in asdict(Switches()).items():
        shown = (
            str(default).lower()
            if isinstance(default, bool)
            else f"{default:g}"
            if isinstance(default, float | int)
            else default
        )
        assert rows[name].strip("`") == (shown or "none"), name
