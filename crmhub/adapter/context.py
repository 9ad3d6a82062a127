"""The context that the hub passes to an adapter: settings, HTTP session, budgets, records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from crmhub.adapter.values import Contact, Described, Kind, Linked, Pipeline, Saved


class Store(Protocol):
    """The hub's own records of one account, for an adapter that keeps contacts in the hub.

    Raises the errors of `crmhub.adapter.errors`. Kinds are `contacts`, `deals`, `companies` and
    `tickets`.
    """

    def find(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        """Return the oldest contact with this email or phone, None without one.

        Notations do not matter.
        """

    def get(self, contact_id: str, names: Sequence[str]) -> Contact:
        """Return a contact with the named properties; raises NotFound."""

    def create(
        self,
        kind: Kind,
        properties: Mapping[str, str],
        *,
        contact_id: str | None = None,
        mark: str = "",
    ) -> Saved:
        """Create a record, linked to `contact_id` in the same step if one is given.

        An unknown property is defined as text. An unknown pipeline or stage is added unless the
        account has customized its own. Raises Rejected, Conflict, and NotFound for the contact. A
        second create with the same `mark` returns the existing record.
        """

    def update(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        """Write the named properties of a contact; raises NotFound, Rejected and Conflict."""

    def describe(self, kind: Kind) -> list[Described]:
        """Return the definitions of all properties of a kind of record."""

    def pipelines(self, kind: Linked) -> list[Pipeline]:
        """Return the pipelines of a kind of record with their stages."""


class Response(Protocol):
    """A complete HTTP answer, as `requests.Response` provides it."""

    @property
    def status_code(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers; names ignore case."""

    @property
    def content(self) -> bytes:
        """The body after content decoding."""


class Session(Protocol):
    """The guarded HTTP session: the only way in which an adapter may send requests.

    It calls only addresses that the installation allows, follows no redirect, stores no cookie,
    limits the size of an answer to some megabytes, and ends every call after `timeout` seconds.
    Raises `requests.RequestException`; nothing was sent if that is a ConnectTimeout, an SSLError,
    an InvalidURL, or a ConnectionError while connecting.
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
        """Send one request and return its complete answer; an error status raises nothing."""


class Budget(Protocol):
    """A rate limit of the CRM, shared by every process that uses the connection."""

    def take(self) -> None:
        """Wait until the rate limit allows one more call; raises Throttled if time is too short."""

    def follow(self, calls: int, seconds: float) -> None:
        """Replace the rate limit by `calls` in `seconds`, which the CRM announced in its answer."""

    def pause(self, seconds: float) -> None:
        """Block all calls for this many seconds, because the CRM's rate limit refused a call."""


class OpenBudget(Protocol):
    """A function that opens a named budget of the adapter's connection."""

    def __call__(self, lane: str, *, calls: int, seconds: float) -> Budget:
        """Return the budget of this name; its initial limit is `calls` in `seconds`."""


@dataclass(frozen=True, slots=True)
class Context:
    """Everything that the hub passes to an adapter.

    `settings` and `credentials` hold a value or default for every declared setting.
    `save_credentials` stores rotated credentials for every process; `load_credentials` returns the
    stored ones, which another process may have rotated. `lease(key, seconds)` is a lock between
    processes that holds no database connection and expires after `seconds`; it raises NotYet if it
    cannot be acquired in time. `remaining()` returns the seconds left for the current call.
    """

    client_id: str
    region: str
    settings: Mapping[str, str]
    store: Store
    session: Session
    budget: OpenBudget
    lease: Callable[[str, float], AbstractContextManager[None]]
    remaining: Callable[[], float]
    load_credentials: Callable[[], Mapping[str, str]]
    save_credentials: Callable[[Mapping[str, str]], None]
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
