"""Plans: the rate limits and record quotas of accounts, read from the file `plans.toml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from crmhub.settings import SettingsError, read_toml
from crmhub.translatable import translatable

RESOURCES = ("contacts", "deals", "companies", "tickets")

_RATE = re.compile(r"([0-9]{1,9})\s*/\s*([0-9]{0,6})\s*([smh])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600}
# A moving window remembers every call in it, so a window of days would cost memory, not protect.
_LONGEST_WINDOW = 3600
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)
_LARGEST_QUOTA = 2**53


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate limit: at most `count` calls in any period of `seconds` seconds."""

    count: int
    seconds: int

    def __str__(self) -> str:
        return f"{self.count}/{self.seconds}s"


_STANDARD_RATE = Rate(1000, 10)


@dataclass(frozen=True, slots=True)
class Plan:
    """The limits of the accounts with this plan; a rate limit of None does not apply."""

    name: str
    rate_limit: Rate | None = _STANDARD_RATE
    key_rate_limit: Rate | None = None
    quotas: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """The most live records an account may have, by resource name; others are unlimited."""


BUILT_IN: Mapping[str, Plan] = MappingProxyType(
    {
        "default": Plan("default"),
        "unlimited": Plan("unlimited", rate_limit=None),
        "free": Plan(
            "free",
            rate_limit=Rate(100, 10),
            quotas=MappingProxyType(
                {"contacts": 1000, "deals": 100, "companies": 100, "tickets": 100}
            ),
        ),
    }
)


def load_plans(path: Path | None) -> Mapping[str, Plan]:
    """The file's plans take precedence over built-in ones. Raises SettingsError with all faults."""
    if path is None:
        return BUILT_IN
    problems: list[str] = []
    tables = read_toml(path).items()
    plans = {name: _plan(path, name, table, problems) for name, table in tables}
    if problems:
        raise SettingsError(problems)
    return MappingProxyType({**BUILT_IN, **plans})


def parse_rate(text: Any) -> Rate | None:
    """Such as `"100/10s"`, or "" for none; raises ValueError."""
    if text == "":
        return None
    match = _RATE.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ValueError(
            translatable(
                '%(text)s is not a rate; give calls/time such as "100/10s" or "60/m"',
                text=repr(text),
            )
        )
    rate = Rate(int(match[1]), int(match[2] or "1") * _SECONDS[match[3]])
    if rate.count < 1 or not 1 <= rate.seconds <= _LONGEST_WINDOW:
        raise ValueError(
            translatable(
                "%(text)s is out of range; give at least 1 call, and 1s to 1h", text=repr(text)
            )
        )
    return rate


def _plan(path: Path, name: str, table: Any, problems: list[str]) -> Plan:
    """Messages about faults are appended to `problems`."""
    where = f"{path}: [{name}]"
    if not isinstance(table, dict):
        problems.append(f"{path}: {name} stands outside a table; put it under a [plan name].")
        return Plan(name)
    if not _NAME.fullmatch(name):
        problems.append(f"{where}: a plan's name is lower-case letters, digits, - and _.")
    rates: dict[str, Rate | None] = {}
    quotas: dict[str, int] = {}
    for key, value in table.items():
        try:
            if key in ("rate_limit", "key_rate_limit"):
                rates[key] = parse_rate(value)
            elif key in RESOURCES:
                if type(value) is not int or not 0 <= value <= _LARGEST_QUOTA:
                    remedy = "give a whole number from 0 on"
                    raise ValueError(
                        translatable(
                            "%(value)s is not a number of records; %(remedy)s",
                            value=repr(value),
                            remedy=remedy,
                        )
                    )
                quotas[key] = value
            else:
                allowed = ", ".join(("rate_limit", "key_rate_limit", *RESOURCES))
                problems.append(f"{where} {key}: there is no such entry; known are {allowed}.")
        except ValueError as exc:
            problems.append(f"{where} {key}: {exc}.")
    return Plan(name, **rates, quotas=MappingProxyType(quotas))
