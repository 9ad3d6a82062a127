"""crmhub db reseal: the encryption keys change while the service runs."""

from __future__ import annotations

import base64
import itertools
import json
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

import crmhub
from adapters.fakes.hubspot.fake import FakeHubSpot, Options
from crmhub.audit import Author
from crmhub.database.connection import Database
from crmhub.events import subscriptions
from crmhub.hub import Hub
from crmhub.operators.database import reseal_secrets
from crmhub.operators.database.reseal_secrets import SEALED
from crmhub.operators.users.console_users import create_user
from crmhub.settings import Settings
from crmhub.users import second_factors, users
from tests.cli.conftest import CommandLine, credentials, environment
from tests.processes import FORKED
from tests.server.servers import serving

CHECK = ("db", "reseal", "--check")
K1, K2, K3 = (f"k{n}:{base64.b64encode(bytes([n]) * 32).decode()}" for n in (1, 2, 3))
RATE, SECONDS = 50, 6
# As many as may wait for a CRM in one process; whoever comes on top is queued.
CALLERS = 12
OAUTH = ("client_id", "client_secret", "refresh_token")


def secret(n):
    return f"pat-{n:04}"


@pytest.fixture
def keyed(crmhub):
    """An installation whose keys can be set, with an account that has a credential."""

    def keys(*keys):
        crmhub.env["CRMHUB_ENCRYPTION_KEYS"] = ",".join(keys)
        return crmhub

    keys(K1)
    with_credentials(crmhub, "acme", access_token=secret(0))
    return keys


def with_credentials(crmhub, client_id, *options, **secrets):
    crmhub("account", "create", client_id)
    given = []
    for name, value in secrets.items():
        (crmhub.root / name).write_text(value)
        given += ["--secret", f"{name}=@{name}"]
    crmhub("account", "adapter", client_id, "hubspot", *options, *given)


def everything(own_url):
    """Return every text that stands in the database."""
    database = Database(own_url, pool_size=1)
    with database.reading() as db:
        sql = (
            "select tablename from pg_tables where schemaname = 'public'"
            if db.dialect == "postgresql"
            else "select name from sqlite_master where type = 'table'"
        )
        rows = [row for (table,) in db.rows(sql) for row in db.rows(f"select * from {table}")]
    database.close()
    return [value for row in rows for value in row if isinstance(value, str)]


def test_what_another_key_sealed_is_sealed_with_the_first(keyed, own_url):
    crmhub = keyed(K2, K1)
    assert crmhub(*CHECK, code=1).stdout == ("k2: 0 (the first key)\nk1: 1 (still needed)\n")
    done = crmhub("db", "reseal")
    assert done.stdout == (
        "1 value was resealed with k2.\nk2: 1 (the first key)\n"
        "k1: 0 (no longer needed: remove it from CRMHUB_ENCRYPTION_KEYS)\n"
    )
    assert crmhub.json("db", "reseal") == {
        "resealed": 0,
        "first": "k2",
        "sealed": {"k2": 1, "k1": 0},
    }
    assert credentials(keyed(K2)) == {"access_token": secret(0)}
    assert not [text for text in everything(own_url) if text.startswith("v1.k1.")]
    entries = crmhub.json("audit", "list", "--object", "encryptionKey")
    assert [(one["verb"], one["objectId"], one["after"]) for one in entries] == [
        ("rotate", "k2", {"resealed": 1})
    ]


def test_every_sealed_column_is_known_to_it(keyed, own_url):
    crmhub = keyed(K1)
    crmhub.env["CRMHUB_PUBLIC_URL"] = "https://hub.example.com"
    (crmhub.root / "app").write_text("an app's")
    app = ("--secret", "client_id=@app", "--secret", "client_secret=@app")
    crmhub("account", "link", "acme", "hubspot", *app)
    _subscribe(Hub.open(Settings.load(crmhub.env, crmhub.root)))
    columns = {(one.table.name, one.name) for one in SEALED}
    database = Database(own_url, pool_size=1)
    found = set()
    with database.reading() as db:
        for table, column in _text_columns(db):
            if db.scalar(f"select count(*) from {table} where {column} like 'v1.k1.%'"):
                found.add((table, column))
    database.close()
    assert found == columns


def _subscribe(hub):
    account_id = hub.load_account("acme").id
    url, types = "https://example.com", ["contact.created"]
    hub.database.transact(
        lambda tx: subscriptions.add(tx, hub.vault, account_id, url=url, types=types)
    )
    hub.close()


def _text_columns(db):
    if db.dialect == "postgresql":
        return db.rows(
            "select table_name, column_name from information_schema.columns"
            " where table_schema = 'public' and data_type = 'text'"
        )
    return db.rows(
        "select m.name, c.name from sqlite_master m join pragma_table_info(m.name) c"
        " where m.type = 'table' and lower(c.type) = 'text'"
    )


def test_nothing_seals_but_what_is_known_to_it():
    package = Path(crmhub.__file__).parent
    sealing = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if "vault.seal(" in path.read_text()
    }
    # Who seals another column names it in `reseal_secrets.SEALED`, and stands here.
    assert sealing == {
        "crm/stored_connections.py",
        "events/subscriptions.py",
        "operators/crm/connect_requests.py",
        "operators/database/reseal_secrets.py",
        "users/second_factors.py",
        # For a form, and not for the database.
        "operators/users/second_factor.py",
    }


def test_second_factors_are_resealed(keyed):
    crmhub = keyed(K1)
    hub = Hub.open(Settings.load(crmhub.env, crmhub.root))
    by = Author("cli", "tests")
    user = create_user(hub, "ops@example.com", "correct horse battery", by=by)
    secret = second_factors.new_secret()
    hub.database.transact(lambda tx: second_factors.turn_on(tx, hub.vault, user.user_id, secret, 0))
    hub.close()
    crmhub = keyed(K2, K1)
    # One of them is the account's.
    assert "k1: 2 (still needed)" in crmhub(*CHECK, code=1).stdout
    assert crmhub.json("db", "reseal")["resealed"] == 2
    hub = Hub.open(Settings.load(keyed(K2).env, crmhub.root))
    with hub.database.reading() as db:
        sealed = users.login_by_id(db, user.user_id).totp
    column = second_factors.column_of(user.user_id)
    assert hub.vault.open(sealed, account_id=0, column=column) == secret
    hub.close()
    told = keyed(K1)("db", "reseal", code=1)
    assert "ops@example.com: console_user.totp/" in told.stderr


def test_a_key_that_is_gone_is_named_and_the_others_go_on(keyed):
    with_credentials(keyed(K3, K1), "bolt", access_token=secret(1))
    crmhub = keyed(K2, K3)
    told = crmhub("db", "reseal", code=1)
    assert "k1: 1 (missing from CRMHUB_ENCRYPTION_KEYS: add it" in told.stdout
    assert "crmhub: acme: credentials: sealed with the key 'k1'" in told.stderr
    assert credentials(crmhub, "bolt") == {"access_token": secret(1)}
    found = {one["name"]: one for one in crmhub.json("doctor", code=1)["checks"]}
    assert found["encryption keys"]["state"] == "fail"
    assert "1 with k1" in found["encryption keys"]["message"]
    keyed(K2, K1)("db", "reseal")
    assert credentials(keyed(K2)) == {"access_token": secret(0)}


def test_doctor_tells_of_what_is_not_sealed_with_the_first_key(keyed):
    checks = {one["name"]: one for one in keyed(K2, K1).json("doctor")["checks"]}
    assert checks["encryption keys"] == {
        "name": "encryption keys",
        "state": "warn",
        "message": "sealed are 1 with k1, which is not the first; run `crmhub db reseal`.",
    }


def test_many_are_done_in_small_steps_and_a_stop_in_between_loses_nothing(
    keyed, monkeypatch, own_url
):
    crmhub = keyed(K1)
    for n in range(1, 8):
        with_credentials(crmhub, f"many-{n}", access_token=secret(n))
    monkeypatch.setattr(reseal_secrets, "_BATCH", 3)
    hub = Hub.open(Settings.load(keyed(K2, K1).env, crmhub.root))

    def stop(done):
        if done == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reseal_secrets.reseal(hub, by=Author("cli", "tests"), report=stop)
    assert reseal_secrets.counts(hub.database) == {"k2": 6, "k1": 2}
    told = []
    assert reseal_secrets.reseal(hub, by=Author("cli", "tests"), report=told.append).done == 2
    assert told == [2]
    hub.close()
    keyed(K2)
    assert [credentials(crmhub, f"many-{n}") for n in range(1, 8)] == [
        {"access_token": secret(n)} for n in range(1, 8)
    ]


def test_what_an_adapter_saves_meanwhile_is_not_overwritten(keyed, monkeypatch):
    crmhub = keyed(K2, K1)
    hub = Hub.open(Settings.load(crmhub.env, crmhub.root))
    sealed_anew = reseal_secrets._resealed_values

    def and_then_saved(vault, one, rows):
        anew = sealed_anew(vault, one, rows)
        saved = vault.seal('{"access_token": "newer"}', account_id=1, column=one.name)
        hub.database.transact(
            lambda tx: tx.run("update connection set credentials = :it", {"it": saved})
        )
        return anew

    with hub.database.reading() as db:
        assert db.scalar("select count(*) from connection where credentials <> ''") == 1
        account = db.scalar("select account_id from connection where credentials <> ''")
    monkeypatch.setattr(
        reseal_secrets,
        "_resealed_values",
        lambda vault, one, rows: and_then_saved(_For(vault, account), one, rows),
    )
    assert reseal_secrets.reseal(hub, by=Author("cli", "tests")).done == 0
    hub.close()
    assert credentials(crmhub) == {"access_token": "newer"}


class _For:
    """A vault that seals for one account, whatever account is named."""

    def __init__(self, vault, account_id):
        self._vault, self._account_id = vault, account_id

    def open(self, sealed, **of):
        return self._vault.open(sealed, **of)

    def seal(self, plain, *, account_id, column):
        return self._vault.seal(plain, account_id=self._account_id, column=column)


# Each command, and each fault of the keys.
@pytest.mark.parametrize(
    ("command", "keys", "words"),
    [
        (("serve",), "", "CRMHUB_ENCRYPTION_KEYS: required in production and not given"),
        (("worker",), "nonsense", "CRMHUB_ENCRYPTION_KEYS (environment): key 1 has no id"),
        (("db", "upgrade"), "", "CRMHUB_ENCRYPTION_KEYS: required in production and not given"),
        (
            ("account", "list"),
            f"{K1},{K1}",
            "CRMHUB_ENCRYPTION_KEYS (environment): key id k1 is given twice",
        ),
    ],
)
def test_production_starts_with_good_keys_only(tmp_path, command, keys, words):
    env = {"env": "production", "database_url": f"sqlite:///{tmp_path}/crmhub.db"}
    if keys:
        env["encryption_keys"] = keys
    told = CommandLine(tmp_path, environment(**env))(*command, code=2).stderr
    assert words in told
    assert "CRMHUB_SECRET_KEY: required in production and not given" in told
    assert K1.partition(":")[2] not in told
    assert list(tmp_path.iterdir()) == [], "nothing was made"


# --- while it runs -----------------------------------------------------------------------------


@pytest.mark.databases("postgresql")
def test_keys_change_while_fifty_requests_a_second_are_answered(crmhub, own_url):
    """One service has the former key first still, the other one the new key, as while services
    are started again one by one; and the CRM gives a new refresh token every third second, each
    of which works once."""
    options = Options(
        limit="100000/10s", search_limit="none", rotates=True, expires_in=3.0, token_limit="none"
    )
    with FakeHubSpot(options) as fake:
        crmhub.env["CRMHUB_ENCRYPTION_KEYS"] = K1
        opened = crmhub.json("account", "create", "busy")
        crmhub("account", "set", "busy", "deadline_s=25")
        given = {name: getattr(fake.options, name) for name in OAUTH}
        options = ["--set", f"base_url={fake.url}"]
        for name, value in given.items():
            (crmhub.root / name).write_text(value)
            options += ["--secret", f"{name}=@{name}"]
        crmhub("account", "adapter", "busy", "hubspot", *options)
        settings = {"database_url": own_url, "secret_key": "s" * 40}
        service = partial(serving, **settings)
        (crmhub.root / "other").mkdir()
        both = f"{K1},{K2}", f"{K2},{K1}"
        with (
            service(crmhub.root, "--workers", "1", encryption_keys=both[0]) as former,
            service(
                crmhub.root / "other", "--workers", "1", "--no-worker", encryption_keys=both[1]
            ) as renewed,
        ):
            asked = Asked(opened["generatedId"], former, renewed)
            assert asked.lead("t") == 200
            with ThreadPoolExecutor(CALLERS + 1) as pool:
                asking = pool.submit(asked.steadily, pool)
                while not asking.done():
                    assert set(resealed(crmhub, settings, both[1])) <= {0, 1}
                statuses = [one.result() for one in asking.result()]
        assert len(statuses) == RATE * SECONDS
        assert set(statuses) == {200}
        assert fake.tokens.refreshes >= 2
        assert fake.tokens.refused_refreshes == 0
        assert max(resealed(crmhub, settings, both[1])) == 0
        # Nothing needs the former key any more.
        with service(crmhub.root, "--workers", "2", "--no-worker", encryption_keys=K2) as server:
            asked = Asked(opened["generatedId"], server)
            assert {asked.lead(n) for n in range(4)} == {200}
            assert {asked.read(n) for n in range(4)} == {200}


def resealed(crmhub, settings, keys):
    """Run the command twice at once; return the exit codes."""
    processes = [
        FORKED.start(
            "db", "reseal", cwd=crmhub.root, env=environment(**settings, encryption_keys=keys)
        )
        for _ in range(2)
    ]
    return [process.wait(120) for process in processes]


class Asked:
    """Asks services in turn."""

    def __init__(self, generated_id, *servers):
        self._generated_id = generated_id
        self._servers = itertools.cycle(servers)

    def steadily(self, pool):
        """Ask so many times a second, whatever the answers take; one lead for four reads."""
        began, answers = time.monotonic(), []
        for n in range(RATE * SECONDS):
            time.sleep(max(0.0, began + n / RATE - time.monotonic()))
            answers.append(pool.submit(self.read if n % 5 else self.lead, n))
        return answers

    def lead(self, n):
        return self._post("createLead", f"chat-{n}", name=f"Ann {n}", email=f"ann{n}@x.org")

    def read(self, _n):
        return self._post("getProperties", "chat-t", props=["email"])

    def _post(self, helper, token, **fields):
        body = json.dumps({"contactToken": token, **fields})
        path = f"/chatbot/{helper}/{self._generated_id}"
        headers = [("Content-Type", "application/json")]
        status, _, told = next(self._servers).answer("POST", path, body, headers)
        return status if status == 200 else (status, told)
