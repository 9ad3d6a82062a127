"""The tables of an adapter: kinds of records, and how the CRM writes the values of its types."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from crmhub.adapter.types import from_html, to_html, to_number, to_text
from crmhub.adapter.values import Kind, PropertyType

Row = Mapping[str, Any]
"""A record as the CRM gives it, with its id (a text or an integer) under "id"."""


@dataclass(frozen=True, slots=True)
class Records:
    """How the CRM keeps one kind of record.

    - `path`: the CRM's name of the kind, in addresses or as a model: "persons", "crm.lead".
    - `names`: the CRM's names of the hub's properties, where they differ.
    - `types`: property types by the CRM's names, where a field's own type says less.
    - `hidden`: the CRM's names of fields that are no properties.
    - `link`: the CRM's name of the field that holds the contact of a deal or ticket.
    - `links`: the CRM's names of the fields that hold linked records, by the kind of these.
      `Adapter.link` writes them, too: a field has one record, see `TableAdapter.set_link`.
    - `changed`, `created`: the CRM's names of the fields with the times of change and of creation.
    - `page`: the rest of the address of a record's page, with `{id}`; "" for none.
    - `record_in`: the member of an answer that holds a single record of this kind, if it is not
      that of `RestAdapter.record_in`.
    """

    path: str
    names: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, PropertyType] = field(default_factory=dict)
    hidden: Collection[str] = ()
    link: str = ""
    links: Mapping[Kind, str] = field(default_factory=dict)
    changed: str = ""
    created: str = ""
    page: str = ""
    record_in: str = ""

    def theirs(self, name: str) -> str:
        return self.names.get(name, name)

    def ours(self, theirs: str) -> str:
        return next((name for name, one in self.names.items() if one == theirs), theirs)


def id_in_json(record_id: Any) -> Any:
    """Return the JSON of an id: a number if it is one, and None for ""."""
    return int(record_id) if str(record_id).isdecimal() else record_id or None


def _unchanged(text: str) -> Any:
    return text


@dataclass(frozen=True, slots=True)
class Codec:
    """How the CRM writes the values of one of its types.

    `write` gets a text that fits `type`, never "", and returns JSON; it raises Misfit. `read` gets
    JSON and returns the text, "" for no value. `blank` is the JSON that clears a value.
    """

    type: PropertyType
    write: Callable[[str], Any] = _unchanged
    read: Callable[[Any], str] = to_text
    blank: Any = None
    single_line: bool = False


def _is_true(text: str) -> bool:
    return text == "true"


def _options(text: str) -> list[str]:
    return text.split(";")


TEXT = Codec("text")
LINE = Codec("string", single_line=True)
HTML = Codec("text", to_html, lambda value: from_html(to_text(value)))
NUMBER = Codec("number", to_number)
MONEY = Codec("currency", to_number)
BOOL = Codec("bool", _is_true)
DATE = Codec("date")
DATETIME = Codec("datetime")
OPTION = Codec("enumeration")
OPTIONS = Codec("multi_enumeration", _options)
CODECS: Mapping[str, Codec] = MappingProxyType(
    {
        "string": Codec("string"),
        "email": Codec("email"),
        "phone": Codec("phone"),
        "url": Codec("url"),
        "text": TEXT,
        "number": NUMBER,
        "currency": MONEY,
        "bool": BOOL,
        "date": DATE,
        "datetime": DATETIME,
        "enumeration": OPTION,
        "multi_enumeration": OPTIONS,
    }
)
"""The codecs of a CRM that names its types as the hub does, and writes them as JSON does."""


@dataclass(slots=True)
class Write:
    """One create or update on its way to the CRM.

    - `sent`: the properties under the names that the caller sent.
    - `fit`: the same, converted to what the CRM accepts, under the hub's names.
    - `values`: the JSON by the CRM's names.
    - `record_id`: the record to update; "" for a create.
    - `contact`: the contact of a new deal or ticket, or the one to update; only its id is certain,
      unless the adapter sets `reads_first`. Of `Adapter.write`, for other kinds, it is the record
      to update if `reads_first` is set, else empty.
    - `row`: what `send` has returned, for `after_write`.
    """

    kind: Kind
    sent: Mapping[str, str]
    mark: str = ""
    record_id: str = ""
    contact: Row = field(default_factory=dict)
    fit: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    row: Row = field(default_factory=dict)
