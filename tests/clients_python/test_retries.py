"""Nothing twice and nothing lost, however the network and the hub fail."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import httpx
import pytest

from crmhub_client import (
    AsyncHub,
    ConflictError,
    ConnectionFailedError,
    Hub,
    HubClientError,
    ManyRequestError,
    NotFoundError,
    Retry,
    StillQueuedError,
    TimedOutError,
    UnavailableError,
)
from crmhub_client.operations import Request
from crmhub_client.retries import Sleep, attempts
from tests import coroutines
from tests.cli.conftest import CommandLine
from tests.clients_python.callers import Caller, Network, background, fake
from tests.server.servers import Server

pytestmark = pytest.mark.process

ALL = ("refused", "lost", "running", "429", "silent", "503", "502", "lost")


@pytest.mark.parametrize("faults", [(fault,) for fault in sorted(set(ALL))] + [ALL], ids="-".join)
def test_a_write_that_is_sent_again_is_carried_out_once(
    caller: Caller, hub: Hub, faults: tuple[str, ...]
) -> None:
    caller.network = Network(*faults)
    made = caller.call(lambda hub: hub.tickets.create({"subject": "Once"}))
    assert [each.id for each in hub.tickets.all()] == [made.id]
    assert len(caller.network.requests) == len(faults) + 1


def test_a_batch_is_stored_once_over_a_failing_network(caller: Caller, hub: Hub) -> None:
    caller.network = Network(*ALL)
    rows = [{"subject": f"Ticket {i}"} for i in range(1234)]
    made = caller.call(lambda hub: hub.tickets.create_many(iter(rows)))
    assert len(caller.network.requests) == 13 * (len(ALL) + 1)
    stored = {each.id: each.properties["subject"] for each in hub.tickets.all()}
    assert stored == {each.id: each.properties["subject"] for each in made.results}
    assert sorted(stored.values()) == sorted(row["subject"] for row in rows)


def test_changes_links_and_archiving_survive_lost_answers(caller: Caller, hub: Hub) -> None:
    contact, deal = hub.contacts.create({"firstname": "Ada"}), hub.deals.create({"dealname": "D"})
    caller.network = Network(*ALL)
    caller.call(lambda hub: hub.contacts.update(contact.id, {"city": "London"}))
    caller.call(lambda hub: hub.contacts.link(contact.id, "deals", deal.id))
    caller.call(lambda hub: hub.deals.unlink(deal.id, "contacts", contact.id))
    caller.call(lambda hub: hub.deals.archive(deal.id))
    assert hub.contacts.get(contact.id).properties["city"] == "London"
    assert list(hub.contacts.associations(contact.id, "deals")) == []
    with pytest.raises(NotFoundError):
        hub.deals.get(deal.id)


def test_a_conflict_behind_a_lost_answer_is_uncertain(caller: Caller, hub: Hub) -> None:
    old = hub.contacts.create({"firstname": "Ada"})
    caller.network = Network("lost")
    with pytest.raises(ConflictError) as refused:
        caller.call(lambda hub: hub.contacts.update(old.id, {"city": "A"}, if_match=old.etag))
    assert refused.value.uncertain
    assert hub.contacts.get(old.id).properties["city"] == "A"


def test_archiving_what_is_not_there_is_an_error(caller: Caller) -> None:
    caller.network = Network("refused", "429")
    with pytest.raises(NotFoundError):
        caller.call(lambda hub: hub.contacts.archive(7))


def test_a_walk_loses_nothing_while_others_write(caller: Caller, hub: Hub) -> None:
    rows = [{"email": f"p{i}@example.com"} for i in range(1000)]
    made = [each.id for each in hub.contacts.create_many(rows).results]
    gone, kept = set(made[::10]), set(made) - set(made[::10])
    caller.network = Network("lost", "429", "refused")
    writers: list[Callable[[], object]] = [
        lambda: [hub.contacts.archive(each) for each in gone],
        lambda: [hub.contacts.update(each, {"city": "London"}) for each in made[1:1000:10]],
        lambda: hub.contacts.create_many({"email": f"new{i}@example.com"} for i in range(300)),
    ]
    with background(writers):
        walked = caller.items(lambda hub: hub.contacts.all(page_size=20))
    ids = [each.id for each in walked]
    assert len(ids) == len(set(ids))
    assert kept <= set(ids)
    new = {each.id for each in walked if each.properties["email"].startswith("new")}
    assert set(ids) - new <= set(made)


def test_concurrent_callers_of_one_hub_do_not_disturb_each_other(hub: Hub) -> None:
    def create(writer: int) -> None:
        rows = ({"email": f"w{writer}-{i}@example.com"} for i in range(150))
        assert len(hub.contacts.create_many(rows).results) == 150

    with background([lambda writer=writer: create(writer) for writer in range(4)]):  # type: ignore[misc]
        pass
    assert hub.contacts.count() == 600


def test_the_same_key_in_another_process_is_no_second_record(caller: Caller, hub: Hub) -> None:
    rows = [{"subject": f"Ticket {i}"} for i in range(150)]
    for _ in range(2):
        caller.call(lambda hub: hub.tickets.create({"subject": "T"}, idempotency_key="one"))
        caller.call(lambda hub: hub.tickets.create_many(rows, idempotency_key="many"))
    assert hub.tickets.count() == 151


def test_a_rate_limit_names_the_time_to_wait(caller: Caller, installation: CommandLine) -> None:
    # 100 requests in 10 s.
    installation("account", "set", caller.client_id, "plan=free")
    caller.retry = Retry(attempts=1)
    with pytest.raises(ManyRequestError) as refused:
        caller.call(lambda hub: _until_refused(hub, caller.kind))
    assert refused.value.retry_after
    assert refused.value.retry_after >= 1


def _until_refused(hub: Any, kind: str) -> Any:
    if kind == "sync":
        while True:
            hub.usage()

    async def call() -> None:
        while True:
            await hub.usage()

    return call()


@contextmanager
def _cutting(port: int, *, after: int) -> Iterator[int]:
    """Listen before a service; the first answer ends behind so many bytes. Gives the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            most: int | None = after
            with suppress(OSError):
                while True:
                    near, _ = listener.accept()
                    with near, socket.create_connection(("127.0.0.1", port)) as far:
                        upload = threading.Thread(target=_pump, args=(near, far, None))
                        upload.start()
                        _pump(far, near, most)
                        for each in (near, far):
                            with suppress(OSError):
                                each.shutdown(socket.SHUT_RDWR)
                        upload.join()
                    most = None

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _pump(source: socket.socket, target: socket.socket, most: int | None) -> None:
    """Copy bytes until an end is closed, or once at most so many; then end the target, too."""
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data[:most])
            if most is not None:
                break
        target.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("after", [0, 40, 300])
def test_a_connection_that_is_cut_in_an_answer_is_made_anew(
    caller: Caller, hub: Hub, service: Server, after: int
) -> None:
    with _cutting(service.port, after=after) as port:
        caller.url = f"http://127.0.0.1:{port}"
        made = caller.call(lambda hub: hub.tickets.create({"subject": "Once"}))
    assert [each.id for each in hub.tickets.all()] == [made.id]


# --- the core alone, without a network -------------------------------------------------------

_REQUEST = Request("POST", "/", 30)
_LATER = {"Retry-After": "7"}


def _drive(retry: Retry, reply: Any, request: Request = _REQUEST) -> list[float]:
    """Give every attempt the same reply; return how long each wait was until it gave up."""
    waits = []
    steps = attempts(request, retry)
    effect = next(steps)
    with suppress(HubClientError):
        while True:
            effect = steps.send(None if isinstance(effect, Sleep) else reply)
            if isinstance(effect, Sleep):
                waits.append(effect.seconds)
    return waits


@pytest.mark.parametrize(
    "reply",
    [httpx.Response(429), httpx.Response(503), httpx.ReadError("cut")],
    ids=["429", "503", "cut"],
)
def test_attempts_are_bounded_and_waits_grow_with_jitter(reply: object) -> None:
    retry = Retry(attempts=6, total=1000, first=1, longest=4)
    waits = _drive(retry, reply)
    assert len(waits) == 5
    for wait, most in zip(waits, [1, 2, 4, 4, 4], strict=True):
        assert most / 2 <= wait <= most
    assert _drive(retry, reply) != waits


def test_retry_after_wins_and_the_total_time_bounds_it() -> None:
    reply = httpx.Response(429, headers=_LATER)
    waits = _drive(Retry(attempts=3, total=100, first=1), reply)
    assert len(waits) == 2
    assert all(7 <= wait <= 8 for wait in waits)
    assert _drive(Retry(attempts=3, total=6), reply) == []
    assert _drive(Retry(attempts=1, total=100), reply) == []


def test_a_write_that_is_still_queued_is_repeated_with_its_key_alone() -> None:
    queued = httpx.Response(202, json={"actionId": "act-1"})
    write = replace(_REQUEST, method="POST", path="/shop/api/v1/contacts")
    keyed = replace(write, headers={"Idempotency-Key": "k"})
    steps = attempts(keyed, Retry(total=1000))
    assert next(steps) == keyed
    for _ in range(9):
        assert isinstance(steps.send(queued), Sleep)
        assert next(steps) == keyed
    with pytest.raises(StopIteration) as end:
        steps.send(httpx.Response(201))
    assert end.value.value.status_code == 201
    for request, retry in ((write, Retry(total=1000)), (keyed, Retry(total=0))):
        steps = attempts(request, retry)
        next(steps)
        with pytest.raises(StillQueuedError) as error:
            steps.send(queued)
        assert (error.value.action_id, error.value.uncertain) == ("act-1", True)


def test_a_running_request_is_waited_for_without_end_of_attempts() -> None:
    steps = attempts(_REQUEST, Retry(attempts=2, total=1000))
    effect = next(steps)
    running = httpx.Response(409, headers={"Retry-After": "1"})
    for reply in [*[running] * 50, httpx.ReadError("cut")]:
        effect = steps.send(reply)
        assert isinstance(effect, Sleep)
        effect = next(steps)
    with pytest.raises(StopIteration) as end:
        steps.send(httpx.Response(201))
    assert end.value.value.status_code == 201
    assert effect == _REQUEST


def test_a_conflict_without_retry_after_is_final() -> None:
    assert _drive(Retry(), httpx.Response(409)) == []


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_the_last_failure_is_raised(kind: str) -> None:
    caller = fake(kind, lambda request: httpx.Response(500))
    for faults, error, uncertain in [
        (["refused"] * 20, ConnectionFailedError, False),
        (["lost"] * 20, ConnectionFailedError, True),
        (["silent"] * 20, TimedOutError, True),
        (["503"] * 20, UnavailableError, True),
        (["502"] * 20, UnavailableError, True),
        (["429"] * 20, ManyRequestError, False),
    ]:
        caller.network = Network(*faults)
        with pytest.raises(error) as raised:
            caller.call(lambda hub: hub.contacts.create({"firstname": "Ada"}))
        assert raised.value.uncertain is uncertain
        assert len(caller.network.requests) == caller.retry.attempts


def test_each_write_has_a_key_of_its_own_and_keeps_it() -> None:
    caller = fake("sync", lambda request: httpx.Response(204))
    caller.network = Network("refused")
    for _ in range(2):
        caller.call(lambda hub: hub.contacts.archive_many([1]))
    keys = [request.headers["Idempotency-Key"] for request in caller.network.requests]
    assert keys[0] == keys[1] != keys[2] == keys[3]


def test_sleeping_async_does_not_block_others() -> None:
    import asyncio

    order = []
    replies = iter([httpx.Response(503, headers={"Retry-After": "0"}), httpx.Response(204)])

    async def answer(request: httpx.Request) -> httpx.Response:
        return next(replies)

    async def other() -> None:
        await asyncio.sleep(0)
        order.append("other")

    async def main() -> None:
        async with (
            httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http,
            AsyncHub("http://hub.test", "acme", "k", http=http) as hub,
        ):
            task = asyncio.create_task(other())
            await hub.contacts.archive(1)
            order.append("archived")
            await task

    coroutines.run(main())
    assert order == ["other", "archived"]
