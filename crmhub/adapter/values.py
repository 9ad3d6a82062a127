"""The data types that the hub and its adapters exchange: records, definitions, settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from crmhub.adapter.errors import Problem

_RECORD_ID = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)
_LARGEST_RECORD_ID = 2**53 - 1


def is_record_id(text: str) -> bool:
    """Return whether a text is a record id of the hub, exactly as the hub writes it."""
    return _RECORD_ID.fullmatch(text) is not None and int(text) <= _LARGEST_RECORD_ID


Outcome = Literal["created", "updated", "unchanged"]
Linked = Literal["deals", "tickets"]
"""The kinds of records that are created for a contact."""
Written = Literal["contacts", "deals", "tickets"]
"""The kinds of records that helpers create."""
Kind = Literal["contacts", "deals", "companies", "tickets"]


@dataclass(frozen=True, slots=True)
class Contact:
    """A contact as the CRM stores it.

    `properties` has a key for each requested name that exists in the CRM, with `""` for a missing
    value. Names that do not exist in the CRM are left out.
    """

    id: str
    properties: Mapping[str, str]
    url: str = ""


@dataclass(frozen=True, slots=True)
class Saved:
    """The result of a write.

    `id` is the record's id in the CRM, and `url` the address of its page, if it has one. `refused`
    holds properties that the adapter left out.
    """

    id: str
    outcome: Outcome
    url: str = ""
    refused: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """The properties that an update must write, and those that the CRM would silently ignore."""

    properties: Mapping[str, str]
    refused: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class ContactWrite:
    """One write of a batch: an update of `contact_id`, or a create under `mark` if it is ""."""

    contact_id: str
    properties: Mapping[str, str]
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """One option of a property: `value` is written, `label` is shown."""

    value: str
    label: str


PropertyType = Literal[
    "string",
    "text",
    "number",
    "currency",
    "date",
    "datetime",
    "bool",
    "enumeration",
    "multi_enumeration",
    "email",
    "phone",
    "url",
]


@dataclass(frozen=True, slots=True)
class Described:
    """A property's definition in the CRM; empty `options` mean that any value is accepted."""

    name: str
    label: str
    type: PropertyType
    options: tuple[Choice, ...] = ()
    read_only: bool = False
    required: bool = False


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline and its stages, in their order."""

    id: str
    label: str
    stages: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Owner:
    """A CRM user to whom records can be assigned."""

    id: str
    email: str
    name: str


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a connection, from which forms and checks are generated.

    A `secret` setting is encrypted when stored and never shown again. A `required` setting must be
    given; `Adapter.clash` checks combinations. The adapter itself writes a `kept` setting with
    `save_credentials`: operators are not asked for it, and it is deleted when they change a
    credential.
    """

    name: str
    label: str
    type: Literal["string", "url", "integer", "boolean"] = "string"
    help: str = ""
    default: str = ""
    choices: tuple[str, ...] = ()
    secret: bool = False
    required: bool = False
    kept: bool = False

    def fault(self, value: str) -> str:
        """Return why `value` is invalid, or `""`; the reason never repeats a secret."""
        shown = "the value given" if self.secret else repr(value)
        if self.choices and value not in self.choices:
            return f"{shown} is not one of {', '.join(self.choices)}"
        if self.type == "url" and not value.startswith(("https://", "http://")):
            return f"{shown} is not an address; give one that starts with https://"
        if self.type == "integer" and not (value.isascii() and value.isdigit()):
            return f"{shown} is not a whole number"
        if self.type == "boolean" and value not in ("true", "false"):
            return f"{shown} is neither true nor false"
        return ""
