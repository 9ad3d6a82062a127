"""What the conformance tests must see of a CRM from behind, whatever the adapter says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from crmhub.adapter.contract import Kind, Linked


class Crm(Protocol):
    """A fake of the CRM (or the CRM itself), with its own names for properties.

    It is as strict as the CRM: what the CRM refuses, it refuses, and nothing is made up. Ids and
    values are strings, and what has no value is `""` or left out.
    """

    def add_contact(self, properties: Mapping[str, str]) -> str:
        """Put a contact there as it is, and return its id; later ones are younger.

        Raises `Conflict` where the CRM takes an email only once.
        """

    def contacts(self) -> Mapping[str, Mapping[str, str]]:
        """Return every live contact's properties by its id."""

    def delete_contact(self, contact_id: str) -> None:
        """Delete a contact."""

    def linked(self, kind: Linked, contact_id: str) -> Mapping[str, Mapping[str, str]]:
        """Return the live deals or tickets linked to a contact, by their ids."""

    def count(self, kind: Kind) -> int:
        """Return how many live records there are, linked or not."""


@runtime_checkable
class HttpCrm(Crm, Protocol):
    """A CRM that is called over HTTP at `url`."""

    @property
    def url(self) -> str:
        """Where it listens: `http://127.0.0.1:…`, with a path where the CRM has one."""


@runtime_checkable
class LaggingCrm(Protocol):
    """A CRM whose search may lag behind its writes: such a fake lets the tests choose how long."""

    search_lag: float
    """For how many seconds a search does not show what was written."""
