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

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, NoReturn, Protocol

# --- Errors, named by what the caller can do ------------------------------------------------
#
# AdapterError
#   BadConfig     mend the connection's settings; nothing was sent, or nothing can work
#   Denied        renew the credentials or their rights
#   NotFound      name another record
#   Rejected      send other values
#   Conflict      use the record that is there already
#   Throttled     come back after `retry_after` seconds
#   Unavailable   try again: surely nothing was written
#   Uncertain     look before trying again: it may have been written
#   Unsupported   do without: the CRM or the adapter cannot do this


class AdapterError(Exception):
    """A failure an adapter may raise; `message` is read by people and holds no credential."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BadConfig(AdapterError):
    """The connection's settings cannot work, whatever is sent: say which one and why."""


class Denied(AdapterError):
    """The CRM refuses the credentials, or they lack a right: say which one is missing."""


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


class Uncertain(AdapterError):
    """The call broke after it was sent: it may have been written, and may not."""


class Unsupported(AdapterError):
    """This CRM, or this adapter, cannot do what was asked."""


# --- Values -----------------------------------------------------------------------------------

Outcome = Literal["created", "updated", "unchanged"]
Linked = Literal["deals", "tickets"]
"""What can be created for a contact."""
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
class Lead:
    """What a chatbot learnt about a person, and what may identify them.

    `properties` holds every value to be stored, `email` and `phone` among them under the names
    the CRM knows; none is blank. `contact_id` is the contact of this conversation so far. With
    `strict` nothing is left out: what would be refused is Rejected.
    """

    properties: Mapping[str, str]
    email: str = ""
    phone: str = ""
    contact_id: str = ""
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Match:
    """Where a lead belongs: to `contact`, or to a new one when that is None.

    `properties` are those of the lead that may be written there, `refused` are the others.
    """

    contact: Contact | None
    properties: Mapping[str, str]
    refused: tuple[Problem, ...] = ()


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
class Choice:
    """One value a property takes: `value` is written, `label` is shown."""

    value: str
    label: str


@dataclass(frozen=True, slots=True)
class Described:
    """A property as the CRM defines it; `options` is empty where any value is taken."""

    name: str
    label: str
    type: str
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
    without it; where only certain combinations work, the adapter's constructor says so.
    """

    name: str
    label: str
    type: Literal["string", "url", "integer", "boolean"] = "string"
    help: str = ""
    default: str = ""
    choices: tuple[str, ...] = ()
    secret: bool = False
    required: bool = False

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
        unless_phone: str = "",
    ) -> Saved:
        """Create a record, linked to the contact when one is named, in one step or not at all.

        An unknown property is defined as text, an unknown pipeline or stage added as long as the
        account has not made its own. Raises Rejected, Conflict, and NotFound for the contact.
        Conflict also when a contact has the number `unless_phone`: of two calls with the same
        number at the same time, in any process, one gets it.
        """

    def update(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        """Change the named properties of a contact; raises NotFound, Rejected, Conflict."""


@dataclass(frozen=True, slots=True)
class Context:
    """What the hub hands to an adapter, and nothing else of it.

    `settings` and `credentials` hold a value for every declared setting, the default where none
    was given. `save_credentials` replaces credentials that the CRM has rotated, for every process.
    """

    client_id: str
    region: str
    settings: Mapping[str, str]
    store: Store
    save_credentials: Callable[[Mapping[str, str]], None]
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)


# --- The adapter ------------------------------------------------------------------------------

OPTIONAL = frozenset(
    {"active_workflow", "check", "describe", "find_marked", "owners", "pipelines", "upsert_contact"}
)
"""Methods an adapter announces by overriding them."""


class Adapter(ABC):
    """One kind of CRM. A subclass is made for each connection, with its context.

    The constructor raises BadConfig for settings that cannot work together; it calls nobody.
    """

    title: ClassVar[str]
    """The CRM's name for people."""
    settings: ClassVar[tuple[Setting, ...]] = ()
    record_pages: ClassVar[bool] = False
    """Whether `Saved.url` and `Contact.url` lead to pages; answers then carry `url`."""

    def __init__(self, context: Context) -> None:
        self.context = context

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
        an id of a form the CRM never issues.
        """

    @abstractmethod
    def create_contact(self, properties: Mapping[str, str]) -> Saved:
        """Create a contact and return it as `created`.

        Raises Conflict with the other's id where there is one with this email (and, if it can be
        told without a race, with this phone), Rejected naming every property at fault,
        Uncertain when the answer did not come.
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

        Where the CRM needs two calls, undo the first when the second fails. A pipeline or stage
        the CRM does not know is Rejected under its property's name, never replaced by another.
        `mark` identifies this write; keep it with the record where the CRM has room, so that
        `find_marked` can find it. Raises NotFound when the contact does not exist.
        """

    # Derived: override where the CRM does it in one call, or can do it without a race.

    def upsert_contact(self, lead: Lead) -> Saved:
        """Create or update the contact of a lead: by email, else the conversation's, else phone.

        A phone that belongs to another contact than the one found is refused, the rest is
        stored. `unchanged` when the contact had every value already. Raises Rejected.
        """
        match = self.match(lead)
        try:
            return self.save(match)
        except Conflict as clash:
            # Made meanwhile, or hidden from the lookup: the CRM knows whose the email is.
            theirs = clash.existing_id
            if not theirs or (match.contact is not None and match.contact.id == theirs):
                raise
            saved = self.update_contact(theirs, match.properties)
            return replace(saved, refused=match.refused + saved.refused)

    def match(self, lead: Lead) -> Match:
        """Return the contact a lead belongs to, if any, and what is to be written to it.

        Raises Rejected for a strict lead of which something would be left out.
        """
        names = tuple(lead.properties)
        by_email = self.find_contact(email=lead.email, names=names) if lead.email else None
        found = by_email or self._of_conversation(lead, names)
        if not lead.phone or (found is not None and found.properties.get("phone") == lead.phone):
            return Match(found, lead.properties)
        by_phone = self.find_contact(phone=lead.phone, names=names)
        if found is None or by_phone is None or found.id == by_phone.id:
            return Match(found or by_phone, lead.properties)
        refused = Problem("phone", f"this number belongs to another contact, {by_phone.id}")
        if lead.strict:
            raise Rejected([refused])
        rest = {name: value for name, value in lead.properties.items() if name != refused.name}
        return Match(found, rest, (refused,))

    def save(self, match: Match) -> Saved:
        """Write what differs, to the contact that was found or to a new one."""
        found = match.contact
        if found is None:
            saved = self.create_contact(match.properties)
        else:
            changed = {n: v for n, v in match.properties.items() if found.properties.get(n) != v}
            if not changed:
                return Saved(found.id, "unchanged", found.url, match.refused)
            saved = self.update_contact(found.id, changed)
        return replace(saved, refused=match.refused + saved.refused)

    def _of_conversation(self, lead: Lead, names: Sequence[str]) -> Contact | None:
        if not lead.contact_id:
            return None
        try:
            return self.get_contact(lead.contact_id, names)
        except NotFound:
            # Deleted in the CRM since: the person is looked for as if met for the first time.
            return None

    # Optional: announced by being overridden.

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

    def find_marked(self, kind: Linked, contact_id: str, mark: str) -> Saved | None:
        """Return what `create_for_contact` wrote under this mark, or None when surely nothing.

        Asked after Uncertain, before the write is sent again. Read where the CRM reads its own
        writes (the contact's associations, not a search).
        """
        self._cannot("look up a write")

    def _cannot(self, what: str) -> NoReturn:
        raise Unsupported(f"The {self.title} adapter cannot {what}.")


def features(adapter: type[Adapter]) -> frozenset[str]:
    """Return the optional methods an adapter overrides."""
    return frozenset(
        name for name in OPTIONAL if getattr(adapter, name) is not getattr(Adapter, name)
    )


def configured(
    adapter: type[Adapter], settings: Mapping[str, str], credentials: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return settings and credentials with a value for each declared name, defaults filled in.

    Raises BadConfig with every fault: an unknown name, a missing or faulty value, a secret given
    as a setting or the reverse.
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
            faults.append(f"{name}: {adapter.title} has no such {word}; it has {known}")
        for name, setting in declared.items():
            filled[name] = given.get(name, "") or setting.default
            if filled[name]:
                fault = setting.fault(filled[name])
            else:
                fault = f"this {word} is required" if setting.required else ""
            if fault:
                faults.append(f"{name}: {fault}")
    if faults:
        raise BadConfig("; ".join(sorted(faults)))
    return complete
