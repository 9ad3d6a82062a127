"""The contract between the hub and an adapter, which connects one kind of CRM.

An adapter is one class. It declares its settings, implements five methods and overrides the
optional methods that its CRM supports; an overridden method is announced. It imports names of
`crmhub.adapter` and nothing else of the hub. This module, `errors`, `values` and `context` import
the standard library only. The hub finds the class by the entry-point group `crmhub.adapters`.

Rules that hold for every method:

- Ids are strings, whatever the CRM makes of them. Property values are strings both ways; `""` is
  "no value", and writing it clears the property.
- Each failure raises the error (`errors`) that tells the caller what to do. Any other exception
  is a bug of the adapter. Messages hold no credential, since callers read them.
- No value is dropped silently. A property that the CRM refuses is `Rejected`; the hub omits it,
  sends the others again, and names the refused property in its answer.
- An instance serves one connection and may be used by several threads at once.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, NoReturn

from crmhub.adapter.context import Context
from crmhub.adapter.errors import AdapterError, BadConfig, NotYet, Unsupported
from crmhub.adapter.values import (
    Changes,
    Contact,
    ContactWrite,
    Described,
    Kind,
    Linked,
    Owner,
    Pipeline,
    Saved,
    Setting,
    Written,
)

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
"""The optional methods: an adapter supports those that it overrides."""


class Adapter(ABC):
    """Base class of adapters: one kind of CRM, with one instance per connection.

    The constructor sends no request. The context holds a value for every declared setting.
    """

    title: ClassVar[str]
    """The name of the CRM, as people know it."""
    settings: ClassVar[tuple[Setting, ...]] = ()
    record_pages: ClassVar[bool] = False
    """Whether `Saved.url` and `Contact.url` are set, so that answers of helpers include `url`."""
    remote: ClassVar[bool] = True
    """Whether calls go to another system; False for the hub's own records."""
    batch_size: ClassVar[int] = 1
    """The most contacts in one call of `find_contacts` or `write_contacts`; 1 without them."""
    email_names: ClassVar[tuple[str, ...]] = ("email",)
    """The properties that `has_email` reads."""
    under_way_s: ClassVar[float] = 60.0
    """How many seconds after a lost answer the write may still take effect.

    The hub waits this long before it sends the values again, and `may_land_for` before it creates
    the record again. 0 where no write takes effect late.
    """

    def __init__(self, context: Context) -> None:
        self.context = context

    def can(self, feature: str) -> bool:
        """Return whether the adapter supports an optional method, by overriding it."""
        return feature in features(type(self))

    @classmethod
    def clash(cls, settings: Mapping[str, str], credentials: Mapping[str, str]) -> str:
        """Return why these individually valid settings cannot be combined, or `""`."""
        return ""

    @classmethod
    def may_be_id(cls, contact_id: str) -> bool:
        """Return whether a text has the format of this CRM's contact ids; sends no request.

        Override this method with a format check, so that the hub refuses other texts at once, even
        while the CRM is unavailable. It must be True for every id that the CRM has issued.
        """
        return True

    def may_land_for(self, kind: Written, properties: Mapping[str, str]) -> float:
        """Return for how many seconds a create without an answer may still take effect.

        During this time the hub does not trust a lookup without a result, and creates no second
        record with these properties. Return 0 where the CRM refuses a second record because the
        email or the mark must be unique; return more where lookups lag behind writes.
        """
        return self.under_way_s

    # Required.

    @abstractmethod
    def find_contact(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        """Return the contact with this email or this phone (one is given), or None.

        Read where the CRM reads its own writes; a search index that lags makes duplicates. The
        whole value must match: beware of searches for a part of it. `email` is lower-case and
        `phone` in E.164 where it could be read; a CRM that stores another notation must be asked
        in that. Of several, return the oldest. `names` are the properties to return with it.
        """

    @abstractmethod
    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        """Return a contact with the named properties, except names unknown to the CRM.

        Some CRMs leave out empty and unknown properties alike; then ask for the definitions, since
        callers are told which names do not exist. Raises NotFound, also for an id of another
        format. If the CRM redirects the id of a merged contact, return the surviving contact with
        its own id.
        """

    @abstractmethod
    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        """Create a contact and return it as `created`.

        `mark` identifies this write; store it with the record if the CRM has a field for it. Raises
        Conflict with the id of an existing contact with this email (or phone, if the CRM checks
        that without a race), Rejected with exactly the properties the CRM complains about, and
        Uncertain if no answer came.
        """

    @abstractmethod
    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        """Write the named properties and leave all others; `""` clears a property.

        Return `unchanged` only when the CRM is known to have had these values. Raises NotFound,
        Rejected, and Conflict when a unique value belongs to another contact.
        """

    @abstractmethod
    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        """Create a deal or ticket linked to the contact, never without the link.

        Where the CRM needs two calls, undo the first when the second fails; an undo that fails,
        too, leaves it Uncertain. A pipeline or stage
        the CRM does not know is Rejected under its property's name, never replaced by another.
        `mark` identifies this write; keep it with the record where the CRM has room, so that
        `find_marked` can find it. Raises NotFound when the contact does not exist.
        """

    # Derived: override where the CRM differs.

    def has_email(self, contact: Contact, email: str) -> bool:
        """Return whether an email belongs to the contact, which was read with `email_names`.

        Override this method where a contact may have several emails. `email` is lower-case.
        """
        return contact.properties.get("email", "").lower() == email

    def has_phone(self, contact: Contact, phone: str) -> bool:
        """Return whether `phone` is the contact's `phone` or `mobilephone`.

        Override this method where the CRM may store a number in another notation than the sent one.
        """
        return phone in (contact.properties.get(name) for name in ("phone", "mobilephone"))

    def changes(self, contact: Contact, properties: Mapping[str, str]) -> Changes:
        """Return which of the properties an update of the contact must write.

        `contact` was read with the names of these properties. Override this method where the CRM
        converts values, or silently ignores some. Raises Rejected for values that it refuses.
        """
        current = contact.properties
        return Changes({name: v for name, v in properties.items() if current.get(name) != v})

    # Optional: announced by being overridden.

    def find_contacts(
        self,
        *,
        emails: Sequence[str] = (),
        phones: Sequence[str] = (),
        names: Sequence[str] = (),
    ) -> dict[str, Contact]:
        """Return contacts by their emails or by their phones, in few calls.

        Either `emails` or `phones` is given. The result's keys are the given emails or phones. An
        email that only `find_contact` or a write can find may be left out.
        """
        self._cannot("find several contacts at once")

    def write_contacts(self, writes: Sequence[ContactWrite]) -> list[Saved | AdapterError | None]:
        """Make up to `batch_size` writes in few calls; return their results in order.

        A failed write does not affect the others. None as a result means that nothing was written:
        the hub then repeats this write alone, which gives a more precise error.
        """
        self._cannot("write several contacts at once")

    def active_workflow(self, contact_id: str, *, since_ms: int) -> str:
        """Return the id of the newest workflow the contact entered since `since_ms`, or `""`.

        `since_ms` is in milliseconds since 1970 (UTC). Without this the hub keeps enrolments.
        """
        self._cannot("tell a contact's workflow")

    def check(self) -> None:
        """Call the CRM and raise an error that tells an operator what to fix."""
        self._cannot("check its connection")

    def describe(self, kind: Kind) -> list[Described]:
        """Return the properties of a kind, with the options of each."""
        self._cannot("list properties")

    def pipelines(self, kind: Linked) -> list[Pipeline]:
        """Return the pipelines of a kind with their stages."""
        self._cannot("list pipelines")

    def owners(self) -> list[Owner]:
        """Return the users to whom records can be assigned."""
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
        """Return the record that an earlier attempt of this write made, or None.

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
        """Like `find_marked`, but skip the records with the ids `others`, made by other writes.

        Override this method if records without a mark are found by their values and creation time:
        of two equal deals, it must not return the deal of another write.
        """
        return self.find_marked(kind, contact_id, mark, sent=sent, since_ms=since_ms)

    def _cannot(self, what: str) -> NoReturn:
        raise Unsupported(f"The {self.title} adapter cannot {what}.")


def hold_back_create(
    adapter: Adapter, kind: Written, properties: Mapping[str, str], written_ms: int
) -> None:
    """Raise NotYet while the record of an earlier attempt may still appear in the CRM.

    Call this function after a lookup without a result. `written_ms` is the latest time at which the
    earlier attempt may have sent the record (ms since 1970), or 0 without such an attempt.
    """
    if written_ms:
        seconds = adapter.may_land_for(kind, properties)
        why = f"{adapter.title} may still create the record. It is looked up again before another"
        _hold_back(seconds, written_ms, f"{why} is created.")


def hold_back_update(adapter: Adapter, written_ms: int) -> None:
    """Raise NotYet while an earlier attempt's values may still reach the CRM.

    They would overwrite newer values. `written_ms` has the meaning it has in `hold_back_create`.
    """
    if written_ms:
        why = f"{adapter.title} may still write the values. They are sent again after that."
        _hold_back(adapter.under_way_s, written_ms, why)


def _hold_back(seconds: float, since_ms: int, why: str) -> None:
    # At most `seconds` from now, even if the clocks of two machines differ.
    rest = min(seconds, since_ms / 1000 + seconds - time.time())
    if rest > 0:
        raise NotYet(f"An earlier attempt got no answer, and {why}", retry_after=rest)


def features(adapter: type[Adapter]) -> frozenset[str]:
    """Return the names of the optional methods that an adapter class overrides."""
    return frozenset(
        name for name in OPTIONAL if getattr(adapter, name) is not getattr(Adapter, name)
    )


_SHOWN_FAULTS = 20


def configured(
    adapter: type[Adapter], settings: Mapping[str, str], credentials: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return settings and credentials, completed with the declared defaults.

    Raises BadConfig that lists all faults: unknown names, missing or invalid values, secrets among
    the settings or settings among the secrets; else BadConfig with the reason of `Adapter.clash`.
    """
    faults: list[str] = []
    complete: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for secret, given, filled in (
        (False, settings, complete[0]),
        (True, credentials, complete[1]),
    ):
        declared = {
            setting.name: setting for setting in adapter.settings if setting.secret is secret
        }
        word = "secret" if secret else "setting"
        for name in given.keys() - declared.keys():
            names = ", ".join(sorted(declared)) or "none"
            faults.append(f"{name[:100]}: {adapter.title} has no such {word}; it has {names}")
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
