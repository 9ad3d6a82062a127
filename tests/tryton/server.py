"""A real Tryton 8.2 for the tests: processes of `.venv-tryton`, and databases on PostgreSQL.

A database with the modules, a company, a user for the hub and a project is made once for each set
of versions, which takes a minute or two, and kept as a template; each server gets a copy.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.client
import inspect
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from sqlalchemy.engine import make_url

from benchmarks.places import administer, free_port
from crmhub.secrets import BASE36, token
from tests import databases

HERE = Path(__file__).parent
ADMIN, ADMIN_PASSWORD = "admin", "the admin of the tests"
USER, PASSWORD = "crmhub", "the hub's own of the tests"
POWERLESS = "powerless"
"""The login of a user without any group; the password is that of the hub's user."""
PROJECT, OTHER_PROJECT, TASKS = "Support", "Second level", "To do"
_MODULES = ("company", "party", "project", "sale_opportunity")
_PATIENCE_S = 240.0
# After n failed logins Tryton delays each by up to 2 ** n - 1 s, and the conformance tests send
# many wrong passwords. Deferred, since Tryton reads the row again before it commits.
_FORGET_FAILED_LOGINS = """
    create function forget_failed_login() returns trigger language plpgsql as
    $$begin delete from res_user_login_attempt where id = new.id; return null; end$$;
    create constraint trigger forget_failed_login after insert on res_user_login_attempt
    deferrable initially deferred for each row execute function forget_failed_login();
"""
# Of the advisory lock under which the template is made.
_LOCK = 0x7472_7974_6F6E


class Refused(Exception):
    """Tryton answered a call with an error."""


class Rpc:
    """A client of Tryton's JSON-RPC that is no part of the hub, for one user of one database."""

    def __init__(self, port: int, database: str, user: str, password: str) -> None:
        self._port, self._database = port, database
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "gzip"}
        user_id, key, *_ = self.send("common.db.login", [user, {"password": password}])
        session = base64.b64encode(f"{user}:{user_id}:{key}".encode()).decode()
        self._headers["Authorization"] = f"Session {session}"
        held = self.call("res.user", "get_preferences", True)
        self._context = {name: held[name] for name in ("company", "employee") if held.get(name)}

    def send(self, method: str, params: list[Any]) -> Any:
        """Return the result of a method; raises Refused."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_PATIENCE_S)
        with closing(connection):
            body = json.dumps({"id": 1, "method": method, "params": params})
            connection.request("POST", f"/{self._database}/rpc/", body, self._headers)
            response = connection.getresponse()
            content = response.read()
        if response.headers["Content-Encoding"] == "gzip":
            content = gzip.decompress(content)
        answer = json.loads(content) if response.status == 200 else {"error": content}
        if "error" in answer:
            raise Refused(f"{method}: {response.status} {answer['error']}")
        return answer["result"]

    def call(self, of: str, method: str, *params: Any) -> Any:
        """Return the result of a method of the model `of`; raises Refused."""
        context = {**getattr(self, "_context", {}), "language": "en"}
        return self.send(f"model.{of}.{method}", [*params, context])


class Tryton:
    """A Tryton server with a database; `url` is its address.

    `phonenumbers` says whether the server has that library, with which it checks phones and stores
    them in a notation of its own.
    """

    def __init__(self, database: str, *, phonenumbers: bool = False) -> None:
        self.database = database
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._phonenumbers = phonenumbers
        self._directory = TemporaryDirectory(prefix="crmhub-tryton-")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return Path(self._directory.name) / "log"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        command = [program("trytond"), "-c", self.configuration(), "-d", self.database]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=self.environment(), stdout=log, stderr=log, process_group=0
            )
        ends = time.monotonic() + _PATIENCE_S
        while not self._answers():
            assert self._process.poll() is None, self.log.read_text()
            assert time.monotonic() < ends, self.log.read_text()
            time.sleep(0.1)

    def stop(self) -> None:
        """Kill the server; what it has not committed is lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """Stop the server, and remove its files."""
        self.stop()
        self._directory.cleanup()

    def rpc(self, user: str = ADMIN, password: str = ADMIN_PASSWORD) -> Rpc:
        return Rpc(self.port, self.database, user, password)

    def sql(self) -> psycopg.Connection:
        """Return a connection to the database, which commits each statement."""
        return psycopg.connect(f"{_server()}{self.database}", autocommit=True)

    def configuration(self) -> str:
        path = Path(self._directory.name) / "trytond.conf"
        path.write_text(
            f"[database]\nuri = {_server()}\n[web]\nlisten = 127.0.0.1:{self.port}\nroot =\n"
        )
        return str(path)

    def environment(self) -> dict[str, str]:
        names = ("PATH", "HOME", "LANG", "TMPDIR")
        environment = {name: os.environ[name] for name in names if name in os.environ}
        hidden = {} if self._phonenumbers else {"PYTHONPATH": str(HERE / "without_phonenumbers")}
        return environment | hidden

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE_S)
        with closing(connection), suppress(OSError):
            connection.request("GET", "/")
            return connection.getresponse().status > 0
        return False


@contextmanager
def tryton(*, phonenumbers: bool = False) -> Iterator[Tryton]:
    """Start a Tryton with a database of its own, and remove both afterwards."""
    with _copied(_template()) as name:
        server = Tryton(name, phonenumbers=phonenumbers)
        try:
            server.start()
            yield server
        finally:
            server.close()


def program(name: str) -> str:
    return str(databases.TRYTON / "bin" / name)


def _server() -> str:
    """Return the address of the PostgreSQL server as Tryton reads it."""
    url = make_url(databases.POSTGRES).set(drivername="postgresql", database="")
    return url.render_as_string(hide_password=False).rstrip("/") + "/"


@contextmanager
def _copied(template: str) -> Iterator[str]:
    name = f"crmhub_test_{os.getpid()}_{token(40, BASE36)}"
    administer(databases.POSTGRES, f"create database {name} template {template}")
    try:
        administer(databases.POSTGRES, f"alter database {name} set synchronous_commit = off")
        yield name
    finally:
        administer(databases.POSTGRES, f"drop database {name} with (force)")


def _template() -> str:
    """Return the name of the template for these versions; make it if there is none."""
    made_of = "".join(
        ((HERE / "requirements.txt").read_text(), inspect.getsource(_fill), _FORGET_FAILED_LOGINS)
    )
    name = f"crmhub_tryton_template_{hashlib.sha256(made_of.encode()).hexdigest()[:12]}"
    url = make_url(databases.POSTGRES).set(drivername="postgresql")
    with psycopg.connect(url.render_as_string(hide_password=False), autocommit=True) as lock:
        # Another worker or run may be at it; the lock ends with the connection.
        lock.execute("select pg_advisory_lock(%s)", (_LOCK,))
        if not lock.execute("select 1 from pg_database where datname = %s", (name,)).fetchone():
            _make(name)
    return name


def _make(name: str) -> None:
    def administrate(statement: str) -> None:
        administer(databases.POSTGRES, statement)

    unfinished = f"{name}_unfinished"
    administrate(f"drop database if exists {unfinished} with (force)")
    administrate(f"create database {unfinished} encoding 'UTF8' template template0")
    administrate(f"alter database {unfinished} set synchronous_commit = off")
    server = Tryton(unfinished)
    try:
        secret = server.log.parent / "password"
        secret.write_text(ADMIN_PASSWORD)
        command = [program("trytond-admin"), "-c", server.configuration(), "-d", unfinished]
        command += ["--activate-dependencies", "--email", "admin@example.org", "-p"]
        command += ["-u", *_MODULES]
        environment = {**server.environment(), "TRYTONPASSFILE": str(secret)}
        subprocess.run(command, env=environment, check=True, capture_output=True)
        server.start()
        _fill(server.rpc())
        with server.sql() as sql:
            sql.execute(_FORGET_FAILED_LOGINS)
    finally:
        server.close()
    administrate(f"alter database {unfinished} rename to {name}")


def _fill(admin: Rpc) -> None:
    """Make what an operator makes: a company, an employee, users and projects."""
    cent = {"__class__": "Decimal", "decimal": "0.01"}
    euro = {"name": "Euro", "symbol": "€", "code": "EUR", "digits": 2, "rounding": cent}
    currency = admin.call("currency.currency", "create", [euro])[0]
    acme, erin = admin.call(
        "party.party", "create", [{"name": "Acme"}, {"name": "Erin", "email": "erin@example.org"}]
    )
    company = admin.call("company.company", "create", [{"party": acme, "currency": currency}])[0]
    works_at = {"party": erin, "company": company}
    employee = admin.call("company.employee", "create", [works_at])[0]
    names = ["Sale Opportunity", "Project Administration"]
    groups = admin.call("res.group", "search", [["name", "in", names]], 0, None, None)
    at_work = {
        "companies": [["add", [company]]],
        "company": company,
        "employees": [["add", [employee]]],
        "employee": employee,
    }
    hub = {"name": "crmhub", "login": USER, "groups": [["add", groups]], **at_work}
    powerless = {"name": "Nobody", "login": POWERLESS, **at_work}
    admin.call("res.user", "create", [{**one, "password": PASSWORD} for one in (hub, powerless)])
    own = admin.call("res.user", "search", [["login", "=", ADMIN]], 0, None, None)
    admin.call("res.user", "write", own, at_work)
    project = {"type": "project", "company": company}
    admin.call(
        "project.work",
        "create",
        [{"name": name, **project} for name in (PROJECT, OTHER_PROJECT, TASKS)],
    )
