"""Read and write TOML files that declare accounts (`config/accounts.toml`).

A table's name is the client id. Values that a table does not name stay as they are. Secrets are
references: `{ env = "NAME" }` or `{ file = "PATH" }`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crmhub.accounts.field_maps import FieldMap
from crmhub.errors import BadRequest, Semantic
from crmhub.operators.crm import field_map_reading
from crmhub.operators.crm.set_crm import Crm
from crmhub.secrets import read_secret
from crmhub.settings import SettingsError, read_toml

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_SECRET_REMEDY = 'give { env = "NAME" } or { file = "PATH" }'
_TYPES = {
    str: 'a text in ""',
    bool: "true or false",
    dict: "a table",
    int: "a whole number",
    list: "a list",
}
_OWNER = {"owner": str, "name": str, "email": str}
_TEAM = {"rotation": str, "fallback": dict, "days_off": str, "members": list}
_MEMBER = {
    **_OWNER,
    "weight": int,
    "hours": str,
    "time_zone": str,
    "days_off": str,
    "open_deals": int,
    "leads_per_day": int,
}


@dataclass(frozen=True, slots=True)
class Declared:
    """An account as a file declares it; missing values and None stay as they are."""

    client_id: str
    values: Mapping[str, Any]
    disabled: bool | None
    crm: Crm | None = field(repr=False)
    field_map: FieldMap | None = None
    teams: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def read(path: Path, environment: Mapping[str, str]) -> list[Declared]:
    """Paths of secrets are relative to the file's directory. Raises SettingsError, all faults."""
    reader = _Reader(path, environment)
    declared = [reader.account(client_id, table) for client_id, table in read_toml(path).items()]
    if reader.problems:
        raise SettingsError(reader.problems)
    return declared


class _Reader:
    """Reads the tables of an accounts file; messages about faults are added to `problems`."""

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
        types = {"name": str, "plan": str, "disabled": bool, "switches": dict, "connection": dict}
        types["teams"] = dict
        table = self._table(client_id, table, types)
        switches = self._switches(f"{client_id}.switches", table.pop("switches", {}))
        teams = {
            name: self._team(f"{client_id}.teams.{name}", team)
            for name, team in table.pop("teams", {}).items()
        }
        connection, disabled = table.pop("connection", None), table.pop("disabled", None)
        crm = field_map = None
        if connection is not None:
            where = f"{client_id}.connection"
            field_map = self._field_map(where, connection.pop("field_map", None))
            crm = self._crm(where, connection)
        return Declared(client_id, {**table, **switches}, disabled, crm, field_map, teams)

    def _team(self, where: str, given: Any) -> dict[str, Any]:
        """Return the entries of the right types; their values are checked later."""
        if not isinstance(given, dict):
            self._add_fault(where, "it", "must be a table")
            return {}
        team = self._table(where, given, _TEAM)
        if "fallback" in team:
            team["fallback"] = self._owner(f"{where}.fallback", team["fallback"], _OWNER)
        if "members" in team:
            every = (self._owner(f"{where}.members", one, _MEMBER) for one in team["members"])
            team["members"] = [one for one in every if one]
        return team

    def _owner(self, where: str, given: Any, types: Mapping[str, type]) -> dict[str, Any]:
        """Return {} for an empty table, and for one without an owner, which is a fault."""
        table = self._table(where, given if isinstance(given, dict) else {"": given}, types)
        if "owner" not in table and given != {}:
            self._add_fault(where, "owner", "is missing; give the owner's id in the CRM")
        return table if "owner" in table else {}

    def _switches(self, where: str, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return the valid entries; whether the switches exist is checked later."""
        switches = {}
        for name, value in table.items():
            if name in ("name", "plan", "disabled"):
                self._add_fault(where, name, "is no switch; put it into the table above")
            elif isinstance(value, dict | list):
                self._add_fault(where, name, "must be a text, a number, or true or false")
            elif name == "portal_alias" and not isinstance(value, str):
                self._add_fault(where, name, 'must be a text in ""')
            else:
                switches[name] = value
        return switches

    def _field_map(self, where: str, given: Any) -> FieldMap | None:
        try:
            return None if given is None else field_map_reading.read(given)
        except (BadRequest, Semantic) as exc:
            self._add_fault(where, "field_map", exc.message)
            return None

    def _crm(self, where: str, table: Mapping[str, Any]) -> Crm | None:
        table = self._table(where, table, {"adapter": str, "settings": dict, "secrets": dict})
        if "adapter" not in table:
            self._add_fault(where, "adapter", 'is missing; name the CRM, such as adapter = "local"')
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
        self, where: str, table: Mapping[str, Any], types: Mapping[str, type]
    ) -> dict[str, Any]:
        entries = {}
        for name, value in table.items():
            if name not in types:
                known = ", ".join(types)
                self._add_fault(where, name, f"there is no such entry; known are {known}")
            elif not isinstance(value, types[name]):
                self._add_fault(where, name, f"must be {_TYPES[types[name]]}")
            else:
                entries[name] = value
        return entries

    def _setting(self, where: str, name: str, value: Any) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str | int):
            return str(value)
        self._add_fault(where, name, "must be a text, a whole number, or true or false")
        return ""

    def _secret(self, where: str, name: str, reference: Any) -> str:
        if reference == "":
            return ""
        if isinstance(reference, str):
            # The message omits the text, which may be the secret itself.
            fault = f"a secret does not belong into this file; {_SECRET_REMEDY}"
            self._add_fault(where, name, fault)
            return ""
        match reference:
            case {"env": str(source)} if source and len(reference) == 1:
                return self._from_environment(where, name, source)
            case {"file": str(source)} if source and len(reference) == 1:
                return self._from_file(where, name, source)
        self._add_fault(where, name, f"does not say where the secret is; {_SECRET_REMEDY}")
        return ""

    def _from_environment(self, where: str, name: str, variable: str) -> str:
        secret = self.environment.get(variable, "").strip()
        if not secret:
            self._add_fault(where, name, f"the environment variable {variable} is not set")
        return secret

    def _from_file(self, where: str, name: str, source: str) -> str:
        file = self.path.parent / os.path.expanduser(source)
        try:
            with file.open(encoding="utf-8") as opened:
                secret = read_secret(opened)
        except (OSError, ValueError) as exc:
            reason = getattr(exc, "strerror", None) or exc
            self._add_fault(where, name, f"{file} cannot be read: {reason}")
            return ""
        if not secret:
            self._add_fault(where, name, f"{file} is empty")
        return secret

    def _add_fault(self, where: str, name: str, fault: str) -> None:
        self.problems.append(f"{self.path}: [{where}] {name}: {fault}.")


def table_text(path: Sequence[str], values: Mapping[str, Any]) -> str:
    """Return a TOML table as text: the header for `path` and a line for each value."""
    lines = [f"{_key(name)} = {_value(value)}" for name, value in values.items()]
    return "\n".join([f"[{'.'.join(map(_key, path))}]", *lines])


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        entries = ", ".join(f"{_key(name)} = {_value(entry)}" for name, entry in value.items())
        return f"{{ {entries} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    # JSON is valid TOML, except for one control character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
