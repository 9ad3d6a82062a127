"""Access tokens that expire: renewed once for everybody, and never lost."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import responses

from crmhub.adapter import (
    AdapterError,
    BadConfig,
    Conflict,
    Denied,
    NotFound,
    OAuth,
    Rejected,
    Throttled,
    Unavailable,
    Uncertain,
)
from crmhub.adapter.http import Answer, Http, Limit
from crmhub.adapter.oauth import KEPT, Grant, refreshing
from tests.adapter.http_contexts import URL, FakeBudget, Vault, http_context
from tests.loops import for_each


@dataclass
class Issuer:
    """A token endpoint that replaces the refresh token each time and takes the last one only."""

    valid: str = "refresh-0"
    lifetime: Any = 1800
    seconds: float = 0.0
    issued: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def exchange(self, credentials: Mapping[str, str]) -> Answer:
        with self.lock:
            if credentials["refresh_token"] != self.valid:
                raise Rejected([], "Acme does not take these values: invalid_grant")
            time.sleep(self.seconds)
            self.issued += 1
            self.valid = f"refresh-{self.issued}"
            body = {"access_token": f"access-{self.issued}", "refresh_token": self.valid}
            return Answer("Acme", 200, {}, body | {"expires_in": self.lifetime})


def make_vault(**more: str) -> Vault:
    return Vault({"refresh_token": "refresh-0", "client_secret": "client-secret", **more})


def make_grant(
    vault: Vault, exchange: Callable[[Mapping[str, str]], Answer], *, seconds: float = 20.0
) -> Grant:
    return Grant(http_context(vault, seconds=seconds), "Acme", exchange)


def kept(token: str, *, seconds: float = 600) -> str:
    return f"{time.time() + seconds:.0f} {token}"


def test_a_valid_token_is_used_without_asking() -> None:
    issuer, vault = Issuer(), make_vault(**{KEPT: kept("access-kept")})
    assert make_grant(vault, issuer.exchange).token() == "access-kept"
    assert issuer.issued == 0


def test_a_token_that_people_enter_is_used_and_never_renewed() -> None:
    issuer, vault = Issuer(), make_vault(api_token="entered")
    grant = Grant(http_context(vault), "Acme", issuer.exchange, keeps=["url"], token="api_token")
    assert (grant.token(), grant.kept("url"), grant.renew()) == ("entered", "", False)
    assert "entered" in grant.secrets()
    assert issuer.issued == 0


@for_each("stored", ["", "nonsense", "12", " access", "-5 access", "1 access-old"])
def test_without_a_valid_token_one_is_fetched(stored: str) -> None:
    issuer, vault = Issuer(), make_vault(**{KEPT: stored})
    assert make_grant(vault, issuer.exchange).token() == "access-1"
    assert vault.stored[KEPT].endswith(" access-1")


def test_a_replaced_refresh_token_is_stored_before_the_token_is_used() -> None:
    issuer, vault = Issuer(), make_vault()
    grant = make_grant(vault, issuer.exchange)
    grant.token()
    grant.renew()
    assert vault.stored["refresh_token"] == issuer.valid == "refresh-2"
    assert vault.stored["client_secret"] == "client-secret"


@for_each("rotated", [None, "", 7, {"a": 1}])
def test_without_another_refresh_token_the_old_one_stays(rotated: Any) -> None:
    vault = make_vault()
    body = {"access_token": "access-1", "refresh_token": rotated}
    make_grant(vault, lambda _: Answer("Acme", 200, {}, body)).token()
    assert vault.stored["refresh_token"] == "refresh-0"


# Together.


def test_twenty_threads_renew_once() -> None:
    issuer = Issuer(seconds=0.05)
    grant = make_grant(make_vault(), issuer.exchange)
    with ThreadPoolExecutor(20) as pool:
        tokens = set(pool.map(lambda _: grant.token(), range(60)))
    assert (tokens, issuer.issued) == ({"access-1"}, 1)


def test_a_thread_whose_refusal_comes_late_renews_nothing() -> None:
    issuer = Issuer()
    grant = make_grant(make_vault(), issuer.exchange)
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as late:
        first.submit(grant.token).result()
        late.submit(grant.token).result()
        first.submit(grant.renew).result()
        late.submit(grant.renew).result()
        assert late.submit(grant.token).result() == "access-2"
    assert issuer.issued == 2


def test_two_processes_renew_once() -> None:
    issuer, vault = Issuer(seconds=0.05), make_vault()
    grants = [make_grant(vault, issuer.exchange) for _ in range(2)]
    with ThreadPoolExecutor(20) as pool:
        tokens = set(pool.map(lambda n: grants[n % 2].token(), range(40)))
    assert (tokens, issuer.issued, vault.saved) == ({"access-1"}, 1, 1)


def test_what_another_process_renewed_is_picked_up() -> None:
    issuer, vault = Issuer(), make_vault(**{KEPT: kept("access-0")})
    here, there = (make_grant(vault, issuer.exchange) for _ in range(2))
    assert (here.token(), there.token()) == ("access-0", "access-0")
    there.renew()
    assert here.renew() is True
    assert (here.token(), issuer.issued) == ("access-1", 1)


def test_a_grant_replaced_elsewhere_is_not_refused_for_ever() -> None:
    issuer, vault = Issuer(valid="refresh-new"), make_vault(**{KEPT: kept("access-0")})
    grant = make_grant(vault, issuer.exchange)
    grant.token()
    vault.stored = {"refresh_token": "refresh-new", KEPT: ""}
    grant.renew()
    assert grant.token() == "access-1"


def test_the_lease_outlives_the_call() -> None:
    vault = make_vault()
    make_grant(vault, Issuer().exchange, seconds=12).token()
    assert [key for key, _ in vault.leases] == ["access token"]
    assert 12 < vault.leases[0][1] < 12 + 60


def test_nobody_waits_for_a_slow_renewal_beyond_the_deadline() -> None:
    issuer, let_go, ended = Issuer(), threading.Event(), threading.Event()

    def exchange(credentials: Mapping[str, str]) -> Answer:
        let_go.wait(120)
        return issuer.exchange(credentials)

    grant = make_grant(make_vault(), exchange, seconds=1.0)
    slow = threading.Thread(target=lambda: (grant.token(), ended.set()))
    slow.start()
    while not grant._lock.locked():
        time.sleep(0.01)
    with pytest.raises(Unavailable):
        grant.token()
    assert not ended.is_set()
    let_go.set()
    slow.join()


# Time.


@for_each(
    ("said", "seconds"),
    [
        (1800, 1740),
        (100, 90),
        (30.5, 27),
        ("3600", 3540),
        (None, 1740),
        (0, 1740),
        (-5, 1740),
        (True, 1740),
        ("soon", 1740),
        ("１８００", 1740),
        ([], 1740),
        (10**400, 86_340),
        ("9" * 400, 86_340),
        (1e308, 86_340),
        (float("nan"), 1740),
    ],
)
def test_a_token_is_renewed_a_little_before_it_expires(said: Any, seconds: float) -> None:
    issuer, vault = Issuer(lifetime=said), make_vault()
    now = time.time()
    make_grant(vault, issuer.exchange).token()
    expires = float(vault.stored[KEPT].partition(" ")[0])
    assert now + seconds - 1 <= expires <= time.time() + seconds + 1


def test_a_token_too_old_is_renewed() -> None:
    issuer, vault = Issuer(), make_vault(**{KEPT: kept("access-0", seconds=-1)})
    assert make_grant(vault, issuer.exchange).token() == "access-1"


# What goes wrong.


def raising(error: AdapterError) -> Callable[[Mapping[str, str]], Answer]:
    def exchange(credentials: Mapping[str, str]) -> Answer:
        raise error

    return exchange


@for_each(
    ("error", "expected"),
    [
        (Rejected([], "no: invalid_grant"), Denied),
        (Denied("no such client"), Denied),
        (NotFound("no such page"), BadConfig),
        (Conflict("odd"), BadConfig),
        (BadConfig("redirect"), BadConfig),
        (Throttled("slow down", retry_after=7), Throttled),
        (Unavailable("away"), Unavailable),
        (Uncertain("no answer"), Unavailable),
    ],
)
def test_what_goes_wrong_with_the_token_says_nothing_of_a_record(
    error: AdapterError, expected: type[AdapterError]
) -> None:
    grant = make_grant(make_vault(), raising(error))
    with pytest.raises(AdapterError) as caught:
        grant.token()
    assert type(caught.value) is expected
    assert error.message in caught.value.message


def test_a_refused_refresh_token_says_what_to_do() -> None:
    with pytest.raises(Denied, match="connect the account again"):
        make_grant(make_vault(refresh_token="other"), Issuer().exchange).token()


@for_each("body", [None, [], {}, {"access_token": ""}, {"access_token": 7}])
@for_each("reads", [True, False])
def test_an_answer_without_a_token_is_unavailable(body: Any, reads: bool) -> None:
    vault = make_vault()
    with pytest.raises(Unavailable):
        make_grant(vault, lambda _: Answer("Acme", 200, {}, body, reads)).token()
    assert vault.saved == 0


def test_after_a_failure_the_next_call_tries_again() -> None:
    issuer, vault = Issuer(valid="later"), make_vault()
    grant = make_grant(vault, issuer.exchange)
    with pytest.raises(Denied):
        grant.token()
    vault.stored["refresh_token"] = "later"
    assert grant.token() == "access-1"


def test_a_token_that_could_not_be_stored_is_stored_later() -> None:
    issuer, vault = Issuer(), make_vault()
    grant = make_grant(vault, issuer.exchange)
    vault.broken = True
    with pytest.raises(OSError, match="away"):
        grant.token()
    vault.broken = False
    assert grant.token() == "access-1"
    assert (vault.stored["refresh_token"], issuer.issued) == ("refresh-1", 1)


def test_a_token_that_could_not_be_stored_gives_way_to_a_new_connection() -> None:
    issuer, vault = Issuer(), make_vault()
    grant = make_grant(vault, issuer.exchange)
    vault.broken = True
    with pytest.raises(OSError, match="away"):
        grant.token()
    vault.broken, vault.stored, issuer.valid = False, {"refresh_token": "anew"}, "anew"
    assert grant.token() == "access-2"


# Over the wire.


def make_http(vault: Vault, budget: FakeBudget, *, seconds: float = 5.0) -> Http:
    context = replace(http_context(vault, seconds=seconds), budget=lambda lane, **limit: budget)

    def exchange(credentials: Mapping[str, str]) -> Answer:
        form = {"grant_type": "refresh_token", "refresh_token": credentials["refresh_token"]}
        return http.send("POST", "token", form=form, lane="oauth", anonymous=True)

    grant = Grant(context, "Acme", exchange)
    http = Http(
        context,
        URL,
        crm="Acme",
        authorize=lambda: {"Authorization": f"Bearer {grant.token()}"},
        renew=grant.renew,
        secrets=grant.secrets,
        limits=[Limit(100, 10.0, "oauth")],
    )
    return http


@pytest.fixture
def wire():
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield mock


def test_a_refused_token_is_replaced_and_the_call_repeated(wire: responses.RequestsMock) -> None:
    vault = make_vault(**{KEPT: kept("access-0")})
    wire.get(f"{URL}/me", status=401)
    wire.get(f"{URL}/me", json={"id": 1})
    wire.post(f"{URL}/token", json={"access_token": "access-1"})
    assert make_http(vault, FakeBudget()).send("GET", "me").id() == "1"
    assert wire.calls[-1].request.headers["Authorization"] == "Bearer access-1"


def test_a_token_endpoint_that_wants_fewer_calls_is_left_alone(
    wire: responses.RequestsMock,
) -> None:
    wire.post(f"{URL}/token", status=429, headers={"Retry-After": "60"})
    budget = FakeBudget()
    with pytest.raises(Throttled) as caught:
        make_http(make_vault(), budget).send("GET", "me")
    assert caught.value.retry_after == 60
    assert (budget.paused, len(wire.calls)) == ([60.0], 1)


def test_a_token_endpoint_out_of_order_leaves_no_doubt_about_a_write(
    wire: responses.RequestsMock,
) -> None:
    wire.post(f"{URL}/token", status=502)
    with pytest.raises(Unavailable):
        make_http(make_vault(), FakeBudget()).send("POST", "contacts", body={})


def test_tokens_show_nowhere(
    wire: responses.RequestsMock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    said = "client-secret, refresh-0 and access-zero are wrong"
    wire.post(f"{URL}/token", status=400, json={"message": said})
    wire.get(f"{URL}/me", status=401, json={"message": said})
    vault = make_vault(**{KEPT: kept("access-zero")})
    with pytest.raises(Denied) as caught:
        make_http(vault, FakeBudget()).send("GET", "me")
    told = repr(caught.value) + caplog.text
    assert caught.value.message.endswith("***, *** and *** are wrong")
    assert not [word for word in ("client-secret", "refresh-0", "access-zero") if word in told]


def test_credentials_that_were_changed_meanwhile_show_nowhere(
    wire: responses.RequestsMock,
) -> None:
    wire.post(f"{URL}/token", status=400, json={"message": "who is refresh-changed?"})
    vault = make_vault()
    http = make_http(vault, FakeBudget())
    vault.stored["refresh_token"] = "refresh-changed"
    with pytest.raises(Denied, match=r"who is \*\*\*"):
        http.send("GET", "me")


def test_replaced_tokens_show_nowhere(wire: responses.RequestsMock) -> None:
    wire.post(f"{URL}/token", json={"access_token": "access-1", "refresh_token": "replaced-1"})
    wire.post(f"{URL}/token", status=400, json={"message": "access-1, replaced-1 are wrong"})
    context = http_context(make_vault(client_id="client-id"))
    context = replace(context, budget=lambda lane, **limit: FakeBudget())
    oauth = OAuth(f"{URL}/authorize", f"{URL}/token", ())
    grant = Grant(context, "Acme", refreshing(context, "Acme", oauth))
    grant.token()
    with pytest.raises(Denied, match=r": \*\*\*, \*\*\* are wrong"):
        grant.renew()


# Without a refresh token.


def login(seen: list[Mapping[str, str]], **more: Any) -> Callable[[Mapping[str, str]], Any]:
    def exchange(credentials: Mapping[str, str]) -> Mapping[str, Any]:
        seen.append(credentials)
        return {"access_token": f"session-{len(seen)}", "expires_in": 600, **more}

    return exchange


def test_a_login_is_kept_for_all_processes() -> None:
    seen: list[Mapping[str, str]] = []
    vault = Vault({"password": "sesame", KEPT: ""})
    first, second = (make_grant(vault, login(seen)) for _ in range(2))
    assert [first.token(), second.token()] == ["session-1", "session-1"]
    assert (len(seen), seen[0]["password"]) == (1, "sesame")
    assert first.renew()
    assert second.renew()
    assert [first.token(), second.token(), len(seen)] == ["session-2", "session-2", 2]


def test_only_declared_credentials_are_stored() -> None:
    vault = Vault({"password": "sesame", KEPT: ""})
    make_grant(vault, login([], refresh_token="not needed", url="https://eu.example.test")).token()
    assert vault.stored.keys() == {"password", KEPT}


def test_what_comes_with_the_token_is_kept() -> None:
    vault, seen = Vault({"password": "sesame", KEPT: ""}), list[Mapping[str, str]]()
    answer = login(seen, url="https://eu.example.test/a b", user=7)
    grants = [
        Grant(http_context(vault), "Acme", answer, keeps=["url", "user", "none"]) for _ in range(2)
    ]
    for grant in grants:
        assert grant.kept("url") == "https://eu.example.test/a b"
        assert (grant.kept("user"), grant.kept("none")) == ("7", "")
        assert grant.token() == "session-1"
    assert len(seen) == 1
    assert "https://eu.example.test/a b" not in grants[0].secrets()


@for_each("token", ["", "two words", "line\nbreak", None, 7])
def test_a_text_that_is_no_token_is_not_stored(token: Any) -> None:
    vault = Vault({"password": "sesame", KEPT: ""})
    with pytest.raises(Unavailable):
        make_grant(vault, login([], access_token=token)).token()
    assert vault.saved == 0


def test_a_throttled_login_is_no_refusal() -> None:
    def exchange(credentials: Mapping[str, str]) -> Answer:
        raise Throttled("ten logins in ten minutes", retry_after=600.0)

    with pytest.raises(Throttled):
        make_grant(Vault({"password": "sesame", KEPT: ""}), exchange).token()


def test_a_refused_login_names_the_credentials() -> None:
    def exchange(credentials: Mapping[str, str]) -> Answer:
        raise Rejected([], "wrong password")

    with pytest.raises(Denied, match="refuses the credentials; correct them"):
        make_grant(Vault({"password": "sesame", KEPT: ""}), exchange).token()
