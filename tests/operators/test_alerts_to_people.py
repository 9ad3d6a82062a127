"""Alerts by chat and email: one message for a group, quiet hours, tests, unavailable servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, time
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import flask
import pytest

from crmhub import audit
from crmhub.adapter import Denied
from crmhub.app import create_app
from crmhub.egress import Egress
from crmhub.events.recording import record_alert
from crmhub.hub import Hub
from crmhub.operators.alerts import alert_tests, alert_texts, channels, email, messages_to_people
from crmhub.operators.alerts.alert_texts import Text
from crmhub.operators.alerts.channels import Channels
from crmhub.secrets import WebhookSecret
from crmhub.settings import Settings
from tests.admin import open_admin
from tests.api.helpers.helper_calls import lead
from tests.clients import TESTS
from tests.databases import new_settings
from tests.egress.egress_servers import certificate
from tests.fakes import FAKE, adapters
from tests.operators.mail_server import MailServer
from tests.operators.test_alerts import Receiver, database_url, receiver
from tests.queue.working import soon, working

__all__ = ["database_url", "receiver"]
_HUB = "https://hub.example.com"
_BERLIN = ZoneInfo("Europe/Berlin")
_PEOPLE = Channels(("webhook", "chat", "email"))


@pytest.fixture
def mail() -> Iterator[MailServer]:
    with MailServer() as server:
        yield server


@pytest.fixture
def app(
    database_url: str, tmp_path: Path, receiver: Receiver, mail: MailServer
) -> Iterator[flask.Flask]:
    from tests.own_databases import empty

    empty(database_url)
    settings = new_settings(
        database_url,
        tmp_path,
        egress_allow=(ip_network("127.0.0.0/8"),),
        public_url=_HUB,
        alert_url=receiver.url,
        alert_secret=WebhookSecret(b"k" * 32),
        alert_chat_url=receiver.url.replace("/alerts", "/chat"),
        alert_email_to=("ann@example.com", "bob@example.com"),
        alert_email_from="hub@example.com",
        smtp_host="127.0.0.1",
        smtp_port=mail.port,
        smtp_tls="none",
    )
    app = create_app(settings)
    with adapters(app, FAKE):
        yield app
    app.extensions["crmhub"].close()


def _record(hub: Hub, type: str, client_id: str, by: Channels = _PEOPLE, **data: Any) -> None:
    """Store an alert as the watch does."""
    kind = type.partition(".")[0]
    data = {
        "clientId": client_id,
        "adapter": "hubspot",
        "since": "2026-11-21T09:51:08.120Z",
        **data,
    }
    hub.database.transact(
        lambda tx: record_alert(tx, type, f"{client_id}/{kind}", data, by.due(tx, type))
    )


def _waiting(hub: Hub, channel: channels.Channel = "email") -> list[tuple[str, int]]:
    """Return type and due time of what waits on a channel."""
    with hub.database.reading() as db:
        rows = db.rows(
            "select e.type, d.run_at from event_delivery d"
            " join event e on e.account_id = d.account_id and e.id = d.event_id"
            " where d.account_id = 0 and d.subscription_id = :id and d.state = 'queued'"
            " order by e.created_at, e.id",
            {"id": channels.SUBSCRIPTIONS[channel]},
        )
    return [(type, run_at) for type, run_at in rows]


def _send(hub: Hub) -> None:
    """Let people's channels send what is due, as a worker does."""
    for job in messages_to_people.jobs(hub):
        job()


def _hurry(hub: Hub, what: str = "run_at = 0", where: str = "account_id = 0") -> None:
    sql = f"update event_delivery set {what} where account_id = 0 and {where}"
    hub.database.transact(lambda tx: tx.run(sql))


def _chat(receiver: Receiver) -> list[str]:
    return [told["text"] for told in receiver.told if "text" in told]


def test_alerts_of_one_moment_are_one_message_on_each_channel(hub, receiver, mail):
    for name in ("acme", "bolt", "cube", "dune"):
        _record(hub, "credentials.refused", name)
    _record(hub, "actions.dead", "acme", actions=3, blocked=1)
    _record(hub, "queue.caught_up", "bolt")
    _send(hub)
    # They wait for others at first.
    assert mail.received == receiver.heard == []
    assert len({due for _, due in _waiting(hub)}) == 1
    _hurry(hub)
    _send(hub), _send(hub)
    [sent], [chat] = mail.received, _chat(receiver)
    assert sent.recipients == ["ann@example.com", "bob@example.com"]
    assert sent.message["Subject"] == "[crmhub] Alerts: 2 to look at, 1 over"
    assert sent.message["From"] == "hub@example.com"
    assert sent.message["Auto-Submitted"] == "auto-generated"
    body = sent.message.get_content()
    assert body.splitlines() == [
        "- acme, bolt, cube, dune (4 accounts): HubSpot refuses the credentials, or its settings"
        " are wrong. Leads wait since 2026-11-21 09:51 UTC.",
        f"  {_HUB}/console",
        "- acme: 3 actions for HubSpot failed, and 1 waits for them, the first since 2026-11-21"
        " 09:51 UTC.",
        f"  {_HUB}/console/activity/causes?account=acme",
        "",
        "Over:",
        "- bolt: no action for HubSpot waits too long any more.",
    ]
    assert chat.splitlines() == ["crmhub: Alerts: 2 to look at, 1 over", *body.splitlines()]


def test_a_single_alert_is_its_own_subject(hub, receiver, mail):
    _record(hub, "keys.expiring", "acme", adapter="", keys=1, expiresAt="2026-12-24T00:00:00Z")
    _hurry(hub), _send(hub)
    [sent] = mail.received
    assert sent.message["Subject"] == ("[crmhub] acme: 1 API key expires soon, on 2026-12-24.")
    assert _chat(receiver) == [
        f"crmhub: acme: 1 API key expires soon, on 2026-12-24.\n  {_HUB}/console/accounts/acme/keys"
    ]


def test_the_words_agree_with_the_number():
    def say(type: str, *counts: int, **more: Any) -> str:
        noun = {"keys.expiring": "keys", "events.switched_off": "subscriptions"}.get(
            type, "actions"
        )
        times = {"since": "2026-11-21T09:51:00Z", "expiresAt": "2026-12-24T23:30:00Z"}
        alerts = [
            (type, {"clientId": f"a{n}", noun: count, "adapter": "local", **times, **more})
            for n, count in enumerate(counts)
        ]
        berlin = ZoneInfo("Europe/Berlin")
        text = alert_texts.write(alerts, zone=berlin, title_of=str.title, public_url=None)
        return text.body.partition(": ")[2]

    since = "since 2026-11-21 10:51 CET."
    assert say("keys.expiring", 1) == "1 API key expires soon, on 2026-12-25."
    assert say("keys.expiring", 2) == "2 API keys expire soon, the first on 2026-12-25."
    assert say("queue.old", 1) == f"1 action for Local waits too long, {since}"
    assert say("actions.dead", 1) == f"1 action for Local failed, {since}"
    assert say("actions.dead", 1, blocked=2).startswith(
        "1 action for Local failed, and 2 wait for it"
    )
    assert say("actions.dead", 2, blocked=1).startswith(
        "2 actions for Local failed, and 1 waits for t"
    )
    off = say("events.switched_off", 1)
    assert off == f"1 event subscription was switched off after 5 days of failed calls, {since}"
    # Several accounts are several things.
    many = say("queue.old", 1, 1, 1, 1)
    assert many == f"4 actions for Local wait too long, the oldest {since}"


def test_the_next_message_waits_and_a_later_change_replaces_what_waits(hub, receiver, mail):
    _record(hub, "credentials.refused", "acme")
    _hurry(hub), _send(hub)
    [(_, sent_at)] = _finished(hub)
    _record(hub, "queue.old", "acme", actions=2)
    _record(hub, "queue.caught_up", "acme")
    [(type, due)] = _waiting(hub)
    assert (type, due) == ("queue.caught_up", sent_at + channels.GAP_MS)
    # The webhook gets both, and at once.
    at_webhook = {type for type, _ in _waiting(hub, "webhook")}
    assert at_webhook == {"credentials.refused", "queue.old", "queue.caught_up"}


def _finished(hub: Hub) -> list[Any]:
    with hub.database.reading() as db:
        return db.rows(
            "select state, finished_at from event_delivery where subscription_id = 'alerts:email'"
            " and finished_at is not null"
        )


@pytest.mark.parametrize(
    ("now", "end"),
    [
        ("2026-11-21 21:59", None),
        ("2026-11-21 22:00", "2026-11-22 07:00"),
        ("2026-11-22 06:59", "2026-11-22 07:00"),
        ("2026-11-22 07:00", None),
        # The clocks go back at 3 in this night, which has an hour more.
        ("2026-10-24 23:00", "2026-10-25 07:00"),
    ],
)
def test_quiet_hours_are_of_their_time_zone(now, end):
    quiet = Channels(("chat",), (time(22), time(7)), _BERLIN)

    def ms(text: str) -> int:
        return round(datetime.fromisoformat(text).replace(tzinfo=_BERLIN).timestamp() * 1000)

    assert quiet.quiet_end(ms(now)) == (ms(end) if end else None)


def test_quiet_hours_in_the_daytime_end_on_the_same_day():
    quiet = Channels(("chat",), (time(12), time(14)), ZoneInfo("UTC"))
    noon = round(datetime(2026, 11, 21, 12, 30, tzinfo=UTC).timestamp() * 1000)
    assert quiet.quiet_end(noon) == noon + 90 * 60_000
    assert quiet.quiet_end(noon + 2 * 3_600_000) is None


def _always_quiet(hub: Hub) -> Channels:
    """Quiet hours that end in about an hour."""
    with hub.database.reading() as db:
        now = datetime.fromtimestamp(db.now_ms() / 1000, UTC)
    begin, end = ((now.hour + hours) % 24 for hours in (-1, 2))
    return replace(_PEOPLE, quiet=(time(begin), time(end)))


def test_in_quiet_hours_people_get_what_is_urgent_and_the_webhook_everything(hub, receiver, mail):
    quiet = _always_quiet(hub)
    _record(hub, "actions.dead", "acme", quiet, actions=1)
    _record(hub, "credentials.refused", "acme", quiet)
    _record(hub, "copy.behind", "acme", quiet)
    with hub.database.reading() as db:
        now = db.now_ms()
    due = dict(_waiting(hub))
    assert due["actions.dead"] == due["copy.behind"] == quiet.quiet_end(now)
    assert due["credentials.refused"] <= now + channels.GATHER_MS
    assert all(due <= now for _, due in _waiting(hub, "webhook"))
    # What is urgent takes nothing else with it.
    _hurry(hub, where=f"run_at <= {now + channels.GATHER_MS}")
    _send(hub)
    [sent] = mail.received
    assert sent.message["Subject"].startswith("[crmhub] acme: HubSpot refuses the credentials")
    assert {type for type, _ in _waiting(hub)} == {"actions.dead", "copy.behind"}


def test_an_unavailable_mail_server_delays_neither_the_chat_nor_the_webhook(
    hub, receiver, mail, monkeypatch, fake
):
    monkeypatch.setattr(email, "SECONDS", 0.5)
    monkeypatch.setattr("crmhub.worker._PAUSE_S", 0.05)
    monkeypatch.setattr(channels, "GATHER_MS", 0)
    mail.silent = True
    client, crm = fake
    crm.failure = Denied("The token was revoked.")
    assert lead(client).status_code == 202
    with working(hub):
        soon(lambda: len(receiver.heard) >= 2)
        crm.failure = None
        soon(lambda: any(told.get("type") == "credentials.accepted" for told in receiver.told))
        soon(lambda: _attempts(hub) >= 1)
    assert [told["type"] for told in receiver.told if "type" in told] == [
        "credentials.refused",
        "credentials.accepted",
    ]
    assert _chat(receiver)[0].startswith(f"crmhub: {client.account.client_id}: ")
    with hub.database.reading() as db:
        assert db.rows("select distinct state from action") == [("done",)]


def _attempts(hub: Hub) -> int:
    with hub.database.reading() as db:
        of_email = "select max(attempts) from event_delivery where subscription_id = 'alerts:email'"
        return db.scalar(of_email) or 0


def test_a_group_that_is_not_accepted_stays_together_until_it_is(hub, mail, caplog):
    mail.answers["DATA"] = "451 Try later"
    for name in ("acme", "bolt"):
        _record(hub, "credentials.refused", name)
    _hurry(hub), _send(hub)
    assert "451 Try later" in caplog.text
    due = {due for _, due in _waiting(hub)}
    assert len(due) == 1
    with hub.database.reading() as db:
        assert db.now_ms() < due.pop()
    mail.answers.clear()
    # Another alert gets through, and what has failed before follows at once.
    _record(hub, "queue.old", "cube", actions=1)
    _hurry(hub, where="attempts = 0")
    _send(hub)
    _send(hub)
    subjects = [sent.message["Subject"] for sent in mail.received]
    assert len(subjects) == 2
    assert subjects[1] == "[crmhub] Alerts: 2 to look at"
    assert _waiting(hub) == []


def test_a_message_that_nobody_accepts_is_given_up_after_a_day(hub, mail, caplog):
    mail.answers["DATA"] = "550 No"
    _record(hub, "credentials.refused", "acme")
    _hurry(hub, "run_at = 0, attempts = 8")
    _send(hub)
    assert _waiting(hub) == []
    assert "was given up" in caplog.text


def test_a_process_that_died_while_sending_sends_again(hub, mail, monkeypatch):
    _record(hub, "credentials.refused", "acme")
    _hurry(hub)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(messages_to_people, "send_email", die)
        with pytest.raises(KeyboardInterrupt):
            messages_to_people.jobs(hub)[1]()
    _send(hub)
    assert mail.received == []
    _hurry(hub, where="lease is not null")
    _send(hub)
    assert len(mail.received) == 1


def test_a_test_says_what_came_of_it_on_each_channel(hub, receiver, mail, app, monkeypatch):
    monkeypatch.setattr("crmhub.worker._PAUSE_S", 0.05)
    admin = open_admin(app)
    mail.answers["RCPT bob@example.com"] = "550 No such user"
    receiver.answers = [404]
    started = admin.post("/alerts/tests")
    assert started.status_code == 201, started.text
    test = started.get_json()
    assert {one["state"] for one in test["outcomes"]} == {"waiting"}

    def outcomes() -> dict[str, tuple[str, str]]:
        told = admin.get(f"/alerts/tests/{test['testId']}").get_json()["outcomes"]
        return {one["channel"]: (one["state"], one["message"]) for one in told}

    with working(hub):
        soon(lambda: "waiting" not in {state for state, _ in outcomes().values()})
    said = outcomes()
    assert said["email"] == (
        "accepted",
        "Accepted, but not for all: bob@example.com: 550 No such user.",
    )
    # One of both got the refusal, and is not tried again.
    assert sorted([said["webhook"], said["chat"]]) == [
        ("accepted", "Accepted."),
        ("failed", "It answered 404."),
    ]
    assert alert_tests.last_test(hub.database).id == test["testId"]
    assert len(receiver.heard) == 2
    with hub.database.reading() as db:
        [entry] = audit.listed(db, audit.Wanted(object="alerts"), limit=10)
    assert (entry.verb, entry.by.kind, entry.object_id) == ("test", "token", test["testId"])
    assert sorted(entry.after["channels"]) == ["chat", "email", "webhook"]
    assert mail.received[0].message.get_content().strip() == (
        "This is a test: alerts of crmhub arrive here."
    )


def test_an_unknown_test_and_a_hub_without_channels_are_refused(hub, app, tmp_path):
    admin = open_admin(app)
    answer = admin.get("/alerts/tests/evt_0")
    assert (answer.status_code, "no test" in answer.get_json()["message"]) == (404, True)
    bare = Hub.open(new_settings(hub.settings.database_url, tmp_path))
    try:
        with pytest.raises(Exception, match="Set CRMHUB_ALERT_CHAT_URL"):
            alert_tests.start_test(bare, by=TESTS)
    finally:
        bare.close()


# --- the mail server -----------------------------------------------------------------------------

_TEXT = Text("Grüße", "- one\n.two")


def _email(tmp_path: Path, mail: MailServer, **others: Any) -> tuple[Egress, Settings]:
    given = {
        "alert_email_to": ("ann@example.com",),
        "alert_email_from": "hub@example.com",
        "smtp_host": "127.0.0.1",
        "smtp_port": mail.port,
        "smtp_tls": "none",
    }
    settings = new_settings("sqlite:////nowhere.db", tmp_path, **(given | others))
    return Egress(), settings


def _outcome(tmp_path: Path, mail: MailServer, **others: Any) -> str:
    attempt = email.send_email(*_email(tmp_path, mail, **others), _TEXT)
    return attempt.reason


def test_a_private_mail_server_is_reached_without_opening_its_network(tmp_path, mail):
    egress, settings = _email(tmp_path, mail)
    assert email.send_email(egress, settings, _TEXT).succeeded
    [sent] = mail.received
    assert sent.message["Subject"] == "[crmhub] Grüße"
    assert sent.message.get_content().splitlines() == ["- one", ".two"]
    # Accounts reach nothing by that: the network stays closed for every other call.
    assert "not a public address" in egress.fault(f"http://127.0.0.1:{mail.port}/")


@pytest.mark.parametrize("mode", ["starttls", "tls"])
def test_the_password_goes_over_a_checked_certificate(tmp_path, monkeypatch, mode):
    context, file = certificate(tmp_path, "127.0.0.1")
    others = {"smtp_tls": mode, "smtp_user": "hub", "smtp_password": "hunter2"}
    with MailServer(tls=context, wrapped=mode == "tls") as mail:
        refused = _outcome(tmp_path, mail, **others)
        assert "The certificate of 127.0.0.1 is not valid" in refused
        assert not any(line.startswith("AUTH") for line in mail.commands)
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        assert _outcome(tmp_path, mail, **others) == ""
        [sent] = mail.received
        assert (sent.user, sent.encrypted) == ("/hub/hunter2", True)
        mail.answers["AUTH"] = "535 5.7.8 Bad credentials"
        refused = _outcome(tmp_path, mail, **others)
    assert "refuses the user or the password: 535 5.7.8 Bad credentials." in refused
    assert "hunter2" not in refused


@pytest.mark.parametrize(
    ("answers", "others", "said"),
    [
        ({}, {"smtp_tls": "starttls"}, "cannot do this: STARTTLS extension not supported"),
        ({}, {"smtp_tls": "tls"}, "speaks no TLS. Check CRMHUB_SMTP_TLS and CRMHUB_SMTP_PORT."),
        ({"RCPT": "550 Who?"}, {}, "refuses every recipient: ann@example.com: 550 Who?."),
        ({"MAIL": "553 Not you"}, {}, "refuses the sender hub@example.com: 553 Not you."),
        ({"DATA": "554 Spam\x1b[31m"}, {}, "refuses the message: 554 Spam�[31m."),
        ({"greeting": "554 Closed"}, {}, "refuses the message: 554 Closed."),
        ({}, {"smtp_user": "ü", "smtp_password": "x"}, "has letters beyond ASCII"),
        ({}, {"smtp_port": 1}, "127.0.0.1:1 does not answer, or the connection broke."),
        ({}, {"smtp_host": "no host"}, "There is no host no host. Check CRMHUB_SMTP_HOST."),
    ],
)
def test_what_a_mail_server_refuses_is_said_in_plain_words(tmp_path, mail, answers, others, said):
    mail.answers |= answers
    assert said in _outcome(tmp_path, mail, **others)
    assert mail.received == []


def test_a_public_mail_server_gets_nothing_without_tls(tmp_path, mail):
    reason = _outcome(tmp_path, mail, smtp_host="192.88.98.1", smtp_port=None)
    assert reason == (
        "192.88.98.1 is a public address, which gets no email without TLS; set CRMHUB_SMTP_TLS to"
        " starttls or tls."
    )


def test_a_mail_server_that_dawdles_is_left_at_the_deadline(tmp_path, mail, monkeypatch):
    monkeypatch.setattr(email, "SECONDS", 0.3)
    mail.silent = True
    assert "did not answer within 0 s" in _outcome(tmp_path, mail)


def test_every_type_of_alert_has_a_text_and_its_page_exists(hub, app):
    from crmhub.operators.alerts.alerts import ENDED, STARTED

    routes = app.url_map.bind("")
    for type in (*STARTED.values(), *ENDED.values()):
        data = {"clientId": "acme", "adapter": "local", "since": "2026-11-21T09:51:08.120Z"}
        text = alert_texts.write([(type, data)], zone=_BERLIN, title_of=str.upper, public_url=_HUB)
        assert text.title.startswith("acme: ")
        for line in text.body.splitlines()[1:]:
            assert routes.test(line.strip().removeprefix(_HUB).partition("?")[0], "GET")
        assert bool(text.body.count("\n")) == (type in STARTED.values())


def test_chats_get_json_with_a_text(hub, receiver):
    assert messages_to_people.send(hub, "chat", [(alert_texts.TEST, {})]).succeeded
    [(headers, body)] = receiver.heard
    assert headers["content-type"] == "application/json"
    assert json.loads(body) == {"text": "crmhub: This is a test: alerts of crmhub arrive here."}
