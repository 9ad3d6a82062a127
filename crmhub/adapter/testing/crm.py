"""The interface through which the conformance tests read and change a CRM without the adapter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from crmhub.adapter import Kind, Linked


class Crm(Protocol):
    """A fake CRM, or the real one, as the tests read and change it.

    Properties have the CRM's own names. A fake is as strict as the CRM and invents no values. Ids
    and values are strings; a missing value is `""` or left out.
    """

    def add_contact(self, properties: Mapping[str, str]) -> str:
        """Store a contact and return its id; a contact that is added later is younger.

        Raises `Conflict` where the CRM requires unique emails.
        """

    def contacts(self) -> Mapping[str, Mapping[str, str]]:
        """Return the properties of all existing contacts, by id."""

    def delete_contact(self, contact_id: str) -> None:
        """Delete a contact."""

    def linked(self, kind: Linked, contact_id: str) -> Mapping[str, Mapping[str, str]]:
        """Return the properties of the existing deals or tickets of a contact, by id."""

    def count(self, kind: Kind) -> int:
        """Return the number of existing records of a kind, whether linked or not."""


@runtime_checkable
class HttpCrm(Crm, Protocol):
    """A CRM that is called over HTTP at `url`."""

    @property
    def url(self) -> str:
        """The CRM's base URL: `http://127.0.0.1:…`, with the CRM's path prefix if it has one."""


@runtime_checkable
class LaggingCrm(Protocol):
    """A CRM whose search shows a write only after `search_lag` seconds, which the tests set."""

    search_lag: float
    """How many seconds a search lags behind writes."""
