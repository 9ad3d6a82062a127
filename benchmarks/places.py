"""The environment of a benchmark: its own database, and the processes of a service.

The service is started as the README describes. The CRM is the HubSpot-like one of `crmhub fake
hubspot`, controlled through its `/_control` endpoints.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import requests
from psycopg.errors import ObjectInUse
from sqlalchemy.engine import make_url

from crmhub.accounts.changes import IssuedIds, set_switches
from crmhub.audit import Author
from crmhub.crm.stored_connections import configure
from crmhub.database.schema import upgrade
from crmhub.hub import Hub
from crmhub.operators.accounts.open_account import open_account
from crmhub.settings import Settings

_POSTGRES = "postgresql+psycopg://root@127.0.0.1:5432/postgres"
TOKEN = "pat-of-the-benchmark"
# Enough for a start or an end on a machine that does much else.
_PATIENCE_S = 120.0
# So many calls that none is over. Without any limit the CRM would name none, and the hub would
# keep to the one that every HubSpot account has.
NO_LIMIT = "100000/10s"

BENCHMARKS = Author("cli", "benchmarks")
"""The author of the accounts that benchmarks open, as the audit log names it."""


def parser(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help text is the first line of a command's `doc`.

    From now on SIGTERM ends the run like Ctrl-C, so that all started processes are ended too.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    return argparse.ArgumentParser(
        description=(doc or "").partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )


@dataclass(frozen=True, slots=True)
class Service:
    """A running service: its address, and the process of its supervisor."""

    address: tuple[str, int]
    process: subprocess.Popen[bytes]

    def children(self) -> dict[int, str]:
        """Return the processes below the supervisor with their command lines."""
        parents: dict[int, tuple[int, str]] = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                # The name before the bracket may be cut within a letter.
                parent = (entry / "stat").read_bytes().rpartition(b")")[2].split()[1]
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
            except OSError:
                continue
            parents[int(entry.name)] = int(parent), command.decode()
        return {pid: parents[pid][1] for pid in parents if self._is_above(pid, parents)}

    def _is_above(self, pid: int, parents: dict[int, tuple[int, str]]) -> bool:
        while pid in parents:
            pid = parents[pid][0]
            if pid == self.process.pid:
                return True
        return False


@dataclass(frozen=True, slots=True)
class Crm:
    """A running HubSpot-like CRM, which the benchmark controls."""

    url: str
    token: str = TOKEN

    def faults(self, *faults: Mapping[str, Any]) -> None:
        """Replace the faults that the fake CRM causes on any call."""
        requests.delete(f"{self.url}/_control/faults", timeout=30).raise_for_status()
        for fault in faults:
            order = {"times": None, "path": "/crm/*", **fault}
            requests.post(f"{self.url}/_control/faults", json=order, timeout=30).raise_for_status()

    def change(self, **settings: Any) -> None:
        """Change settings, such as `latency` in seconds or `limit` as `100/10s`."""
        answer = requests.post(f"{self.url}/_control/settings", json=settings, timeout=30)
        answer.raise_for_status()

    def records(self, kind: str) -> list[dict[str, Any]]:
        """Return all records of a kind, each with `properties` and `associations`."""
        answer = requests.get(f"{self.url}/_control/records/{kind}", timeout=120)
        answer.raise_for_status()
        return list(answer.json().values())

    def create(self, kind: str, properties: Mapping[str, str]) -> str:
        """Create a record as if a person had entered it earlier, and return its id."""
        url = f"{self.url}/_control/records/{kind}"
        answer = requests.post(url, json={"properties": dict(properties)}, timeout=30)
        answer.raise_for_status()
        return str(answer.json()["id"])

    def id_of(self, kind: str, *, email: str) -> str:
        """Return the id of the record with this email."""
        return str(self._call("GET", f"{kind}/{email}?idProperty=email")["id"])

    def update(self, kind: str, id: str, properties: Mapping[str, str]) -> None:
        """Change properties of a record as if by hand."""
        self._call("PATCH", f"{kind}/{id}", json={"properties": dict(properties)})

    def archive(self, kind: str, id: str) -> None:
        """Delete a record as if by hand."""
        self._call("DELETE", f"{kind}/{id}")

    def merge(self, kind: str, kept: str, other: str) -> str:
        """Merge two records as if by hand, and return the id of the result.

        Of two contacts, the email of `kept` becomes primary, and that of `other` secondary.
        """
        both = {"primaryObjectId": kept, "objectIdToMerge": other}
        return str(self._call("POST", f"{kind}/merge", json=both)["id"])

    def _call(self, method: str, path: str, **body: Any) -> Any:
        answer = requests.request(
            method,
            f"{self.url}/crm/objects/2026-09/{path}",
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=30,
            **body,
        )
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def count(self, kind: str) -> int:
        """Return the number of records of a kind."""
        number: int = self._state()["records"][kind]
        return number

    def calls(self) -> dict[str, Any]:
        """Return counts of all calls: `calls`, `refused` by the limit, `peak`.

        The counts of searches, which have a separate limit in HubSpot, are under `searches`.
        """
        windows = self._state()["windows"]
        return {**windows["general"], "searches": windows["search"]}

    def _state(self) -> dict[str, Any]:
        answer = requests.get(f"{self.url}/_control/state", timeout=120)
        answer.raise_for_status()
        state: dict[str, Any] = answer.json()
        return state


@dataclass(frozen=True, slots=True)
class Place:
    """A directory and a migrated database, for the processes of one run."""

    folder: str
    url: str

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables for the processes."""
        mine = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("CRMHUB_") or name.startswith("CRMHUB_TEST_")
        }
        return {**mine, "CRMHUB_DATABASE_URL": self.url, "CRMHUB_LOG_LEVEL": "error"}

    @property
    def dialect(self) -> str:
        """The kind of the database: sqlite or postgresql."""
        return make_url(self.url).get_backend_name()

    def hub(self) -> Hub:
        """Return a hub on this database; the caller closes it."""
        return Hub.open(Settings.load(environ=self.environment, root=Path(self.folder)))

    def account(
        self,
        crm: str,
        name: str = "benchmark",
        *,
        plan: str = "unlimited",
        adapter: str = "hubspot",
        secrets: Mapping[str, str] | None = None,
        **switches: Any,
    ) -> IssuedIds:
        """Open an account whose CRM is the fake one at this address; `secrets`: its credentials.

        Without an address, the account's CRM is the hub's own records.
        """
        hub = self.hub()
        account, ids = open_account(hub, name=name, client_id=name, plan=plan, by=BENCHMARKS)
        if crm:
            hub.database.transact(
                lambda tx: configure(
                    tx,
                    account.id,
                    name=adapter,
                    adapter=hub.registry.load(adapter),
                    settings={"base_url": crm},
                    credentials=secrets or {"access_token": TOKEN},
                    vault=hub.vault,
                    plans=hub.plans,
                )
            )
        if switches:
            hub.database.transact(lambda tx: set_switches(tx, account.id, switches, hub.plans))
        hub.close()
        return ids

    def command(self, *words: str) -> str:
        """Run a command of `crmhub` and return what it prints; raises CalledProcessError."""
        run = subprocess.run(
            [sys.executable, "-m", "crmhub", *words],
            cwd=self.folder,
            env=self.environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return run.stdout

    @contextmanager
    def server(self, *, workers: int, threads: int, more: Sequence[str] = ()) -> Iterator[Service]:
        """Run `crmhub serve` with its worker until the block ends."""
        port = free_port()
        command = ["serve", "--port", str(port), "--workers", str(workers)]
        with self._running(*command, "--threads", str(threads), *more) as process:
            wait_for(port, process)
            yield Service(("127.0.0.1", port), process)

    @contextmanager
    def workers(self, number: int, *, threads: int) -> Iterator[None]:
        """Run this many `crmhub worker` processes until the block ends."""
        with ExitStack() as running:
            for _ in range(number):
                running.enter_context(self._running("worker", "--threads", str(threads)))
            yield

    @contextmanager
    def _running(self, *command: str) -> Iterator[subprocess.Popen[bytes]]:
        process = subprocess.Popen(
            [sys.executable, "-m", "crmhub", *command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
        )
        try:
            yield process
        finally:
            end(process)


def free_port() -> int:
    """Return a port on which no process listens, for a server that sets SO_REUSEADDR, as most do.

    Until this process ends, the system gives the port only to a process that asks for this very
    port.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    port: int = holder.getsockname()[1]
    holder.detach()
    return port


@contextmanager
def place(
    sqlite: bool, postgres: str = "", *, keep: str = "", empty: bool = False
) -> Iterator[Place]:
    """Yield a migrated database, SQLite or on the PostgreSQL at `postgres`; delete it at the end.

    The default of `postgres` is CRMHUB_TEST_POSTGRES, or else this machine. With `keep`, the
    database has that name, and is deleted only if the block fails. With `empty`, it has no tables.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        if sqlite:
            url = f"sqlite:///{folder}/benchmark.db"
        else:
            url = stack.enter_context(_database(postgres or _postgres(), keep))
        if not empty:
            upgrade(url)
        yield Place(folder, url)


@contextmanager
def kept_place(name: str) -> Iterator[Place]:
    """Open a database that `place` has kept, unchanged."""
    url = make_url(_postgres()).set(database=name).render_as_string(hide_password=False)
    # The keys of the run before are gone with its folder.
    administer(url, "delete from key_fingerprint")
    with tempfile.TemporaryDirectory() as folder:
        yield Place(folder, url)


def _postgres() -> str:
    return os.environ.get("CRMHUB_TEST_POSTGRES", _POSTGRES)


@contextmanager
def _database(postgres: str, keep: str) -> Iterator[str]:
    url = make_url(postgres)
    name = keep or f"crmhub_benchmark_{uuid.uuid4().hex[:8]}"
    administer(postgres, f"create database \"{name}\" encoding 'UTF8' template template0")
    try:
        yield url.set(database=name).render_as_string(hide_password=False)
    except BaseException:
        keep = ""
        raise
    finally:
        if not keep:
            # Pools that were left open must not keep it.
            administer(postgres, f'drop database "{name}" with (force)')


def administer(postgres: str, statement: str) -> None:
    """Run a statement on a PostgreSQL server, on a separate connection.

    While the server has no free connection, or others still use a database to delete, the statement
    is repeated.
    """
    server = make_url(postgres).set(drivername="postgresql").render_as_string(hide_password=False)
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            with psycopg.connect(server, autocommit=True) as connection:
                connection.execute(statement)
            return
        except psycopg.OperationalError as exc:
            # A connection that is refused has no SQLSTATE, only the server's words.
            full = exc.sqlstate is None and ("too many" in str(exc) or "reserved" in str(exc))
            if not (full or exc.sqlstate == ObjectInUse.sqlstate) or time.monotonic() > until:
                raise
            time.sleep(0.2)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A PostgreSQL server that only this benchmark uses: its address and its control."""

    url: str
    folder: str
    user: str | None

    def restart(self, mode: str) -> None:
        """Restart PostgreSQL with `pg_ctl -m fast` or `-m immediate`, and wait until it runs."""
        self._control("restart", "-m", mode)

    def start(self) -> None:
        """Start the PostgreSQL server."""
        self._control("start")

    def stop(self) -> None:
        """Stop the PostgreSQL server."""
        self._control("stop", "-m", "immediate")

    def kill(self) -> None:
        """Kill all processes of the server with SIGKILL at once, like a failure of its machine."""
        pid = int(Path(self.folder, "data", "postmaster.pid").read_text().partition("\n")[0])
        # Stopped, it begins no process meanwhile. The others are no members of its process group.
        os.kill(pid, signal.SIGSTOP)
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for each in (*map(int, children), pid):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        # Its lock would hold for as long as the killed process is not reaped.
        for file in Path(self.folder).glob(".s.PGSQL.*"):
            file.unlink()
        until = time.monotonic() + _PATIENCE_S
        with suppress(OSError):
            while time.monotonic() < until:
                socket.create_connection(("127.0.0.1", make_url(self.url).port or 0)).close()
                time.sleep(0.01)

    def follow(self, primary: Cluster) -> None:
        """Make this server a running standby of another server, from a new copy of its data."""
        data = Path(self.folder, "data")
        shutil.rmtree(data, ignore_errors=True)
        source = make_url(primary.url).set(drivername="postgresql", database=None)
        _as(
            self.user,
            postgres_program("pg_basebackup"),
            *("--checkpoint=fast", "--write-recovery-conf", "-D", str(data)),
            *("-d", source.render_as_string(hide_password=False)),
        )
        self.set_synchronous(False)
        with (data / "postgresql.conf").open("a") as file:
            file.write(f"port = {make_url(self.url).port}\n")
            file.write(f"unix_socket_directories = '{self.folder}'\n")
        self.start()

    def promote(self) -> None:
        """Make a standby accept writes."""
        self._control("promote")

    def set_synchronous(self, wait: bool) -> None:
        """Decide whether commits wait for a standby; this takes effect at the next reload."""
        file = Path(self.folder, "data", "synchronous.conf")
        file.write_text(f"synchronous_standby_names = '{'*' if wait else ''}'\n")

    def reload(self) -> None:
        """Read the settings again."""
        self._control("reload")

    def _control(self, *command: str) -> None:
        data = ["-D", f"{self.folder}/data", "-l", f"{self.folder}/log", "-w", "-s"]
        _as(self.user, postgres_program("pg_ctl"), *command, *data)


@contextmanager
def cluster(*, connections: int = 100) -> Iterator[Cluster]:
    """Run a PostgreSQL server with this number of connections in its own folder.

    PostgreSQL refuses to run as root; then it runs as the user `postgres`.
    """
    user = "postgres" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory() as folder:
        if user:
            shutil.chown(folder, user)
        port = free_port()
        made = Cluster(f"postgresql+psycopg://crmhub@127.0.0.1:{port}/postgres", folder, user)
        _as(user, postgres_program("initdb"), "-D", f"{folder}/data", "-U", "crmhub", "-A", "trust")
        settings = {
            "port": str(port),
            "listen_addresses": "'127.0.0.1'",
            "unix_socket_directories": f"'{folder}'",
            "max_connections": str(connections),
        }
        with Path(folder, "data", "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())
            file.write("include_if_exists = 'synchronous.conf'\n")
        made.start()
        try:
            yield made
        finally:
            with suppress(subprocess.CalledProcessError):  # it may have been killed
                made.stop()


def postgres_program(name: str) -> str:
    """Return the path of one of PostgreSQL's server programs; raises SystemExit without it."""
    found = shutil.which(name)
    if found is None and (config := shutil.which("pg_config")):
        folder = subprocess.run([config, "--bindir"], check=True, capture_output=True, text=True)
        found = shutil.which(name, path=folder.stdout.strip())
    if found is None:
        raise SystemExit(f"{name} was not found; install PostgreSQL's server programs")
    return found


def _as(user: str | None, *command: str) -> None:
    # Not a pipe: the server that pg_ctl starts would keep it open.
    subprocess.run(command, check=True, cwd="/", user=user, stdout=subprocess.DEVNULL)


@contextmanager
def fake_crm(
    *, port: int = 0, limit: str = NO_LIMIT, latency: float = 0.0, more: Sequence[str] = ()
) -> Iterator[Crm]:
    """Run a HubSpot-like CRM, by default without limits; `more` are further options."""
    port = port or free_port()
    command = [sys.executable, "-m", "crmhub", "fake", "hubspot", "--port", str(port)]
    command += ["--token", TOKEN, "--limit", limit, "--latency", str(latency)]
    process = subprocess.Popen(
        [*command, "--search-limit", "none", *more], stdout=subprocess.DEVNULL
    )
    try:
        wait_for(port, process)
        yield Crm(f"http://127.0.0.1:{port}")
    finally:
        process.kill()
        process.wait()


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a process listens on its port; raises SystemExit if the process ends instead."""
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        if (code := process.poll()) is not None:
            raise SystemExit(f"{process.args!r} did not start: it ended with {code}")
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.01)
    raise SystemExit(f"{process.args!r} did not listen within {_PATIENCE_S:.0f} s")


def end(process: subprocess.Popen[bytes]) -> None:
    """Stop a process with SIGTERM, and kill it if it does not end."""
    process.terminate()
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
