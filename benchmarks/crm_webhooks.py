"""Measure what a flood of one account's CRM webhooks costs the bots of another account.

    python -m benchmarks.crm_webhooks [--sqlite] [--webhooks 2000] [--senders 16] [--leads 300]
                                      [--forged] [--elsewhere]

It starts a HubSpot-like CRM and `crmhub serve` with its worker. A bot of one account sends leads,
first alone, then while senders flood the address for webhooks of the other account, whose CRM has a
copy. With `--forged`, they are not signed; with `--elsewhere`, they call /healthz, which shows what
the machine's load alone costs. It prints the bot's times, their ratio, and the webhooks' times.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from http.client import HTTPConnection
from urllib.parse import urlsplit

from adapters.fakes.hubspot.fake import FakeHubSpot, Options
from benchmarks.bots import Bots, p
from benchmarks.places import BENCHMARKS, TOKEN, Place, parser, place
from crmhub.crm.watching import webhook_address
from crmhub.operators.accounts.change_account import change

_SECRET = "the-secret-of-the-app"


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--sqlite", action="store_true")
    command.add_argument("--webhooks", type=int, default=2_000)
    command.add_argument("--senders", type=int, default=16)
    command.add_argument("--leads", type=int, default=300)
    command.add_argument("--forged", action="store_true")
    command.add_argument("--elsewhere", action="store_true")
    options = command.parse_args()
    fake = FakeHubSpot(Options(token=TOKEN, limit="none", client_secret=_SECRET))
    fake.start()
    try:
        with place(options.sqlite) as here:
            _run(here, fake, options)
    finally:
        fake.stop()


def _run(here: Place, fake: FakeHubSpot, options: argparse.Namespace) -> None:
    here.account(str(fake.url), secrets={"webhook_secret": _SECRET})
    other = here.account("", "other")
    with here.server(workers=2, threads=16) as service:
        hub = here.hub()
        account = hub.load_account("benchmark")
        change(hub, "benchmark", {"mirror": True}, by=BENCHMARKS)
        base = "http://{}:{}".format(*service.address)
        url = base + webhook_address(hub, account).partition("SERVICE")[2]
        hub.close()
        bot = Bots(service.address, other)
        _leads(bot, 20, "warm")
        alone = _leads(bot, options.leads, "alone")
        signed = [_signed(fake, url, n, forged=options.forged) for n in range(options.webhooks)]
        target = f"{base}/healthz" if options.elsewhere else url
        # In a process of its own: senders in this one would slow the bot down.
        with ProcessPoolExecutor(1) as process:
            sending = process.submit(_flood, target, signed, options.senders)
            beside: list[float] = []
            while not sending.done():
                beside += _leads(bot, 10, f"beside {len(beside)}")
            took, statuses = sending.result()
    print(f"leads alone: {_shown(alone)}")
    print(f"leads beside the flood: {_shown(beside)}")
    print(f"ratio of p99: {p(99, beside) / p(99, alone):.2f}")
    print(f"webhooks: {_shown(took)}, {dict(statuses)}")


def _shown(took: list[float]) -> str:
    return f"{len(took)}, p50 {1000 * p(50, took):.1f} ms, p99 {1000 * p(99, took):.1f} ms"


def _leads(bot: Bots, count: int, name: str) -> list[float]:
    """Return how many seconds each lead took."""
    took = []
    for n in range(count):
        began = time.monotonic()
        told = bot.create_lead(f"{name} {n}", name="Ann", email=f"{name.replace(' ', '')}{n}@b.co")
        took.append(time.monotonic() - began)
        assert told.accepted, told
    return took


def _signed(fake: FakeHubSpot, url: str, n: int, *, forged: bool) -> tuple[bytes, dict[str, str]]:
    event = {"subscriptionType": "contact.propertyChange", "objectId": n}
    body = json.dumps([event]).encode()
    return body, {} if forged else dict(fake.webhook_headers(url, body))


def _flood(
    url: str, signed: list[tuple[bytes, dict[str, str]]], senders: int
) -> tuple[list[float], Counter[int]]:
    """Send all webhooks; return how many seconds each took, and how many had each status."""
    parts, own = urlsplit(url), threading.local()
    took, statuses = list[float](), Counter[int]()

    def send(body: bytes, headers: dict[str, str]) -> None:
        if not hasattr(own, "connection"):
            own.connection = HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        began = time.monotonic()
        own.connection.request("POST", parts.path, body, headers)
        answer = own.connection.getresponse()
        answer.read()
        took.append(time.monotonic() - began)
        statuses[answer.status] += 1

    with ThreadPoolExecutor(senders) as pool:
        for one in [pool.submit(send, *each) for each in signed]:
            one.result()
    return took, statuses


if __name__ == "__main__":
    main()
