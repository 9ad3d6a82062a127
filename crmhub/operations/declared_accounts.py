"""Accounts as a file declares them (`config/accounts.toml`), applied as often as one likes.

A table stands for an account, by its client id. What a table does not name stays as it is, and so
does an account that no table stands for. A secret is never in the file, only where it is to be
found: `{ env = "NAME" }` or `{ file = "PATH" }`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from crmhub.accounts import accounts, field_maps
from crmhub.accounts.accounts import Account
from crmhub.accounts.changes import IssuedIds
from crmhub.accounts.field_maps import FieldMap
from crmhub.audit import Author
from crmhub.database.connection import Connection
from crmhub.errors import BadRequest, Conflict, NotFound, Semantic
from crmhub.hub import Hub
from crmhub.operations import change_account, map_fields
from crmhub.operations.change_account import Crm
from crmhub.operations.open_account import open_account
from crmhub.operations.switch_crm import Decision
from crmhub.secrets import read_secret
from crmhub.settings import SettingsError, read_toml

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_NOT_SET = "not set"


@dataclass(frozen=True, slots=True)
class Declared:
    """An account as a file declares it; what is None the file leaves as it is."""

    client_id: str
    values: Mapping[str, Any]
    disabled: bool | None
    crm: Crm | None = field(repr=False)
    field_map: FieldMap | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an account: what it was opened with, and what differs, as (name, was, is)."""

    client_id: str
    opened: IssuedIds | None
    differences: tuple[tuple[str, Any, Any], ...]


# --- reading -----------------------------------------------------------------------------------


def read(path: Path, environment: Mapping[str, str]) -> list[Declared]:
    """Return the accounts of a file, with the secrets that it refers to.

    Paths of files are relative to the directory of this one. Raises SettingsError naming the
    file, the table and the key of every fault.
    """
    reader = _Reader(path, environment)
    found = [reader.account(client_id, table) for client_id, table in read_toml(path).items()]
    if reader.problems:
        raise SettingsError(reader.problems)
    return found


class _Reader:
    """Reads the tables of a file, and collects what is wrong with them."""

    def __init__(self, path: Path, environment: Mapping[str, str]) -> None:
        self.path = path
        self.environment = environment
        self.problems: list[str] = []

    def account(self, client_id: str, table: Any) -> Declared:
        if not isinstance(table, dict):
            self.problems.append(
                f"{self.path}: {client_id} stands outside a table; put it under [client id]."
            )
            table = {}
        known = {"name": str, "plan": str, "disabled": bool, "switches": dict, "connection": dict}
        table = self._table(client_id, table, known)
        switches = self._switches(f"{client_id}.switches", table.pop("switches", {}))
        connection, disabled = table.pop("connection", None), table.pop("disabled", None)
        crm = field_map = None
        if connection is not None:
            where = f"{client_id}.connection"
            field_map = self._field_map(where, connection.pop("field_map", None))
            crm = self._crm(where, connection)
        return Declared(client_id, {**table, **switches}, disabled, crm, field_map)

    def _switches(self, where: str, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return switches; which there are, and what they take, is asked when they are set."""
        right = {}
        for name, value in table.items():
            if name in ("name", "plan", "disabled"):
                self._wrong(where, name, "is no switch; put it into the table above")
            elif isinstance(value, dict | list):
                self._wrong(where, name, "must be a text, a number, or true or false")
            elif name == "portal_alias" and not isinstance(value, str):
                self._wrong(where, name, 'must be a text in ""')
            else:
                right[name] = value
        return right

    def _field_map(self, where: str, given: Any) -> FieldMap | None:
        try:
            return None if given is None else field_maps.read(given)
        except (BadRequest, Semantic) as exc:
            self._wrong(where, "field_map", exc.message)
            return None

    def _crm(self, where: str, table: Mapping[str, Any]) -> Crm | None:
        table = self._table(where, table, {"adapter": str, "settings": dict, "secrets": dict})
        if "adapter" not in table:
            self._wrong(where, "adapter", 'is missing; name the CRM, such as adapter = "local"')
            return None
        settings = {
            name: self._setting(f"{where}.settings", name, value)
            for name, value in table.get("settings", {}).items()
        }
        secrets = {
            name: self._secret(f"{where}.secrets", name, value)
            for name, value in table.get("secrets", {}).items()
        }
        return Crm(table["adapter"], settings, secrets, whole=True)

    def _table(
        self, where: str, table: Mapping[str, Any], known: Mapping[str, type]
    ) -> dict[str, Any]:
        """Return what is known of a table and of the right type."""
        words = {str: 'a text in ""', bool: "true or false", dict: "a table"}
        right = {}
        for name, value in table.items():
            if name not in known:
                self._wrong(where, name, f"there is no such entry; known are {', '.join(known)}")
            elif not isinstance(value, known[name]):
                self._wrong(where, name, f"must be {words[known[name]]}")
            else:
                right[name] = value
        return right

    def _setting(self, where: str, name: str, value: Any) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str | int):
            return str(value)
        self._wrong(where, name, "must be a text, a whole number, or true or false")
        return ""

    def _secret(self, where: str, name: str, value: Any) -> str:
        """Return the secret that a reference leads to; "" stands for none."""
        right = 'give { env = "NAME" } or { file = "PATH" }'
        if value == "":
            return ""
        if isinstance(value, str):
            # Not repeated: it may be the secret itself.
            self._wrong(where, name, f"a secret does not belong into this file; {right}")
            return ""
        if not isinstance(value, dict) or len(value) != 1 or not value.keys() <= {"env", "file"}:
            self._wrong(where, name, f"does not say where the secret is; {right}")
            return ""
        [(kind, source)] = value.items()
        if not isinstance(source, str) or not source:
            self._wrong(where, name, f"does not say where the secret is; {right}")
            return ""
        read = self._of_environment if kind == "env" else self._of_file
        return read(where, name, source)

    def _of_environment(self, where: str, name: str, variable: str) -> str:
        secret = self.environment.get(variable, "").strip()
        if not secret:
            self._wrong(where, name, f"the environment variable {variable} is not set")
        return secret

    def _of_file(self, where: str, name: str, source: str) -> str:
        file = self.path.parent / os.path.expanduser(source)
        try:
            with file.open(encoding="utf-8") as opened:
                secret = read_secret(opened)
        except (OSError, ValueError) as exc:
            reason = getattr(exc, "strerror", None) or exc
            self._wrong(where, name, f"{file} cannot be read: {reason}")
            return ""
        if not secret:
            self._wrong(where, name, f"{file} is empty")
        return secret

    def _wrong(self, where: str, name: str, what: str) -> None:
        self.problems.append(f"{self.path}: [{where}] {name}: {what}.")


# --- applying ----------------------------------------------------------------------------------


class _Rehearsed(Exception):
    """Carries what would be done out of a transaction that is undone."""

    def __init__(self, outcomes: list[Outcome]) -> None:
        super().__init__()
        self.outcomes = outcomes


def rehearse(
    hub: Hub,
    path: Path,
    declared: Sequence[Declared],
    *,
    by: Author,
    queued: Decision | None = None,
) -> list[Outcome]:
    """Return what `apply` would do, for each account of which something differs; raises as it."""

    def work(tx: Connection) -> None:
        raise _Rehearsed(_applied(hub, path, declared, by, queued))

    try:
        hub.database.transact(work)
    except _Rehearsed as done:
        return done.outcomes
    raise AssertionError("unreachable")


def apply(
    hub: Hub,
    path: Path,
    declared: Sequence[Declared],
    *,
    by: Author,
    queued: Decision | None = None,
) -> list[Outcome]:
    """Make accounts what is declared, all or none; return each of which something differed.

    `queued` says what becomes of what is queued for a CRM that an account leaves. Raises
    SettingsError naming the file and the table of every fault.
    """
    return hub.database.transact(lambda tx: _applied(hub, path, declared, by, queued))


def _applied(
    hub: Hub, path: Path, declared: Sequence[Declared], by: Author, queued: Decision | None
) -> list[Outcome]:
    outcomes, problems = [], []
    for one in declared:
        try:
            # What fails undoes itself alone, so that the faults of the others are told, too.
            outcomes.append(hub.database.transact(partial(_one, hub, one, by, queued)))
        except (Conflict, Semantic) as exc:
            problems.append(f"{path}: [{one.client_id}] {exc.message}")
    if problems:
        raise SettingsError(problems)
    return [one for one in outcomes if one.opened or one.differences]


def _one(
    hub: Hub, declared: Declared, by: Author, queued: Decision | None, tx: Connection
) -> Outcome:
    client_id, opened = declared.client_id, None
    try:
        account = accounts.load(tx, client_id, hub.plans)
    except NotFound:
        account, opened = open_account(
            hub,
            name=declared.values.get("name", client_id),
            client_id=client_id,
            adapter=declared.crm.adapter if declared.crm else "local",
            plan=declared.values.get("plan", "default"),
            by=by,
        )
    before = change_account.facts(tx, account)
    changed = change_account.change(
        hub, client_id, declared.values, disabled=declared.disabled, under="switches.", by=by
    )
    differences = _differences(before, change_account.facts(tx, changed))
    if declared.crm is not None:
        differences += _connect(
            hub, account, declared.crm, by, new=opened is not None, queued=queued
        )
    if declared.field_map is not None:
        differences += _mapped(hub, client_id, declared.field_map, by)
    return Outcome(client_id, opened, tuple(differences))


def _connect(
    hub: Hub, account: Account, crm: Crm, by: Author, *, new: bool, queued: Decision | None
) -> list[tuple[str, Any, Any]]:
    """Set the CRM of an account where it is another one; return what differs.

    That of a new account is set in any case, and so checked for what it lacks.
    """
    same = account.connection.adapter == crm.adapter
    stored = change_account.credentials_of(hub, account) if same else {}
    # Given again, a secret that is stored would make the adapter forget what it keeps itself.
    credentials = {
        name: value for name, value in crm.credentials.items() if value != stored.get(name, "")
    }
    settings = {name: value for name, value in crm.settings.items() if value}
    if not new and same and not credentials and settings == dict(account.connection.settings):
        return []
    crm = Crm(crm.adapter, settings, credentials, whole=True)
    changed = change_account.set_crm(hub, account.client_id, crm, ask=False, queued=queued, by=by)
    was, became = change_account.connections(hub, account, changed)
    return _differences(_flat(was), _flat(became))


def _mapped(
    hub: Hub, client_id: str, field_map: FieldMap, by: Author
) -> list[tuple[str, Any, Any]]:
    before = change_account.find(hub, client_id).connection.field_map
    map_fields.set_field_map(hub, client_id, field_map, ask=False, by=by)
    was, became = (
        {f"connection.field_map.{path}": rule for path, rule in one.flat().items()}
        for one in (before, field_map)
    )
    return _differences(was, became)


def _flat(connection: Mapping[str, Any]) -> dict[str, Any]:
    flat = {"connection.adapter": connection["adapter"]}
    for part in ("settings", "secrets"):
        flat |= {f"connection.{part}.{name}": each for name, each in connection[part].items()}
    return flat


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    return [
        (name, before.get(name, _NOT_SET), after.get(name, _NOT_SET))
        for name in {**before, **after}
        if before.get(name, _NOT_SET) != after.get(name, _NOT_SET)
    ]


# --- exporting ---------------------------------------------------------------------------------


def export(hub: Hub, client_ids: Sequence[str] = ()) -> str:
    """Return accounts, all without ids, as a file that `read` takes.

    A secret becomes a reference to an environment variable with a name made for it. Raises
    NotFound and Unreadable.
    """
    with hub.database.reading() as db:
        # One by one: an account that cannot be read must not be missing unseen.
        found = [
            accounts.load(db, client_id, hub.plans)
            for client_id in client_ids or accounts.client_ids(db)
        ]
        facts = [change_account.facts(db, account) for account in found]
    variables: set[str] = set()
    parts = [
        "# Accounts, as `crmhub account apply` takes them. Keys and webhook ids belong to the\n"
        "# installation and are not here; put the secrets where the references lead."
    ]
    for account, each in zip(found, facts, strict=True):
        parts += _tables(hub, account, each, variables)
    return "\n\n".join(parts) + "\n"


def _tables(hub: Hub, account: Account, facts: dict[str, Any], variables: set[str]) -> list[str]:
    """Return the tables of an account, as the file has them."""
    name = account.client_id
    own = {key: facts.pop(key) for key in ("name", "plan", "disabled")}
    connection = account.connection
    tables = [
        _written([name], own),
        _written([name, "switches"], facts),
        _written([name, "connection"], {"adapter": connection.adapter}),
    ]
    if connection.settings:
        tables.append(_written([name, "connection", "settings"], connection.settings))
    secrets = {
        secret: {"env": _variable(f"SECRET_{name}_{secret}", variables)}
        for secret in change_account.detail(hub, name).secrets or ()
    }
    if secrets:
        tables.append(_written([name, "connection", "secrets"], secrets))
    for kind, rules in connection.field_map.plain().items():
        if rules:
            tables.append(_written([name, "connection", "field_map", kind], rules))
    return tables


def _variable(wanted: str, taken: set[str]) -> str:
    """Return a name for an environment variable that no other secret has."""
    stem = re.sub("[^A-Z0-9]", "_", wanted.upper())
    name, number = stem, 2
    while name in taken:
        name, number = f"{stem}_{number}", number + 1
    taken.add(name)
    return name


def _written(path: Sequence[str], values: Mapping[str, Any]) -> str:
    lines = [f"{_key(name)} = {_value(value)}" for name, value in values.items()]
    return "\n".join([f"[{'.'.join(map(_key, path))}]", *lines])


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return (
            f"{{ {', '.join(f'{_key(name)} = {_value(each)}' for name, each in value.items())} }}"
        )
    # JSON writes these as TOML reads them, but for one control character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
