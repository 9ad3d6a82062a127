"""Alerts: each change is told of once, signed, and until it is taken."""

from __future__ import annotations

import base64
import hmac
import json
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import flask
import pytest

from crmhub.adapter import Denied
from crmhub.app import create_app
from crmhub.database.connection import now_ms
from crmhub.database.rows import upsert_row
from crmhub.database.tables import crm_copy
from crmhub.events import claiming
from crmhub.events.delivering import Deliveries
from crmhub.hub import Hub
from crmhub.operators.accounts import change_account
from crmhub.operators.actions import retry_action
from crmhub.operators.actions.action_queries import Wanted
from crmhub.operators.alerts import alert_watch, alerts
from crmhub.operators.alerts.channels import Channels
from crmhub.operators.crm import copy_crm
from crmhub.properties.kinds import CONTACTS
from crmhub.secrets import WebhookSecret, parse_webhook_secret
from tests.api.helpers.helper_calls import known, lead
from tests.clients import TESTS
from tests.databases import new_settings
from tests.fakes import FAKE, adapters
from tests.own_databases import empty, url_fixture
from tests.queue.outcomes import open_circuit
from tests.queue.working import change, soon, working
from tests.scrapes import Scrape

_KEY = b"k" * 32
_OLD_MS = 600_000
_WEBHOOK = Channels(("webhook",))
_PAGE = Path(__file__).parents[2] / "docs" / "operator" / "alerts.md"


# Alerts are about all accounts there are.
database_url = url_fixture("module")


class Receiver:
    """A webhook that keeps what it is sent, and answers with the next of `answers`, or 204."""

    def __init__(self) -> None:
        self.heard: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.heard.append(({k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(outer.answers.pop(0) if outer.answers else 204)
                self.send_header("Content-Length", "0")
                # Alerts keep their own delays: there are few attempts.
                self.send_header("Retry-After", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/alerts"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def told(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.heard]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def app(database_url: str, tmp_path: Path, receiver: Receiver) -> Iterator[flask.Flask]:
    empty(database_url)
    settings = new_settings(
        database_url,
        tmp_path,
        egress_allow=(ip_network("127.0.0.0/8"),),
        alert_url=receiver.url,
        alert_secret=WebhookSecret(_KEY),
    )
    app = create_app(settings)
    with adapters(app, FAKE):
        yield app
    app.extensions["crmhub"].close()


def _look(hub: Hub) -> list[tuple[str, int]]:
    """Look once and send what is due; return what is the matter."""
    public_url = "https://hub.example.com"
    found = alert_watch.update(hub.database, old_ms=_OLD_MS, send=_WEBHOOK, public_url=public_url)
    assert hub.settings.alert_url
    assert hub.settings.alert_secret
    webhook = (hub.settings.alert_url, hub.settings.alert_secret)
    sender = Deliveries(hub.database, hub.egress, hub.vault, alerts=webhook)
    due = claiming.DueSubscription(claiming.INSTALLATION, claiming.ALERTS)
    while (claimed := claiming.claim(hub.database, due, most=10)) and claimed[1]:
        for each in claimed[1]:
            sender._deliver(claimed[0], each, time.monotonic() + 60)
    return [(each.kind, each.count) for each in found]


def _waiting(hub: Hub) -> list[Any]:
    with hub.database.reading() as db:
        return db.rows(
            "select event_id, attempts, run_at from event_delivery where account_id = 0"
            " and state = 'queued' order by created_at"
        )


def _hurry(hub: Hub) -> None:
    """Make all messages due."""
    hub.database.transact(
        lambda tx: tx.run("update event_delivery set run_at = 0 where account_id = 0")
    )


def test_refused_credentials_are_told_of_once_and_so_is_their_end(hub, bot, crm, receiver):
    crm.failure = Denied("The token was revoked.")
    assert lead(bot).status_code == 202
    for _ in range(3):
        assert _look(hub) == [("credentials", 0)]
    [told] = receiver.told
    assert told["type"] == "credentials.refused"
    assert told["data"]["clientId"] == bot.account.client_id
    assert "revoked" not in json.dumps(told)
    where = f"https://hub.example.com/console/accounts/{bot.account.client_id}/crm"
    assert told["data"]["url"] == where
    change(hub, bot, "failures = 0", "outage")
    for _ in range(2):
        assert _look(hub) == []
    assert [each["type"] for each in receiver.told[1:]] == ["credentials.accepted"]


def test_a_crm_that_is_away_is_told_of_when_its_queue_is_old(hub, bot, receiver):
    open_circuit(hub, bot.account, "away")
    lead(bot)
    lead(bot, "t2", email="bea@x.org")
    assert _look(hub) == []
    change(hub, bot, "created_at = created_at - :age", age=_OLD_MS + 1)
    assert _look(hub) == _look(hub) == [("queue", 2)]
    change(hub, bot, "state = 'done'")
    assert _look(hub) == []
    assert [each["type"] for each in receiver.told] == ["queue.old", "queue.caught_up"]
    assert receiver.told[0]["data"]["actions"] == 2


def test_retried_actions_are_as_old_as_their_retry(hub, bot, receiver):
    open_circuit(hub, bot.account, "away")
    lead(bot)
    lead(bot, "t2", email="bea@x.org")
    change(hub, bot, "created_at = created_at - :age", age=_OLD_MS + 1)
    change(hub, bot, "state = 'dead', finished_at = :at", at=now_ms() - _OLD_MS)
    assert retry_action.retry(hub.database, Wanted(), by=TESTS) == 2
    assert _look(hub) == []
    change(hub, bot, "queued_at = queued_at - :age", age=_OLD_MS + 1)
    assert _look(hub) == [("queue", 2)]


def test_actions_that_go_on_dying_are_told_of_once_a_minute(hub, bot, receiver):
    known(bot)
    change(hub, bot, "state = 'dead', finished_at = :at", at=now_ms() - 90_000)
    assert _look(hub) == [("dead", 1)]
    known(bot, "t2", email="bea@x.org")
    change(hub, bot, "state = 'dead', finished_at = :at where state = 'done'", at=now_ms())
    assert _look(hub) == _look(hub) == [("dead", 2)]
    assert len(receiver.heard) == 1
    change(hub, bot, "told_at = told_at - 60000", "alert")
    assert _look(hub) == _look(hub) == [("dead", 2)]
    change(hub, bot, "state = 'done'")
    assert _look(hub) == []
    types = [each["type"] for each in receiver.told]
    assert types == ["actions.dead", "actions.dead", "actions.decided"]


def test_a_message_has_the_keys_of_the_page(hub, bot, receiver):
    known(bot)
    change(hub, bot, "state = 'dead', finished_at = :at", at=now_ms())
    _look(hub)
    [example] = re.findall(r"```json\n(.*?)```", _PAGE.read_text("utf-8"), re.DOTALL)
    page, [told] = json.loads(example), receiver.told
    assert told["type"] == page["type"]
    assert (told.keys(), told["data"].keys()) == (page.keys(), page["data"].keys())


def test_blocked_actions_are_told_of_beside_those_that_failed(hub, bot, receiver):
    known(bot), known(bot, "t2", email="bea@x.org")
    change(hub, bot, "state = 'parked', finished_at = :at", at=now_ms())
    # Not by themselves: nobody can decide on them alone.
    assert _look(hub) == []
    change(hub, bot, "state = 'dead' where request like '%ann@x.org%'")
    assert _look(hub) == [("dead", 1)]
    (message,) = receiver.told
    assert (message["data"]["actions"], message["data"]["blocked"]) == (1, 1)
    change(hub, bot, "state = 'discarded'")
    assert _look(hub) == []
    assert [each["type"] for each in receiver.told] == ["actions.dead", "actions.decided"]


def test_keys_that_end_soon_are_told_of_until_they_are_revoked_or_over(hub, bot, receiver):
    name, day = bot.account.client_id, 86_400_000
    key = change_account.create_key(
        hub, name, name="Shop", scopes=[], expires_at=now_ms() + 365 * day, by=TESTS
    )
    short = change_account.create_key(
        hub, name, scopes=[], expires_at=now_ms() + 20 * day, by=TESTS
    )

    def let_pass(key_id: str, days: int) -> None:
        moved = "expires_at = expires_at - :ms, created_at = created_at - :ms where id = :key"
        change(hub, bot, moved, "api_key", ms=days * day, key=key_id)

    assert _look(hub) == []
    let_pass(key.key_id, 336)
    # The one for 20 days is in the first half of its life.
    assert _look(hub) == _look(hub) == [("keys", 1)]
    let_pass(short.key_id, 19)
    assert _look(hub) == [("keys", 2)]
    (message,) = receiver.told
    assert message["type"] == "keys.expiring"
    assert message["data"].keys() == {"clientId", "since", "keys", "expiresAt"}
    assert (message["data"]["clientId"], message["data"]["keys"]) == (name, 1)
    with hub.database.reading() as db:
        (alert,) = alerts.current(db, old_ms=_OLD_MS)
    assert "2 API keys of it expire soon" in alert.in_words()
    change_account.revoke_key(hub, name, key.key_id, by=TESTS)
    change(hub, bot, f"expires_at = 1 where id = '{short.key_id}'", "api_key")
    assert _look(hub) == []
    assert [each["type"] for each in receiver.told] == ["keys.expiring", "keys.settled"]


def _copied(hub: Hub, client: Any, **values: Any) -> None:
    """Let the account have a copy of its CRM's contacts with these values."""
    row = dict.fromkeys(("since", "defined", "failure"), "")
    row |= dict.fromkeys(("loaded", "left_out", "failures"), 0) | {"run_at": now_ms()} | values
    of = client.account.connection_key | {"kind": CONTACTS.code}
    hub.database.transact(lambda tx: upsert_row(tx, crm_copy, of, row))


def test_a_late_copy_is_told_of_and_so_is_its_end(hub, bot, receiver):
    late = now_ms() - copy_crm.LATE_MS - 1
    _copied(hub, bot, state="following", synced_at=now_ms(), progress_at=now_ms())
    assert _look(hub) == []
    failing = {"failures": 1, "failure": "No Ann Lee."}
    # It may be asked less often than that: the failure has just begun.
    _copied(hub, bot, state="following", synced_at=late, progress_at=now_ms(), **failing)
    assert _look(hub) == []
    _copied(hub, bot, state="following", synced_at=late, progress_at=late, **failing)
    assert _look(hub) == _look(hub) == [("copies", 1)]
    [told] = receiver.told
    assert (told["type"], told["data"]["kinds"]) == ("copy.behind", 1)
    assert told["data"]["url"].endswith(f"/accounts/{bot.account.client_id}/crm")
    assert "Ann Lee" not in json.dumps(told)
    _copied(hub, bot, state="following", synced_at=now_ms(), failures=1)
    assert _look(hub) == []
    assert [each["type"] for each in receiver.told] == ["copy.behind", "copy.caught_up"]


@pytest.mark.parametrize(
    ("state", "is_late"), [("loading", True), ("ending", False), ("absent", False)]
)
def test_a_load_without_progress_is_told_of_and_the_end_of_a_copy_is_not(
    hub, bot, receiver, state, is_late
):
    late = now_ms() - copy_crm.LATE_MS - 1
    _copied(hub, bot, state=state, synced_at=late, progress_at=late, failures=1)
    assert bool(_look(hub)) == is_late
    # A load that goes on is not late, however old the records are that it replaces.
    _copied(hub, bot, state=state, synced_at=late, progress_at=now_ms(), failures=1)
    assert _look(hub) == []


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"failures": 1, "failure": "It is down."}, "It is down."),
        ({"run_at": 1}, "no worker pulls it. Is a worker running?"),
        ({"began_at": 1}, "the CRM's changes are still being read."),
        ({"failures": 1}, "the CRM's changes are still being read."),
        ({}, ""),
    ],
)
def test_an_old_copy_is_late_only_if_it_is_due(hub, bot, receiver, more, why):
    late = now_ms() - 20 * 60_000 - 1
    _copied(hub, bot, state="following", synced_at=late, progress_at=late, **more)
    assert bool(_look(hub)) == bool(why)
    words = [f"The copy of the contacts is 20 minutes behind: {why}"] if why else []
    assert copy_crm.warnings(hub, hub.load_account(bot.account.client_id)) == words


def test_no_copy_of_a_disabled_account_is_told_of(hub, bot, receiver):
    _copied(hub, bot, state="following", synced_at=1, run_at=1)
    change_account.change(hub, bot.account.client_id, {}, disabled=True, by=TESTS)
    assert _look(hub) == []
    assert copy_crm.warnings(hub, hub.load_account(bot.account.client_id)) == []


def test_metrics_tell_the_age_of_the_oldest_copy_of_a_kind(hub, bot, app):
    _copied(hub, bot, state="following", synced_at=now_ms() - 40_000)
    found = Scrape(app.test_client().get("/metrics").text)
    assert found.of("copies", state="following") == 1
    assert found.of("copies", state="loading") == 0
    assert 40 <= found.of("copy_age_seconds", kind="contacts") < 400


def test_a_message_is_signed_as_standard_webhooks_has_it(hub, bot, receiver):
    known(bot)
    change(hub, bot, "state = 'dead', finished_at = :at", at=now_ms())
    _look(hub)
    [(headers, body)] = receiver.heard
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    right = base64.b64encode(hmac.digest(_KEY, signed, "sha256")).decode()
    assert headers["webhook-signature"] == f"v1,{right}"
    assert headers["content-type"] == "application/json"
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60


def test_the_signature_is_that_of_the_published_example():
    # https://docs.svix.com/receiving/verifying-payloads/how-manual
    secret = parse_webhook_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = secret.headers("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("text", ["whsec_kkkk", "k" * 40, "whsec_" + "k" * 200])
def test_what_is_no_secret_is_refused_and_not_repeated(text):
    with pytest.raises(ValueError, match="give whsec_ and 24 to 64 random bytes") as refused:
        parse_webhook_secret(text)
    assert text not in str(refused.value)


def test_a_message_that_is_not_taken_is_sent_again_under_its_id(hub, bot, receiver, caplog):
    known(bot)
    change(hub, bot, "state = 'dead', finished_at = :at", at=now_ms())
    receiver.answers = [410, 302]
    _look(hub)
    for tries in (1, 2):
        [(_, tried, run_at)] = _waiting(hub)
        assert tried == tries
        assert run_at > now_ms() + 1000
        _hurry(hub)
        _look(hub)
    assert _waiting(hub) == []
    assert len({headers["webhook-id"] for headers, _ in receiver.heard}) == 1
    assert len(receiver.heard) == 3
    assert "It answered 302" in caplog.text


def test_what_nobody_takes_is_given_up_and_said_so(hub, bot, receiver, caplog):
    known(bot)
    change(hub, bot, "state = 'dead', finished_at = :at", at=now_ms())
    receiver.answers = [500]
    alert_watch.update(hub.database, old_ms=_OLD_MS, send=_WEBHOOK)
    hub.database.transact(
        lambda tx: tx.run("update event_delivery set attempts = 8 where account_id = 0")
    )
    _look(hub)
    assert _waiting(hub) == []
    assert "After try 9" in caplog.text


def test_several_who_look_at_once_tell_once(hub, bot, receiver):
    known(bot)
    change(hub, bot, "state = 'dead', finished_at = :at", at=now_ms())
    threads = [threading.Thread(target=_look, args=(hub,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _look(hub)
    assert [each["type"] for each in receiver.told] == ["actions.dead"]


def test_where_no_webhook_is_set_nothing_is_kept_for_one(hub, bot):
    known(bot)
    change(hub, bot, "state = 'dead', finished_at = :at", at=now_ms())
    assert alert_watch.update(hub.database, old_ms=_OLD_MS, send=Channels(()))
    assert _waiting(hub) == []
    with hub.database.reading() as db:
        assert alerts.count_by_kind(db)["dead"] == 1


def test_a_worker_tells(hub, bot, crm, receiver, monkeypatch):
    monkeypatch.setattr("crmhub.worker._PAUSE_S", 0.05)
    crm.failure = Denied("The token was revoked.")
    assert lead(bot).status_code == 202
    with working(hub):
        soon(lambda: len(receiver.heard) == 1)
        crm.failure = None
        soon(lambda: len(receiver.heard) == 2)
    types = [each["type"] for each in receiver.told]
    assert types == ["credentials.refused", "credentials.accepted"]


def test_metrics_tell_how_much_is_the_matter(hub, bot, app):
    known(bot)
    change(hub, bot, "state = 'dead', finished_at = :at", at=now_ms())
    _look(hub)
    text = app.test_client().get("/metrics").text
    assert 'crmhub_alerts{kind="dead"} 1.0' in text
    assert 'crmhub_alerts{kind="queue"} 0.0' in text
