"""The interface through which the conformance tests inspect a CRM, bypassing the adapter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from crmhub.adapter import Kind, Linked


class Crm(Protocol):
    """A fake of the CRM (or the CRM itself), addressed by its own property names.

    The fake is as strict as the CRM and invents no values. Ids and values are strings; a missing
    value is `""` or left out.
    """

    def add_contact(self, properties: Mapping[str, str]) -> str:
        """Store a contact and return its id; contacts added later are younger.

        Raises `Conflict` where the CRM takes an email only once.
        """

    def contacts(self) -> Mapping[str, Mapping[str, str]]:
        """Return every live contact's properties by its id."""

    def delete_contact(self, contact_id: str) -> None:
        """Delete a contact."""

    def linked(self, kind: Linked, contact_id: str) -> Mapping[str, Mapping[str, str]]:
        """Return the live deals or tickets linked to a contact, by their ids."""

    def count(self, kind: Kind) -> int:
        """Return the number of live records, linked or not."""


@runtime_checkable
class HttpCrm(Crm, Protocol):
    """A CRM that is called over HTTP at `url`."""

    @property
    def url(self) -> str:
        """Base URL of the CRM: `http://127.0.0.1:…`, with the CRM's path prefix if any."""


@runtime_checkable
class LaggingCrm(Protocol):
    """A CRM whose search index lags behind writes by a time that the tests choose."""

    search_lag: float
    """For how many seconds a search does not show what was written."""
