"""The switches of an account, with which operators adjust its helpers and writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from crmhub.accounts.rotations import read_rotation
from crmhub.errors import Semantic, listed

_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    strict: bool = False
    """One bad property refuses the whole helper call, instead of being left out and named."""
    soft_errors: bool = False
    """Helpers answer errors with status 200, for builders that show nothing of others."""
    require_secret: bool = False
    """Every helper call must carry the account's secret in `X-Webhook-Secret`."""
    bare_tokens: bool = True
    """getProperties and setProperties may find the account by the contactToken alone."""
    lead_requires: Literal["email", "email_or_phone"] = "email"
    """What createLead needs beside the name."""
    deadline_s: float = 3.0
    """Within how many seconds a helper call must be answered."""
    region: str = ""
    """Where phone numbers without country code belong: two letters of ISO 3166, or none."""
    auto_define_properties: bool = False
    """The public API defines unknown properties as text instead of refusing them."""
    rotation: str = "random"
    """How getRandomInt with an account chooses; `accounts.rotations` reads it."""
    phone_identifies: bool = False
    """A lead's phone decides before its conversation, for channels that know people by phone."""

    @classmethod
    def from_json(cls, text: str) -> Switches:
        """Return switches stored by `to_json`; names unknown to this version are ignored."""
        names = {field.name for field in fields(cls)}
        stored: dict[str, Any] = json.loads(text)
        return cls(**{name: value for name, value in stored.items() if name in names})

    def to_json(self) -> str:
        """Return the switches that differ from their defaults."""
        defaults = Switches()
        names = (field.name for field in fields(self))
        return json.dumps(
            {
                name: getattr(self, name)
                for name in names
                if getattr(self, name) != getattr(defaults, name)
            }
        )

    def changed(self, values: Mapping[str, Any]) -> Switches:
        """Return these switches with `values` (texts, or JSON values) set.

        Raises Semantic naming every unknown switch and every value that does not fit.
        """
        read, problems = read_switches(values)
        if problems:
            raise Semantic(listed(problems))
        return replace(self, **read)


def read_switches(
    values: Mapping[str, Any], *, beside: Sequence[str] = ()
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return parsed values, and a list of (name, reason) for invalid ones.

    `beside` are other names the caller takes, for the message about an unknown one.
    """
    parsed: dict[str, Any] = {}
    problems: list[tuple[str, str]] = []
    for name, value in values.items():
        if name not in READERS:
            allowed = ", ".join([*READERS, *beside])
            problems.append((name, f"there is no such switch; known are {allowed}"))
            continue
        try:
            parsed[name] = READERS[name](value)
        except ValueError as exc:
            problems.append((name, str(exc)))
    return parsed, problems


def _bool(value: Any) -> bool:
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"{value!r} is neither true nor false")


def _one_of(*allowed: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        text = str(value).strip()
        if text not in allowed:
            raise ValueError(f"{value!r} is not one of {', '.join(allowed)}")
        return text

    return read


def _deadline(value: Any) -> float:
    try:
        seconds = float(str(value))
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 25:
        raise ValueError(f"{value!r} is not a number of seconds from 1 to 25")
    return seconds


def _region(value: Any) -> str:
    region = str(value).strip().upper()
    if region and region not in _regions():
        raise ValueError(
            f"{value!r} is not a region; give two letters of ISO 3166 such as DE or US, "
            "or nothing for none"
        )
    return region


def _regions() -> set[str]:
    # Imported here because it is large and only this function needs it.
    import phonenumbers

    return set(phonenumbers.SUPPORTED_REGIONS)


def _rotation(value: Any) -> str:
    return str(read_rotation(str(value)))


READERS: Mapping[str, Callable[[Any], Any]] = {
    "strict": _bool,
    "soft_errors": _bool,
    "require_secret": _bool,
    "bare_tokens": _bool,
    "lead_requires": _one_of("email", "email_or_phone"),
    "deadline_s": _deadline,
    "region": _region,
    "auto_define_properties": _bool,
    "rotation": _rotation,
    "phone_identifies": _bool,
}
"""What each switch takes; raises ValueError saying what would be right."""
