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
        """Return the oldest contact with this email or with this phone, or None if there is none.

        Exactly one of `email` and `phone` is given; a phone matches in any notation. `names` are
        the properties to return with the contact.
        """

    def get(self, contact_id: str, names: Sequence[str]) -> Contact:
        """Return the contact with this id and its properties `names`.

        Raises NotFound if there is no such contact.
        """

    def create(
        self,
        kind: Kind,
        properties: Mapping[str, str],
        *,
        contact_id: str | None = None,
        mark: str = "",
    ) -> Saved:
        """Create a record, and link it to the contact `contact_id` if that is given.

        Both happen in one transaction. A property that is not yet defined is defined as text. An
        unknown pipeline or stage is added, unless the account has changed its pipelines. `mark` is
        a unique text that identifies this write: if a record with the same mark exists already,
        return that record. Raises Rejected, Conflict, and NotFound if there is no contact
        `contact_id`.
        """

    def update(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        """Write the given properties of a contact, and leave its other properties unchanged.

        Raises NotFound if there is no such contact, Rejected for invalid values, and Conflict if a
        value that must be unique belongs to another contact.
        """

    def describe(self, kind: Kind) -> list[Described]:
        """Return the definitions of all properties of this kind of record."""

    def pipelines(self, kind: Linked) -> list[Pipeline]:
        """Return the pipelines for deals or for tickets, with their stages."""


class Response(Protocol):
    """A complete HTTP response, as `requests.Response` provides it."""

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
        """Send one request and return the complete response.

        An error status raises no exception. `data` is the encoded body. `timeout` limits the whole
        call, in seconds.
        """


class Budget(Protocol):
    """A rate limit of the CRM, shared by all processes that use the connection."""

    def take(self, cost: int = 1) -> None:
        """Count one request, or `cost` tokens or credits; wait first until the limit allows them.

        Raises Throttled if the wait would be longer than the time left for this call.
        """

    def follow(self, calls: int, seconds: float) -> None:
        """Replace the rate limit by one that the CRM announced: `calls` requests per `seconds`."""

    def pause(self, seconds: float) -> None:
        """Block all requests for `seconds`.

        An adapter calls this after the CRM has refused a request because of its rate limit.
        """


class OpenBudget(Protocol):
    """A function that returns one of the connection's rate limits, by its name."""

    def __call__(self, lane: str, *, calls: int, seconds: float) -> Budget:
        """Return the rate limit of the lane (kind of requests) with the name `lane`.

        A new rate limit allows `calls` requests (or tokens, or credits) per `seconds`.
        """


class OpenLease(Protocol):
    """A function that returns a lock between processes, to be held in a `with` block."""

    def __call__(
        self, key: str, seconds: float, *, patience: float | None = None
    ) -> AbstractContextManager[None]:
        """Return the lock named `key`, which expires after `seconds`.

        Entering it waits while another call holds the lock, at most `patience` seconds, and by
        default as long as the current call may take; then it raises NotYet. The lock occupies no
        database connection.
        """


class Shared(Protocol):
    """Texts of one connection that all processes of the hub share, such as its definitions.

    They are deleted when the connection gets other settings.
    """

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

    - `region`: the account's country (such as "DE"), for phone numbers without a country code and
      the order of day and month; or "".
    - `language`: the account's language (such as "es"), for words that mean yes or no; or "".
    - `settings`, `credentials`: the value or the default of every declared setting.
    - `remaining()`: the seconds left for the current call.
    - `load_credentials()`: the stored credentials, which another process may have replaced.
    - `save_credentials(credentials)`: stores replaced credentials for all processes.
    - `shared`: definitions that all processes share; use them by `crmhub.adapter.remembered`.
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
        """How the account's people write dates, yes and no."""
        return Reading(self.region, self.language)
