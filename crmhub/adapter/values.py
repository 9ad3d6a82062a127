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
    """Return whether a text is a valid id of a record that the hub itself stores.

    Such ids are decimal numbers from 1 to 2**53 - 1, without leading zeros.
    """
    return _RECORD_ID.fullmatch(text) is not None and int(text) <= _LARGEST_RECORD_ID


Outcome = Literal["created", "updated", "unchanged"]
Linked = Literal["deals", "tickets"]
"""The kinds of records that are linked to a contact when they are created."""
Written = Literal["contacts", "deals", "tickets"]
"""The kinds of records that the hub creates in a CRM."""
Kind = Literal["contacts", "deals", "companies", "tickets"]


@dataclass(frozen=True, slots=True)
class Contact:
    """A contact, read from the CRM.

    `properties` has a key for each requested property that exists in the CRM, with `""` for a
    property without a value. `url` is the address of the contact's page in the CRM, if it has one.
    """

    id: str
    properties: Mapping[str, str]
    url: str = ""


@dataclass(frozen=True, slots=True)
class Saved:
    """The result of a create or an update of a record.

    `id` is the record's id in the CRM, and `url` the address of its page, or "". `refused` lists
    properties that the adapter did not write, with the reasons.
    """

    id: str
    outcome: Outcome
    url: str = ""
    refused: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """The properties that an update must write to a contact, as `properties`.

    `refused` lists properties that the CRM would silently ignore, so that they are not written.
    """

    properties: Mapping[str, str]
    refused: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class ContactWrite:
    """One write of a batch: the create or the update of a contact.

    If `contact_id` is "", the write creates a contact, and `mark` is the text that identifies the
    write later. Otherwise the write updates the contact with this id.
    """

    contact_id: str
    properties: Mapping[str, str]
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """An option of a property, or a stage of a pipeline.

    The CRM stores `value`; people see `label`.
    """

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
    """The definition of a property in the CRM.

    If `options` is empty, the property accepts any value of its type.
    """

    name: str
    label: str
    type: PropertyType
    options: tuple[Choice, ...] = ()
    read_only: bool = False
    required: bool = False


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
    """Definition of one setting of a connection; forms and checks are generated from it.

    - `help`: a hint for the operator who enters the value.
    - `choices`: the allowed values; empty if any value of the type is allowed.
    - `secret`: the value is stored encrypted and never shown again.
    - `required`: the value must not be empty. `Adapter.clash` checks combinations of settings.
    - `kept`: the adapter itself writes the value with `save_credentials`. Operators do not enter
      the value, and it is deleted when they change a credential.
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
        """Return why `value` is invalid for this setting, or `""` if it is valid.

        The reason does not quote the value of a secret setting.
        """
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
    """One step of a guide: a sentence that says what to do in the CRM.

    - `url`, `label`: the address and the text of a link to the page in the CRM or to its
      documentation; both "" for no link.
    - `codes`: values to type in the CRM exactly as they are, such as the names of scopes.
    """

    text: str
    url: str = ""
    label: str = ""
    codes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Guide:
    """What a person does in the CRM for one purpose, such as making a token, in `steps`."""

    title: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class OAuth:
    """How a person connects an account by OAuth 2.0 with an authorization code (RFC 6749, 4.1).

    The hub sends the person's browser to `authorize_url`, and exchanges the code for tokens at
    `token_url`. It proves with PKCE (RFC 7636, S256) that both requests are its own.

    - `scopes`: the rights to request.
    - `client_auth`: whether the token endpoint gets client id and client secret in the "body" or
      as HTTP "basic" authentication.
    - `parameters`: further query parameters of `authorize_url`, such as `access_type=offline`.
    - `account_field`: the field of the token endpoint's answer that identifies the account in the
      CRM; "" if it has none. A connection is never connected again to another account, since its
      contact ids would mean other people.
    - `replaces`: the names of secrets that are removed when the account is connected, because
      they cannot be used beside OAuth.

    The adapter declares the secrets `client_id`, `client_secret` and `refresh_token`. The first two
    identify the operator's app in the CRM; the third is stored after the exchange.
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
