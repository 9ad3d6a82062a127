"""The data types that the hub and its adapters exchange: records, definitions, settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from crmhub.adapter.errors import Problem

_RECORD_ID = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)
_LARGEST_RECORD_ID = 2**53 - 1


def is_record_id(text: str) -> bool:
    """Such ids are decimal numbers from 1 to 2**53 - 1, without leading zeros."""
    return _RECORD_ID.fullmatch(text) is not None and int(text) <= _LARGEST_RECORD_ID


Outcome = Literal["created", "updated", "unchanged"]
Linked = Literal["deals", "tickets"]
"""The kinds of records that are linked to a contact when they are created."""
Written = Literal["contacts", "deals", "tickets"]
"""The kinds of records that the hub creates in a CRM."""
Kind = Literal["contacts", "deals", "companies", "tickets"]


@dataclass(frozen=True, slots=True)
class Contact:
    """`properties` has each requested property that exists in the CRM, `""` without a value."""

    id: str
    properties: Mapping[str, str]
    url: str = ""


@dataclass(frozen=True, slots=True)
class Saved:
    """`url`: the record's page, or "". `refused`: what the adapter did not write, with reasons."""

    id: str
    outcome: Outcome
    url: str = ""
    refused: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """What an update must write; `refused` has properties that the CRM would silently ignore."""

    properties: Mapping[str, str]
    refused: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class ContactWrite:
    """One write of a batch; without `contact_id` a create, which `mark` identifies later."""

    contact_id: str
    properties: Mapping[str, str]
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """A record as `Contact`, of any kind.

    `changed_ms`, `created_ms`: when the CRM last changed and when it created the record
    (milliseconds since 1970; `created_ms` is 0 if it does not say). `links`: the ids of the linked
    records of each kind of which the CRM tells the links here; without a kind, they are unknown.
    """

    id: str
    properties: Mapping[str, str]
    changed_ms: int
    created_ms: int = 0
    links: Mapping[Kind, tuple[str, ...]] = field(default_factory=dict)
    url: str = ""


@dataclass(frozen=True, slots=True)
class ChangedPage:
    """A page of what changed; `next` is the `since` of the next page, which exists if `more`.

    `deleted`: the ids of deleted records. `merged`: the id of each record that was merged into
    another one, with the other's id. `total`: about how many records there are, which the first of
    all pages may tell; None for an unknown number.
    """

    records: tuple[Record, ...]
    next: str
    more: bool
    deleted: tuple[str, ...] = ()
    merged: Mapping[str, str] = field(default_factory=dict)
    total: int | None = None


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """A request of the CRM to the hub, at `url`; the names of headers are in lower case."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Event:
    """A record that a webhook names, because it was created, changed, deleted or merged."""

    kind: Kind
    id: str


@dataclass(frozen=True, slots=True)
class Choice:
    """An option or a stage: the CRM stores `value`, people see `label`."""

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
    """The definition of a property; without `options` it accepts any value of its type.

    `sensitive`: the CRM protects its values as sensitive data; the hub never copies them.
    """

    name: str
    label: str
    type: PropertyType
    options: tuple[Choice, ...] = ()
    read_only: bool = False
    required: bool = False
    sensitive: bool = False


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline for deals or tickets, with its stages in their order."""

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
    """One setting of a connection; forms and checks are generated from it.

    `choices`: the allowed values; empty for any of the type. `secret`: stored encrypted and never
    shown again. `kept`: the adapter itself writes the value with `save_credentials`; operators do
    not enter it, and it is deleted when they change a credential.
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
        """Return why `value` is invalid, or `""`; without the value of a secret setting."""
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


@dataclass(frozen=True, slots=True)
class Step:
    """One sentence of a guide, with a link (or ""), and `codes` to type exactly, such as scopes."""

    text: str
    url: str = ""
    label: str = ""
    codes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Guide:
    title: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class OAuth:
    """How a person connects an account by OAuth 2.0 with an authorization code (RFC 6749, 4.1).

    The hub proves with PKCE (RFC 7636, S256) that both requests are its own.

    - `client_auth`: the token endpoint gets the client's secret in the "body" or as "basic".
    - `parameters`: further query parameters of `authorize_url`.
    - `account_field`: what identifies the account in the token endpoint's answer, or "". A
      connection is never connected to another account, whose contact ids would mean other people.
    - `replaces`: secrets that are removed, because they cannot be used beside OAuth.

    The adapter declares the secrets `client_id`, `client_secret` and `refresh_token`; the first two
    are the operator's app, the third is stored after the exchange.
    """

    authorize_url: str
    token_url: str
    scopes: tuple[str, ...]
    client_auth: Literal["body", "basic"] = "body"
    parameters: Mapping[str, str] = field(default_factory=dict)
    account_field: str = ""
    replaces: tuple[str, ...] = ()


OAUTH_SECRETS = ("client_id", "client_secret", "refresh_token")
"""The names of the secrets of a connection by OAuth."""
