"""The interface through which the conformance tests read and change a CRM without the adapter."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol, runtime_checkable

from crmhub.adapter import Kind, Linked, WebhookRequest, Written


class Crm(Protocol):
    """A fake CRM or a real one, as the tests read and change it.

    Names are the CRM's own; values are strings, `""` or left out for none. A fake must refuse what
    the CRM refuses, and must not invent values.
    """

    def add_contact(self, properties: Mapping[str, str]) -> str:
        """Store the youngest contact; return its id. Raises `Conflict` for a taken unique email."""

    # If a contact has a list of emails, the fake needs `add_email(contact_id, email)`, too, which
    # adds one to the list and returns True. If the adapter has `changed_since`, it needs
    # `make_older(seconds)`, which dates all records back. `KitCrm` has both.

    def contacts(self) -> Mapping[str, Mapping[str, str]]:
        """Return all contacts that are not deleted: a mapping of contact id to properties."""

    def delete_contact(self, contact_id: str) -> None:
        """Delete the contact with this id."""

    def linked(self, kind: Linked, contact_id: str) -> Mapping[str, Mapping[str, str]]:
        """Return the undeleted deals or tickets of a contact: properties by id."""

    def count(self, kind: Kind) -> int:
        """Return the number of records of this kind, whether linked to a contact or not."""


@runtime_checkable
class HttpCrm(Crm, Protocol):
    """A CRM that the adapter calls over HTTP."""

    @property
    def url(self) -> str:
        """The CRM's base URL: `http://127.0.0.1:…`, with the path that all its URLs share."""


@runtime_checkable
class LaggingCrm(Protocol):
    """A CRM whose search shows a write only after `search_lag` seconds."""

    search_lag: float
    """After how many seconds the search shows a write; the tests set this attribute."""


@runtime_checkable
class HostedCrm(Protocol):
    """A CRM with further hosts, such as one for logins."""

    @property
    def urls(self) -> Mapping[str, str]:
        """The base URLs of these hosts; settings name one as `{login}` if its name is `login`."""


class ExtendedCrm(Crm, Protocol):
    """A CRM whose adapter supports notes, tasks or webhooks; it needs the methods for these only.

    If it also has `merge_contacts(gone_id, kept_id)`, the tests merge contacts. This returns the id
    of the resulting contact if that is a new one, else None.
    """

    def notes(self, kind: Written, record_id: str) -> Mapping[str, str]:
        """Return the plain texts of a record's notes by id."""

    def tasks(self, contact_id: str) -> Mapping[str, Mapping[str, str]]:
        """Return the properties of a contact's tasks by id, under the names of `create_task`.

        `due` is a date in a CRM whose tasks have no time.
        """

    def webhook(self, kind: Kind, record_id: str) -> WebhookRequest:
        """Return the request by which the CRM tells that a record changed."""

    def watchers(self, kind: Kind) -> Collection[str]:
        """Return the addresses to which the CRM sends webhooks about a kind of record, one for each
        webhook.
        """


@runtime_checkable
class MeteredCrm(Protocol):
    """A CRM that counts tokens or credits instead of calls."""

    @property
    def spent(self) -> int:
        """How many tokens or credits all requests together have cost so far."""
