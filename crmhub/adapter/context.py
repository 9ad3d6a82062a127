"""The objects that the hub passes to an adapter: settings, HTTP session, limits, own records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from crmhub.adapter.reading import Reading
from crmhub.adapter.values import Contact, Described, Kind, Linked, Pipeline, Saved


class Store(Protocol):
    """The hub's own records of one account, for an adapter that stores contacts in the hub.

    The methods raise the errors of `crmhub.adapter.errors`. A kind of record is `contacts`,
    `deals`, `companies` or `tickets`.
    """

    def find(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        """Return the oldest contact with either the email or the phone (any notation), or None."""

    def get(self, contact_id: str, names: Sequence[str]) -> Contact:
        """Return a contact with its properties `names`; raises NotFound."""

    def create(
        self,
        kind: Kind,
        properties: Mapping[str, str],
        *,
        contact_id: str | None = None,
        mark: str = "",
    ) -> Saved:
        """Create a record, linked to the contact `contact_id` if given, in one transaction.

        An undefined property is defined as text; an unknown pipeline or stage is added, unless the
        account has changed its pipelines. A record with the same `mark` is returned. Raises
        Rejected, Conflict, and NotFound if there is no contact `contact_id`.
        """

    def update(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        """Write these properties only; raises NotFound, Rejected, or Conflict for taken values."""

    def add_note(
        self, kind: Kind, record_id: str, text: str, *, at_ms: int, mark: str = ""
    ) -> Saved:
        """Add a note to a record; return its id, also for the note with the same `mark`.

        Raises NotFound.
        """

    def create_task(
        self, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        """Create a task for a contact, as `Adapter.create_task` does; raises NotFound."""

    def describe(self, kind: Kind) -> list[Described]:
        """Return the definitions of all properties of this kind of record."""

    def pipelines(self, kind: Linked) -> list[Pipeline]:
        """Return the pipelines for deals or for tickets, with their stages."""


class Response(Protocol):
    @property
    def status_code(self) -> int:
        """The HTTP status of the response."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the response; their names are case-insensitive."""

    @property
    def content(self) -> bytes:
        """The body of the response, decompressed."""


class Session(Protocol):
    """The guarded HTTP session: the only way in which an adapter may send requests.

    The session calls only addresses that the installation allows, follows no redirects, stores no
    cookies, and limits the size of a response to some megabytes. `request` raises
    `requests.RequestException`. Nothing was sent if the exception is a ConnectTimeout, an SSLError,
    an InvalidURL, or a ConnectionError whose cause is a failed connection.
    """

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        data: bytes | None,
        timeout: float,
    ) -> Response:
        """Send one request, in `timeout` seconds altogether; an error status raises nothing."""


class Budget(Protocol):
    def take(self, cost: int = 1) -> None:
        """Count a request, or its `cost`, after the necessary wait; Throttled if it is too long."""

    def follow(self, calls: int, seconds: float) -> None:
        """Replace the rate limit by one that the CRM announced: `calls` requests per `seconds`."""

    def pause(self, seconds: float) -> None:
        """Block all requests for `seconds`; called after the CRM has refused one for its limit."""


class OpenBudget(Protocol):
    def __call__(self, lane: str, *, calls: int, seconds: float) -> Budget:
        """Return the rate limit of a kind of requests; a new one allows `calls` per `seconds`."""


class OpenLease(Protocol):
    def __call__(
        self, key: str, seconds: float, *, patience: float | None = None
    ) -> AbstractContextManager[None]:
        """Return the lock named `key`, which expires after `seconds`.

        Entering waits at most `patience` seconds, by default the time left for the call, and then
        raises NotYet. The lock occupies no database connection.
        """


class Shared(Protocol):
    """Texts that all processes share, such as definitions; deleted when settings change."""

    def load(self, name: str) -> tuple[float, str] | None:
        """Return the age in seconds and the text that was last saved; None if there is none."""

    def save(self, name: str, text: str) -> None:
        """Store a text under `name`, in place of an earlier one."""


class NothingShared:
    """A `Shared` that stores nothing, such as for the test of settings that are not stored yet."""

    def load(self, name: str) -> None:
        """Return None."""

    def save(self, name: str, text: str) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Context:
    """The argument that the hub passes to the constructor of an adapter.

    `region` (such as "DE") and `language` (such as "es") may be ""; `settings` and `credentials`
    have every declared name. `remaining()`: the seconds left for the current call.
    `load_credentials()`: the stored ones, which another process may have replaced;
    `save_credentials` stores replaced ones for all. Use `shared` by `crmhub.adapter.remembered`.
    """

    client_id: str
    region: str
    settings: Mapping[str, str]
    store: Store
    session: Session
    budget: OpenBudget
    lease: OpenLease
    remaining: Callable[[], float]
    load_credentials: Callable[[], Mapping[str, str]]
    save_credentials: Callable[[Mapping[str, str]], None]
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    shared: Shared = field(default_factory=NothingShared)
    language: str = ""

    @property
    def reading(self) -> Reading:
        return Reading(self.region, self.language)
