"""What an adapter is: the contract between the hub and one kind of CRM.

An adapter is one class in one file. It declares its settings, implements five methods and
overrides those optional ones that its CRM can do; what it overrides is what it announces. It
imports this module and nothing else of the hub, and this module imports the standard library
only. The hub finds it by the entry-point group `crmhub.adapters`.

Rules that hold for every method:

- Ids are strings, whatever the CRM makes of them. Property values are strings both ways; `""` is
  "no value", and writing it clears the property.
- A failure is told by the error whose name says what the caller can do. Anything else that comes
  out of an adapter is a bug of the adapter. No message holds a credential: callers read it.
- Nothing is dropped in silence. A property the CRM would not take is `Rejected`; the hub leaves
  it out, tries again, and names it in its answer.
- An instance serves one connection and may be used by several threads at once.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NoReturn, Protocol

# --- Errors, named by what the caller can do ------------------------------------------------
#
# AdapterError
#   BadConfig     mend the connection's settings; nothing was sent, or nothing can work
#   Denied        renew the credentials
#     LacksRight  give them a right; what needs others works
#   NotFound      name another record
#   Rejected      send other values
#   Conflict      use the record that is there already
#   Throttled     come back after `retry_after` seconds
#   Unavailable   try again: surely nothing was written
#     NotYet      come back after `retry_after` seconds: nothing is wrong, it is too early
#   Uncertain     look before trying again: it may have been written
#   Unsupported   do without: the CRM or the adapter cannot do this


class AdapterError(Exception):
    """A failure an adapter may raise; `message` is read by people and holds no credential.

    `correlation_id` is what the CRM calls the failed call, for its support, where it says so.
    """

    correlation_id: str = ""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BadConfig(AdapterError):
    """The connection's settings cannot work, whatever is sent: say which one and why."""


class Denied(AdapterError):
    """The CRM refuses the credentials; nothing was written."""


class LacksRight(Denied):
    """The credentials are good but lack a right for this call; say which."""


class NotFound(AdapterError):
    """The CRM has no such record, or has it no longer. Never raised for a failed search."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why one property was not taken.

    `name` is the property's name as it was sent (or the one that is missing), `reason` says what
    is wrong and what would be right, `options` are the internal values that would be taken,
    where there are few.
    """

    name: str
    reason: str
    options: tuple[str, ...] = ()


class Rejected(AdapterError):
    """The CRM does not take these values, and nothing of the call was written.

    `problems` names each property it complained about, also those that were not sent but are
    required. Without any, the values as a whole are refused and `message` says why.
    """

    def __init__(self, problems: Sequence[Problem], message: str = "") -> None:
        super().__init__(message or "; ".join(f"{one.name}: {one.reason}" for one in problems))
        self.problems = tuple(problems)


class Conflict(AdapterError):
    """A value that must be unique belongs to another record, and nothing was written.

    `existing_id` is that record where the CRM says, `name` the property as it was sent.
    """

    def __init__(self, message: str, *, existing_id: str = "", name: str = "") -> None:
        super().__init__(message)
        self.existing_id = existing_id
        self.name = name


class Throttled(AdapterError):
    """The CRM wants fewer calls; nothing was written.

    `retry_after` is in seconds. `scope` names what is exhausted (`burst`, `daily`, `search`, …),
    so that calls which do not count against it may go on.
    """

    def __init__(self, message: str, *, retry_after: float, scope: str = "") -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.scope = scope


class Unavailable(AdapterError):
    """The CRM cannot be reached or is out of order, and surely nothing was written."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotYet(Unavailable):
    """Nothing is wrong and nothing was written, but it can be done or told only later.

    Another process is at it, or the CRM may still be at work on an earlier call. `retry_after` is
    in seconds.
    """

    retry_after: float

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message, retry_after=retry_after)


class Uncertain(AdapterError):
    """The call broke after it was sent: it may have been written, and may not."""


class Unsupported(AdapterError):
    """This CRM, or this adapter, cannot do what was asked."""


# --- Values -----------------------------------------------------------------------------------

Outcome = Literal["created", "updated", "unchanged"]
Linked = Literal["deals", "tickets"]
"""What can be created for a contact."""
Written = Literal["contacts", "deals", "tickets"]
"""What the helpers create."""
Kind = Literal["contacts", "deals", "companies", "tickets"]


@dataclass(frozen=True, slots=True)
class Contact:
    """A contact as the CRM has it.

    `properties` has a key for each name that was asked for and that the CRM knows, with `""`
    where the contact has no value. A name that is left out is one the CRM does not know.
    """

    id: str
    properties: Mapping[str, str]
    url: str = ""


@dataclass(frozen=True, slots=True)
class Saved:
    """What became of a write.

    `id` is the record's id in the CRM, and `url` its page for people, where there is one.
    `refused` holds what the adapter left out by itself.
    """

    id: str
    outcome: Outcome
    url: str = ""
    refused: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """What an update must write, and what the CRM would not take although it says nothing."""

    properties: Mapping[str, str]
    refused: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class ContactWrite:
    """A write of a contact: an update of `contact_id`, or a create under `mark` when that is ""."""

    contact_id: str
    properties: Mapping[str, str]
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """One value a property takes: `value` is written, `label` is shown."""

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
    """A property as the CRM defines it; `options` is empty where any value is taken."""

    name: str
    label: str
    type: PropertyType
    options: tuple[Choice, ...] = ()
    read_only: bool = False
    required: bool = False


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline and its stages, in their order."""

    id: str
    label: str
    stages: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Owner:
    """A person records can be given to."""

    id: str
    email: str
    name: str


# --- Settings ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing an operator may set for a connection; forms and checks are made from it.

    A `secret` one is sealed when stored and never shown again. `required` refuses a connection
    without it; where only certain combinations work, `Adapter.clash` says so. A `kept`
    one the adapter writes itself, through `save_credentials`; nobody is asked for it, and it is
    dropped when an operator changes a credential.
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
        """Return what is wrong with `value` in words, or `""`. Never repeats a secret."""
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


# --- What an adapter gets ---------------------------------------------------------------------


_RECORD_ID = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)
_LARGEST_RECORD_ID = 2**53 - 1


def is_record_id(text: str) -> bool:
    """Return whether a text is an id as the hub writes those of its own records.

    It writes each in one way only, so that one contact has one id.
    """
    return _RECORD_ID.fullmatch(text) is not None and int(text) <= _LARGEST_RECORD_ID


class Store(Protocol):
    """The hub's own records of one account, for the adapter that keeps contacts in the hub.

    Raises the errors of this module. Kinds are `contacts`, `deals`, `companies`, `tickets`.
    """

    def find(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        """Return the oldest contact with this email or phone, in any notation, or None."""

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
        """Create a record, linked to the contact when one is named, in one step or not at all.

        An unknown property is defined as text, an unknown pipeline or stage added as long as the
        account has not made its own. Raises Rejected, Conflict, and NotFound for the contact.
        Under the same `mark` nothing is created twice: what was comes back.
        """

    def update(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        """Change the named properties of a contact; raises NotFound, Rejected, Conflict."""

    def describe(self, kind: Kind) -> list[Described]:
        """Return the properties of a kind."""

    def pipelines(self, kind: Linked) -> list[Pipeline]:
        """Return the pipelines of a kind with their stages."""


class Response(Protocol):
    """A CRM's answer, whole; what `requests.Response` is, too."""

    @property
    def status_code(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, found in any case."""

    @property
    def content(self) -> bytes:
        """The body, decoded as its Content-Encoding says."""


class Session(Protocol):
    """The only way out: a `requests.Session` that guards every call.

    It reaches no address the installation does not allow, follows no redirect, keeps no cookie,
    reads no more than some megabytes, and ends with `timeout` (seconds) whatever the other side
    does. Raises `requests.RequestException`; surely nothing was sent when that is a
    ConnectTimeout, an SSLError, an InvalidURL, or a ConnectionError about a new connection.
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
        """Send one request and return its whole answer, whatever its status."""


class Budget(Protocol):
    """A share of the calls a CRM allows, common to every process that uses the connection."""

    def take(self) -> None:
        """Wait for the turn of one call; raises Throttled when that comes too late to be of use."""

    def follow(self, calls: int, seconds: float) -> None:
        """Follow what the CRM says it allows: so many calls in any so many seconds."""

    def pause(self, seconds: float) -> None:
        """Let nobody call for so long: the CRM has refused a call as one too many."""


class OpenBudget(Protocol):
    """How an adapter names a budget of its connection."""

    def __call__(self, lane: str, *, calls: int, seconds: float) -> Budget:
        """Return the budget of this name, which starts with so many calls in so many seconds."""


@dataclass(frozen=True, slots=True)
class Context:
    """What the hub hands to an adapter, and nothing else of it.

    `settings` and `credentials` hold a value for every declared setting, the default where none
    was given. `save_credentials` replaces credentials that the CRM has rotated, for every
    process; `load_credentials` returns those that are stored now, since another process may have
    rotated them. `lease(key, seconds)` is a lock between all processes that holds no database
    connection; after so many seconds another may take it. It raises NotYet when it cannot be
    had in time. `remaining()` is how many seconds the present call may still take.
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


# --- The adapter ------------------------------------------------------------------------------

OPTIONAL = frozenset(
    {
        "active_workflow",
        "check",
        "describe",
        "find_contacts",
        "find_marked",
        "owners",
        "pipelines",
        "write_contacts",
    }
)
"""Methods an adapter announces by overriding them."""


class Adapter(ABC):
    """One kind of CRM. A subclass is made for each connection, with its context.

    The constructor calls nobody. Its context holds a value for every declared setting.
    """

    title: ClassVar[str]
    """The CRM's name for people."""
    settings: ClassVar[tuple[Setting, ...]] = ()
    record_pages: ClassVar[bool] = False
    """Whether `Saved.url` and `Contact.url` lead to pages; answers then carry `url`."""
    remote: ClassVar[bool] = True
    """Whether a call may wait for somebody else; the hub's own records never do."""
    batch_size: ClassVar[int] = 1
    """How many contacts `find_contacts` and `write_contacts` take at once; 1 without them."""
    email_names: ClassVar[tuple[str, ...]] = ("email",)
    """The properties that `has_email` reads."""
    under_way_s: ClassVar[float] = 60.0
    """For how many seconds a write may still take effect after its answer was lost.

    The hub waits so long before it sends the values again, and `may_land_for` before it creates
    the record again. 0 where no write takes effect late.
    """

    def __init__(self, context: Context) -> None:
        self.context = context

    def can(self, feature: str) -> bool:
        """Return whether the optional method of this name is there."""
        return feature in features(type(self))

    @classmethod
    def clash(cls, settings: Mapping[str, str], credentials: Mapping[str, str]) -> str:
        """Return why these values, each right by itself, cannot work together, or `""`."""
        return ""

    @classmethod
    def may_be_id(cls, contact_id: str) -> bool:
        """Return whether a text has the form of this CRM's contact ids; calls nobody.

        Override it with the check that keeps other texts out of paths: the hub then refuses them
        at once, also while the CRM is unavailable. True for every id that the CRM has issued.
        """
        return True

    def may_land_for(self, kind: Written, properties: Mapping[str, str]) -> float:
        """Return for how many seconds a create may still show up after its answer was lost.

        Until then the hub trusts no lookup that finds nothing, and creates no second record of
        these properties. Override it to return 0 where the CRM refuses a second record, because
        their email or the mark is unique there, and more where a lookup lags behind writes.
        """
        return self.under_way_s

    # Required.

    @abstractmethod
    def find_contact(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        """Return the contact that has this email or this phone (one is given), or None.

        Read where the CRM reads its own writes; a search index that lags makes duplicates. The
        whole value must match: beware of searches for a part of it. `email` is lower-case and
        `phone` in E.164 where it could be read; a CRM that stores another notation must be asked
        in that. Of several, return the oldest. `names` are the properties to return with it.
        """

    @abstractmethod
    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        """Return the contact with the named properties, those the CRM does not know left out.

        A CRM that leaves out empty and unknown properties alike must be asked for its
        definitions, since callers are told which names do not exist. Raises NotFound, also for
        an id of a form the CRM never issues. Where the CRM leads from the id of a contact that
        was merged to the one it became, that one is returned, with its own id.
        """

    @abstractmethod
    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        """Create a contact and return it as `created`.

        `mark` identifies this write; keep it with the record where the CRM has room. Raises
        Conflict with the other's id where there is one with this email (and, if it can be told
        without a race, with this phone), Rejected naming every property at fault that the CRM
        tells, and no other, Uncertain when the answer did not come.
        """

    @abstractmethod
    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        """Change the named properties, leave the others, and clear those that are `""`.

        Return `unchanged` only when the CRM is known to have had these values. Raises NotFound,
        Rejected, and Conflict when a unique value belongs to another contact.
        """

    @abstractmethod
    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        """Create a deal or ticket linked to the contact; never one without the link.

        Where the CRM needs two calls, undo the first when the second fails; an undo that fails,
        too, leaves it Uncertain. A pipeline or stage
        the CRM does not know is Rejected under its property's name, never replaced by another.
        `mark` identifies this write; keep it with the record where the CRM has room, so that
        `find_marked` can find it. Raises NotFound when the contact does not exist.
        """

    # Derived: override where the CRM differs.

    def has_email(self, contact: Contact, email: str) -> bool:
        """Return whether an email is the contact's, read with `email_names`.

        Override it where a contact may have several. `email` is lower-case.
        """
        return contact.properties.get("email", "").lower() == email

    def has_phone(self, contact: Contact, phone: str) -> bool:
        """Return whether `phone` or `mobilephone` of the contact is this number.

        Override it where a number may be stored in another notation than it was sent in.
        """
        return phone in (contact.properties.get(name) for name in ("phone", "mobilephone"))

    def changes(self, contact: Contact, properties: Mapping[str, str]) -> Changes:
        """Return which of the properties an update of the contact must write.

        `contact` was read with these names. Override it where the CRM writes values in a form of
        its own, or would pass over one in silence. Raises Rejected for values it does not take.
        """
        held = contact.properties
        return Changes({name: v for name, v in properties.items() if held.get(name) != v})

    # Optional: announced by being overridden.

    def find_contacts(
        self,
        *,
        emails: Sequence[str] = (),
        phones: Sequence[str] = (),
        names: Sequence[str] = (),
    ) -> dict[str, Contact]:
        """Return the contact of each email, or of each phone, that has one (one list is given).

        As `find_contact`, in few calls; an email that only `find_contact` or a write would find
        may be left out.
        """
        self._cannot("find several contacts at once")

    def write_contacts(self, writes: Sequence[ContactWrite]) -> list[Saved | AdapterError | None]:
        """Make up to `batch_size` writes in few calls; return what became of each, in their order.

        One write's failure is no other's. None for one of which nothing was written and that is
        to be made by itself, since its failure would be told better then.
        """
        self._cannot("write several contacts at once")

    def active_workflow(self, contact_id: str, *, since_ms: int) -> str:
        """Return the id of the newest workflow the contact entered since then, or `""`.

        `since_ms` is in milliseconds since 1970 (UTC). Without this the hub keeps enrolments.
        """
        self._cannot("tell a contact's workflow")

    def check(self) -> None:
        """Talk to the CRM and raise what is wrong, in words an operator can act on."""
        self._cannot("check its connection")

    def describe(self, kind: Kind) -> list[Described]:
        """Return the properties of a kind, with the options of each."""
        self._cannot("list properties")

    def pipelines(self, kind: Linked) -> list[Pipeline]:
        """Return the pipelines of a kind with their stages."""
        self._cannot("list pipelines")

    def owners(self) -> list[Owner]:
        """Return the people records can be given to."""
        self._cannot("list owners")

    def find_marked(
        self,
        kind: Written,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
    ) -> Saved | None:
        """Return what an earlier try of a write has made, or None when there is nothing.

        Asked after Uncertain, before the write is sent again: `kind`, `contact_id`, `mark` and
        the properties in `sent` are those of that write, which began at `since_ms` (ms since
        1970). Read where the CRM reads its own writes: by the mark where it is kept, else among
        the contact's deals or tickets made since, never in an index that lags. The hub asks once
        more when `may_land_for` is over, and believes only that None. Raises NotYet as long as
        the CRM cannot be asked. Without this method a deal or ticket whose answer was lost is
        sent again without a wait, and is there twice if the first one was written; a contact is
        looked up by its email or phone all the same.
        """
        self._cannot("look up a write")

    def find_apart(
        self,
        kind: Linked,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
        others: Collection[str],
    ) -> Saved | None:
        """Return what `find_marked` does, given `others`: what other writes are known to have made.

        Override it where a write without a mark is told by its values and time alone: of two
        deals that are alike it must not take the other one.
        """
        return self.find_marked(kind, contact_id, mark, sent=sent, since_ms=since_ms)

    def _cannot(self, what: str) -> NoReturn:
        raise Unsupported(f"The {self.title} adapter cannot {what}.")


def hold_back_create(
    adapter: Adapter, kind: Written, properties: Mapping[str, str], written_ms: int
) -> None:
    """Raise NotYet while the record that an earlier attempt sent may still show up.

    Called when a lookup has found nothing. `written_ms` is until when that attempt may have sent
    it (ms since 1970), 0 when there was none.
    """
    if written_ms:
        seconds = adapter.may_land_for(kind, properties)
        why = f"{adapter.title} may still create the record. It is looked up again before another"
        _hold_back(seconds, written_ms, f"{why} is created.")


def hold_back_update(adapter: Adapter, written_ms: int) -> None:
    """Raise NotYet while the values that an earlier attempt sent may still be written.

    Landing later, they would overwrite newer ones. `written_ms` as in `hold_back_create`.
    """
    if written_ms:
        why = f"{adapter.title} may still write the values. They are sent again after that."
        _hold_back(adapter.under_way_s, written_ms, why)


def _hold_back(seconds: float, since_ms: int, why: str) -> None:
    # Not longer than that from now on, however the clocks of two machines differ.
    rest = min(seconds, since_ms / 1000 + seconds - time.time())
    if rest > 0:
        raise NotYet(f"An earlier attempt got no answer, and {why}", retry_after=rest)


def features(adapter: type[Adapter]) -> frozenset[str]:
    """Return the optional methods an adapter overrides."""
    return frozenset(
        name for name in OPTIONAL if getattr(adapter, name) is not getattr(Adapter, name)
    )


_SHOWN_FAULTS = 20


def configured(
    adapter: type[Adapter], settings: Mapping[str, str], credentials: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return settings and credentials with a value for each declared name, defaults filled in.

    Raises BadConfig with every fault: an unknown name, a missing or faulty value, a secret given
    as a setting or the reverse, and else what `Adapter.clash` says.
    """
    faults: list[str] = []
    complete: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for secret, given, filled in (
        (False, settings, complete[0]),
        (True, credentials, complete[1]),
    ):
        declared = {one.name: one for one in adapter.settings if one.secret is secret}
        word = "secret" if secret else "setting"
        for name in given.keys() - declared.keys():
            known = ", ".join(sorted(declared)) or "none"
            faults.append(f"{name[:100]}: {adapter.title} has no such {word}; it has {known}")
        for name, setting in declared.items():
            filled[name] = given.get(name, "") or setting.default
            if filled[name]:
                fault = setting.fault(filled[name])
            else:
                fault = f"this {word} is required" if setting.required else ""
            if fault:
                faults.append(f"{name}: {fault}")
    if not faults and (clash := adapter.clash(*complete)):
        faults.append(clash)
    if faults:
        shown, more = sorted(faults)[:_SHOWN_FAULTS], len(faults) - _SHOWN_FAULTS
        raise BadConfig("; ".join([*shown, f"and {more} more"] if more > 0 else shown))
    return complete
