"""Check that an upgrade from a former version, under load, loses nothing and refuses nobody.

    python -m benchmarks.upgrade --former COMMIT [--sqlite] [--seconds 8]

The former version, 0.1.0 or newer, is taken from this repository's history, and runs on the
packages of this one.
It serves callers of the public API and of the helpers, while this version runs `crmhub db upgrade`,
starts beside it on the same database, and takes over, as docs/operator/install.md describes. The
exit code is 1 if a call is refused, if an accepted write is missing, old or there twice, or if
`crmhub doctor --all` finds a fault afterwards.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import requests

from benchmarks.bots import judged, until_empty
from benchmarks.places import Place, end, free_port, parser, place, wait_for

_ROOT = Path(__file__).parents[1]
_TIMEOUT_S = 60.0


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--former", required=True, help="a commit, such as that of a release")
    command.add_argument("--sqlite", action="store_true")
    command.add_argument("--seconds", type=float, default=8, help="of each of the four phases")
    command.add_argument("--callers", type=int, default=6)
    options = command.parse_args()
    with tempfile.TemporaryDirectory() as source, place(options.sqlite, empty=True) as here:
        _extract(options.former, Path(source))
        faults = _upgrade(Version(here, source), Version(here, str(_ROOT)), options)
    sys.exit(0 if judged(faults) else 1)


def _extract(commit: str, folder: Path) -> None:
    """Write the files of a commit of this repository into a folder."""
    packed = subprocess.run(
        ["git", "archive", commit], cwd=_ROOT, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")


@dataclass(frozen=True, slots=True)
class Version:
    """The source of a version of crmhub, and the place where it runs."""

    here: Place
    source: str

    def command(self, *words: str) -> str:
        """Run a command of this version and return what it prints; ends the run if it fails."""
        run = self.run(*words)
        if run.returncode:
            raise SystemExit(f"crmhub {' '.join(words)} failed:\n{run.stdout}")
        return run.stdout

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of this version and return its exit code and what it prints."""
        return subprocess.run(
            [sys.executable, "-m", "crmhub", *words],
            cwd=self.here.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )

    @contextmanager
    def server(self) -> Iterator[str]:
        """Run `crmhub serve` with its worker until the block ends; yield its URL."""
        port = free_port()
        process = subprocess.Popen(
            [sys.executable, "-m", "crmhub", "serve", "--port", str(port), "--workers", "2"],
            cwd=self.here.folder,
            env=self._environment,
            stdout=subprocess.DEVNULL,
        )
        try:
            wait_for(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            end(process)

    @property
    def _environment(self) -> dict[str, str]:
        return {**self.here.environment, "PYTHONPATH": self.source}


def _upgrade(former: Version, latest: Version, options: argparse.Namespace) -> dict[str, int]:
    former.command("db", "upgrade")
    account = json.loads(
        former.command("account", "create", "Acme", "--plan", "unlimited", "--json")
    )
    with former.server() as old:
        callers = Callers([old], account)
        with callers.calling(options.callers):
            time.sleep(options.seconds)
            began = time.perf_counter()
            latest.command("db", "upgrade")
            print(f"crmhub db upgrade took {time.perf_counter() - began:.1f} s under load")
            time.sleep(options.seconds)
            with latest.server() as new:
                callers.urls = [old, new]
                time.sleep(options.seconds)
                callers.urls = [new]
                callers.settle()
                time.sleep(options.seconds)
                callers.stop()
                until_empty(latest.here.url)
                faults = callers.faults(new)
    print(f"answers {dict(sorted(callers.statuses.items()))}, slowest {callers.slowest:.1f} s")
    told = latest.run("doctor", "--all").stdout.splitlines()
    found = [line for line in told if line.startswith("fail")]
    if found:
        print(*found, sep="\n")
    return {**faults, "faults that doctor finds": len(found)}


@dataclass
class Callers:
    """Threads that create, change and search contacts, and send leads with deals.

    `urls` are the addresses that they call in turn. `account` is what `crmhub account create` has
    printed as JSON.
    """

    urls: list[str]
    account: Mapping[str, Any]
    statuses: Counter[int] = field(default_factory=Counter)
    slowest: float = 0.0
    # The city of each contact by its email, as last accepted.
    _cities: dict[str, str] = field(default_factory=dict)
    _deals: list[str] = field(default_factory=list)
    _missed: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ended: threading.Event = field(default_factory=threading.Event)
    _rounds: list[int] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    @contextmanager
    def calling(self, number: int) -> Iterator[None]:
        """Call until `stop`, or until the block ends, with this many threads."""
        self._rounds = [0] * number
        self._threads = [threading.Thread(target=self._call, args=(n,)) for n in range(number)]
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self.stop()

    def stop(self) -> None:
        """End all threads after their present round."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def settle(self) -> None:
        """Wait until no thread is in a round that began before."""
        before = list(self._rounds)
        while any(now == then for now, then in zip(self._rounds, before, strict=True)):
            time.sleep(0.05)

    def _call(self, caller: int) -> None:
        base, session = f"/{self.account['clientId']}/api/v1/contacts", requests.Session()
        session.headers["service-apikey"] = self.account["apiKey"]
        while not self._ended.is_set():
            number = self._rounds[caller]
            send = self._sender(session, self.urls[(caller + number) % len(self.urls)])
            email = f"record{caller}-{number}@example.com"
            made = send("POST", base, {"properties": {"email": email, "city": "Rome"}})
            if made is not None:
                self._cities[email] = "Rome"
                changed = {"properties": {"city": "Oslo"}}
                if send("PATCH", f"{base}/{made['id']}", changed) is not None:
                    self._cities[email] = "Oslo"
                found = send("POST", f"{base}/search", _by_email(email))
                self._missed += found is not None and found["total"] != 1
            email = f"lead{caller}-{number}@example.com"
            chatbot = f"/chatbot/createLead/{self.account['generatedId']}"
            values = {"contactToken": f"{caller}-{number}", "name": "Ann Lee", "email": email}
            lead = send("POST", chatbot, values)
            if lead is not None:
                self._cities[email] = ""
                name = f"Deal {caller}-{number}"
                path = f"/crm-api-interface/createDeal/{self.account['portalId']}"
                deal = {"contactId": lead["contactId"], "properties": {"dealname": name}}
                if send("POST", path, deal) is not None:
                    self._deals.append(name)
            self._rounds[caller] += 1

    def _sender(self, session: requests.Session, url: str) -> Callable[..., Any]:
        """Return a function that sends a call and returns its body, or None if it is refused."""

        def send(method: str, path: str, body: Mapping[str, Any]) -> Any:
            began = time.perf_counter()
            try:
                answer = session.request(method, url + path, json=body, timeout=_TIMEOUT_S)
            except requests.RequestException:
                status, told = 0, None
            else:
                status, told = answer.status_code, answer.json() if answer.ok else None
            with self._lock:
                self.statuses[status] += 1
                self.slowest = max(self.slowest, time.perf_counter() - began)
            return told

        return send

    def faults(self, url: str) -> dict[str, int]:
        """Return the number of faults of each kind, as the service at `url` shows its records."""
        contacts = list(self._walk(url, "contacts", "email,city"))
        held = Counter(values.get("email") for values in contacts)
        cities = {values.get("email"): values.get("city") or "" for values in contacts}
        deals = Counter(values.get("dealname") for values in self._walk(url, "deals", "dealname"))
        return {
            "calls refused": sum(
                n for status, n in self.statuses.items() if not 200 <= status < 300
            ),
            "searches that missed their record": self._missed,
            "contacts lost": sum(not held[email] for email in self._cities),
            "contacts twice": sum(count > 1 for count in held.values()),
            "contacts with an older value": sum(
                cities.get(email) != city for email, city in self._cities.items()
            ),
            "deals lost": sum(not deals[name] for name in self._deals),
            "deals twice": sum(count > 1 for count in deals.values()),
        }

    def _walk(self, url: str, kind: str, names: str) -> Iterator[Mapping[str, str]]:
        """Yield the named properties of all records of a kind."""
        path, cursor = f"{url}/{self.account['clientId']}/api/v1/{kind}", ""
        while True:
            answer = requests.get(
                path,
                params={"cursor": cursor} if cursor else {"properties": names, "limit": "100"},
                headers={"service-apikey": self.account["apiKey"]},
                timeout=_TIMEOUT_S,
            )
            answer.raise_for_status()
            page = answer.json()
            yield from (record["properties"] for record in page["results"])
            cursor = page["cursor"]["next"]
            if not cursor:
                return


def _by_email(email: str) -> dict[str, Any]:
    return {"filters": [{"propertyName": "email", "operator": "EQ", "value": email}]}


if __name__ == "__main__":
    main()
